"""Schedules over HTTP, on both stores: looked at, made, edited, paused, fired and removed, each with its author."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.stores import query
from surface.served import http_over
from wakeful import App, Run
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime, running
from wakeful.stores.guards import hashes_of
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp
from wakeful.surface.performing import side_of
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every
from wakeful.triggers.on import on
from wakeful.triggers.schedules import Schedules

ADA = {"Wakeful-Operator": "ada"}
BOB = Actor("bob", "code")


@pytest.fixture
async def runtime(clock: VirtualClock, store_url: str) -> AsyncIterator[Runtime]:
    """An app with a schedule of its code, and one that was made at run time."""
    app = App("shop", clock=clock)

    @app.agent(cron("0 2 * * *"))
    async def nightly(run: Run) -> None: ...

    @app.agent(on("order.created"))
    async def review(run: Run, amount: int) -> None: ...

    async with running(app, worker=False, store=store_url) as runtime:
        await runtime.schedules.enter(app.agents)
        await runtime.schedules.add("morning", cron("0 8 * * *", tz="Europe/London"), "review", data=7, by=BOB)
        yield runtime


@pytest.fixture
async def http(runtime: Runtime) -> AsyncIterator[httpx2.AsyncClient]:
    async with http_over(runtime.store, side_of(runtime, "app.py")) as http:
        yield http


async def delete(http: httpx2.AsyncClient, path: str) -> httpx2.Response:
    return await http.request("DELETE", path, json={}, headers=ADA)


async def authors(store_url: str) -> list[tuple[Any, ...]]:
    rows = await query(store_url, "select operator, way, verb, app, target, detail from wakeful_operation order by seq")
    return [tuple(row) for row in rows]


async def test_looking(http: httpx2.AsyncClient):
    page = (await http.get("/v1/schedules?state=live&all=true")).json()
    assert ([one["name"] for one in page["schedules"]], page["next"]) == (["morning", "nightly"], None)
    shown = (await http.get("/v1/schedules/morning")).json()
    assert (shown["rule"], shown["data"], shown["origin"]) == ('cron("0 8 * * *", tz="Europe/London")', 7, "runtime")
    assert [(one["verb"], one["operator"]) for one in shown["changes"]] == [("add", "bob")]
    assert (await http.get("/v1/schedules?limit=1")).json()["next"] is not None
    coming = (await http.get("/v1/schedules/morning/next?count=3")).json()
    assert len(coming["next"]) == 3
    assert coming["next"][0]["zone"] == "Europe/London"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/schedules?name=x", "name"),
        ("/v1/schedules?state=dead", "state"),
        ("/v1/schedules?all=yes", "all"),
        ("/v1/schedules?after=x", "after"),
        ("/v1/schedules/morning/next?count=0", "count"),
        ("/v1/schedules/morning/next?count=many", "count"),
    ],
)
async def test_bad_parameters(http: httpx2.AsyncClient, path: str, field: str):
    refused = await http.get(path)
    assert (refused.status_code, refused.json()["field"]) == (400, field)


async def test_there_is_none_to_look_at(http: httpx2.AsyncClient):
    assert (await http.get("/v1/schedules/nothing")).status_code == 404
    assert (await http.get("/v1/schedules/nothing/next")).status_code == 404


async def test_adding(http: httpx2.AsyncClient, store_url: str):
    body = {"name": "late", "agent": "review", "every": "30m", "tz": "Europe/London", "grace": "5m", "data": 3}
    made = (await http.post("/v1/schedules", json={**body, "note": "x"}, headers=ADA)).json()
    assert (made["name"], made["data"], made["options"]["grace"]) == ("late", 3, 300.0)
    assert made["rule"] == 'every("30m", tz="Europe/London")'
    assert await authors(store_url) == [("ada", "http", "schedule add", "shop", "late", "x")]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"agent": "review", "every": "1h"}, 400, "name"),
        ({"name": "a/b", "agent": "review", "every": "1h"}, 400, "name"),
        ({"name": "x", "every": "1h"}, 400, "agent"),
        ({"name": "x", "agent": "review"}, 400, "cron"),
        ({"name": "x", "agent": "review", "cron": "0 8 * *"}, 400, "cron"),
        ({"name": "x", "agent": "review", "every": "1h", "cron": "0 8 * * *"}, 400, "cron"),
        ({"name": "x", "agent": "review", "every": "1h", "tz": "Europe/Lundon"}, 400, "every"),
        ({"name": "x", "agent": "review", "at": "2099-01-01", "days": "mon"}, 400, "at"),
        ({"name": "x", "agent": "review", "every": "1h", "max_count": "7"}, 400, "max_count"),
        ({"name": "x", "agent": "review", "every": "1h", "overlap": "skpi"}, 400, "overlap"),
        ({"name": "x", "agent": "reviev", "every": "1h"}, 404, None),
        ({"name": "x", "agent": "review", "every": "1h", "data": "seven"}, 422, "data"),
        ({"name": "x", "agent": "review", "at": "1970-01-01", "data": 1}, 409, None),
        ({"name": "morning", "agent": "review", "every": "1h", "data": 1}, 409, None),
    ],
)
async def test_what_cannot_be_added(
    http: httpx2.AsyncClient, store_url: str, body: dict[str, Any], status: int, field: str | None
):
    refused = await http.post("/v1/schedules", json=body)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert await authors(store_url) == []


async def test_editing_changes_only_what_is_given(http: httpx2.AsyncClient, store_url: str):
    first = await http.patch("/v1/schedules/morning", json={"tz": "America/New_York", "jitter": "10s"}, headers=ADA)
    assert first.json()["rule"] == 'cron("0 8 * * *", tz="America/New_York")'
    assert (first.json()["options"]["jitter"], first.json()["data"]) == (10.0, 7)
    second = (await http.patch("/v1/schedules/morning", json={"jitter": None, "data": 9}, headers=ADA)).json()
    assert (second["options"]["jitter"], second["data"], second["revision"]) == (0.0, 9, 3)
    assert await authors(store_url) == [("ada", "http", "schedule edit", "shop", "morning", None)] * 2


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("morning", {}, 400, "no change is given"),
        ("morning", {"cron": None}, 400, "cron cannot be removed"),
        ("morning", {"agent": "reviev"}, 404, 'Did you mean "review"?'),
        ("mornig", {"jitter": "1s"}, 404, 'app shop has no schedule "mornig". Did you mean "morning"?'),
        ("morning", {"data": "seven"}, 422, "the edited data"),
        ("nightly", {"jitter": "1s"}, 409, "declared with agent nightly ("),
    ],
)
async def test_what_cannot_be_edited(
    http: httpx2.AsyncClient, store_url: str, name: str, body: dict[str, Any], status: int, said: str
):
    refused = await http.patch(f"/v1/schedules/{name}", json=body)
    assert refused.status_code == status
    assert said in refused.json()["detail"]
    assert await authors(store_url) == []


async def test_the_other_verbs(http: httpx2.AsyncClient, store_url: str):
    paused = await http.post("/v1/schedules/nightly/pause", json={"note": "too loud"}, headers=ADA)
    assert paused.json()["state"] == "paused"
    assert (await http.post("/v1/schedules/nightly/pause", json={})).status_code == 409
    assert (await http.post("/v1/schedules/nightly/resume", json={}, headers=ADA)).json()["state"] == "live"
    fired = (await http.post("/v1/schedules/morning/fire", json={}, headers=ADA)).json()
    assert (fired["app"], fired["name"], fired["status"], len(fired["runs"])) == ("shop", "morning", "accepted", 1)
    assert (await delete(http, "/v1/schedules/morning")).json()["state"] == "removed"
    assert (await delete(http, "/v1/schedules/morning")).status_code == 404
    assert await authors(store_url) == [
        ("ada", "http", "schedule pause", "shop", "nightly", "too loud"),
        ("ada", "http", "schedule resume", "shop", "nightly", None),
        ("ada", "http", "schedule fire", "shop", "morning", None),
        ("ada", "http", "schedule remove", "shop", "morning", None),
    ]


async def test_a_reminder_is_changed_by_its_own_noun(http: httpx2.AsyncClient, store_url: str):
    made = await http.post("/v1/reminders", json={"when": "in 2 hours", "text": "tea", "id": "tea-1"}, headers=ADA)
    assert made.status_code == 200
    refused = await http.post("/v1/schedules/tea-1/pause", json={})
    assert refused.status_code == 409
    assert "is a reminder" in refused.json()["detail"]
    await http.patch("/v1/reminders/tea-1", json={"when": "in 3 hours", "note": "later"}, headers=ADA)
    await delete(http, "/v1/reminders/tea-1")
    assert await authors(store_url) == [
        ("ada", "http", "reminder add", "shop", "tea-1", None),
        ("ada", "http", "reminder move", "shop", "tea-1", "later"),
        ("ada", "http", "reminder remove", "shop", "tea-1", None),
    ]


async def test_those_of_another_app_are_named(http: httpx2.AsyncClient, store: DatabaseStore, store_url: str):
    """As on the command line. Only the code of an app can fire its schedules."""
    await Schedules("desk", store).add("morning", every("1h"), "digest", by=BOB)
    assert (await http.get("/v1/schedules/morning")).json()["app"] == "shop"
    assert (await http.get("/v1/schedules/morning?app=desk")).json()["agent"] == "digest"
    paused = await http.post("/v1/schedules/morning/pause?app=desk", json={}, headers=ADA)
    assert (paused.json()["app"], paused.json()["state"]) == ("desk", "paused")
    refused = await http.post("/v1/schedules/morning/fire?app=desk", json={})
    assert refused.status_code == 409
    assert "only a process that has the app can fire it" in refused.json()["detail"]
    assert await authors(store_url) == [("ada", "http", "schedule pause", "desk", "morning", None)]


async def test_those_of_an_app_with_another_token_are_not_changed(
    http: httpx2.AsyncClient, store: DatabaseStore, store_url: str
):
    await Schedules("desk", store).add("morning", every("1h"), "digest", by=BOB)
    await store.do(GuardApp("desk", hashes_of(["the token of another server"])))
    asked = [
        await http.post("/v1/schedules/morning/pause?app=desk", json={}),
        await http.post("/v1/schedules/morning/resume?app=desk", json={}),
        await http.patch("/v1/schedules/morning?app=desk", json={"every": "2h"}),
        await delete(http, "/v1/schedules/morning?app=desk"),
        await http.post("/v1/schedules", json={"name": "x", "agent": "digest", "every": "1h", "app": "desk"}),
    ]
    assert [(one.status_code, one.json()["type"].rpartition(":")[2]) for one in asked] == [(403, "other-token")] * 5
    assert (await http.get("/v1/schedules/morning?app=desk")).json()["revision"] == 1
    assert await authors(store_url) == []
