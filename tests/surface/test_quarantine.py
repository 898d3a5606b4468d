"""Quarantine over HTTP, on both stores: looked at, released after a fix, discarded; one of them, or all of a source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, working
from support.stores import query
from support.tape import Outside
from surface.served import http_over
from wakeful import Run
from wakeful.operations.declared import Declared
from wakeful.resources.desk import AppSide
from wakeful.runtime import Runtime
from wakeful.triggers.releasing import Releasing

ADA = {"Wakeful-Operator": "ada"}
NAME = "tape.txt"
STAYS = {"reason": f"tape {NAME}: it contains no event: discard it", "count": 1}


@pytest.fixture
def tape(tmp_path: Path) -> Outside:
    return Outside(tmp_path / NAME)


@pytest.fixture
async def runtime(new_app: NewApp, tape: Outside) -> AsyncIterator[Runtime]:
    """An app whose source brought one event, and three inputs that could not be read."""
    app = new_app()

    @app.agent(tape.trigger)
    async def note(run: Run) -> None: ...

    tape.write("a", "?b", "?c", "?")
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        yield runtime


def served(runtime: Runtime, releasing: Releasing | None) -> httpx2.AsyncClient:
    side = AppSide(Declared(runtime.app), None, None, None, None, lambda: releasing)
    return http_over(runtime.store, side)


@pytest.fixture
async def http(runtime: Runtime) -> AsyncIterator[httpx2.AsyncClient]:
    async with served(runtime, runtime.releasing) as client:
        yield client


async def inputs(http: httpx2.AsyncClient, **filters: Any) -> list[dict[str, Any]]:
    """In the order of their bytes: ?b, ?c, ?."""
    found: list[dict[str, Any]] = (await http.get("/v1/quarantine", params=filters)).json()["quarantine"]
    raw = {one["key"]: (await http.get(f"/v1/quarantine/{one['key']}")).json()["raw"] for one in found}
    return sorted(found, key=lambda one: str(raw[one["key"]]))


async def post(http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    return await http.post(f"/v1/quarantine/{path}", json=body, headers=ADA)


async def test_looking(http: httpx2.AsyncClient):
    first, second, third = await inputs(http, source=NAME, kind="unreadable", state="kept", app="app")
    page = (await http.get("/v1/quarantine?limit=2")).json()
    assert page["unverified"] == {"held": 0, "cut": []}
    rest = (await http.get(f"/v1/quarantine?after={page['next']}")).json()
    keys = [one["key"] for one in page["quarantine"] + rest["quarantine"]]
    assert sorted(keys) == sorted(one["key"] for one in (first, second, third))
    whole = (await http.get(f"/v1/quarantine/{first['key'][:8]}")).json()
    assert whole == {**first, "headers": {"line": "1", "Cookie": "(not kept)"}, "raw": "P2I=", "form": whole["form"]}
    assert (await http.get("/v1/quarantine/nothing")).status_code == 404
    for name in ("kind", "state", "after"):
        wrong = await http.get(f"/v1/quarantine?{name}=x")
        assert (wrong.status_code, wrong.json()["field"]) == (400, name)


async def test_one_is_released_after_a_fix_and_another_discarded(
    http: httpx2.AsyncClient, tape: Outside, store_url: str
):
    first, second, _ = await inputs(http)
    still = await post(http, f"{first['key']}/release", {})
    assert (still.status_code, still.json()["type"]) == (422, "urn:wakeful:problem:still-wrong")
    tape.mend()
    released = (await post(http, f"{first['key']}/release", {"note": "mended"})).json()
    assert (released["key"], released["state"]) == (first["key"], "released")
    assert [(one["id"], one["status"]) for one in released["events"]] == [("1", "accepted")]
    discarded = (await post(http, f"{second['key']}/discard", {"note": "noise"})).json()
    assert discarded == {"key": second["key"], "state": "discarded", "events": []}
    again = await post(http, f"{second['key']}/discard", {})
    assert (again.status_code, "was discarded by ada" in again.json()["detail"]) == (409, True)
    assert (await post(http, f"{second['key']}/discard", {"trust": True})).json()["field"] == "trust"
    assert (await post(http, "nothing/discard", {})).status_code == 404
    rows = await query(store_url, "select way, verb, app, target, detail from wakeful_operation order by seq")
    assert [tuple(row) for row in rows] == [
        ("http", "quarantine release", "app", first["key"], "mended"),
        ("http", "quarantine discard", "app", second["key"], "noise"),
    ]


async def test_all_of_a_source(http: httpx2.AsyncClient, tape: Outside, store_url: str):
    assert (await post(http, "release", {"filter": {"source": NAME}, "plan": True})).json() == {"count": 3}
    tape.mend()
    slow = (await post(http, "release", {"filter": {"source": NAME}, "rate": "6/m"})).json()
    assert (slow["done"] + slow["still_wrong"], slow["left"]) == (1, 2)
    rest = (await post(http, "release", {"filter": {"source": NAME, "after": slow["after"]}})).json()
    assert (slow["done"] + rest["done"], rest["left"], rest["known"]) == (2, 0, 0)
    assert slow["reasons"] + rest["reasons"] == [STAYS]
    over = await post(http, "release", {"filter": {"source": NAME, "after": rest["after"]}})
    assert over.status_code == 404
    gone = (await post(http, "discard", {"filter": {"source": NAME, "all": True}, "note": "noise"})).json()
    assert (gone["done"], gone["left"]) == (1, 0)
    assert [one["state"] for one in await inputs(http)] == ["released", "released", "discarded"]
    rows = await query(store_url, "select way, verb, target, detail from wakeful_operation order by seq desc limit 1")
    assert tuple(rows[0]) == ("http", "quarantine discard", NAME, "1 of 1: noise")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "filter"),
        ({"filter": {"all": True}}, 400, "filter"),
        ({"filter": {"source": NAME, "after": "x"}}, 400, "filter.after"),
        ({"filter": {"source": NAME, "kind": "odd"}}, 400, "filter.kind"),
        ({"filter": {"source": "other"}}, 404, None),
    ],
)
async def test_all_of_a_source_must_be_named(
    http: httpx2.AsyncClient, body: dict[str, Any], status: int, field: str | None
):
    for verb in ("release", "discard"):
        refused = await post(http, verb, body)
        assert (refused.status_code, refused.json().get("field")) == (status, field)


async def test_releasing_takes_an_app_that_runs_and_has_the_source(runtime: Runtime, http: httpx2.AsyncClient):
    key = (await inputs(http))[0]["key"]
    async with served(runtime, None) as stopped:
        assert (await post(stopped, f"{key}/release", {})).status_code == 503
    for app, status, said in (("app", 422, f"no longer has the source {NAME}"), ("desk", 409, "belongs to app app")):
        releasing = Releasing(app, lambda *_, **__: pytest.fail("nothing is to arrive"), lambda _: None, lambda: None)
        async with served(runtime, releasing) as other:
            refused = await post(other, f"{key}/release", {})
            assert (refused.status_code, said in refused.json()["detail"]) == (status, True)
