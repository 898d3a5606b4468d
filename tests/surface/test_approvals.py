"""Questions over HTTP, on both stores: listed, shown, answered once."""

from __future__ import annotations

import pytest

from support.apps import go, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Run, on

ADA = {"Wakeful-Operator": "ada"}


@pytest.fixture
def asking(app: App) -> App:
    @app.agent(on("go"))
    async def refund(run: Run) -> str:
        return "refunded" if await run.ask("Refund it?", to="ops", schema=bool, timeout="4h") else "kept"

    return app


async def test_a_question_is_answered_once_and_its_run_goes_on(asking: App, store_url: str):
    async with working(asking) as runtime, http_over(runtime.store) as http:
        run = await go(runtime)
        (listed,) = (await http.get("/v1/approvals?state=open")).json()["approvals"]
        assert (listed["run"], listed["to"], listed["schema"]) == (run["id"], "ops", {"type": "boolean"})
        path = f"/v1/approvals/{listed['id']}"
        assert (await http.get(path[:-8])).json() == listed
        unfit = await http.post(f"{path}/answer", json={"answer": 3}, headers=ADA)
        assert (unfit.status_code, unfit.json()["field"]) == (422, "answer")
        given = await http.post(f"{path}/answer", json={"answer": True, "note": "seen"}, headers=ADA)
        assert given.json() == {"id": listed["id"], "run": run["id"], "answer": True}
        late = await http.post(f"{path}/answer", json={"answer": False})
        assert late.status_code == 409
        assert "ada answered it at 2026-01-01" in late.json()["detail"]
        await runtime.drain()
        ended = await runtime.reader.run(run["id"])
    assert ended is not None
    assert (ended["state"], ended["output"]) == ("done", "refunded")
    rows = await query(store_url, "select operator, way, verb, target, detail from wakeful_operation")
    assert [tuple(row) for row in rows] == [("ada", "http", "answer", listed["id"], "seen")]


async def test_pages_go_on_where_the_one_before_ended(asking: App):
    async with working(asking) as runtime, http_over(runtime.store) as http:
        runs = [(await go(runtime))["id"] for _ in range(3)]
        first = (await http.get("/v1/approvals?limit=2")).json()
        second = (await http.get(f"/v1/approvals?limit=2&after={first['next']}")).json()
        assert [one["run"] for one in first["approvals"] + second["approvals"]] == runs[::-1]
        assert second["next"] is None
        wrong = await http.get("/v1/approvals?after=x")
        assert (wrong.status_code, wrong.json()["field"]) == (400, "after")
