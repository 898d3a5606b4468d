"""Redoing over HTTP, with real runs on both stores: plan, slices, edited data, held effects, stored events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from support.apps import go, working
from support.tokens import TOKEN
from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.model import run_id
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


class Parcel(BaseModel):
    where: str


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


@pytest.fixture
def shop(app: App) -> App:
    """Ships parcels, but not to nowhere."""

    @action
    async def charge(op: Operation, amount: int) -> str:
        return "charged"

    @app.agent(on("go"))
    async def ship(run: Run, parcel: Parcel) -> str:
        await run.act(charge, 12)
        if parcel.where == "nowhere":
            raise Persistent(f"no such place: {parcel.where}")
        return f"sent to {parcel.where}"

    return app


async def answer_of(answer: httpx2.Response, status: int = 200) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_dead_letters_are_planned_replayed_in_slices_and_left_alone_when_they_die_again(
    shop: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("wakeful.surface.http.SLICE", 2)
    async with served(shop) as (runtime, http):
        for number in range(5):
            await go(runtime, {"where": "nowhere"}, id=str(number))
        (group,) = (await answer_of(await http.get("/v1/dead")))["groups"]
        assert (group["agent"], group["count"], group["confirmed_effects"]) == ("ship", 5, 5)
        body: dict[str, Any] = {"filter": {"agent": "ship", "error": "no such place"}, "note": "try"}
        plan = await answer_of(await http.post("/v1/replay", json={**body, "plan": True}))
        assert (plan["count"], plan["confirmed_actions"]) == (5, {"charge": 5})
        left, redone, requests = 1, 0, 0
        while left:
            runtime.clock.move("1s")  # type: ignore[attr-defined]  # a virtual one
            answer = await answer_of(await http.post("/v1/replay", json=body))
            left, redone, requests = answer["left"], redone + answer["redone"], requests + 1
            body["filter"]["until"] = answer["until"]
            await runtime.drain()  # they die again
        assert (redone, requests) == (5, 3)
        await answer_of(await http.post("/v1/replay", json=body), 404)
        run = await runtime.reader.run(group["runs"][0])
    assert run is not None
    assert (run["state"], [one["outcome"] for one in run["history"]]) == ("dead", ["dead", "dead"])
    assert [(one["operator"], one["note"]) for one in run["remedies"]] == [("ada", "try")]


async def test_one_run_with_edited_data(shop: App):
    async with served(shop) as (runtime, http):
        run = await go(runtime, {"where": "nowhere"})
        path = f"/v1/runs/{run['id'][:10]}/replay"
        problem = await answer_of(await http.post(path, json={"data": {"were": "here"}}), 422)
        assert problem["detail"] == "the edited data does not fit agent ship: where: Field required"
        answer = await answer_of(await http.post(path, json={"data": {"where": "here"}, "note": "moved"}))
        assert (answer["run"], answer["was"], answer["confirmed_effects"]) == (run["id"], "dead", 1)
        await runtime.drain()
        after = await runtime.reader.run(run["id"])
        assert after is not None
        assert (after["state"], after["output"]) == ("done", "sent to here")
        assert after["remedies"][0]["data"] == {"where": "here"}
        await answer_of(await http.post(path), 409)
        again = await answer_of(await http.post(path, json={"again": True}))
        assert again["run"] == f"{run['id']}.1"
        await answer_of(await http.post(f"/v1/runs/{again['run']}/discard"), 409)


async def test_discard(shop: App):
    async with served(shop) as (runtime, http):
        run = await go(runtime, {"where": "nowhere"})
        await answer_of(await http.post(f"/v1/runs/{run['id']}/discard", json={"note": "of no use"}))
        after = await runtime.reader.run(run["id"])
    assert after is not None
    assert (after["state"], after["reason"]) == ("cancelled", "discarded by ada: of no use")


async def test_a_held_effect_is_settled_and_its_alarm_with_it(app: App):
    @action
    async def charge(op: Operation) -> str:
        raise TimeoutError("no answer")

    @app.agent(on("go"))
    async def pay(run: Run) -> str:
        return await run.act(charge)

    async with served(app) as (runtime, http):
        run = await go(runtime)
        assert run["state"] == "held"
        (effect,) = (await answer_of(await http.get("/v1/effects?state=held")))["effects"]
        path = f"/v1/effects/{effect['id']}"
        assert (await answer_of(await http.get(path)))["run"] == run["id"]
        settled = await answer_of(await http.post(f"{path}/confirm", json={"result": "paid", "note": "seen"}))
        assert (settled["state"], settled["run"]) == ("confirmed", run["id"])
        problem = await answer_of(await http.post(f"{path}/abandon"), 409)
        assert "ada settled it before: confirmed (seen)" in problem["detail"]
        await runtime.drain()
        after = await runtime.reader.run(run["id"])
        assert after is not None
        assert (after["state"], after["output"]) == ("done", "paid")
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert (alarm["key"], alarm["state"]) == ("held/app/pay/charge", "resolved")


async def test_stored_events_go_to_an_agent_that_is_new(shop: App):
    async with served(shop) as (runtime, _):
        for number in range(3):
            await go(runtime, {"where": f"place {number}"}, id=str(number))

    @shop.agent(on("never"))
    async def count(run: Run) -> str:
        return f"counted {run.event.id}"

    async with served(shop) as (runtime, http):
        events = {"type": "go", "from": "1h", "to": "2100-01-01", "agent": "count"}
        plan = await answer_of(await http.post("/v1/replay", json={"events": events, "plan": True}))
        assert (plan["new"], plan["already_had"]) == (3, 0)
        answer = await answer_of(await http.post("/v1/replay", json={"events": events}))
        assert (answer["redone"], answer["left"]) == (3, 0)
        await runtime.drain()
        run = await runtime.reader.run(run_id("app", "count", "/app", "1"))
        assert run is not None
        assert (run["state"], run["output"]) == ("done", "counted 1")
        again = await answer_of(await http.post("/v1/replay", json={"events": events}))
        assert (again["redone"], again["already_had"]) == (0, 3)
        problem = await answer_of(await http.post("/v1/replay", json={"events": {**events, "agent": "cuont"}}), 404)
        assert 'Did you mean "count"?' in problem["detail"]


async def test_what_policy_denied_goes_to_its_agent_when_a_person_says_so(shop: App):
    """An event that says, in headers, that it is very deep in a chain."""
    headers = {"ce-specversion": "1.0", "ce-type": "go", "ce-source": "/far", "ce-id": "1", "ce-chaindepth": "99"}
    async with served(shop) as (runtime, http):
        sent = await answer_of(await http.post("/v1/events", json={"where": "home"}, headers=headers), 202)
        assert sent["events"][0]["runs"] == []
        events: dict[str, Any] = {"type": "go", "from": "1h", "to": "2100-01-01", "agent": "ship"}
        plan = await answer_of(await http.post("/v1/replay", json={"events": events, "plan": True}))
        assert (plan["new"], plan["denied"]) == (0, 1)
        answer = await answer_of(await http.post("/v1/replay", json={"events": {**events, "denied": True}}))
        assert answer["redone"] == 1
        await runtime.drain()
        (run,) = (await runtime.reader.runs(agent="ship"))["runs"]
        assert run["state"] == "done"
        told = await answer_of(await http.post("/v1/replay", json={"events": {**events, "denied": "yes"}}), 400)
        assert told["field"] == "events.denied"


class TestHeldEffects:
    @pytest.fixture
    def payer(self, app: App) -> App:
        """Pays, and never hears whether it did."""

        @action
        async def charge(op: Operation, amount: int) -> str:
            raise TimeoutError("no answer")

        @app.agent(on("go"))
        async def pay(run: Run) -> str:
            return await run.act(charge, run.event.data)

        return app

    async def test_a_result_that_does_not_fit_is_refused_and_one_that_was_wrong_corrected(self, payer: App):
        async with served(payer) as (runtime, http):
            run = await go(runtime, 1)
            path = f"/v1/effects/{run['effects'][0]['id']}/confirm"
            shown = await answer_of(await http.get(path.removesuffix("/confirm")))
            assert shown["returns"] == {"type": "string"}
            problem = await answer_of(await http.post(path), 422)
            assert (problem["type"], problem["field"]) == ("urn:wakeful:problem:result-does-not-fit", "result")
            assert (
                'its action returns text, which the run needs to resume: give it with "result": "…"'
                in problem["detail"]
            )
            problem = await answer_of(await http.post(path, json={"result": 7}), 422)
            assert "the result: text is expected, not 7" in problem["detail"]
            async with paused(runtime, "pay"):
                await answer_of(await http.post(path, json={"result": "payd"}))
                assert (await answer_of(await http.post(path, json={"result": "paid"})))["corrected"]
            await runtime.drain()
            after = await runtime.reader.run(run["id"])
            assert (await http.post(path, json={"result": "more"})).status_code == 409
        assert after is not None
        assert (after["state"], after["output"]) == ("done", "paid")

    async def test_many_are_planned_and_settled_in_slices(self, payer: App, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("wakeful.surface.http.SLICE", 2)
        async with served(payer) as (runtime, http):
            for number in range(3):
                await go(runtime, number)
            chosen = {"filter": {"agent": "pay", "action": "charge"}}
            plan = await answer_of(await http.post("/v1/effects/confirm", json={**chosen, "plan": True}))
            assert (plan["count"], plan["runs"], plan["groups"][0]["returns"]) == (3, 3, "text")
            assert '"result": "…"' in plan["unfit"]
            problem = await answer_of(await http.post("/v1/effects/confirm", json=chosen), 422)
            assert problem["detail"].startswith("charge of agent pay: its action returns text")
            given = {**chosen, "result": "paid", "note": "on the statement"}
            assert await answer_of(await http.post("/v1/effects/confirm", json=given)) == {"settled": 2, "left": 1}
            assert await answer_of(await http.post("/v1/effects/confirm", json=given)) == {"settled": 1, "left": 0}
            await answer_of(await http.post("/v1/effects/confirm", json=given), 404)
            await runtime.drain()
            runs = (await runtime.reader.runs())["runs"]
            listed = await answer_of(await http.get("/v1/effects?agent=pay&action=charge&state=confirmed"))
            assert (await answer_of(await http.get("/v1/effects?action=mail")))["effects"] == []
        assert {one["state"] for one in runs} == {"done"}
        assert {one["settled_by"] for one in listed["effects"]} == {"ada"}

    @pytest.mark.parametrize(
        ("verb", "body", "status", "field"),
        [
            ("repeat", {}, 400, "filter"),
            ("repeat", {"filter": {}}, 400, "filter"),
            ("repeat", {"filter": {"agnet": "pay"}}, 400, "filter.agnet"),
            ("abandon", {"filter": {"all": True}, "result": 1}, 400, "result"),
            ("abandon", {"filter": {"all": True}, "rate": "x"}, 400, "rate"),
        ],
    )
    async def test_wrong_bodies(self, payer: App, verb: str, body: Any, status: int, field: str):
        async with served(payer) as (runtime, http):
            await go(runtime, 1)
            problem = await answer_of(await http.post(f"/v1/effects/{verb}", json=body), status)
        assert problem["field"] == field


@asynccontextmanager
async def paused(runtime: Runtime, agent: str) -> AsyncIterator[None]:
    await runtime.store.do(ChangePause("app", agent, paused=True, by=Actor("ada", "code")))
    yield
    await runtime.store.do(ChangePause("app", agent, paused=False, by=Actor("ada", "code")))
