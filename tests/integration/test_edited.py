"""Held outputs that a person edits and releases, over HTTP, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, ConfigDict

from support.apps import NewApp, go, working
from support.tokens import TOKEN
from wakeful import App, Operation, Run, action, on
from wakeful.channels import Channel, Message
from wakeful.checks import RunToCheck, did, fresh
from wakeful.runtime import Runtime
from wakeful.stores.keyring import new_key

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


class Post(Channel):
    def __init__(self) -> None:
        self.got: list[Any] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got.extend(one.body for one in messages)


class Letter(BaseModel):
    model_config = ConfigDict(strict=True)
    text: str
    at: datetime | None = None


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def app(new_app: NewApp, post: Post) -> App:
    return new_app(channels={"post": post})


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


def shown(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def polite(letter: Letter | None) -> str | None:
    return "no exclamation marks" if letter is not None and "!" in letter.text else None


def declare(app: App, *more: Any, **options: Any) -> list[str]:
    booked: list[str] = []

    @action(safety="idempotent")
    async def book(_: Operation, text: str) -> None:
        booked.append(text)

    @app.agent(on("go"), name="agent", checks=[polite, *more], deliver="post", **options)
    async def agent(run: Run) -> Letter | None:
        if run.event.data == "nothing":
            return None
        run.send("post", {"text": "HELP!", "at": None})  # equal to what the agent delivers
        run.stage(book, "it")
        return Letter(text="HELP!")

    return booked


class TestAnEditedOutput:
    async def test_is_checked_and_published_instead(self, app: App, post: Post):
        seen: list[Any] = []

        def look(letter: Letter, run: RunToCheck) -> None:
            seen.append((letter.at, [one.name for one in run.effects], run.event.data, run.event.subject))

        booked = declare(app, look, fresh("at", "365000d"), did("book"))
        async with served(app) as (runtime, http):
            run = await go(runtime, 7, subject="s")
            assert run["state"] == "held"
            path = f"/v1/runs/{run['id']}/release"
            answer = shown(
                await http.post(path, json={"output": {"text": "help", "at": "2026-01-01T00:00:00Z"}, "note": "calmer"})
            )
            assert answer == {"run": run["id"], "was": "held", "deliveries": 2, "effects": 1, "edited": True}
            await runtime.drain()
            done = shown(await http.get(f"/v1/runs/{run['id']}"))
            story = shown(await http.get(f"/v1/why/{run['id']}"))
        edited = {"text": "help", "at": "2026-01-01T00:00:00Z"}
        assert (done["state"], done["output"], booked) == ("done", edited, ["it"])
        assert (done["outcome"]["verification"], done["outcome"]["commit"]) == ("passed", "committed")
        assert post.got == [{"text": "HELP!", "at": None}, edited]
        assert [str(at)[:4] for at, *_ in seen] == ["2026"]
        assert seen[0][1:] == (["book"], 7, "s")
        (remedy,) = done["remedies"]
        assert (remedy["verb"], remedy["operator"], remedy["note"]) == ("release", "ada", "calmer")
        assert remedy["data"] == {"output": {"text": "HELP!", "at": None}}
        told = " ".join(story["story"])
        assert "ada released its output, edited, at" in told
        assert 'The output was {"text":"HELP!"' in told

    @pytest.mark.parametrize(
        ("output", "words"),
        [
            ({"text": "no!"}, "check polite: no exclamation marks"),
            ({"text": 7}, "the output does not fit its return type: "),
            ("loud", "the output does not fit its return type: "),
            (None, "the agent is expected to return an output"),
        ],
    )
    async def test_that_does_not_pass_changes_nothing(self, app: App, post: Post, output: Any, words: str):
        declare(app, expects_output=True)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            problem = shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": output}), 422)
            assert problem["type"].endswith("output-does-not-pass")
            assert words in problem["detail"]
            await runtime.drain()
            assert shown(await http.get(f"/v1/runs/{run['id']}")) == run
        assert post.got == []

    async def test_is_delivered_although_there_was_none(self, app: App, post: Post):
        declare(app, expects_output=True)
        async with served(app) as (runtime, http):
            run = await go(runtime, "nothing")
            assert (run["state"], run["deliveries"]) == ("held", [])
            shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": {"text": "help"}}))
            await runtime.drain()
            done = shown(await http.get(f"/v1/runs/{run['id']}"))
        assert post.got == [{"text": "help", "at": None}]
        assert (done["state"], done["outcome"]["delivery"]) == ("done", "delivered")

    async def test_of_an_encrypted_store(self, new_app: NewApp, post: Post):
        app = new_app(channels={"post": post}, encryption=[new_key()])
        declare(app)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": {"text": "help"}}))
            await runtime.drain()
            done = shown(await http.get(f"/v1/runs/{run['id']}"))
        assert post.got == [{"text": "HELP!", "at": None}, {"text": "help", "at": None}]
        assert done["remedies"][0]["data"] == {"output": {"text": "HELP!", "at": None}}

    async def test_of_a_run_that_found_its_effects_done(self, app: App, post: Post):
        """A repeated run finds the effects of the first one; the checks of an edited output count them, as those of the handler do."""
        loud: list[str] = []
        booked: list[str] = []

        @action(safety="idempotent")
        async def book(_: Operation) -> None:
            booked.append("it")

        @app.agent(on("go"), name="agent", checks=[polite, did("book")])
        async def agent(run: Run) -> Letter:
            await run.act(book)
            return Letter(text="HELP!" if loud else "help")

        async with served(app) as (runtime, http):
            first = await go(runtime)
            assert first["state"] == "done"
            loud.append("now")
            again = shown(await http.post(f"/v1/runs/{first['id']}/replay", json={"again": True}))["run"]
            await runtime.drain()
            held = shown(await http.get(f"/v1/runs/{again}"))
            assert (held["state"], held["reason"]) == ("held", "check polite: no exclamation marks")
            shown(await http.post(f"/v1/runs/{again}/release", json={"output": {"text": "calm"}}))
            await runtime.drain()
            done = shown(await http.get(f"/v1/runs/{again}"))
        assert (done["state"], done["output"]["text"], booked) == ("done", "calm", ["it"])

    async def test_of_null_is_not_delivered(self, app: App, post: Post):
        declare(app)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": None}))
            await runtime.drain()
            done = shown(await http.get(f"/v1/runs/{run['id']}"))
        assert (done["state"], done["output"]) == ("done", None)
        assert post.got == [{"text": "HELP!", "at": None}]  # what the handler sent itself
        assert sorted(one["state"] for one in done["deliveries"]) == ["delivered", "discarded"]

    async def test_of_a_run_that_was_returned_meanwhile_is_refused(self, app: App, post: Post):
        from wakeful.stores.request import Actor
        from wakeful.stores.verbs.commit import ReleaseRun
        from wakeful.stores.verbs.editing import EditedOutput

        declare(app)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            shown(await http.post(f"/v1/runs/{run['id']}/return", json={"remark": "calmer"}))
            await runtime.drain()
            again = await runtime.reader.run(run["id"])
            edited = EditedOutput('{"text":"help","at":null}', run["token"], "passed", "post")
            done = await runtime.store.do(ReleaseRun(run["id"], edited, by=Actor("ada", "code")))
            assert done is not None
            assert "was executed again since its output was read" in (done.refused or "")
            assert await runtime.reader.run(run["id"]) == again
        assert post.got == []

    async def test_of_a_run_that_is_not_held_is_refused(self, app: App):
        declare(app)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            shown(await http.post(f"/v1/runs/{run['id']}/release", json={}))
            await runtime.drain()
            problem = shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": {"text": "x"}}), 409)
            assert "only a held output can be edited and released" in problem["detail"]

    async def test_needs_the_code_of_its_app(self, new_app: NewApp, app: App):
        declare(app)
        async with working(app) as runtime:
            run = await go(runtime)
        other = new_app("other")
        async with served(other) as (_, http):
            problem = shown(await http.post(f"/v1/runs/{run['id']}/release", json={"output": {"text": "x"}}), 409)
        assert problem["type"].endswith("code-needed")
        assert "checked with the code of agent agent of app app" in problem["detail"]


class TestReturn:
    async def test_over_http(self, app: App):
        declare(app)
        async with served(app) as (runtime, http):
            run = await go(runtime)
            path = f"/v1/runs/{run['id']}/return"
            assert shown(await http.post(path, json={"remark": " calmer "})) == {
                "run": run["id"],
                "was": "held",
                "returns": 1,
            }
            await runtime.drain()
            assert shown(await http.post(path, json={"remark": "still"}))["returns"] == 2
            await runtime.drain()
            story = " ".join(shown(await http.get(f"/v1/why/{run['id']}"))["story"])
            assert "ada returned its output at" in story
            assert ": calmer." in story
            assert shown(await http.post(path, json={}), 400)["detail"].startswith("remark is missing: what is wrong")
            assert "1 to 2,000 characters" in shown(await http.post(path, json={"remark": "  "}), 400)["detail"]
            shown(await http.post(f"/v1/runs/{run['id']}/release", json={}))
            await runtime.drain()
            problem = shown(await http.post(path, json={"remark": "late"}), 409)
            assert "only a held output can be returned" in problem["detail"]
            assert (await http.post("/v1/runs/nothing/return", json={"remark": "x"})).status_code == 404
