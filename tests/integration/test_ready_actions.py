"""`wakeful.actions` against servers with the rules of GitHub and Jira: what was done is done once, and found after a lost answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from support import fake_github, fake_jira
from support.apps import NewApp, go, pass_time, working
from support.fake_github import FakeGitHub
from support.fake_jira import FakeJira, words_of
from support.receiver import Reply
from support.service import LOST, Service, reply
from wakeful import App, ConfigError, Run, VirtualClock, on
from wakeful.actions import github, jira
from wakeful.execution.actions import Action
from wakeful.outside.github import GitHubActions
from wakeful.outside.jira import JiraActions

ACCOUNT = "5b10ac8d82e05b22cc7d4ef5"


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with FakeGitHub() as hub:
        hub.at = datetime.now(UTC)
        hub.open_issue("Slow")
        yield hub


@pytest.fixture
async def desk(clock: VirtualClock) -> AsyncIterator[FakeJira]:
    async with FakeJira(now=clock.now) as desk:
        desk.issues["OPS-1"] = {"labels": []}
        desk.comments["OPS-1"] = []
        desk.made_at["OPS-1"] = 0
        yield desk


def on_hub(hub: FakeGitHub) -> GitHubActions:
    return github(fake_github.TOKEN, base_url=hub.url, allow_private=True)


def on_desk(desk: FakeJira) -> JiraActions:
    return jira(desk.url, fake_jira.USER, fake_jira.TOKEN, allow_private=True)


def acting(new_app: NewApp, action: Action[..., Any], *arguments: Any, **named: Any) -> App:
    app = new_app()

    @app.agent(on("go"))
    async def act(run: Run) -> Any:
        return await run.act(action, *arguments, **named)

    return app


async def outcome(app: App, spans: tuple[str, ...] = ("2m",)) -> dict[str, Any]:
    """The run that acted, after so much time."""
    async with working(app) as runtime:
        identifier = (await go(runtime))["id"]
        for span in spans:
            await pass_time(runtime, span)
        run = await runtime.reader.run(identifier)
    assert run is not None
    for secret in (fake_github.TOKEN, fake_jira.TOKEN, fake_jira.SECRET):
        assert secret not in json.dumps(run)
    return run


def effect(run: dict[str, Any]) -> dict[str, Any]:
    (one,) = run["effects"]
    return dict(one)


TROUBLES = pytest.mark.parametrize("trouble", [None, LOST, reply(502, {})], ids=["none", "lost", "502"])


def troubled(service: Service, trouble: Reply | None) -> None:
    service.after = [trouble] if trouble is not None else []


class TestGitHub:
    @TROUBLES
    async def test_an_issue_is_created_once(self, new_app: NewApp, hub: FakeGitHub, trouble: Reply | None):
        troubled(hub, trouble)
        run = await outcome(acting(new_app, on_hub(hub).create_issue, "octo/desk", "It is\nlate", "Ask @octocat"))
        assert run["output"] == {"id": "2", "url": "https://github.com/octo/desk/issues/2"}
        assert (effect(run)["action"], effect(run)["state"]) == ("github.create_issue", "confirmed")
        assert (len(hub.entries), list(hub.arrived.values())) == (2, [1])
        assert (hub.entries[2]["title"], "@octocat" in hub.entries[2]["body"]) == ("It is late", False)

    @TROUBLES
    async def test_a_comment_is_written_once(self, new_app: NewApp, hub: FakeGitHub, trouble: Reply | None):
        troubled(hub, trouble)
        run = await outcome(acting(new_app, on_hub(hub).comment, "octo/desk", issue=1, text="**Done**"))
        assert run["output"]["url"] == "https://github.com/octo/desk/issues/1#issuecomment-5000"
        assert [one["body"].partition("\n")[0] for one in hub.comments[1]] == ["**Done**"]

    @TROUBLES
    async def test_a_label_is_added_once(self, new_app: NewApp, hub: FakeGitHub, trouble: Reply | None):
        troubled(hub, trouble)
        run = await outcome(acting(new_app, on_hub(hub).label, "octo/desk", 1, ["late", "ops"]))
        assert (run["state"], effect(run)["state"]) == ("done", "confirmed")
        assert hub.entries[1]["labels"] == [{"name": "late"}, {"name": "ops"}]

    async def test_what_did_not_arrive_is_repeated(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [LOST]
        run = await outcome(acting(new_app, on_hub(hub).create_issue, "octo/desk", "Late", "x"))
        assert (run["state"], list(hub.arrived.values()), len(hub.asked("POST"))) == ("done", [1], 2)

    async def test_a_rate_limit_is_waited_for(self, new_app: NewApp, hub: FakeGitHub):
        hub.before = [reply(403, {"message": "secondary rate limit"}, retry_after="60")]
        run = await outcome(acting(new_app, on_hub(hub).comment, "octo/desk", 1, "x"))
        assert (run["state"], hub.asked("GET")) == ("done", [])

    async def test_a_look_that_cannot_tell_holds_the_run(self, new_app: NewApp):
        class Revoked(FakeGitHub):
            def handle(self, request: Any) -> Reply:
                told = super().handle(request)
                return told if request.method == "POST" else reply(401, {"message": "Bad credentials"})

        async with Revoked() as hub:
            hub.after = [LOST]
            run = await outcome(acting(new_app, on_hub(hub).create_issue, "octo/desk", "Late", "x"))
        assert (run["state"], list(hub.arrived.values())) == ("held", [1])

    @pytest.mark.parametrize("repo", ["octo/../../user", "octo/desk/issues/1/lock?", "octo", "octo/other"])
    async def test_arguments_lead_to_no_other_place(self, new_app: NewApp, hub: FakeGitHub, repo: str):
        run = await outcome(acting(new_app, on_hub(hub).comment, repo, 1, "x"))
        assert (run["state"], hub.written) == ("dead", [None])
        assert all(one.path == "/repos/octo/other/issues/1/comments" for one in hub.requests)


class TestJira:
    @TROUBLES
    async def test_an_issue_is_created_once(self, new_app: NewApp, desk: FakeJira, trouble: Reply | None):
        troubled(desk, trouble)
        desk.lag = 50
        run = await outcome(acting(new_app, on_desk(desk).create, "OPS", "It is\nlate", "One.\n\nTwo."))
        assert run["output"] == {"key": "OPS-2", "url": f"{desk.url}/browse/OPS-2"}
        assert (effect(run)["action"], effect(run)["state"]) == ("jira.create", "confirmed")
        assert (list(desk.arrived.values()), desk.issues["OPS-2"]["summary"]) == ([1], "It is late")

    @TROUBLES
    async def test_a_comment_is_written_once(self, new_app: NewApp, desk: FakeJira, trouble: Reply | None):
        troubled(desk, trouble)
        desk.page = 2
        for _ in range(5):
            content = [{"type": "paragraph", "content": []}]
            desk.comments["OPS-1"].append({"id": "1", "body": {"type": "doc", "version": 1, "content": content}})
        run = await outcome(acting(new_app, on_desk(desk).comment, issue="OPS-1", text="Done " * 10_000))
        assert run["output"] == {"id": "7005"}
        assert len(desk.comments["OPS-1"]) == 6
        assert words_of(desk.comments["OPS-1"][5]["body"]).endswith(f"\n\nwakeful-{effect(run)['id']}")

    @TROUBLES
    async def test_an_issue_is_assigned(self, new_app: NewApp, desk: FakeJira, trouble: Reply | None):
        troubled(desk, trouble)
        run = await outcome(acting(new_app, on_desk(desk).assign, "OPS-1", ACCOUNT))
        assert (run["state"], desk.issues["OPS-1"]["assignee"]) == ("done", ACCOUNT)

    async def test_a_person_who_cannot_be_assigned(self, new_app: NewApp, desk: FakeJira):
        run = await outcome(acting(new_app, on_desk(desk).assign, "OPS-1", "stranger"))
        assert run["state"] == "dead"
        assert "User cannot be assigned issues." in run["error"]["message"]

    @pytest.mark.parametrize("key", ["OPS-1/../../user", "ops", "OPS-1?x="])
    async def test_arguments_lead_to_no_other_place(self, new_app: NewApp, desk: FakeJira, key: str):
        for one in (on_desk(desk).comment, on_desk(desk).assign):
            assert (await outcome(acting(new_app, one, key, "x")))["state"] == "dead"
        assert (await outcome(acting(new_app, on_desk(desk).create, 'OPS" OR "', "x", "y")))["state"] == "dead"
        assert desk.requests == []


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: github(""), "github: the header authorization"),
        (lambda: github("t", base_url="http://example.com"), "without encryption"),
        (lambda: github("t", name=" "), "the actions are named after it"),
        (lambda: jira("https://10.0.0.1", "u", "t"), "a private address"),
        (lambda: jira("https://acme.atlassian.net", "u:v", "t"), "user must be the address"),
        (lambda: jira("https://acme.atlassian.net", "u", "t", name=""), "the actions are named after it"),
        (lambda: jira("https://acme.atlassian.net", "u", "t", settle="x"), "settle"),
    ],
)
def test_mistakes_are_told_at_once(declare: Callable[[], Any], said: str):
    with pytest.raises(ConfigError, match=said):
        declare()


def test_actions_of_two_tokens_have_two_names():
    one, other = github("t" * 20), github("u" * 20, name="enterprise", base_url="https://example.com/api/v3")
    assert (one.label.name, other.label.name) == ("github.label", "enterprise.label")
    assert one.label.reference != other.label.reference
