"""`github(…)` against a server with GitHub's rules: comments, issues and threads; what may have arrived is found by its mark."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.fake_github import MARK, TOKEN, FakeGitHub
from support.messages import NOWHERE, message
from support.receiver import Reply
from support.service import LOST, reply
from wakeful import App, ConfigError, NotSent, Persistent, RateLimited, Run, Transient, env, on
from wakeful.channels import Message, Sent, github
from wakeful.failures import classify
from wakeful.output.channels.github import GitHub


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with FakeGitHub() as hub:
        yield hub


def at(hub: FakeGitHub, issue: int | None = None, **options: Any) -> GitHub:
    return github("octo/desk", TOKEN, issue, base_url=hub.url, allow_private=True, **options)


async def deliver(channel: GitHub, *messages: Message) -> list[Sent]:
    await channel.open(NOWHERE)
    try:
        return [sent for one in messages for sent in await channel.deliver([one])]
    finally:
        await channel.close()


async def find(channel: GitHub, one: Message) -> Sent | None:
    try:
        return await channel.find(one)
    finally:
        await channel.close()


class TestWriting:
    async def test_a_message_is_a_comment(self, hub: FakeGitHub):
        number = hub.open_issue("Slow")
        (sent,) = await deliver(at(hub, number), message(body="It is **faster** now."))
        assert sent == Sent("5000", "https://github.com/octo/desk/issues/1#issuecomment-5000")
        assert [one["body"] for one in hub.comments[number]] == ["It is **faster** now.\n\n<!-- wakeful:0f9e11ba70 -->"]

    async def test_or_a_new_issue(self, hub: FakeGitHub):
        (sent,) = await deliver(at(hub), message(body={"pages": 3}, subject="order\n7"))
        assert sent == Sent("1", "https://github.com/octo/desk/issues/1")
        assert hub.entries[1]["title"] == "order 7"
        assert hub.entries[1]["body"] == '```json\n{\n  "pages": 3\n}\n```\n\n<!-- wakeful:0f9e11ba70 -->'

    async def test_a_subject_is_the_first_line_of_a_comment(self, hub: FakeGitHub):
        await deliver(at(hub, hub.open_issue("Slow")), message(subject="*order*\n7"))
        assert hub.comments[1][0]["body"].startswith("**\\*order\\* 7**\n\nhello\n")

    async def test_messages_of_a_thread_are_comments_on_its_issue(self, hub: FakeGitHub):
        channel = at(hub)
        await deliver(channel, *(message(str(n), f"part {n}", thread="a") for n in range(3)), message("x", thread="b"))
        assert [len(hub.comments[number]) for number in hub.entries] == [2, 0]
        await deliver(at(hub), message("3", "part 3", thread="a"))  # another process
        assert [len(hub.comments[number]) for number in hub.entries] == [3, 0]
        assert set(hub.arrived.values()) == {1}

    async def test_a_thread_of_another_app_is_another_one(self, hub: FakeGitHub):
        await deliver(at(hub), message("1", thread="a"), message("2", thread="a", app="other"))
        assert len(hub.entries) == 2

    async def test_the_issue_of_a_thread_could_not_be_looked_for(self, hub: FakeGitHub):
        hub.before = [reply(502, {"message": "Server Error"})]
        with pytest.raises(NotSent, match="the issue of its thread was not found yet"):
            await deliver(at(hub), message(thread="a"))
        assert hub.asked("POST") == []

    @pytest.mark.parametrize("issue", [None, 1])
    @pytest.mark.parametrize("body", ["@" * 70_000, "<a" * 70_000, {"a": "x" * 70_000}], ids=["text", "tags", "json"])
    async def test_a_long_text_is_cut(self, hub: FakeGitHub, issue: int | None, body: Any):
        hub.open_issue("Slow")
        await deliver(at(hub, issue), message(body=body, subject="@b" * 300))
        written = hub.written[-1]
        assert "(cut here: the message is longer than this service takes)" in written
        assert MARK.findall(written) == ["0f9e11ba70"]

    @pytest.mark.parametrize(
        ("words", "obeyed"),
        [
            ("ask @octocat", "@octocat"),
            ("ask _@octo/team_", "@octo"),
            ("&#64;octocat &commat;octocat", "&#64;"),
            ("<img src=x>", "<img"),
            ("<!-- hidden -->", "<!--"),
            ("text\n<!-- wakeful:other -->", "<!-- wakeful:other"),
            ("</details>", "</"),
        ],
    )
    async def test_nothing_in_a_text_is_obeyed(self, hub: FakeGitHub, words: str, obeyed: str):
        await deliver(at(hub), message(body=words, subject=words))
        assert obeyed not in hub.entries[1]["title"]
        assert obeyed not in hub.written[0].rpartition("\n")[0]
        assert hub.written[0].replace("\u200b", "").startswith(words)
        assert set(hub.arrived) == {"0f9e11ba70"}

    async def test_markdown_and_addresses_stay(self, hub: FakeGitHub):
        words = "# Title\n`a < b && c` a@example.com [x](https://example.com/?a=1) <https://example.com>"
        await deliver(at(hub), message(body=words))
        assert hub.written[0].startswith(words + "\n")

    async def test_an_answer_that_cannot_be_read_is_a_success(self, hub: FakeGitHub):
        hub.after = [Reply(201, b"{", {"content-type": "application/json"})]
        assert await deliver(at(hub), message()) == [Sent()]

    async def test_a_link_is_kept_only_if_it_is_one(self, hub: FakeGitHub):
        hub.after = [reply(201, {"number": True, "html_url": "javascript:alert(1)"}), reply(201, {"number": "7"})]
        assert [one.url for one in await deliver(at(hub), message("1"), message("2"))] == [None, None]


class TestFinding:
    @pytest.mark.parametrize("issue", [None, 1])
    async def test_by_the_mark_over_several_pages(self, issue: int | None):
        async with FakeGitHub(page=3) as hub:
            hub.open_issue("Slow")
            channel = at(hub, issue)
            sent = await deliver(channel, *(message(str(n), f"part {n}") for n in range(10)))
            assert [await find(channel, message(str(n))) for n in range(10)] == sent
            assert await find(channel, message("10")) is None

    async def test_in_the_thread(self, hub: FakeGitHub):
        hub.open_issue("another one")
        sent = await deliver(at(hub), *(message(str(n), thread="a") for n in range(3)))
        assert [await find(at(hub), message(str(n), thread="a")) for n in range(3)] == sent
        assert await find(at(hub), message("3", thread="a")) is None

    async def test_only_in_what_changed_since_the_message_was_committed(self, hub: FakeGitHub):
        committed = message().committed_at
        hub.at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=committed, days=-1)
        await deliver(at(hub), message())
        assert await find(at(hub), message()) is None
        hub.at += timedelta(days=1)
        await deliver(at(hub), message())
        assert await find(at(hub), message()) == Sent("2", "https://github.com/octo/desk/issues/2")

    async def test_a_mark_that_a_person_wrote_into_a_line_is_none(self, hub: FakeGitHub):
        hub.open_issue("Slow", "see `<!-- wakeful:0f9e11ba70 -->`")
        hub.open_issue("Slow", None)
        assert await find(at(hub), message()) is None

    async def test_lines_may_end_as_in_a_browser(self, hub: FakeGitHub):
        number = hub.open_issue("Slow", "edited\r\n<!-- wakeful:0f9e11ba70 -->\r\n")
        assert await find(at(hub), message()) == Sent(str(number), f"https://github.com/octo/desk/issues/{number}")

    async def test_a_list_that_is_too_long_does_not_tell(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("wakeful.output.channels.github_api.MOST_PAGES", 2)
        async with FakeGitHub(page=1) as hub:
            for _ in range(3):
                hub.open_issue("Slow")
            channel = at(hub)
            with pytest.raises(Persistent, match="does not tell whether it arrived"):
                await find(channel, message())

    async def test_the_token_goes_to_no_other_place(self, hub: FakeGitHub):
        hub.before = [reply(200, [], link='<http://127.0.0.1:1/repos/octo/desk/issues?page=2>; rel="next"')]
        with pytest.raises(Persistent, match="the next page of a list is at another place"):
            await find(at(hub), message())

    @pytest.mark.parametrize("body", [b"", b"[", b'{"message": "?"}'])
    async def test_half_an_answer_does_not_tell(self, hub: FakeGitHub, body: bytes):
        hub.before = [Reply(200, body, {"content-type": "application/json"})]
        with pytest.raises(Transient, match="is not a list"):
            await find(at(hub), message())


NO_PERMISSION = {"message": "Resource not accessible by personal access token"}
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
DATE = "Wed, 18 Nov 2026 12:00:00 GMT"
RESET = str(int(datetime(2026, 11, 18, 12, 5, tzinfo=UTC).timestamp()))


class TestRateLimits:
    @pytest.mark.parametrize("status", [403, 429])
    @pytest.mark.parametrize(
        ("headers", "body", "wait"),
        [
            ({"retry_after": "30"}, SECONDARY, 30),
            ({"x_ratelimit_reset": RESET, "x_ratelimit_remaining": "0", "date": DATE}, {"message": "limit"}, 301),
            ({"x_ratelimit_reset": RESET, "date": DATE}, {"message": "limit"}, 301),
            ({"x_ratelimit_reset": "1", "x_ratelimit_remaining": "0"}, {"message": "limit"}, 1),
            ({"x_ratelimit_reset": "9" * 30, "x_ratelimit_remaining": "0"}, {"message": "limit"}, 3600),
            ({"x_ratelimit_reset": RESET, "x_ratelimit_remaining": "17"}, SECONDARY, 60),
        ],
    )
    async def test_say_how_long_to_wait(
        self, hub: FakeGitHub, status: int, headers: dict[str, str], body: dict[str, str], wait: int
    ):
        hub.before = [reply(status, body, **headers)]
        with pytest.raises(RateLimited, match=rf"github\(octo/desk\) answered {status}") as caught:
            await deliver(at(hub), message())
        assert caught.value.retry_after == wait * 1_000_000

    async def test_a_missing_permission_is_none(self, hub: FakeGitHub):
        hub.before = [reply(403, NO_PERMISSION, x_ratelimit_remaining="4999", x_ratelimit_reset=RESET)]
        with pytest.raises(Exception, match="answered 403") as caught:
            await deliver(at(hub), message())
        assert classify(caught.value).failure == "persistent"


def desk(new_app: NewApp, channel: GitHub) -> App:
    app = new_app(channels={"tickets": channel})

    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("tickets", run.event.data)

    return app


async def outcome(new_app: NewApp, hub: FakeGitHub, spans: Sequence[str] = ("2m",), **options: Any) -> dict[str, Any]:
    """What became of one message, after so much time."""
    hub.at = datetime(2026, 1, 1, tzinfo=UTC)  # where the virtual clock begins
    async with working(desk(new_app, at(hub, **options))) as runtime:
        run = await go(runtime, "hello")
        for span in spans:
            await pass_time(runtime, span)
        found = await runtime.reader.run(run["id"])
    assert found is not None
    (one,) = found["deliveries"]
    assert TOKEN not in json.dumps(found)
    return one


class TestVerdicts:
    async def test_delivered_with_evidence(self, new_app: NewApp, hub: FakeGitHub):
        one = await outcome(new_app, hub)
        assert (one["state"], one["tries"]) == ("delivered", 1)
        assert one["evidence"] == {"id": "1", "url": "https://github.com/octo/desk/issues/1"}

    @pytest.mark.parametrize(
        "trouble", [LOST, reply(500, {}), reply(502, {}), reply(503, {}), reply(408, {})], ids=repr
    )
    async def test_an_answer_that_is_lost_is_found(self, new_app: NewApp, hub: FakeGitHub, trouble: Reply):
        hub.after = [trouble]
        one = await outcome(new_app, hub)
        assert (one["state"], one["tries"], list(hub.arrived.values())) == ("delivered", 1, [1])
        assert one["evidence"] == {"id": "1", "url": "https://github.com/octo/desk/issues/1"}
        assert one["reason"] == "found there: an earlier try had arrived"

    async def test_no_answer_in_time_is_looked_for(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [Reply(silent=True)]
        one = await outcome(new_app, hub, timeout="200ms")
        assert (one["state"], one["tries"], list(hub.arrived.values())) == ("delivered", 2, [1])

    @pytest.mark.parametrize("trouble", [LOST, reply(503, {}, retry_after="1")], ids=repr)
    async def test_what_did_not_arrive_goes_again(self, new_app: NewApp, hub: FakeGitHub, trouble: Reply):
        hub.before = [trouble]
        one = await outcome(new_app, hub)
        assert (one["state"], one["tries"], list(hub.arrived.values())) == ("delivered", 2, [1])

    async def test_a_rate_limit_is_waited_for_and_not_looked_for(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [reply(403, SECONDARY, retry_after="60"), reply(429, SECONDARY, retry_after="60")]
        one = await outcome(new_app, hub, ("59s", "2s", "59s"))
        assert (one["state"], one["doubt_at"], len(hub.requests)) == ("pending", None, 2)

    async def test_after_a_rate_limit_it_goes_again(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [reply(403, SECONDARY, retry_after="60")]
        one = await outcome(new_app, hub, ("61s",))
        assert (one["state"], hub.asked("GET"), list(hub.arrived.values())) == ("delivered", [], [1])

    @pytest.mark.parametrize(
        "refused",
        [
            reply(401, {"message": "Bad credentials"}),
            reply(403, NO_PERMISSION, x_ratelimit_remaining="4999", x_ratelimit_reset=RESET),
            reply(404, {"message": "Not Found"}),
            reply(410, {"message": "Issues are disabled for this repo"}),
            reply(422, {"message": "Validation Failed"}),
            reply(301, {"message": "Moved Permanently"}, location="https://api.github.com/repositories/1"),
        ],
        ids=lambda one: str(one.status),
    )
    async def test_a_refusal_is_a_dead_letter(self, new_app: NewApp, hub: FakeGitHub, refused: Reply):
        hub.before = [refused]
        one = await outcome(new_app, hub)
        assert (one["state"], one["doubt_at"], len(hub.requests)) == ("dead", None, 1)
        assert str(refused.status) in one["error"]["message"]

    async def test_a_look_that_cannot_tell_leaves_it_to_a_person(self, new_app: NewApp, hub: FakeGitHub):
        class Revoked(FakeGitHub):
            def handle(self, request: Any) -> Reply:
                told = super().handle(request)
                return told if request.method == "POST" else reply(401, {"message": "Bad credentials"})

        async with Revoked() as other:
            other.after = [LOST]
            one = await outcome(new_app, other)
        assert (one["state"], list(other.arrived.values())) == ("unknown", [1])
        assert "answered 401" in one["reason"]

    async def test_no_connection_is_certainly_not_sent(self, new_app: NewApp, hub: FakeGitHub):
        channel = github("octo/desk", TOKEN, base_url="http://127.0.0.1:1", allow_private=True)
        async with working(desk(new_app, channel)) as runtime:
            run = await go(runtime, "hello")
        assert [(one["state"], one["doubt_at"]) for one in run["deliveries"]] == [("pending", None)]


class TestDeclared:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"repo": "desk"}, 'a repository is "owner/name"'),
            ({"repo": "octo/.."}, 'a repository is "owner/name"'),
            ({"repo": "octo/desk/../../user"}, 'a repository is "owner/name"'),
            ({"token": None}, 'token must be a text or env("NAME")'),
            ({"token": "a\r\nX-Other: 1"}, "the header authorization is empty, or has a line break"),
            ({"issue": 0}, "issue must be the number of an issue"),
            ({"issue": True}, "issue must be the number of an issue"),
            ({"base_url": "http://github.example.com/api/v3"}, "the token would be sent without encryption"),
            ({"base_url": "https://10.0.0.1/api/v3"}, "a private address"),
            ({"base_url": "https://github.example.com/api?x=1"}, "has a query or a fragment"),
            ({"timeout": None}, "a request needs a time limit"),
            ({"backoff": "x"}, "backoff: 'x' is not a duration"),
        ],
    )
    def test_mistakes_are_told_at_once(self, options: dict[str, Any], said: str):
        with pytest.raises(ConfigError) as caught:
            github(**{"repo": "octo/desk", "token": "secret-token-1234", **options})
        assert said in str(caught.value)
        assert "secret-token-1234" not in str(caught.value)

    async def test_no_secret_is_shown(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        channel = github("octo/desk", env("GITHUB_TOKEN"), 7)
        missing = "github(octo/desk), token: the environment variable GITHUB_TOKEN is not set: set it where this process is started"
        assert channel.missing() == [missing]
        with pytest.raises(ConfigError, match="GITHUB_TOKEN is not set"):
            await channel.open(NOWHERE)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        assert channel.missing() == []
        assert channel.describe() == {
            "kind": "github",
            "url": "https://api.github.com",
            "repo": "octo/desk",
            "issue": 7,
            "allow_private": False,
        }
        assert TOKEN not in repr(channel) + repr(vars(github("octo/desk", env("GITHUB_TOKEN"))))

    async def test_an_error_that_repeats_the_token_hides_it(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [reply(400, {"message": f"bad token {TOKEN}"})]
        one = await outcome(new_app, hub)
        assert "bad token [redacted" in one["error"]["message"]
