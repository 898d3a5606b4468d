"""Reminders over HTTP, with a real store: made, listed, moved, cancelled, and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from support.apps import pass_time, working
from support.tokens import TOKEN
from wakeful import App, VirtualClock
from wakeful.runtime import Runtime

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 11, 15, 16, 0, tzinfo=UTC))


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


async def test_its_whole_life(app: App):
    async with served(app) as (runtime, http):
        wanted = {"when": "tomorrow 9am", "text": "call the bank", "tz": "Europe/London", "unless": "paid"}
        made = (await http.post("/v1/reminders", json=wanted)).json()
        assert (made["due_at"], made["state"], made["made_by"]) == ("2026-11-16T09:00:00Z", "pending", "ada")
        path = f"/v1/reminders/{made['id']}"
        moved = (await http.patch(path, json={"when": "in 2 hours", "note": "sooner"})).json()
        assert moved["due_at"] == "2026-11-15T18:00:00Z"
        assert [(one["verb"], one["note"]) for one in moved["history"]] == [("add", None), ("move", "sooner")]
        other = (await http.post("/v1/reminders", json={"when": "in 3 hours", "text": "tea"})).json()
        gone = (await http.request("DELETE", f"/v1/reminders/{other['id']}", json={"note": "no tea"})).json()
        assert (gone["state"], gone["reason"]) == ("cancelled", "cancelled by ada")
        listed = (await http.get("/v1/reminders", params={"state": "pending"})).json()
        assert [one["id"] for one in listed["reminders"]] == [made["id"]]
        await pass_time(runtime, "2h")
        assert (await http.get(path)).json()["state"] == "told"
        late = await http.patch(path, json={"when": "in 2 hours"})
        assert (late.status_code, late.json()["type"]) == (409, "urn:wakeful:problem:too-late")
        assert (await http.delete(path)).status_code == 409
        story = (await http.get(f"/v1/why/{made['id']}")).json()
        assert story["subject"] == {"kind": "reminder", "id": made["id"]}


async def test_asking_again_with_an_id_of_ones_own_is_safe(app: App):
    async with served(app) as (_, http):
        wanted = {"when": "in 20 minutes", "text": "tea", "id": "tea-1"}
        first = (await http.post("/v1/reminders", json=wanted)).json()
        assert (await http.post("/v1/reminders", json=wanted)).json() == first
        other = await http.post("/v1/reminders", json={**wanted, "text": "coffee"})
        assert (other.status_code, other.json()["field"]) == (422, "id")


@pytest.mark.parametrize(
    ("body", "status", "field", "detail"),
    [
        ({"text": "tea"}, 400, "when", "when is missing"),
        ({"when": "at 5pm"}, 400, "text", "text is missing"),
        ({"when": "at 5pm", "text": "tea", "unles": "x"}, 400, "unles", "Did you mean"),
        ({"when": "at 3", "text": "tea"}, 422, "when", "3 am or 3 pm?"),
        ({"when": "at 3pm", "text": "tea"}, 422, "when", 'is past: write "tomorrow 3pm"'),
        ({"when": "at 5pm", "text": "tea", "tz": "Londn"}, 422, None, "there is no zone"),
        ({"when": "at 5pm", "text": "tea", "to": "nobody"}, 422, None, 'no channel "nobody"'),
        ({"when": "at 5pm", "text": "tea", "where": "data.x"}, 422, None, "unless="),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    app: App, body: dict[str, Any], status: int, field: str | None, detail: str
):
    async with served(app) as (_, http):
        refused = await http.post("/v1/reminders", json=body)
        problem = refused.json()
        assert (refused.status_code, problem.get("field")) == (status, field)
        assert detail in problem["detail"]
        assert (await http.get("/v1/reminders")).json() == {"reminders": [], "next": None}


async def test_only_with_the_token(app: App):
    async with served(app) as (_, http):
        body = {"when": "in 20 minutes", "text": "tea"}
        assert (await http.post("/v1/reminders", json=body, headers={"Authorization": "x"})).status_code == 401
        assert (await http.get("/v1/reminders/r-nothing")).status_code == 404
        assert (await http.patch("/v1/reminders/r-nothing", json={"when": "at 5pm"})).status_code == 404
        assert (await http.get("/v1/reminders", params={"state": "asleep"})).status_code == 400
