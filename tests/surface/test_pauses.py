"""Pauses over HTTP, on both stores: looked at, and changed with their author."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from support.apps import NewApp, go, working
from support.stores import query
from surface.served import http_over
from wakeful import App, Run, on
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.stores.guards import hashes_of
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp

ADA = {"Wakeful-Operator": "ada"}


def agents_of(app: App, *names: str) -> App:
    for name in names:

        @app.agent(on("go"), name=name)
        async def work(run: Run) -> None: ...

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


async def post(http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    return await http.post(path, json=body, headers=ADA)


async def test_one_is_paused_and_resumed_with_its_author(http: httpx2.AsyncClient, store_url: str):
    paused = await post(http, "/v1/pause", {"agent": "review", "note": "look first"})
    assert paused.json() == {"app": "shop", "agent": "review", "paused": True, "was_paused": False}
    (listed,) = (await http.get("/v1/pauses")).json()["pauses"]
    assert listed == {
        "app": "shop",
        "agent": "review",
        "paused": True,
        "rate": None,
        "by": "ada",
        "note": "look first",
        "since": "2026-01-01T00:00:00Z",
    }
    assert (await http.get("/v1/pauses?app=desk")).json() == {"pauses": []}
    resumed = await post(http, "/v1/resume", {"agent": "review", "rate": "10/s"})
    assert resumed.json() == {"app": "shop", "agent": "review", "paused": False, "was_paused": True}
    rows = await query(
        store_url,
        "select operator, way, verb, app, target, detail from wakeful_operation where operator = 'ada' order by seq",
    )
    assert [tuple(row) for row in rows] == [
        ("ada", "http", "pause", "shop", "review", "look first"),
        ("ada", "http", "resume", "shop", "review", "at 10/s"),
    ]


async def test_all_of_the_servers_app_or_of_another(http: httpx2.AsyncClient):
    assert (await post(http, "/v1/pause", {"agent": "counter", "app": "desk"})).json()["app"] == "desk"
    assert (await post(http, "/v1/pause", {"all": True})).json()["agent"] is None
    listed = (await http.get("/v1/pauses")).json()["pauses"]
    assert [(one["app"], one["agent"]) for one in listed] == [("desk", "counter"), ("shop", None)]
    unknown = await post(http, "/v1/pause", {"agent": "review", "app": "desk"})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/v1/pause", {}, 400, "agent"),
        ("/v1/pause", {"agent": "review", "all": True}, 400, "agent"),
        ("/v1/pause", {"agent": "review", "rate": "1/s"}, 400, "rate"),
        ("/v1/resume", {"agent": "review", "rate": "fast"}, 400, "rate"),
        ("/v1/resume", {"agent": 7}, 400, "agent"),
        ("/v1/pause", {"agent": "reviev"}, 404, None),
    ],
)
async def test_what_is_refused(
    http: httpx2.AsyncClient, path: str, body: dict[str, Any], status: int, field: str | None
):
    refused = await post(http, path, body)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert (await http.get("/v1/pauses")).json() == {"pauses": []}


async def test_an_app_with_another_token_is_paused_and_not_resumed(http: httpx2.AsyncClient, store: DatabaseStore):
    await store.do(GuardApp("desk", hashes_of(["the token of another server"])))
    assert (await post(http, "/v1/pause", {"all": True, "app": "desk"})).status_code == 200
    refused = await post(http, "/v1/resume", {"all": True, "app": "desk"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:wakeful:problem:other-token")
    assert [one["paused"] for one in (await http.get("/v1/pauses")).json()["pauses"]] == [True]
