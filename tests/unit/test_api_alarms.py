"""Alarms over HTTP: looked at by anybody on this machine, changed with the token; and a server that says when it is not ready."""

from __future__ import annotations

from typing import Any

import pytest

from support.fake_api import ALARM, Api, assert_problem
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.api.security import ApiSettings
from wakeful.clock import duration

KEY = ALARM["key"]


@pytest.fixture
def api() -> Api:
    return Api(ApiSettings(token=TOKEN))


def post(api: Api, path: str, body: dict[str, Any] | None = None) -> Any:
    return api.client.post(path, json=body or {}, headers={**WITH_TOKEN, "Wakeful-Operator": "ada"})


def test_looking(api: Api):
    assert api.client.get("/v1/alarms", headers=WITH_TOKEN).json() == {"alarms": []}
    assert api.client.get(f"/v1/alarms/{KEY}", headers=WITH_TOKEN).json()["text"] == "a dead letter"
    assert_problem(api.client.get("/v1/alarms/nothing/there", headers=WITH_TOKEN), 404)
    assert_problem(api.client.get("/v1/alarms?state=shut", headers=WITH_TOKEN), 400, field="state")


def test_changing(api: Api):
    assert post(api, f"/v1/alarms/{KEY}/acknowledge", {"note": "on it"}).status_code == 200
    assert post(api, f"/v1/alarms/{KEY}/mute", {"for": "2h"}).status_code == 200
    assert post(api, f"/v1/alarms/{KEY}/resolve").status_code == 200
    first, second, third = api.store.alarmed
    assert (first.key, first.verb, first.by.name, first.note) == (KEY, "acknowledge", "ada", "on it")
    assert (second.verb, second.span) == ("mute", duration("2h"))
    assert third.verb == "resolve"
    assert [(one.verb, one.target, one.detail) for one in api.store.operations] == [
        ("alarm acknowledge", KEY, "on it"),
        ("alarm mute", KEY, "for 2 h 0 m"),
        ("alarm resolve", KEY, None),
    ]


@pytest.mark.parametrize("body", [{}, {"for": "soon"}, {"for": "1ms"}])
def test_muting_takes_how_long(api: Api, body: dict[str, Any]):
    assert_problem(post(api, f"/v1/alarms/{KEY}/mute", body), 400, field="for")


def test_what_is_refused(api: Api):
    assert_problem(post(api, "/v1/alarms/nothing/resolve"), 404)
    assert_problem(post(api, f"/v1/alarms/{KEY}/acknowledge", {"for": "2h"}), 400, field="for")
    assert_problem(post(api, f"/v1/alarms/{KEY}/snooze"), 405)
    without = Api()
    assert_problem(without.client.post(f"/v1/alarms/{KEY}/resolve", json={}), 403)
    assert without.store.alarmed == []


def test_a_server_whose_parts_do_not_look_any_more_is_not_ready(api: Api):
    assert api.client.get("/readyz", headers=WITH_TOKEN).status_code == 200
    api.silent = {"scheduler": 75.2, "worker": float("inf")}
    answer = api.client.get("/readyz", headers=WITH_TOKEN)
    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    parts = answer.json()["parts"]
    assert parts["scheduler"] == {"ok": False, "detail": "has not looked for 75 seconds"}
    assert parts["worker"] == {"ok": False, "detail": "has ended"}
    assert api.client.get("/healthz").status_code == 200
