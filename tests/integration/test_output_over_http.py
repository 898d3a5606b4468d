"""Deliveries, held outputs and states over HTTP, with real runs on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from support.apps import NewApp, go, the_run, working
from support.tokens import TOKEN
from wakeful import App, Operation, Persistent, Run, Transient, action, on
from wakeful.channels import Channel, Message
from wakeful.runtime import Runtime

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


class Post(Channel):
    """Takes nothing until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.got: list[Message] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        if not self.mended:
            message = f"no mailbox {messages[0].body}"
            raise Persistent(message)
        self.got.extend(messages)


class Seen(BaseModel):
    count: int = 0


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def app(new_app: NewApp, post: Post) -> App:
    return new_app(channels={"post": post, "mail": Post()})


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


def shown(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def tell(app: App) -> None:
    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("post", run.event.id, subject="news")
        run.send("mail", run.event.id)


class TestDeliveries:
    async def test_pages_and_one(self, app: App):
        tell(app)
        async with served(app) as (runtime, http):
            run = await go(runtime, id="1")
            await go(runtime, id="2")
            page = shown(await http.get("/v1/deliveries", params={"channel": "post", "state": "dead", "limit": "1"}))
            assert [one["message"] for one in page["deliveries"]] == ["2"]
            rest = shown(await http.get("/v1/deliveries", params={"channel": "post", "after": page["next"]}))
            (first,) = rest["deliveries"]
            assert (first["message"], first["subject"], first["run"], rest["next"]) == ("1", "news", run["id"], None)
            root, _, own = first["id"].partition("-")
            assert root == run["id"]
            assert shown(await http.get(f"/v1/deliveries/{root[:8]}-{own[:6]}")) == first
            story = shown(await http.get(f"/v1/why/{first['id']}"))
            assert story["subject"] == {"kind": "delivery", "id": first["id"]}
            for nothing in (f"{root}-", f"{root}-000000000000", "-", f"{root[:3]}-{own}", root):
                shown(await http.get(f"/v1/deliveries/{nothing}"), 404)

    async def test_one_is_replayed_and_another_discarded(self, app: App, post: Post):
        tell(app)
        async with served(app) as (runtime, http):
            await go(runtime, id="1")
            await go(runtime, id="2")
            second, first = shown(await http.get("/v1/deliveries?channel=post"))["deliveries"]
            post.mended = True
            replayed = shown(await http.post(f"/v1/deliveries/{first['id']}/replay", json={"note": "new box"}))
            assert replayed == {"delivery": first["id"], "was": "dead"}
            shown(await http.post(f"/v1/deliveries/{second['id']}/discard"))
            await runtime.drain()
            assert [message.id for message in post.got] == [first["id"]]
            delivered = shown(await http.get(f"/v1/deliveries/{first['id']}"))
            discarded = shown(await http.get(f"/v1/deliveries/{second['id']}"))
            assert delivered["state"] == "delivered"
            assert (discarded["state"], discarded["reason"]) == ("discarded", "discarded by ada")
            problem = shown(await http.post(f"/v1/deliveries/{first['id']}/replay"), 409)
            assert problem["type"] == "urn:wakeful:problem:not-waiting"

    async def test_plans_change_nothing_and_many_are_discarded_in_slices(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("wakeful.surface.http.SLICE", 2)
        tell(app)
        async with served(app) as (runtime, http):
            for number in range(3):
                await go(runtime, id=str(number))
            one = shown(await http.get("/v1/deliveries?channel=post"))["deliveries"][0]
            plan = shown(await http.post(f"/v1/deliveries/{one['id']}/replay", json={"plan": True}))
            assert plan == {"plan": f"would replay delivery {one['id']} to channel post", "count": 1}
            body: dict[str, Any] = {"filter": {"channel": "post", "error": "NO MAILBOX"}}
            plan = shown(await http.post("/v1/deliveries/discard", json={**body, "plan": True}))
            assert plan["count"] == 3
            assert [group["channel"] for group in plan["groups"]] == ["post"]
            assert len(shown(await http.get("/v1/deliveries?state=dead"))["deliveries"]) == 6
            first = shown(await http.post("/v1/deliveries/discard", json={**body, "note": "old"}))
            assert (first["redone"], first["left"]) == (2, 1)
            runtime.clock.move("1s")  # type: ignore[attr-defined]  # a virtual one
            body["filter"]["until"] = "0s"
            last = shown(await http.post("/v1/deliveries/discard", json=body))
            assert (last["redone"], last["left"]) == (1, 0)
            shown(await http.post("/v1/deliveries/discard", json=body), 404)
            shown(await http.post("/v1/deliveries/discard", json={"filter": {"until": "1h"}}), 400)
            body["filter"]["until"] = "sometime"
            assert shown(await http.post("/v1/deliveries/discard", json=body), 400)["field"] == "filter.until"

    async def test_many_in_slices_and_left_alone_when_they_die_again(
        self, app: App, monkeypatch: pytest.MonkeyPatch, post: Post
    ):
        monkeypatch.setattr("wakeful.surface.http.SLICE", 2)
        tell(app)
        async with served(app) as (runtime, http):
            for number in range(5):
                await go(runtime, id=str(number))
            groups = shown(await http.get("/v1/dead"))["groups"]
            assert sorted((one["kind"], one["channel"], one["count"]) for one in groups) == [
                ("delivery", "mail", 5),
                ("delivery", "post", 5),
            ]
            body: dict[str, Any] = {"deliveries": {"channel": "post", "error": "NO MAILBOX"}}
            assert shown(await http.post("/v1/replay", json={**body, "plan": True}))["count"] == 5
            left, redone = 1, 0
            while left:
                runtime.clock.move("1s")  # type: ignore[attr-defined]  # a virtual one
                answer = shown(await http.post("/v1/replay", json=body))
                left, redone = answer["left"], redone + answer["redone"]
                body["deliveries"]["until"] = answer["until"]
                await runtime.drain()  # they die again
            assert redone == 5
            shown(await http.post("/v1/replay", json=body), 404)
            left = 1
            while left:
                left = shown(await http.post("/v1/discard", json={"deliveries": {"all": True}, "note": "old"}))["left"]
            assert shown(await http.get("/v1/dead"))["groups"] == []
            assert len(shown(await http.get("/v1/deliveries?state=discarded"))["deliveries"]) == 10


async def test_many_dead_runs_are_discarded(app: App):
    @app.agent(on("go"))
    async def break_down(run: Run) -> None:
        raise Persistent(run.event.data)

    async with served(app) as (runtime, http):
        bad = await go(runtime, "bad", id="1")
        worse = await go(runtime, "worse", id="2")
        answer = shown(await http.post("/v1/discard", json={"filter": {"error": "worse"}, "note": "of no use"}))
        assert (answer["redone"], answer["left"]) == (1, 0)
        assert shown(await http.get(f"/v1/runs/{worse['id']}"))["reason"] == "discarded by ada: of no use"
        assert shown(await http.get(f"/v1/runs/{bad['id']}"))["state"] == "dead"


async def test_a_held_output_is_released(app: App, post: Post):
    post.mended = True
    done: list[str] = []

    @action(safety="idempotent")
    async def book(op: Operation, what: str) -> None:
        done.append(what)

    @app.agent(on("go"), deliver="post", checks=[lambda output: output != "rude" or "not polite"])
    async def answer(run: Run) -> str:
        run.stage(book, "room")
        return str(run.event.data)

    async with served(app) as (runtime, http):
        run = await go(runtime, "rude")
        assert (run["state"], done, post.got) == ("held", [], [])
        path = f"/v1/runs/{run['id'][:10]}/release"
        released = shown(await http.post(path, json={"note": "seen"}))
        assert released == {"run": run["id"], "was": "held", "deliveries": 1, "effects": 1}
        await runtime.drain()
        after = shown(await http.get(f"/v1/runs/{run['id']}"))
        assert (after["state"], after["remedies"][0]["operator"], done) == ("done", "ada", ["room"])
        assert [message.body for message in post.got] == ["rude"]
        problem = shown(await http.post(path), 409)
        assert problem["type"] == "urn:wakeful:problem:not-held"


class TestStates:
    async def test_it_is_shown_set_and_cleared(self, app: App):
        @app.agent(on("go"), state=Seen)
        async def counter(run: Run) -> int:
            run.state.count += 1
            return int(run.state.count)

        async with served(app) as (runtime, http):
            run = await go(runtime, id="1")
            (state,) = shown(await http.get("/v1/states"))["states"]
            assert (state["value"], state["version"], state["changed_by"]) == ({"count": 1}, 1, run["id"])
            assert shown(await http.get("/v1/states/counter"))["states"] == [state]
            problem = shown(await http.put("/v1/states/counter", json={"value": {"count": "many"}}), 422)
            assert "count: Input should be a valid integer" in problem["detail"]
            changed = shown(await http.put("/v1/states/counter", json={"value": {"count": 41}}))
            assert changed == {"app": "app", "agent": "counter", "version": 2}
            assert (await go(runtime, id="2"))["output"] == 42
            assert shown(await http.delete("/v1/states/counter"))["version"] == 4
            (state,) = shown(await http.get("/v1/states"))["states"]
            assert (state["value"], state["changed_by"]) == (None, "ada")
            assert (await go(runtime, id="3"))["output"] == 1
            shown(await http.get("/v1/states/nobody"), 404)

    async def test_who_waits_for_its_turn_is_told_whose_it_is(self, app: App):
        @app.agent(on("go"), state=Seen)
        async def counter(run: Run) -> None:
            raise Transient("come back", retry_after="2h")

        async with served(app) as (runtime, http):
            first = await go(runtime, id="1")
            second = await the_run(runtime, await app.emit("go", id="2"))
            await runtime.drain()
            (state,) = shown(await http.get("/v1/states/counter"))["states"]
            assert state["run"] == first["id"]
            story = " ".join(shown(await http.get(f"/v1/why/{second['id']}"))["story"])
            assert f"run {first['id']} holds the state" in story
            own = " ".join(shown(await http.get(f"/v1/why/{first['id']}"))["story"])
            assert "has the state" not in own
