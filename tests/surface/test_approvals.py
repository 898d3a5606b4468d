"""Approvals over HTTP, on both stores: listed, shown, answered once; effects are approved as they were seen."""

from __future__ import annotations

import pytest

from support.apps import go, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Denied, Operation, Run, action, on
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, EffectFacts, Facts

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
        told = {"state": "answered", "votes": 0, "of": 1}
        assert given.json() == {"id": listed["id"], "run": run["id"], "answer": True, **told}
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


@pytest.fixture
def paying(app: App) -> App:
    app.rules = (*DEFAULT_RULES, ask_about_payments)

    @action(safety="idempotent")
    async def pay(_: Operation, amount: int) -> int:
        return amount

    @app.agent(on("go"))
    async def billing(run: Run) -> str:
        try:
            paid = await run.act(pay, 150)
            return f"paid {paid}"
        except Denied as error:
            return str(error)

    return app


def ask_about_payments(facts: Facts) -> Decision | None:
    return Decision("ask", "payments", "money leaves") if isinstance(facts, EffectFacts) else None


async def test_an_effect_is_approved_as_it_was_seen(paying: App, store_url: str):
    async with working(paying) as runtime, http_over(runtime.store) as http:
        run = await go(runtime)
        (listed,) = (await http.get("/v1/approvals?state=open")).json()["approvals"]
        assert (listed["kind"], listed["action"], listed["arguments"]) == ("effect", "pay", {"amount": 150})
        path = f"/v1/approvals/{listed['id']}"
        other = await http.post(f"{path}/approve", json={"digest": "0" * 26}, headers=ADA)
        assert (other.status_code, other.json()["type"]) == (409, "urn:wakeful:problem:plan-changed")
        edited = await http.post(f"{path}/approve", json={"arguments": {"amount": 1}}, headers=ADA)
        assert edited.status_code == 422
        unfit = await http.post(f"{path}/approve", json={"arguments": 7}, headers=ADA)
        assert unfit.status_code == 422
        given = await http.post(f"{path}/approve", json={"digest": listed["digest"], "note": "seen"}, headers=ADA)
        assert (given.status_code, given.json()["state"], given.json()["votes"]) == (200, "answered", 1)
        late = await http.post(f"{path}/deny", json={}, headers=ADA)
        assert late.status_code == 409
        await runtime.drain()
        ended = await runtime.reader.run(run["id"])
        (effect,) = (await http.get("/v1/effects")).json()["effects"]
    assert ended is not None
    assert ended["output"] == "paid 150"
    assert (effect["state"], effect["rule"], effect["approval"]) == ("confirmed", "payments", listed["id"])
    rows = await query(store_url, "select operator, way, verb, target, detail from wakeful_operation")
    assert [tuple(row) for row in rows] == [("ada", "http", "answer", listed["id"], "seen")]


async def test_an_effect_is_denied(paying: App):
    async with working(paying) as runtime, http_over(runtime.store) as http:
        run = await go(runtime)
        (listed,) = (await http.get("/v1/approvals?state=open")).json()["approvals"]
        assert (await http.post(f"/v1/approvals/{listed['id']}/deny", json={}, headers=ADA)).status_code == 200
        await runtime.drain()
        ended = await runtime.reader.run(run["id"])
    assert ended is not None
    assert ended["output"] == "action pay: payments: ada said no"


async def test_a_question_that_wants_more_than_yes_or_no_is_not_approved(app: App):
    @app.agent(on("go"))
    async def refund(run: Run) -> str:
        return await run.ask("Which one?", schema=str, timeout="4h")

    async with working(app) as runtime, http_over(runtime.store) as http:
        await go(runtime)
        (listed,) = (await http.get("/v1/approvals?state=open")).json()["approvals"]
        refused = await http.post(f"/v1/approvals/{listed['id']}/approve", json={}, headers=ADA)
    assert refused.status_code == 422
    assert "it wants more than yes or no" in refused.json()["detail"]
