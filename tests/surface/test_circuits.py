"""Circuits and locks over HTTP, on both stores."""

from __future__ import annotations

from dataclasses import replace

from support.stores import query
from surface.served import http_over
from wakeful.clock import SECOND
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.circuits import ChangeCircuit, CircuitChange, StoredCircuit


async def fail(store: DatabaseStore, app: str, name: str) -> None:
    def down(circuit: StoredCircuit) -> CircuitChange:
        return CircuitChange(replace(circuit, state="open", failures=1, error="refused", opened_at=circuit.now))

    await store.do(ChangeCircuit(app, name, SECOND, down))


async def test_circuits_are_listed_shown_and_closed(store: DatabaseStore, store_url: str):
    await fail(store, "shop", "stripe")
    async with http_over(store) as http:
        (listed,) = (await http.get("/v1/circuits")).json()["circuits"]
        assert (listed["app"], listed["name"], listed["state"], listed["rest"]) == ("shop", "stripe", "open", 1.0)
        assert (await http.get("/v1/circuits?app=desk")).json() == {"circuits": []}
        assert (await http.get("/v1/circuits/stripe")).json() == listed
        planned = await http.post("/v1/circuits/stripe/close", json={"plan": True})
        assert planned.json() == {
            "app": "shop",
            "name": "stripe",
            "state": "open",
            "parked": 0,
            "waiting": 0,
            "closes": True,
        }
        assert (await http.get("/v1/circuits/stripe")).json()["state"] == "open"
        headers = {"Wakeful-Operator": "ada"}
        done = await http.post("/v1/circuits/stripe/close", json={"note": "it is back"}, headers=headers)
        assert done.json() == {"app": "shop", "name": "stripe", "state": "closed"}
    rows = await query(store_url, "select operator, way, verb, app, target, detail from wakeful_operation")
    assert [tuple(row) for row in rows] == [("ada", "http", "circuit close", "shop", "stripe", "it is back")]


async def test_a_name_that_several_apps_have(store: DatabaseStore):
    await fail(store, "shop", "channel:ops")
    await fail(store, "desk", "channel:ops")
    async with http_over(store) as http:
        refused = await http.post("/v1/circuits/channel:ops/close", json={})
        assert (refused.status_code, refused.json()["field"]) == (409, "app")
        closed = await http.post("/v1/circuits/channel:ops/close?app=desk", json={})
        assert closed.json()["state"] == "closed"
        assert (await http.post("/v1/circuits/nothing/close", json={})).status_code == 404


async def test_locks_are_listed(store: DatabaseStore):
    async with http_over(store) as http:
        assert (await http.get("/v1/locks")).json() == {"locks": []}
        assert (await http.get("/v1/locks?name=x")).status_code == 400
