"""Policy's decisions over HTTP, on both stores: listed, filtered, paged, shown; also rows of older versions."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Denied, Operation, Run, action, on
from wakeful.api.openapi import document
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, AdmissionFacts, EffectFacts


@action(safety="idempotent")
async def pay(op: Operation, amount: int) -> str:
    return f"paid {amount}"


def rule(facts: Any) -> Decision | None:
    if isinstance(facts, EffectFacts) and facts.event.data > 100:
        return Decision("deny", rule="large", reason="over 100", version="3")
    if isinstance(facts, EffectFacts) and facts.event.data > 10:
        return Decision("hold", rule="medium", reason="over 10")
    if isinstance(facts, AdmissionFacts) and facts.event.source == "/test":
        return Decision("deny", rule="no_tests", reason="events of tests start nothing")
    return None


@pytest.fixture
def shop(new_app: NewApp) -> App:
    app = new_app("shop", rules=(rule, *DEFAULT_RULES))

    @app.agent(on("go"))
    async def payer(run: Run) -> str:
        try:
            return await run.act(pay, run.event.data)
        except Denied:
            return "not paid"

    return app


async def listed(http: Any, filters: str = "") -> list[dict[str, Any]]:
    answer = await http.get(f"/v1/decisions{filters}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["decisions"]
    return found


async def test_a_decision_says_what_it_is_about(shop: App):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        assert await listed(http) == []
        await shop.emit("go", 1, source="/test", id="t1")
        run = await go(runtime, 500, id="e1")
        denied, refused = await listed(http)
        assert denied == {
            "id": denied["id"],
            "app": "shop",
            "agent": "payer",
            "place": "effect",
            "answer": "deny",
            "rule": "large",
            "version": "3",
            "reason": "over 100",
            "mode": None,
            "action": "pay",
            "effect": denied["effect"],
            "event": "e1",
            "run": run["id"],
            "decided_at": "2026-01-01T00:00:00Z",
        }
        assert denied["effect"]
        assert {name: refused[name] for name in ("app", "place", "rule", "action", "effect", "event", "run")} == {
            "app": "shop",
            "place": "admission",
            "rule": "no_tests",
            "action": None,
            "effect": None,
            "event": "t1",
            "run": None,
        }
        for one in (denied, refused):
            assert (await http.get(f"/v1/decisions/{one['id']}")).json() == one


async def test_the_effect_of_a_held_call_is_named(shop: App):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        run = await go(runtime, 50)
        (held,) = await listed(http)
    (effect,) = run["effects"]
    assert (run["state"], held["answer"], held["effect"], held["run"]) == ("held", "hold", effect["id"], run["id"])


async def test_an_event_that_a_person_must_agree_to_names_its_run(new_app: NewApp):
    def ask(facts: Any) -> Decision | None:
        return Decision("ask", rule="ask_first", reason="new") if isinstance(facts, AdmissionFacts) else None

    app = new_app(rules=(ask, *DEFAULT_RULES))

    @app.agent(on("go"))
    async def agent(run: Run) -> None: ...

    async with working(app) as runtime, http_over(runtime.store) as http:
        receipt = await app.emit("go", id="e1")
        (asked,) = await listed(http)
    assert (asked["answer"], asked["place"], asked["event"]) == ("ask", "admission", "e1")
    assert [asked["run"]] == receipt.runs


async def test_filters_narrow_the_listing(shop: App, store_url: str):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        await go(runtime, 500)
        await pass_time(runtime, "3h")
        await go(runtime, 50)
        await shop.emit("go", 1, source="/test")

        async def rules(filters: str) -> list[str]:
            return [one["rule"] for one in await listed(http, filters)]

        assert await rules("") == ["no_tests", "medium", "large"]
        assert await rules("?rule=medium") == ["medium"]
        assert await rules("?answer=deny") == ["no_tests", "large"]
        assert await rules("?answer=deny&since=2h") == ["no_tests"]
        assert await rules("?since=2h") == ["no_tests", "medium"]
        assert await rules("?since=2026-01-01T00:00:00Z") == ["no_tests", "medium", "large"]
        assert await rules("?since=2027-01-01") == []
        assert await rules("?app=shop&agent=payer") == ["no_tests", "medium", "large"]
        assert await rules("?app=desk") == await rules("?agent=other") == []


async def test_pages_go_on_where_the_one_before_ended(shop: App):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        runs = [(await go(runtime, 500))["id"] for _ in range(3)]
        first = (await http.get("/v1/decisions?limit=2")).json()
        second = (await http.get(f"/v1/decisions?limit=2&after={first['next']}")).json()
    assert [one["run"] for one in first["decisions"] + second["decisions"]] == runs[::-1]
    assert second["next"] is None


async def test_a_decision_of_an_older_version_has_the_app_of_its_run_or_event(shop: App, store_url: str):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        await go(runtime, 500)
        await shop.emit("go", 1, source="/test", id="t1")
        await query(store_url, "update wakeful_decision set app = null, place = null, action = null, effect_id = null")
        found = await listed(http, "?app=shop")
    assert [(one["app"], one["place"], one["rule"]) for one in found] == [
        ("shop", None, "no_tests"),
        ("shop", None, "large"),
    ]


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("?answer=perhaps", 400, "answer"),
        ("?since=someday", 400, "since"),
        ("?after=x", 400, "after"),
        ("?place=effect", 400, "place"),
        ("/nothing", 404, None),
        ("/1", 404, None),
        ("/99999999999999999999", 404, None),
    ],
)
async def test_what_is_not_understood_or_not_there(shop: App, path: str, status: int, field: str | None):
    async with working(shop) as runtime, http_over(runtime.store) as http:
        answer = await http.get(f"/v1/decisions{path}")
    assert (answer.status_code, answer.json().get("field")) == (status, field)


def test_the_document_says_that_a_constant_may_be_null():
    mode = document()["components"]["schemas"]["PolicyDecision"]["properties"]["mode"]
    assert (mode["type"], mode["enum"]) == (["string", "null"], ["watch", None])
