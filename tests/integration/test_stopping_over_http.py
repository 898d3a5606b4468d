"""Cancelling and forking over HTTP, with real runs on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from support.apps import go, working
from support.tokens import TOKEN
from wakeful import App, Persistent, Run, on
from wakeful.runtime import Runtime

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


def declare(app: App) -> None:
    async def fetch(number: int) -> str:
        return f"text {number}"

    @app.agent(on("go"), name="agent")
    async def agent(run: Run, number: int) -> str:
        text = await run.step(fetch, 1)
        return f"{text}, {await run.step(fetch, number)}"


async def test_cancel(app: App):
    declare(app)
    async with served(app) as (runtime, http):
        run = await go(runtime, 2)
        refused = await http.post(f"/v1/runs/{run['id']}/cancel", json={"note": "too late"})
        assert refused.status_code == 409
        assert refused.json()["detail"] == f"run {run['id']} is done: only a run that has not ended can be cancelled"
        runtime.worker.claim_nothing_more()
        waiting = (await app.emit("go", 2)).runs[0]
        answer = await http.post(f"/v1/runs/{waiting}/cancel", json={"note": "not wanted"})
        assert answer.json() == {"run": waiting, "was": "ready", "state": "cancelled"}
        shown = (await http.get(f"/v1/runs/{waiting}")).json()
        assert shown["reason"] == "cancelled by ada: not wanted"
        assert (await http.post("/v1/runs/nothing/cancel", json={})).status_code == 404


async def test_fork(app: App):
    declare(app)
    async with served(app) as (runtime, http):
        run = await go(runtime, 2)
        path = f"/v1/runs/{run['id']}/fork"
        edit = {"from": "fetch#2", "data": 3, "steps": {"fetch": "edited"}, "note": "why not"}
        answer = await http.post(path, json=edit)
        assert answer.json() == {"run": f"{run['id']}.1", "was": "done", "kept": ["fetch"]}
        await runtime.drain()
        assert (await http.get(f"/v1/runs/{run['id']}.1")).json()["output"] == "edited, text 3"
        assert (await http.post(path, json={})).status_code == 400
        assert (await http.post(path, json={"from": "fetsh"})).status_code == 404
        misfit = await http.post(path, json={"from": "fetch", "data": "not a number"})
        assert misfit.status_code == 422
        assert misfit.json()["field"] == "data"
        unknown = await http.post(path, json={"from": "fetch", "steps": {"fetch": 1}})
        assert unknown.status_code == 422
        assert "does not keep a step" in unknown.json()["detail"]


async def test_cancel_of_a_dead_letter(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        raise Persistent("broken")

    async with served(app) as (runtime, http):
        run = await go(runtime)
        answer = await http.post(f"/v1/runs/{run['id']}/cancel", json={"note": "give it back"})
        assert answer.json() == {"run": run["id"], "was": "dead", "state": "cancelled"}
        shown = (await http.get(f"/v1/runs/{run['id']}")).json()
    assert (shown["state"], shown["reason"]) == ("cancelled", "cancelled by ada: give it back")
