"""Alarms over HTTP, on both stores: looked at, acknowledged, muted, resolved."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import query
from surface.served import http_over
from wakeful.clock import VirtualClock, duration, to_text
from wakeful.stores.alarm import Alarm
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.people import RaiseAlarm

KEY = "dead/desk/review/3f2a91"
PATH = f"/v1/alarms/{KEY}"
ADA = {"Wakeful-Operator": "ada"}


@pytest.fixture
async def alarmed(store: DatabaseStore) -> DatabaseStore:
    """A store with an alarm."""
    await store.do(RaiseAlarm(Alarm("desk", KEY, "a dead letter", "review", "platform")))
    return store


async def test_alarms_are_listed_and_shown(alarmed: DatabaseStore):
    async with http_over(alarmed) as http:
        (listed,) = (await http.get("/v1/alarms")).json()["alarms"]
        assert (listed["key"], listed["state"], listed["text"], listed["owner"]) == (
            KEY,
            "open",
            "a dead letter",
            "platform",
        )
        assert listed["subject"]
        assert listed["do"]
        assert (await http.get(PATH)).json() == {**listed, "changes": []}
        assert (await http.get("/v1/alarms?state=resolved")).json() == {"alarms": []}
        wrong = await http.get("/v1/alarms?state=shut")
        assert (wrong.status_code, wrong.json()["field"]) == (400, "state")
        assert (await http.get("/v1/alarms/nothing/there")).status_code == 404


async def test_a_listing_can_be_short(alarmed: DatabaseStore):
    await alarmed.do(RaiseAlarm(Alarm("desk", "full/desk", "no room")))
    async with http_over(alarmed) as http:
        assert len((await http.get("/v1/alarms")).json()["alarms"]) == 2
        assert len((await http.get("/v1/alarms?limit=1")).json()["alarms"]) == 1


async def test_one_is_changed_with_its_author(alarmed: DatabaseStore, store_url: str, clock: VirtualClock):
    async with http_over(alarmed) as http:
        muted = await http.post(f"{PATH}/mute", json={"for": "2h"}, headers=ADA)
        assert muted.json()["muted_until"] == to_text(clock.now() + duration("2h"))
        known = (await http.post(f"{PATH}/acknowledge", json={"note": "on it"}, headers=ADA)).json()
        assert (known["state"], known["acknowledged_by"], known["note"]) == ("acknowledged", "ada", "on it")
        over = (await http.post(f"{PATH}/resolve", json={}, headers=ADA)).json()
    assert over["state"] == "resolved"
    assert [(one["verb"], one["by"], one["note"]) for one in over["changes"]] == [
        ("resolve", "ada", None),
        ("acknowledge", "ada", "on it"),
        ("mute", "ada", "for 2 h 0 m"),
    ]
    rows = await query(store_url, "select operator, way, verb, app, target from wakeful_operation order by seq")
    assert [tuple(row) for row in rows] == [
        ("ada", "http", f"alarm {verb}", "desk", KEY) for verb in ("mute", "acknowledge", "resolve")
    ]


@pytest.mark.parametrize("body", [{}, {"for": "soon"}, {"for": "1ms"}])
async def test_muting_takes_how_long(alarmed: DatabaseStore, body: dict[str, Any]):
    async with http_over(alarmed) as http:
        refused = await http.post(f"{PATH}/mute", json=body)
    assert (refused.status_code, refused.json()["field"]) == (400, "for")


async def test_what_is_refused(alarmed: DatabaseStore):
    async with http_over(alarmed) as http:
        assert (await http.post("/v1/alarms/nothing/resolve", json={})).status_code == 404
        assert (await http.post(f"{PATH}/acknowledge", json={"for": "2h"})).json()["field"] == "for"
        assert (await http.post(f"{PATH}/snooze", json={})).status_code == 405
        await http.post(f"{PATH}/resolve", json={})
        again = await http.post(f"{PATH}/resolve", json={})
    assert (again.status_code, again.json()["type"]) == (409, "urn:wakeful:problem:alarm-refuses")
    assert again.json()["detail"] == f"alarm {KEY} is already resolved: there is nothing to resolve"
