"""States over HTTP, on both stores: looked at, set and cleared with their author."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from support.apps import NewApp, go, working
from support.stores import query
from support.tokens import WITH_TOKEN
from surface.served import http_over
from wakeful import App, Run, on
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.stores.guards import hashes_of
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp

ADA = {"Wakeful-Operator": "ada"}


class Count(BaseModel):
    count: int = 0
    name: str = ""


def counting(app: App) -> App:
    @app.agent(on("go"), state=Count)
    async def counter(run: Run) -> None:
        run.state.count += 1

    @app.agent(on("other"))
    async def review(run: Run) -> None: ...

    return app


@pytest.fixture
async def http(new_app: NewApp, store: DatabaseStore) -> AsyncIterator[httpx2.AsyncClient]:
    """A server of the shop, on a store where the shop and the desk have counted one event each."""
    for name in ("desk", "shop"):
        async with working(counting(new_app(name))) as runtime:
            await go(runtime)
    side = AppSide(Declared(counting(new_app("shop"))), None, None, None, None, lambda: None)
    async with http_over(store, side) as client:
        yield client


async def kept(http: httpx2.AsyncClient, app: str = "shop") -> Any:
    (state,) = (await http.get(f"/v1/states/counter?app={app}")).json()["states"]
    return state["value"], state["version"], state["note"]


async def test_looking(http: httpx2.AsyncClient):
    both = (await http.get("/v1/states")).json()["states"]
    assert [(one["app"], one["agent"], one["key"], one["value"]) for one in both] == [
        (app, "counter", "", {"count": 1, "name": ""}) for app in ("desk", "shop")
    ]
    assert (await http.get("/v1/states?app=desk")).json() == {"states": both[:1]}
    assert (await http.get("/v1/states?key=x")).json() == {"states": []}
    assert (await http.get("/v1/states/counter")).json() == {"states": both}
    for path in ("/v1/states/review", "/v1/states/counter?app=gone"):
        absent = await http.get(path)
        assert (absent.status_code, absent.json()["detail"]) == (404, "there is no agent with a state of that name")


async def test_set_and_cleared_with_their_author(http: httpx2.AsyncClient, store_url: str):
    done = await http.put("/v1/states/counter", json={"value": {"count": 7}, "note": "moved"}, headers=ADA)
    assert done.json() == {"app": "shop", "agent": "counter", "version": 2}
    assert await kept(http) == ({"count": 7}, 2, "moved")
    done = await http.request("DELETE", "/v1/states/counter", json={"note": "anew"}, headers=ADA)
    assert done.json() == {"app": "shop", "agent": "counter", "version": 3}
    assert await kept(http) == (None, 3, "anew")
    assert (await http.delete("/v1/states/counter", headers=ADA | WITH_TOKEN)).json()["version"] == 4
    rows = await query(
        store_url, "select way, verb, app, target, detail from wakeful_operation where operator = 'ada' order by seq"
    )
    assert [tuple(row) for row in rows] == [
        ("http", "state set", "shop", "counter", "moved"),
        ("http", "state clear", "shop", "counter", "anew"),
        ("http", "state clear", "shop", "counter", None),
    ]


async def test_another_app_is_taken_as_it_is_where_it_is_known(http: httpx2.AsyncClient):
    assert (await http.put("/v1/states/counter", json={"value": "any", "app": "desk"})).json()["app"] == "desk"
    assert await kept(http, "desk") == ("any", 2, None)
    assert (await http.put("/v1/states/counter", json={"value": 1, "app": "gone"})).status_code == 404


@pytest.mark.parametrize(
    ("agent", "body", "status", "said"),
    [
        ("conuter", {"value": {}}, 404, 'Did you mean "counter"?'),
        ("review", {"value": {}}, 404, "agent review has no state"),
        ("counter", {}, 400, "value is missing"),
        ("counter", {"valeu": {}}, 400, 'Did you mean "value"?'),
        ("counter", {"value": {}, "note": 7}, 400, "note is text"),
        ("counter", {"value": {"count": "x", "name": 1}}, 422, "; name: Input should be a valid string"),
    ],
)
async def test_what_is_refused(http: httpx2.AsyncClient, agent: str, body: dict[str, Any], status: int, said: str):
    refused = await http.put(f"/v1/states/{agent}", json=body)
    assert (refused.status_code, said in refused.json()["detail"]) == (status, True)
    assert await kept(http) == ({"count": 1, "name": ""}, 1, None)


async def test_that_of_an_app_with_another_token_is_not_changed(http: httpx2.AsyncClient, store: DatabaseStore):
    await store.do(GuardApp("desk", hashes_of(["the token of another server"])))
    asked = [
        await http.put("/v1/states/counter", json={"value": 1, "app": "desk"}),
        await http.request("DELETE", "/v1/states/counter", json={"app": "desk"}),
    ]
    assert [(one.status_code, one.json()["type"].rpartition(":")[2]) for one in asked] == [(403, "other-token")] * 2
    assert (await kept(http, "desk"))[1] == 1
