"""Pauses over HTTP: looked at by anybody on this machine, changed with the token."""

from __future__ import annotations

from typing import Any

import pytest

from support.fake_api import PAUSE, Api, assert_problem
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.http.security import ApiSettings


@pytest.fixture
def api() -> Api:
    return Api(ApiSettings(token=TOKEN))


def post(api: Api, path: str, body: dict[str, Any]) -> Any:
    return api.client.post(path, json=body, headers={**WITH_TOKEN, "Wakeful-Operator": "ada"})


def test_looking(api: Api):
    assert api.client.get("/v1/pauses", headers=WITH_TOKEN).json() == {"pauses": [PAUSE]}
    assert api.client.get("/v1/pauses?app=desk", headers=WITH_TOKEN).json() == {"pauses": []}
    assert_problem(api.client.get("/v1/pauses?agent=x", headers=WITH_TOKEN), 400, field="agent")


def test_pausing_and_resuming_one(api: Api):
    answer = post(api, "/v1/pause", {"agent": "review", "note": "look first"})
    assert answer.json() == {"app": "shop", "agent": "review", "paused": True, "was_paused": False}
    answer = post(api, "/v1/resume", {"agent": "review", "rate": "10/s"})
    assert answer.json() == {"app": "shop", "agent": "review", "paused": False, "was_paused": True}
    first, second = api.store.paused
    assert (first.agent, first.paused, first.by.name, first.note, first.rate) == (
        *("review", True, "ada"),
        *("look first", None),
    )
    assert (second.paused, second.rate) == (False, "10/s")
    assert [(one.verb, one.target) for one in api.store.operations] == [("pause", "review"), ("resume", "review")]


def test_pausing_all(api: Api):
    assert post(api, "/v1/pause", {"all": True}).json()["agent"] is None
    assert (api.store.paused[0].app, api.store.paused[0].agent) == ("shop", "")


def test_of_another_app(api: Api):
    assert post(api, "/v1/pause", {"agent": "counter", "app": "desk"}).json()["app"] == "desk"
    assert_problem(post(api, "/v1/pause", {"agent": "review", "app": "desk"}), 404)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/pause", {}, "agent"),
        ("/v1/pause", {"agent": "review", "all": True}, "agent"),
        ("/v1/pause", {"agent": "review", "rate": "1/s"}, "rate"),
        ("/v1/resume", {"agent": "review", "rate": "fast"}, "rate"),
        ("/v1/resume", {"agent": 7}, "agent"),
    ],
)
def test_bad_bodies(api: Api, path: str, body: dict[str, Any], field: str):
    assert_problem(post(api, path, body), 400, field=field)
    assert api.store.paused == []


def test_an_unknown_agent(api: Api):
    problem = assert_problem(post(api, "/v1/pause", {"agent": "reviev"}), 404)
    assert 'Did you mean "review"?' in problem["detail"]


def test_without_a_token_nothing_is_changed():
    api = Api()
    assert_problem(api.client.post("/v1/pause", json={"all": True}), 403)
    assert api.store.paused == []
