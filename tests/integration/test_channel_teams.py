"""`teams(…)` against a workflow with the rules of Teams: cards, their limits, and what becomes of a message in doubt."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.fake_teams import SIGNATURE, FakeTeams
from support.messages import NOWHERE, message
from support.receiver import Reply
from support.service import LOST, reply
from wakeful import App, ConfigError, Run, env, on
from wakeful.channels import Message, teams
from wakeful.output.channels.base import MAY_BE_REPEATED
from wakeful.output.channels.teams import LIMIT, Teams
from wakeful.output.channels.text import CUT
from wakeful.testing.ports import free_port

URL = f"https://example.com/workflows/1/invoke?sig={SIGNATURE}"


@pytest.fixture
async def flow() -> AsyncIterator[FakeTeams]:
    async with FakeTeams() as flow:
        yield flow


def at(flow: FakeTeams, **options: Any) -> Teams:
    return teams(flow.webhook, allow_private=True, **options)


async def deliver(channel: Teams, *messages: Message) -> None:
    await channel.open(NOWHERE)
    try:
        for one in messages:
            await channel.deliver([one])
    finally:
        await channel.close()


class TestCards:
    async def test_a_message_is_a_card(self, flow: FakeTeams):
        await deliver(at(flow), message(body="Disk full\n\non **db-1** <at>all</at>", subject="order\n7"))
        assert flow.cards == [["order 7", "Disk full", "\u00a0", "on **db-1** <at>all</at>"]]

    async def test_the_text_of_an_object_or_its_json(self, flow: FakeTeams):
        await deliver(at(flow), message("1", {"text": "hello", "more": 1}), message("2", {"pages": 3}))
        assert flow.cards == [["hello"], ["{", '\u00a0\u00a0"pages": 3', "}"]]
        runs = [block["inlines"][0] for block in flow.requests[1].json["attachments"][0]["content"]["body"]]
        assert {run["fontType"] for run in runs} == {"Monospace"}

    async def test_a_possible_repetition_says_so(self, flow: FakeTeams):
        await deliver(at(flow), message(doubtful=True))
        assert flow.cards == [["hello", MAY_BE_REPEATED]]

    @pytest.mark.parametrize(
        "body",
        ["x" * 100_000, "ž\n" * 50_000, '"' * 50_000, "\n" * 50_000, "short\n" + "x" * 90_000, {"a": ["b"] * 9_000}],
        ids=["one line", "lines", "quotes", "empty lines", "then long", "json"],
    )
    async def test_a_long_text_is_cut_and_says_so(self, flow: FakeTeams, body: Any):
        await deliver(at(flow), message(body=body, subject="ž" * 5_000, doubtful=True))
        assert flow.cards[0][-2:] == [CUT, MAY_BE_REPEATED]
        assert len(flow.cards[0]) > 3
        assert len(flow.requests[0].body) <= LIMIT

    @pytest.mark.parametrize("body", [None, "", [], 7, "\x00\x1b[31m", "\ud83d"], ids=repr)
    async def test_any_body_is_a_card(self, flow: FakeTeams, body: Any):
        await deliver(at(flow), message(body=body))
        assert len(flow.cards) == 1


def telling(app: App) -> App:
    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", run.event.data)

    return app


async def outcome(new_app: NewApp, channel: Teams) -> dict[str, Any]:
    """What became of one message after a few minutes."""
    async with working(telling(new_app(channels={"ops": channel}))) as runtime:
        run = await go(runtime, "hello")
        for _ in range(3):
            await pass_time(runtime, "2m")
        found = await runtime.reader.run(run["id"])
    assert found is not None
    assert SIGNATURE not in json.dumps(found)
    (one,) = found["deliveries"]
    return dict(one)


TROUBLE = pytest.mark.parametrize("trouble", [LOST, reply(500, {}), reply(502, {}), reply(503, {})], ids=repr)


class TestVerdicts:
    async def test_delivered(self, new_app: NewApp, flow: FakeTeams):
        one = await outcome(new_app, at(flow))
        assert (one["state"], one["tries"], one["evidence"]) == ("delivered", 1, None)
        assert flow.cards == [["hello"]]

    @TROUBLE
    async def test_an_answer_that_is_lost_is_repeated_with_a_word(
        self, new_app: NewApp, flow: FakeTeams, trouble: Reply
    ):
        flow.after = [trouble]
        one = await outcome(new_app, at(flow))
        assert (one["state"], one["tries"]) == ("delivered", 2)
        assert flow.cards == [["hello"], ["hello", MAY_BE_REPEATED]]

    @TROUBLE
    async def test_or_waits_for_a_person(self, new_app: NewApp, flow: FakeTeams, trouble: Reply):
        flow.after = [trouble]
        one = await outcome(new_app, at(flow, on_doubt="hold"))
        assert (one["state"], flow.cards) == ("unknown", [["hello"]])

    async def test_no_answer_in_time_is_a_doubt(self, new_app: NewApp, flow: FakeTeams):
        flow.before = [Reply(silent=True)]
        one = await outcome(new_app, at(flow, timeout="200ms"))
        assert (one["state"], flow.cards) == ("delivered", [["hello", MAY_BE_REPEATED]])

    async def test_a_rate_limit_is_none(self, new_app: NewApp, flow: FakeTeams):
        flow.before = [reply(429, {"error": {"code": "TooManyRequests"}}, retry_after="90")]
        one = await outcome(new_app, at(flow, on_doubt="hold"))
        assert (one["state"], one["tries"], flow.cards) == ("delivered", 1, [["hello"]])

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
    async def test_a_refusal_is_a_dead_letter(self, new_app: NewApp, flow: FakeTeams, status: int):
        flow.before = [reply(status, {"error": {"message": f"no {SIGNATURE}"}})]
        one = await outcome(new_app, at(flow))
        assert (one["state"], one["doubt_at"], flow.cards) == ("dead", None, [])
        assert f"teams(…) answered {status}" in one["error"]["message"]

    async def test_no_connection_is_no_doubt(self, new_app: NewApp):
        channel = teams(f"http://127.0.0.1:{free_port()}/?sig={SIGNATURE}", allow_private=True, on_doubt="hold")
        one = await outcome(new_app, channel)
        assert (one["state"], one["doubt_at"]) == ("pending", None)


class TestDeclared:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"url": None}, 'url must be a text or env("NAME")'),
            ({"url": "http://example.com/?sig=x"}, "would be sent without encryption"),
            ({"url": "https://10.0.0.1/?sig=x"}, "a private address"),
            ({"url": "workflow"}, "the scheme is"),
            ({"on_doubt": "drop"}, 'on_doubt must be "repeat" or "hold"'),
            ({"timeout": None}, "a request needs a time limit"),
        ],
    )
    def test_mistakes_are_told_at_once(self, options: dict[str, Any], said: str):
        with pytest.raises(ConfigError, match=r"^teams\(…\): ") as caught:
            teams(**{"url": URL, **options})
        assert said in str(caught.value)

    async def test_a_url_of_the_environment_is_checked_at_the_start(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("TEAMS_URL", raising=False)
        channel = teams(env("TEAMS_URL"))
        assert "TEAMS_URL is not set" in channel.missing()[0]
        with pytest.raises(ConfigError, match="TEAMS_URL is not set"):
            await channel.open(NOWHERE)
        monkeypatch.setenv("TEAMS_URL", "http://example.com/workflow")
        with pytest.raises(ConfigError, match="would be sent without encryption"):
            await channel.open(NOWHERE)

    def test_what_it_says_of_itself_holds_no_secret(self):
        channel = teams(URL)
        assert channel.describe() == {"kind": "teams", "on_doubt": "repeat", "allow_private": False}
        assert repr(channel) == "teams(…)"
