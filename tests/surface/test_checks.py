"""Checks of heartbeats over HTTP, on both stores: listed, and run now with their author."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from support.apps import NewApp, working
from support.stores import query
from surface.served import http_over
from wakeful import Check, Run
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.runtime import Runtime
from wakeful.stores.store import DatabaseStore

ADA = {"Wakeful-Operator": "ada"}


async def checklist(run: Run, check: Check) -> str | None:
    return f"about {check.title}"


@pytest.fixture
async def desk(new_app: NewApp, tmp_path: Path):
    """A worker that has read the file of its heartbeat."""
    (tmp_path / "HEARTBEAT.md").write_text("## Mail\nevery: 2h\n")
    app = new_app("desk")
    app.heartbeat(str(tmp_path / "HEARTBEAT.md"), every="1h", checklist=checklist)
    async with working(app) as runtime:
        await runtime.drain()
        yield runtime


@pytest.fixture
async def http(desk: Runtime, store: DatabaseStore):
    side = AppSide(Declared(desk.app), desk.schedules, None, None, None, lambda: None)
    async with http_over(store, side) as client:
        yield client


async def test_one_is_listed_and_run_with_its_author(http: httpx2.AsyncClient, desk: Runtime, store_url: str):
    (mail,) = (await http.get("/v1/checks?app=desk")).json()["checks"]
    assert (mail["name"], mail["title"], mail["state"], mail["last_at"]) == ("heartbeat/mail", "Mail", "live", None)
    assert (await http.get("/v1/checks?app=other")).json() == {"checks": []}
    done = await http.post("/v1/checks/heartbeat/mail/run", json={"note": "look"}, headers=ADA)
    assert done.status_code == 200
    await desk.drain()
    (mail,) = (await http.get("/v1/checks")).json()["checks"]
    assert (mail["result"], mail["text"], mail["run"]) == ("told", "about Mail", done.json()["run"])
    rows = await query(store_url, "select operator, way, verb, app, target from wakeful_operation order by seq")
    assert [tuple(row) for row in rows] == [("ada", "http", "schedule fire", "desk", "heartbeat/mail")]


async def test_by_its_own_name_alone_and_one_that_there_is_not(http: httpx2.AsyncClient):
    assert (await http.post("/v1/checks/mail/run", json={})).json()["check"] == "heartbeat/mail"
    refused = await http.post("/v1/checks/mial/run", json={})
    assert refused.status_code == 404
    assert 'app desk has no check "mial". Did you mean "mail"?' in refused.json()["detail"]
