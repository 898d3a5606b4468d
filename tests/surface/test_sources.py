"""Sources over HTTP, on both stores: how each is, and one that is forgotten."""

from __future__ import annotations

import pytest

from support.stores import join, query
from surface.served import http_over
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.sources import EnterSources, HoldSource

ADA = {"Wakeful-Operator": "ada"}
NAME = "inbox/*.md"
PATH = f"/v1/sources/{NAME}"


@pytest.fixture
async def entered(store: DatabaseStore) -> DatabaseStore:
    await store.do(EnterSources("shop", [(NAME, "files"), ("orders", "tape")], {NAME: ["review"]}))
    await store.do(EnterSources("desk", [("orders", "tape")]))
    return store


async def test_are_listed_by_app_and_name(entered: DatabaseStore):
    async with http_over(entered) as http:
        listed = (await http.get("/v1/sources")).json()["sources"]
        assert [(one["app"], one["name"]) for one in listed] == [("desk", "orders"), ("shop", NAME), ("shop", "orders")]
        assert (listed[1]["kind"], listed[1]["state"], listed[1]["agents"]) == ("files", "idle", ["review"])
        assert (listed[1]["holder"], listed[1]["servers"], listed[1]["cut"]) == (None, [], None)
        assert listed[1]["unread"] == "not read: no worker of app shop is alive"
        assert (await http.get("/v1/sources?app=desk")).json()["sources"] == listed[:1]
        assert (await http.get("/v1/sources?state=failing")).json() == {"sources": []}
        wrong = await http.get("/v1/sources?state=failng")
    assert wrong.status_code == 400
    assert 'Did you mean "failing"?' in wrong.json()["detail"]


async def test_one_of_them(entered: DatabaseStore):
    async with http_over(entered) as http:
        shown = (await http.get(PATH, params={"app": "shop"})).json()
        (listed,) = [one for one in (await http.get("/v1/sources")).json()["sources"] if one["name"] == NAME]
        assert shown == {**listed, "cursor": None, "token": 0, "items": 0, "alarms": []}
        several = await http.get("/v1/sources/orders")
        assert several.status_code == 404
        assert "is in several apps (desk, shop)" in several.json()["detail"]
        assert (await http.get("/v1/sources/other")).status_code == 404


async def test_one_is_forgotten_with_its_author(entered: DatabaseStore, store_url: str):
    async with http_over(entered) as http:
        done = await http.post(f"{PATH}/forget", json={"note": "gone"}, headers=ADA)
        assert done.json() == {"source": NAME, "app": "shop", "forgotten": True}
        assert (await http.get(PATH)).status_code == 404
        assert (await http.post(f"{PATH}/forget", json={})).status_code == 404
        of_desk = await http.post("/v1/sources/orders/forget?app=desk", json={}, headers=ADA)
        assert of_desk.json()["app"] == "desk"
    rows = await query(store_url, "select operator, way, verb, app, target, detail from wakeful_operation order by seq")
    assert [tuple(row) for row in rows] == [
        ("ada", "http", "sources forget", "shop", NAME, "gone"),
        ("ada", "http", "sources forget", "desk", "orders", None),
    ]


async def test_one_that_is_read_is_not_forgotten(entered: DatabaseStore, store_url: str):
    member = await join(entered)
    assert await member.store.do(HoldSource("shop", NAME, member.process)) is not None
    async with http_over(entered) as http:
        refused = await http.post(f"{PATH}/forget", json={})
        assert (await http.get(PATH)).json()["holder"]["alive"] is True
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:wakeful:problem:source-is-read")
    assert await query(store_url, "select * from wakeful_operation") == []
