"""Schedules over HTTP, with real ones on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, pass_time, working
from support.tokens import TOKEN
from wakeful import App, Run
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime
from wakeful.triggers.every import every

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


async def test_a_life(app: App):
    taken: list[Any] = []

    @app.agent(every("1h"))
    async def count(run: Run) -> None:
        taken.append(run.event.data)

    async with served(app) as (runtime, http):
        body = {"name": "often", "agent": "count", "every": "10m", "data": 7, "note": "more"}
        made = (await http.post("/v1/schedules", json=body)).json()
        assert (made["state"], made["next"]["at"], made["data"]) == ("live", "2026-01-01T00:10:00Z", 7)
        assert (await http.post("/v1/schedules", json=body)).status_code == 409
        await pass_time(runtime, "10m")
        edited = (await http.patch("/v1/schedules/often", json={"data": 8})).json()
        assert (edited["data"], edited["revision"], edited["rule"]) == (8, 2, made["rule"])
        await pass_time(runtime, "10m")
        assert (await http.post("/v1/schedules/often/pause", json={"note": "enough"})).json()["state"] == "paused"
        await pass_time(runtime, "10m")
        fired = (await http.post("/v1/schedules/often/fire")).json()
        await runtime.drain()
        run = (await http.get(f"/v1/runs/{fired['runs'][0]}")).json()
        assert (run["state"], run["scheduled"]["schedule"]) == ("done", "often")
        assert (await http.post("/v1/schedules/often/resume")).json()["next"]["at"] == "2026-01-01T00:40:00Z"
        assert (await http.get("/v1/schedules/often/next?count=2")).json()["next"][1]["at"] == "2026-01-01T00:50:00Z"
        removed = (await http.request("DELETE", "/v1/schedules/often", json={"note": "over"})).json()
        assert [row["state"] for row in removed["occurrences"]] == ["fired", "skipped", "fired", "fired"]
        assert [(one["verb"], one["operator"], one["note"]) for one in reversed(removed["changes"])] == [
            ("add", "ada", "more"),
            ("edit", "ada", None),
            ("pause", "ada", "enough"),
            ("fire", "ada", None),
            ("resume", "ada", None),
            ("remove", "ada", "over"),
        ]
        assert [one["name"] for one in (await http.get("/v1/schedules")).json()["schedules"]] == ["count"]
        refused = await http.patch("/v1/schedules/count", json={"every": "2h"})
        assert refused.status_code == 409
        assert "test_schedules_over_http.py:" in refused.json()["detail"]
        story = (await http.get("/v1/why/count")).json()
        assert story["subject"] == {"kind": "schedule", "id": "count"}
    assert taken == [7, 8, 8]


async def test_those_of_another_app_are_only_looked_at(app: App, new_app: NewApp):
    other = new_app("desk")

    @other.agent(every("1h"))
    async def count(run: Run) -> None: ...

    async with served(app) as (_, http), working(other):
        assert (await http.get("/v1/schedules?app=desk")).json()["schedules"][0]["app"] == "desk"
        assert (await http.get("/v1/schedules/count?app=desk")).status_code == 200
        assert (await http.get("/v1/schedules/count")).status_code == 404
        assert (await http.post("/v1/schedules/count/pause")).status_code == 404
