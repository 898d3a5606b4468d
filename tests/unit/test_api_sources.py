"""Quarantine over HTTP, and the sources of a process in /readyz: what is asked of the reader, and what is refused."""

from __future__ import annotations

import pytest

from support.fake_api import CURSOR, INPUT, Api, assert_problem
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.http.security import ApiSettings
from wakeful.triggers.releasing import Releasing


@pytest.fixture
def api():
    return Api(ApiSettings(token=TOKEN))


def get(api, path, **query):
    return api.client.get(path, params=query, headers=WITH_TOKEN)


def post(api, path, body=None):
    return api.client.post(path, json=body or {}, headers=WITH_TOKEN)


def test_quarantine(api):
    page = get(api, "/v1/quarantine", source="inbox/*.md", kind="unreadable", state="kept", limit=7, after=CURSOR)
    assert page.json() == {"quarantine": [INPUT], "next": CURSOR, "unverified": {"held": 0, "cut": []}}
    asked = {"app": None, "source": "inbox/*.md", "kind": "unreadable", "state": "kept", "limit": 7, "after": CURSOR}
    assert api.reader.asked == asked
    assert_problem(get(api, "/v1/quarantine", kind="unreadabel"), 400, field="kind")
    assert_problem(get(api, "/v1/quarantine", state="x"), 400, field="state")
    assert_problem(get(api, "/v1/quarantine", after="x"), 400, field="after")
    shown = get(api, "/v1/quarantine/key").json()
    assert shown["raw"] == "eHg="
    assert "received" not in shown
    assert_problem(get(api, "/v1/quarantine/other"), 404)


def test_discarding(api):
    assert post(api, "/v1/quarantine/key/discard", {"note": "noise"}).json()["state"] == "discarded"
    (settled,) = api.store.quarantine
    assert (settled.key, settled.by.name, settled.note, settled.accept) == ("key", "token", "noise", None)
    (operation,) = api.store.operations
    assert (operation.verb, operation.target) == ("quarantine discard", "key")
    assert_problem(post(api, "/v1/quarantine/other/discard"), 404)
    assert_problem(post(api, "/v1/quarantine/key/discard", {"trust": True}), 400, field="trust")
    api.reader.kept["state"] = "discarded"
    assert_problem(post(api, "/v1/quarantine/key/discard"), 409)


def test_releasing_without_an_app_that_runs(api):
    assert_problem(post(api, "/v1/quarantine/key/release"), 503)


def test_releasing_what_nobody_can_read(api):
    releasing = Releasing("shop", lambda event, **_: pytest.fail("nothing is to arrive"), lambda _: None, lambda: None)
    api = Api(ApiSettings(token=TOKEN), releasing=lambda: releasing)
    problem = assert_problem(post(api, "/v1/quarantine/key/release"), 422)
    assert "app shop has no source inbox/*.md any more" in problem["detail"]
    other = Releasing("desk", lambda event, **_: pytest.fail("nothing is to arrive"), lambda _: None, lambda: None)
    api = Api(ApiSettings(token=TOKEN), releasing=lambda: other)
    assert "belongs to app shop" in assert_problem(post(api, "/v1/quarantine/key/release"), 409)["detail"]


def test_changing_needs_a_token():
    assert_problem(Api().client.post("/v1/quarantine/key/discard"), 403)


def test_a_failing_source_is_shown_and_makes_nobody_unready(api):
    api = Api(sources=lambda: {"reading": 2, "failing": 1})
    answer = api.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["parts"]["sources"] == {"ok": False, "reading": 2, "failing": 1}
