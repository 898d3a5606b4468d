"""Grants over HTTP, on both stores: added, looked at and revoked, with their author."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from support.apps import NewApp
from support.stores import query
from surface.served import http_over
from wakeful import App, Operation, Run, action, on
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.stores.guards import hashes_of
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp

ADA = {"Wakeful-Operator": "ada"}
REFUND = {"action": "refund_grants", "until": "7d", "most": 5}


@pytest.fixture
def shop(new_app: NewApp) -> App:
    app = new_app("shop")

    @action(safety="idempotent")
    async def refund_grants(op: Operation, amount: float) -> None: ...

    @app.agent(on("go"), name="review")
    async def review(run: Run) -> None:
        await run.act(refund_grants, 1.0)

    return app


@pytest.fixture
async def http(shop: App, store: DatabaseStore):
    side = AppSide(Declared(shop), None, None, None, None, lambda: None)
    async with http_over(store, side) as client:
        yield client


async def send(http: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any]) -> Any:
    return await http.request(method, path, json=body, headers=ADA)


async def test_one_is_added_and_revoked_with_its_author(http: httpx2.AsyncClient, store_url: str):
    body = {**REFUND, "agent": "review", "where": "arguments.amount < 10.0", "note": "away"}
    made = (await send(http, "POST", "/v1/grants", body)).json()
    assert {name: made[name] for name in made if name != "id"} == {
        "app": "shop",
        "agent": "review",
        "action": "refund_grants",
        "where": "arguments.amount < 10.0",
        "state": "live",
        "until": "2026-01-08T00:00:00Z",
        "most": 5,
        "used": 0,
        "granted_at": "2026-01-01T00:00:00Z",
        "by": "ada",
        "note": "away",
        "revoked_at": None,
        "revoked_by": None,
    }
    name = made["id"]
    assert (await http.get("/v1/grants")).json() == {"grants": [made]}
    assert (await http.get(f"/v1/grants/{name}")).json() == {**made, "uses": []}
    revoked = (await send(http, "DELETE", f"/v1/grants/{name}", {})).json()
    assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "ada")
    again = await send(http, "DELETE", f"/v1/grants/{name}", {})
    assert (again.status_code, again.json()["type"]) == (409, "urn:wakeful:problem:grant-is-revoked")
    assert (await http.get("/v1/grants")).json() == {"grants": []}
    assert len((await http.get("/v1/grants?all=true")).json()["grants"]) == 1
    rows = await query(store_url, "select operator, way, verb, app, target, detail from wakeful_operation order by seq")
    assert [tuple(row) for row in rows] == [
        ("ada", "http", "grants add", "shop", name, "away"),
        ("ada", "http", "grants revoke", "shop", name, None),
    ]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"until": "7d", "most": 5}, 400, "agent"),
        ({"action": "refund_grants", "most": 5}, 400, "until"),
        ({"action": "refund_grants", "until": "7d"}, 400, "most"),
        ({**REFUND, "until": "yesterday"}, 400, "until"),
        ({**REFUND, "most": 0}, 400, "most"),
        ({**REFUND, "most": "many"}, 400, "most"),
        ({**REFUND, "where": "arguments.amont < 1.0"}, 400, "where"),
        ({**REFUND, "where": "1 +"}, 400, "where"),
        ({**REFUND, "action": "refnd"}, 404, None),
        ({**REFUND, "agent": "reviev"}, 404, None),
        ({**REFUND, "agent": "review", "app": "other"}, 404, None),
    ],
)
async def test_what_is_refused(http: httpx2.AsyncClient, body: dict[str, Any], status: int, field: str | None):
    refused = await send(http, "POST", "/v1/grants", body)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert (await http.get("/v1/grants?all=true")).json() == {"grants": []}


async def test_a_condition_is_checked_although_another_app_of_this_process_has_an_action_of_that_name(
    http: httpx2.AsyncClient,
):
    @action(name="refund_grants")
    async def refund_of_another_app(op: Operation, customer: str) -> None: ...

    answer = await send(http, "POST", "/v1/grants", {**REFUND, "where": "arguments.amont < 10.0"})
    assert answer.status_code == 400
    assert answer.json()["field"] == "where"
    assert 'Did you mean "amount"?' in answer.json()["detail"]


async def test_an_app_with_another_token_gets_no_grant(http: httpx2.AsyncClient, store: DatabaseStore):
    await store.do(GuardApp("shop", hashes_of(["the token of another server"])))
    refused = await send(http, "POST", "/v1/grants", REFUND)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:wakeful:problem:other-token")
    assert (await http.get("/v1/grants")).json() == {"grants": []}
