"""Runs over HTTP, on both stores: listed, shown, forked after a look at what is kept, cancelled."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from support.apps import go, working
from support.tokens import TOKEN
from wakeful import App, Run, on

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


@pytest.fixture
def desk(app: App) -> App:
    """Reads a letter, and writes an answer that may not pass."""

    async def read(text: str) -> str:
        return text.upper()

    def calm(answer: str) -> str | None:
        return "too loud" if answer.endswith("!") else None

    @app.agent(on("go"), checks=[calm])
    async def answer(run: Run) -> str:
        first = await run.step(read, str(run.event.data))
        return await run.step(read, first)

    return app


def client(app: App) -> httpx2.AsyncClient:
    transport: Any = httpx2.ASGITransport(app.asgi(token=TOKEN))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS)


async def test_what_waits_for_a_person_is_one_filter(desk: App):
    async with working(desk) as runtime, client(desk) as http:
        loud = await go(runtime, "hello!", id="1")
        await go(runtime, "hello", id="2")
        assert [one["id"] for one in (await http.get("/v1/runs?held=true")).json()["runs"]] == [loud["id"]]
        assert len((await http.get("/v1/runs?held=false")).json()["runs"]) == 2
        refused = await http.get("/v1/runs?held=true&state=done")
    assert (refused.status_code, refused.json()["field"]) == (400, "held")


async def test_a_fork_is_looked_at_edited_and_done(desk: App):
    async with working(desk) as runtime, client(desk) as http:
        run = await go(runtime, "hello")
        path = f"/v1/runs/{run['id'][:10]}/fork"
        kept = (await http.post(path, json={"from": "read#2", "plan": True})).json()
        assert kept == {"data": "hello", "steps": {"read": "HELLO"}}
        assert len((await http.get("/v1/runs")).json()["runs"]) == 1
        unfit = await http.post(path, json={"from": "read#2", "steps": {"raed": "x"}})
        assert (unfit.status_code, unfit.json()["field"]) == (422, "steps")
        kept["steps"]["read"] = "bye"
        done = (await http.post(path, json={"from": "read#2", "note": "calmer", **kept})).json()
        assert done == {"run": f"{run['id']}.1", "was": "done", "kept": ["read"]}
        await runtime.drain()
        whole = (await http.get(f"/v1/runs/{done['run']}")).json()
    assert (whole["output"], whole["remedies"][0]["operator"]) == ("BYE", "ada")


async def test_an_output_is_released_once(desk: App):
    async with working(desk) as runtime, client(desk) as http:
        run = await go(runtime, "hello!")
        path = f"/v1/runs/{run['id']}"
        assert (await http.post(f"{path}/release")).json()["was"] == "held"
        refused = await http.post(f"{path}/release")
        late = await http.post(f"{path}/cancel")
    assert refused.json()["type"].endswith("not-held")
    assert (late.status_code, late.json()["type"]) == (409, "urn:wakeful:problem:over")
