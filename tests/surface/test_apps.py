"""Apps over HTTP, on both stores: listed, and retired with their author."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from support.apps import NewApp, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Run, every, on
from wakeful.stores.guards import hashes_of
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp

ADA = {"Wakeful-Operator": "ada"}


@pytest.fixture
def shop(new_app: NewApp) -> App:
    app = new_app("shop")

    @app.agent(every("1h"), on("later"))
    async def report(run: Run) -> None:
        await run.sleep("30d")

    return app


@pytest.fixture
async def http(shop: App, store: DatabaseStore):
    """A server on a store that the shop has left, with a run that waits."""
    async with working(shop) as runtime:
        await runtime.app.emit("later", id="1")
        await runtime.drain()
    async with http_over(store) as client:
        yield client


async def retire(http: httpx2.AsyncClient, name: str, **fields: Any) -> Any:
    return await http.post(f"/v1/apps/{name}/retire", json=fields, headers=ADA)


async def listed(http: httpx2.AsyncClient) -> Any:
    (one,) = (await http.get("/v1/apps")).json()["apps"]
    return one


async def test_the_listing(http: httpx2.AsyncClient):
    assert await listed(http) == {
        "app": "shop",
        "state": "down",
        "workers": 0,
        "agents": ["report"],
        "schedules": 1,
        "runs": {"waiting": 1},
        "alarms": 0,
        "retired": None,
    }


async def test_a_plan_changes_nothing_and_the_act_is_kept_with_its_author(http: httpx2.AsyncClient, store_url: str):
    plan = (await retire(http, "shop", plan=True)).json()
    assert plan == {
        "app": "shop",
        "workers": 0,
        "retired": None,
        "schedules": ["report"],
        "expectations": ["report"],
        "runs": {"waiting": 1},
        "messages": 0,
        "alarms": [],
        "dead": 0,
    }
    assert (await listed(http))["state"] == "down"
    assert (await retire(http, "shop", note="sold")).json() == plan
    one = await listed(http)
    assert (one["state"], one["schedules"], one["runs"]) == ("retired", 0, {})
    assert one["retired"] == {"at": "2026-01-01T00:00:00Z", "by": "ada", "note": "sold"}
    rows = await query(store_url, "select operator, way, verb, app, target from wakeful_operation where app = 'shop'")
    assert [tuple(row) for row in rows] == [("ada", "http", "retire", "shop", "shop")]


async def test_live_workers_are_in_the_way(http: httpx2.AsyncClient, shop: App):
    async with working(shop):
        refused = await retire(http, "shop")
        assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (409, "still-served")
        assert "1 live worker serves app shop" in refused.json()["detail"]
        assert '"live": true' in refused.json()["detail"]
        assert (await listed(http))["state"] == "alive"
        assert (await retire(http, "shop", live=True)).status_code == 200
        assert (await listed(http))["state"] == "retired"


async def test_an_app_that_is_not_known(http: httpx2.AsyncClient):
    for fields in ({}, {"plan": True}):
        refused = await retire(http, "shpo", **fields)
        assert refused.status_code == 404
        assert 'Did you mean "shop"?' in refused.json()["detail"]


async def test_the_token_of_its_own_server_is_needed_but_not_for_a_plan(http: httpx2.AsyncClient, store: DatabaseStore):
    await store.do(GuardApp("shop", hashes_of(["the token of another server, long enough to be one"])))
    refused = await retire(http, "shop")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "other-token")
    assert (await listed(http))["state"] == "down"
    assert (await retire(http, "shop", plan=True)).status_code == 200
