"""Schedules over HTTP: looked at by anybody on this machine, changed with the token."""

from __future__ import annotations

from typing import Any

import pytest

from support.fake_api import Api, assert_problem
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.errors import ConfigError
from wakeful.http.security import ApiSettings
from wakeful.stores.request import Actor


@pytest.fixture
def api() -> Api:
    return Api(ApiSettings(token=TOKEN))


def ask(api: Api, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    headers = {**WITH_TOKEN, "Wakeful-Operator": "ada"}
    return api.client.request(method, path, json=body, headers=headers)


def test_looking(api: Api):
    (shown,) = ask(api, "GET", "/v1/schedules?agent=review&state=live&all=true").json()["schedules"]
    assert (shown["name"], shown["rule"]) == ("morning", 'cron("0 8 * * *", tz="Europe/London")')
    assert api.reader.asked | {"agent": "review", "state": "live", "whole": True} == api.reader.asked
    assert shown["next"] == {
        "at": "1970-01-01T07:00:00Z",
        "local": "1970-01-01T08:00:00+01:00",
        "zone": "Europe/London",
    }
    assert ask(api, "GET", "/v1/schedules/morning").json()["occurrences"][0]["state"] == "fired"
    assert ask(api, "GET", "/v1/schedules/morning/next?count=3").json()["next"][0]["at"] == "1970-01-01T07:00:00Z"
    assert api.reader.asked["count"] == 3


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
def test_bad_parameters(api: Api, path: str, field: str):
    assert_problem(ask(api, "GET", path), 400, field=field)


@pytest.mark.parametrize("path", ["/v1/schedules/nothing", "/v1/schedules/nothing/next"])
def test_there_is_none_to_look_at(api: Api, path: str):
    assert_problem(ask(api, "GET", path), 404)


def test_adding(api: Api):
    body = {
        "name": "late",
        "agent": "review",
        "every": "30m",
        "tz": "Europe/London",
        "grace": "5m",
        "data": 3,
        "note": "x",
    }
    assert ask(api, "POST", "/v1/schedules", body).json()["name"] == "late"
    ((verb, name, given),) = api.schedules.asked
    schedule = given.pop("schedule")
    assert (verb, name, given) == (
        "add",
        "late",
        {"agent": "review", "data": 3, "by": Actor("ada", "http"), "note": "x"},
    )
    assert (schedule.rule.interval, schedule.timing.grace) == (1_800_000_000, 300_000_000)


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
        ({"name": "x", "agent": "reviev", "every": "1h"}, 404, None),
        ({"name": "x", "agent": "review", "every": "1h", "data": "seven"}, 422, "data"),
        ({"name": "x", "agent": "review", "at": "1970-01-01", "data": 1}, 409, None),
    ],
)
def test_what_cannot_be_added(api: Api, body: dict[str, Any], status: int, field: str | None):
    assert_problem(ask(api, "POST", "/v1/schedules", body), status, **({} if field is None else {"field": field}))
    assert api.schedules.asked == []


def test_a_name_that_is_taken(api: Api):
    api.schedules.error = ConfigError("app shop has a schedule morning already: edit it, or remove it first")
    body = {"name": "morning", "agent": "review", "every": "1h", "data": 1}
    problem = assert_problem(ask(api, "POST", "/v1/schedules", body), 409)
    assert "already" in problem["detail"]


def test_editing_changes_only_what_is_given(api: Api):
    ask(api, "PATCH", "/v1/schedules/morning", {"tz": "America/New_York", "jitter": "10s"})
    ask(api, "PATCH", "/v1/schedules/morning", {"jitter": None, "data": 9})
    (_, _, first), (_, _, second) = api.schedules.asked
    assert first["schedule"].rule.describe() == 'cron("0 8 * * *", tz="America/New_York")'
    assert (first["schedule"].timing.jitter, first["data"], first["agent"]) == (10_000_000, ..., None)
    assert (second["schedule"].timing.jitter, second["data"]) == (0, 9)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/schedules/morning", {}, 400),
        ("/v1/schedules/morning", {"cron": None}, 400),
        ("/v1/schedules/morning", {"agent": "reviev"}, 404),
        ("/v1/schedules/mornig", {"jitter": "1s"}, 404),
        ("/v1/schedules/morning", {"data": "seven"}, 422),
        ("/v1/schedules/nightly", {"jitter": "1s"}, 409),
        ("/v1/schedules/r-1", {"jitter": "1s"}, 409),
    ],
)
def test_what_cannot_be_edited(api: Api, path: str, body: dict[str, Any], status: int):
    problem = assert_problem(ask(api, "PATCH", path, body), status)
    assert api.schedules.asked == []
    if path.endswith("nightly"):
        assert "declared with agent review (" in problem["detail"]
        assert "fake_api.py:" in problem["detail"]
    if path.endswith("mornig"):
        assert 'Did you mean "morning"?' in problem["detail"]


def test_the_other_verbs(api: Api):
    assert ask(api, "POST", "/v1/schedules/nightly/pause", {"note": "too loud"}).status_code == 200
    assert ask(api, "POST", "/v1/schedules/nightly/resume").status_code == 200
    fired = ask(api, "POST", "/v1/schedules/morning/fire").json()
    assert (fired["status"], fired["runs"]) == ("accepted", ["run-1"])
    assert ask(api, "DELETE", "/v1/schedules/morning").status_code == 200
    assert_problem(ask(api, "DELETE", "/v1/schedules/nightly"), 409)
    assert_problem(ask(api, "POST", "/v1/schedules/r-1/pause"), 409)
    assert [(verb, name, given["by"].name, given["note"]) for verb, name, given in api.schedules.asked] == [
        ("pause", "nightly", "ada", "too loud"),
        ("resume", "nightly", "ada", None),
        ("fire", "morning", "ada", None),
        ("remove", "morning", "ada", None),
    ]


def test_without_a_token_nothing_is_changed():
    api = Api()
    assert_problem(api.client.post("/v1/schedules/morning/fire"), 403)
    assert api.schedules.asked == []
