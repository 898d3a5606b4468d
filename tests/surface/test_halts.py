"""Halts over HTTP, on both stores: looked at, made and lifted, with their author."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from support.apps import NewApp, go, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Operation, Run, action, on
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.stores.guards import hashes_of
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp

ADA = {"Wakeful-Operator": "ada"}


def agents_of(app: App, *names: str) -> App:
    @action(safety="idempotent")
    async def refund(op: Operation) -> None: ...

    for name in names:

        @app.agent(on("go"), name=name)
        async def work(run: Run) -> None:
            await run.act(refund)

    return app


@pytest.fixture
def shop(new_app: NewApp) -> App:
    return agents_of(new_app("shop"), "review", "counter")


@pytest.fixture
async def http(shop: App, new_app: NewApp, store: DatabaseStore):
    """A server of the shop, on a store that the desk has worked on, too."""
    async with working(agents_of(new_app("desk"), "counter")) as runtime:
        await go(runtime)
    side = AppSide(Declared(shop), None, None, None, None, lambda: None)
    async with http_over(store, side) as client:
        yield client


async def send(http: httpx2.AsyncClient, method: str, body: dict[str, Any]) -> Any:
    return await http.request(method, "/v1/halts", json=body, headers=ADA)


async def test_one_is_halted_and_lifted_with_its_author(http: httpx2.AsyncClient, store_url: str):
    made = await send(http, "POST", {"agent": "review", "note": "wrong prices"})
    assert made.json() == {
        "app": "shop",
        "agent": "review",
        "action": None,
        "was_halted": False,
        "calls": [],
        "deliveries": [],
        "cancelled": [],
    }
    (listed,) = (await http.get("/v1/halts")).json()["halts"]
    assert listed == {
        "app": "shop",
        "agent": "review",
        "action": None,
        "by": "ada",
        "note": "wrong prices",
        "since": "2026-01-01T00:00:00Z",
        "parked": 0,
    }
    assert (await http.get("/v1/halts?app=desk")).json() == {"halts": []}
    lifted = await send(http, "DELETE", {"agent": "review"})
    assert lifted.json() == {"app": "shop", "agent": "review", "action": None, "was_halted": True, "ready": 0}
    assert (await send(http, "DELETE", {"agent": "review"})).json()["was_halted"] is False
    rows = await query(
        store_url,
        "select operator, way, verb, app, target, detail from wakeful_operation where operator = 'ada' order by seq",
    )
    assert [tuple(row) for row in rows] == [
        ("ada", "http", "halt", "shop", "agent review", "wrong prices"),
        ("ada", "http", "halt lift", "shop", "agent review", None),
    ]


async def test_an_action_and_all_of_this_app_or_of_another(http: httpx2.AsyncClient):
    assert (await send(http, "POST", {"agent": "counter", "app": "desk"})).json()["app"] == "desk"
    assert (await send(http, "POST", {"action": "refund", "app": "desk"})).json()["action"] == "refund"
    assert (await send(http, "POST", {"all": True})).json()["agent"] is None
    listed = (await http.get("/v1/halts")).json()["halts"]
    assert [(one["app"], one["agent"], one["action"]) for one in listed] == [
        ("desk", "counter", None),
        ("desk", None, "refund"),
        ("shop", None, None),
    ]


async def test_a_plan_changes_nothing(http: httpx2.AsyncClient):
    planned = (await send(http, "POST", {"all": True, "plan": True})).json()
    assert [(one["app"], one["was_halted"], one["calls"]) for one in planned["halts"]] == [("shop", False, [])]
    assert (await http.get("/v1/halts")).json() == {"halts": []}


@pytest.mark.parametrize(
    ("method", "body", "status", "field"),
    [
        ("POST", {}, 400, "agent"),
        ("POST", {"agent": "review", "all": True}, 400, "agent"),
        ("POST", {"agent": "review", "action": "refund"}, 400, "agent"),
        ("POST", {"agent": 7}, 400, "agent"),
        ("DELETE", {}, 400, "agent"),
        ("DELETE", {"agent": "review", "cancel": True}, 400, "cancel"),
        ("POST", {"agent": "reviev"}, 404, None),
        ("POST", {"action": "refnd"}, 404, None),
        ("POST", {"agent": "review", "app": "desk"}, 404, None),
        ("POST", {"agent": "wakeful.alarm"}, 404, None),
    ],
)
async def test_what_is_refused(
    http: httpx2.AsyncClient, method: str, body: dict[str, Any], status: int, field: str | None
):
    refused = await send(http, method, body)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert (await http.get("/v1/halts")).json() == {"halts": []}


async def test_an_app_with_another_token_is_halted_and_not_lifted(http: httpx2.AsyncClient, store: DatabaseStore):
    await store.do(GuardApp("desk", hashes_of(["the token of another server"])))
    assert (await send(http, "POST", {"all": True, "app": "desk"})).status_code == 200
    refused = await send(http, "DELETE", {"all": True, "app": "desk"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:wakeful:problem:other-token")
    assert len((await http.get("/v1/halts")).json()["halts"]) == 1
