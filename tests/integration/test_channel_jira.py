"""`jira(…)` against a server with Jira's rules: one issue for each message; what may have arrived is found by its label, in an index that lags."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.fake_jira import SECRET, TOKEN, USER, FakeJira, words_of
from support.messages import NOWHERE, message
from support.receiver import Reply
from support.service import LOST, reply
from wakeful import App, ConfigError, Persistent, Run, Transient, VirtualClock, env, on
from wakeful.channels import Message, Sent, jira
from wakeful.output.channels.jira import Jira


@pytest.fixture
async def desk(clock: VirtualClock) -> AsyncIterator[FakeJira]:
    async with FakeJira(now=clock.now) as desk:
        yield desk


def at(desk: FakeJira, **options: Any) -> Jira:
    return jira(desk.url, "OPS", USER, TOKEN, allow_private=True, **options)


async def deliver(channel: Jira, *messages: Message) -> list[Sent]:
    await channel.open(NOWHERE)
    try:
        return [sent for one in messages for sent in await channel.deliver([one])]
    finally:
        await channel.close()


async def find(channel: Jira, one: Message) -> Sent | None:
    try:
        return await channel.find(one)
    finally:
        await channel.close()


class TestWriting:
    async def test_a_message_is_an_issue(self, desk: FakeJira):
        (sent,) = await deliver(
            at(desk), message(subject="order\n7", body="Late.\nTwo days.\n\n\nCall *them* & <b>ask</b>\n")
        )
        assert sent == Sent("OPS-1", f"{desk.url}/browse/OPS-1")
        issue = desk.issues["OPS-1"]
        assert (issue["summary"], issue["labels"]) == ("order 7", ["wakeful-0f9e11ba70"])
        assert words_of(issue["description"]) == "Late.\nTwo days.\n\nCall *them* & <b>ask</b>"

    @pytest.mark.parametrize(
        "body", ["", " \n\n ", "\n\n", "a\n\tb", {"text": ""}, {"a": "\n"}, None, [], "\x00\x1b[0m"]
    )
    async def test_any_body_is_a_document(self, desk: FakeJira, body: Any):
        assert [one.id for one in await deliver(at(desk), message(body=body))] == ["OPS-1"]

    @pytest.mark.parametrize(
        "body",
        ["x" * 70_000, "x\n" * 40_000, "x\n\n" * 40_000, "😀" * 40_000, '"' * 40_000, {"a": ["\n"] * 20_000}],
        ids=["long", "lines", "paragraphs", "wide", "quotes", "json"],
    )
    async def test_a_long_text_is_cut(self, desk: FakeJira, body: Any):
        await deliver(at(desk), message(body=body, subject="😀" * 300))
        issue = desk.issues["OPS-1"]
        assert words_of(issue["description"]).endswith("… (cut here: the message is longer than this service takes)")
        assert issue["summary"] == "😀" * 127 + "…"

    async def test_with_further_fields(self, desk: FakeJira):
        fields = {"priority": {"name": "High"}, "labels": ["ops"]}
        await deliver(at(desk, issue_type="Bug", fields=fields), message("1"), message("2"))
        issue = desk.issues["OPS-2"]
        assert (issue["priority"], issue["issuetype"]) == ({"name": "High"}, {"name": "Bug"})
        assert issue["labels"] == ["ops", "wakeful-2"]

    @pytest.mark.parametrize("answer", [b"{", b"[]", b'{"key": "../x"}', b'{"key": 7}'])
    async def test_an_answer_that_cannot_be_read_is_a_success(self, desk: FakeJira, answer: bytes):
        desk.after = [Reply(201, answer, {"content-type": "application/json"})]
        assert await deliver(at(desk), message()) == [Sent()]


class TestFinding:
    async def test_by_its_label(self, desk: FakeJira):
        sent = await deliver(at(desk), *(message(str(n)) for n in range(3)))
        assert [await find(at(desk), message(str(n))) for n in range(3)] == sent
        assert await find(at(desk), message("3")) is None

    async def test_once_the_index_has_it(self, desk: FakeJira, clock: VirtualClock):
        desk.lag = 40
        (sent,) = await deliver(at(desk), message())
        assert await find(at(desk), message()) is None
        clock.move("40s")
        assert await find(at(desk), message()) == sent

    async def test_only_if_it_has_the_label_itself(self, desk: FakeJira):
        desk.before = [
            reply(200, {"issues": [{"id": "1", "key": "OPS-1", "fields": {"labels": ["x"]}}], "isLast": True})
        ]
        assert await find(at(desk), message()) is None

    async def test_on_the_next_page(self, desk: FakeJira):
        (sent,) = await deliver(at(desk), message())
        desk.before = [reply(200, {"issues": [], "nextPageToken": "p0"})]
        assert await find(at(desk), message()) == sent

    async def test_a_search_without_an_end_does_not_tell(self, desk: FakeJira):
        desk.before = [reply(200, {"issues": [], "nextPageToken": "p0"})] * 20
        with pytest.raises(Persistent, match="does not tell whether the message arrived"):
            await find(at(desk), message())

    @pytest.mark.parametrize("body", [b"", b"[", b"[]", b"{}"])
    async def test_half_an_answer_does_not_tell(self, desk: FakeJira, body: bytes):
        desk.before = [Reply(200, body, {"content-type": "application/json"})]
        with pytest.raises(Transient, match="has no issues, or did not arrive whole"):
            await find(at(desk), message())


def telling(new_app: NewApp, channel: Jira) -> App:
    app = new_app(channels={"tickets": channel})

    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("tickets", run.event.data)

    return app


async def outcome(new_app: NewApp, channel: Jira, spans: Sequence[str] = ("2m",)) -> dict[str, Any]:
    """What became of one message, after so much time."""
    async with working(telling(new_app, channel)) as runtime:
        run = await go(runtime, "hello")
        for span in spans:
            await pass_time(runtime, span)
        found = await runtime.reader.run(run["id"])
    assert found is not None
    (one,) = found["deliveries"]
    assert TOKEN not in json.dumps(found)
    assert SECRET not in json.dumps(found)
    return one


class TestVerdicts:
    async def test_delivered_with_evidence(self, new_app: NewApp, desk: FakeJira):
        one = await outcome(new_app, at(desk))
        assert (one["state"], one["tries"]) == ("delivered", 1)
        assert one["evidence"] == {"id": "OPS-1", "url": f"{desk.url}/browse/OPS-1"}

    @pytest.mark.parametrize(
        "trouble", [LOST, reply(500, {}), reply(502, {}), reply(503, {}), reply(408, {})], ids=repr
    )
    async def test_an_answer_that_is_lost_is_found_a_minute_later(
        self, new_app: NewApp, desk: FakeJira, trouble: Reply
    ):
        desk.lag, desk.after = 50, [trouble]
        one = await outcome(new_app, at(desk), ("59s", "2s"))
        assert (one["state"], one["tries"], list(desk.arrived.values())) == ("delivered", 1, [1])
        assert one["reason"] == "found there: an earlier try had arrived"
        assert len(desk.asked("GET")) == 1, "it was not looked for before the index had time"

    async def test_an_index_that_lags_more_needs_a_longer_wait(self, new_app: NewApp, desk: FakeJira):
        desk.lag, desk.after = 200, [LOST]
        one = await outcome(new_app, at(desk, settle="5m"), ("2m", "2m", "2m"))
        assert (one["state"], one["tries"], list(desk.arrived.values())) == ("delivered", 1, [1])

    async def test_no_answer_in_time_is_looked_for(self, new_app: NewApp, desk: FakeJira):
        desk.before = [Reply(silent=True)]
        one = await outcome(new_app, at(desk, timeout="200ms"))
        assert (one["state"], one["tries"], list(desk.arrived.values())) == ("delivered", 2, [1])

    @pytest.mark.parametrize("trouble", [LOST, reply(503, {}, retry_after="1")], ids=repr)
    async def test_what_did_not_arrive_goes_again(self, new_app: NewApp, desk: FakeJira, trouble: Reply):
        desk.before = [trouble]
        one = await outcome(new_app, at(desk))
        assert (one["state"], one["tries"], list(desk.arrived.values())) == ("delivered", 2, [1])

    async def test_a_rate_limit_is_waited_for_and_not_looked_for(self, new_app: NewApp, desk: FakeJira):
        desk.before = [reply(429, {}, retry_after="90")]
        one = await outcome(new_app, at(desk), ("89s", "2s"))
        assert (one["state"], desk.asked("GET"), list(desk.arrived.values())) == ("delivered", [], [1])

    @pytest.mark.parametrize("status", [301, 400, 401, 403, 404])
    async def test_a_refusal_is_a_dead_letter(self, new_app: NewApp, desk: FakeJira, status: int):
        desk.before = [reply(status, {"errorMessages": [], "errors": {"summary": "no"}})]
        one = await outcome(new_app, at(desk))
        assert (one["state"], one["doubt_at"], len(desk.requests)) == ("dead", None, 1)
        assert str(status) in one["error"]["message"]

    async def test_a_field_that_the_project_lacks_is_named(self, new_app: NewApp, desk: FakeJira):
        one = await outcome(new_app, at(desk, fields={"customfield_7": 1}))
        assert one["state"] == "dead"
        assert "Field 'customfield_7' cannot be set" in one["error"]["message"]

    @pytest.mark.parametrize("status", [400, 401, 403, 410])
    async def test_a_look_that_cannot_tell_leaves_it_to_a_person(
        self, new_app: NewApp, clock: VirtualClock, status: int
    ):
        class Closed(FakeJira):
            def handle(self, request: Any) -> Reply:
                told = super().handle(request)
                return told if request.method == "POST" else reply(status, {"errorMessages": ["no"]})

        async with Closed(now=clock.now) as other:
            other.after = [LOST]
            one = await outcome(new_app, at(other))
        assert (one["state"], list(other.arrived.values())) == ("unknown", [1])
        assert f"answered {status}" in one["reason"]

    async def test_no_connection_is_certainly_not_sent(self, new_app: NewApp):
        channel = jira("http://127.0.0.1:1", "OPS", USER, TOKEN, allow_private=True)
        one = await outcome(new_app, channel, ())
        assert (one["state"], one["doubt_at"]) == ("pending", None)


class TestDeclared:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"project": "ops"}, "is not the key of a project"),
            ({"project": 'OPS" OR project = "HR'}, "is not the key of a project"),
            ({"user": "a:b"}, "user must be the address of the account"),
            ({"user": None}, "user must be the address of the account"),
            ({"token": None}, 'token must be a text or env("NAME")'),
            ({"token": "secret-token-1234\r\nX: 1"}, "the header authorization is empty, or has a line break"),
            ({"issue_type": " "}, "issue_type must be the name of a type of issues"),
            ({"url": "http://acme.example.com"}, "the token would be sent without encryption"),
            ({"url": "https://10.0.0.1"}, "a private address"),
            ({"fields": [1]}, "fields must be an object of JSON"),
            ({"fields": {"summary": "x", "project": 1}}, "fields: project, summary is set by the channel itself"),
            ({"fields": {"labels": ["a b"]}}, "labels must be a list of texts without spaces"),
            ({"fields": {"x": object()}}, "fields: "),
            ({"timeout": None}, "a request needs a time limit"),
        ],
    )
    def test_mistakes_are_told_at_once(self, options: dict[str, Any], said: str):
        given = {"url": "https://acme.atlassian.net", "project": "OPS", "user": USER, "token": "secret-token-1234"}
        with pytest.raises(ConfigError) as caught:
            jira(**{**given, **options})
        assert said in str(caught.value)
        assert "secret-token-1234" not in str(caught.value)

    async def test_no_secret_is_shown(self, monkeypatch: pytest.MonkeyPatch):
        for name in ("JIRA_USER", "JIRA_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        channel = jira(
            "https://acme.atlassian.net/", "OPS", env("JIRA_USER"), env("JIRA_TOKEN"), fields={"priority": 1}
        )
        ending = "is not set: set it where this process is started"
        assert channel.missing() == [
            f"jira(OPS), user: the environment variable JIRA_USER {ending}",
            f"jira(OPS), token: the environment variable JIRA_TOKEN {ending}",
        ]
        with pytest.raises(ConfigError, match="JIRA_USER is not set"):
            await channel.open(NOWHERE)
        assert channel.describe() == {
            "kind": "jira",
            "url": "https://acme.atlassian.net",
            "project": "OPS",
            "issue_type": "Task",
            "fields": ["priority"],
            "allow_private": False,
        }
        assert repr(channel) == 'jira("https://acme.atlassian.net", "OPS")'

    async def test_an_error_that_repeats_the_header_hides_it(self, new_app: NewApp, desk: FakeJira):
        desk.before = [reply(400, {"errorMessages": [f"bad header Basic {SECRET}"]})]
        one = await outcome(new_app, at(desk))
        assert "bad header Basic [redacted" in one["error"]["message"]
