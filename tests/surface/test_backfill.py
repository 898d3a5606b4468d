"""Backfill over HTTP, on both stores: counted, done once, and recorded with its author."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.stores import query
from surface.served import http_over
from wakeful import App, Run
from wakeful.clock import VirtualClock
from wakeful.runtime import running
from wakeful.surface.performing import side_of
from wakeful.triggers.every import every

ADA = {"Wakeful-Operator": "ada"}
DAY = {"agent": "report", "from": "2025-11-01", "to": "2025-11-02"}


@pytest.fixture
async def http(clock: VirtualClock, store_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    app = App("desk", clock=clock)

    @app.agent(every("1h"))
    async def report(run: Run) -> None: ...

    @app.agent(every("1h"), every("2h", name="slow"))
    async def two(run: Run) -> None: ...

    async with (
        running(app, worker=False, store=store_url) as runtime,
        http_over(runtime.store, side_of(runtime, "app.py")) as http,
    ):
        yield http


async def fill(http: httpx2.AsyncClient, **more: Any) -> httpx2.Response:
    return await http.post("/v1/backfill", json=DAY | more, headers=ADA)


async def test_a_plan_counts_and_does_nothing(http: httpx2.AsyncClient, store_url: str):
    assert (await fill(http, plan=True)).json() == {
        "agent": "report",
        "schedule": "report",
        "instants": 24,
        "done": 0,
        "new": 24,
        "first": "2025-11-01T00:00:00Z",
        "last": "2025-11-01T23:00:00Z",
        "to_come": 0,
    }
    assert await query(store_url, "select * from wakeful_run") == []
    assert await query(store_url, "select * from wakeful_operation") == []


async def test_each_instant_becomes_one_run(http: httpx2.AsyncClient, store_url: str):
    told = {"agent": "report", "schedule": "report", "denied": 0, "stopped": False}
    assert (await fill(http, note="the night was lost")).json() == told | {"made": 24, "of": 24, "done": 0}
    assert (await fill(http)).json() == told | {"made": 0, "of": 0, "done": 24}
    ((runs,),) = await query(store_url, "select count(*) from wakeful_run")
    assert runs == 24
    rows = await query(store_url, "select operator, way, verb, app, target, detail from wakeful_operation order by seq")
    span = "schedule report from 2025-11-01T00:00:00Z until 2025-11-02T00:00:00Z"
    assert [tuple(row) for row in rows] == [
        ("ada", "http", "backfill", "desk", "report", f"24 of 24 occurrences, {span}: the night was lost"),
        ("ada", "http", "backfill", "desk", "report", f"0 of 0 occurrences, {span}"),
    ]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"from": None}, 400, "from"),
        ({"from": "sometime"}, 400, "from"),
        ({"to": "sometime"}, 400, "to"),
        ({"from": "2025-11-03"}, 400, "from"),
        ({"rate": "fast"}, 400, "rate"),
        ({"until": "now"}, 400, "until"),
        ({"agent": "reprot"}, 404, None),
        ({"schedule": "reprot"}, 404, None),
        ({"agent": "two"}, 404, None),
        ({"from": "2025-01-01"}, 409, None),
    ],
)
async def test_what_is_refused(
    http: httpx2.AsyncClient, store_url: str, body: dict[str, Any], status: int, field: str | None
):
    refused = await fill(http, **body)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert await query(store_url, "select * from wakeful_run") == []


async def test_many_are_done_where_they_are_meant(http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wakeful.surface.http.LONGEST_SLICE", 600.0)
    refused = await fill(http, **{"from": "2025-09-01"})
    assert refused.json()["type"] == "urn:wakeful:problem:too-many"
    assert refused.json()["detail"].startswith("1,488 occurrences are more than 1,000")
    done = (await fill(http, **{"from": "2025-09-01", "yes": True, "rate": "max"})).json()
    assert (done["made"], done["of"], done["stopped"]) == (1488, 1488, False)


async def test_a_request_that_takes_too_long_leaves_the_rest_to_the_next(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("wakeful.surface.http.LONGEST_SLICE", 0.0)
    cut = (await fill(http)).json()
    assert (cut["made"], cut["of"], cut["stopped"]) == (0, 24, True)
    monkeypatch.setattr("wakeful.surface.http.LONGEST_SLICE", 600.0)
    assert (await fill(http)).json()["made"] == 24
