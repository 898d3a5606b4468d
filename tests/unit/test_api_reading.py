"""Looking at runs, alarms and stories; parameters; health; unknown paths and methods."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from support.fake_api import CURSOR, RUN, Api, FakeReader, assert_problem
from wakeful.api.health import health_routes
from wakeful.errors import NotFound, SchemaMismatch, StoreUnavailable


@pytest.fixture
def api():
    return Api()


class TestRuns:
    def test_listing(self, api):
        query = {"agent": "a", "state": "dead", "event": "x/y", "limit": "500", "after": CURSOR}
        response = api.client.get("/v1/runs", params=query)
        assert response.json() == {"runs": [RUN], "next": None}
        asked = {"agent": "a", "state": "dead", "event": "x/y", "most": 501, "before": int(CURSOR)}
        assert asked.items() <= api.reader.asked.items()

    def test_what_is_not_given_has_its_default(self, api):
        api.client.get("/v1/runs?agent=&state=")
        assert {"state": None, "agent": None, "most": 51}.items() <= api.reader.asked.items()

    def test_runs_by_what_they_touched(self, api):
        api.client.get("/v1/runs", params={"subject": "8841", "trace": "4bf92f3577"})
        assert {"subject": "8841", "trace": "4bf92f3577"}.items() <= api.reader.asked.items()
        api.client.get("/v1/runs", params={"action": "refund"})
        assert api.reader.asked["action"] == "refund"

    def test_runs_of_a_time(self, api):
        api.client.get("/v1/runs", params={"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:01Z"})
        assert api.reader.asked["until"] - api.reader.asked["since"] == 1_000_000
        problem = assert_problem(api.client.get("/v1/runs", params={"since": "sometime"}), 400, field="since")
        assert "sometime" in problem["detail"]

    def test_one_run_and_a_result_that_json_has_no_word_for(self, api):
        assert api.client.get("/v1/runs/abc").json()["output"] == {"nan": None}

    @pytest.mark.parametrize("identifier", ["nothing", "%00", "x" * 3000])
    def test_nothing_of_that_name(self, api, identifier):
        assert_problem(api.client.get(f"/v1/runs/{identifier}"), 404, title="There is nothing of that name")

    def test_the_story(self, api):
        assert api.client.get("/v1/why/a/b").json()["subject"] == {"kind": "event", "id": "a/b"}
        assert api.client.get("/v1/why", params={"id": "a/b"}).json()["story"]
        assert_problem(api.client.get("/v1/why/nothing"), 404)
        assert_problem(api.client.get("/v1/why", params={"id": "nothing"}), 404)
        assert_problem(api.client.get("/v1/why"), 400, field="id")


class TestParameters:
    @pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1.5", "1_0", "٣", "9" * 5000, "%00", " 5"])
    @pytest.mark.parametrize("path", ["/v1/runs", "/v1/events"])
    def test_a_bad_limit(self, api, path, limit):
        assert_problem(api.client.get(f"{path}?limit={limit}"), 400, field="limit")

    @pytest.mark.parametrize(
        ("path", "state", "meant"),
        [("/v1/runs", "daed", "dead"), ("/v1/events", "unmached", "unmatched"), ("/v1/alarms", "opne", "open")],
    )
    def test_a_bad_state(self, api, path, state, meant):
        problem = assert_problem(api.client.get(path, params={"state": state}), 400, field="state")
        assert f'Did you mean "{meant}"?' in problem["detail"]

    @pytest.mark.parametrize("path", ["/v1/runs", "/v1/events"])
    def test_a_bad_cursor(self, api, path):
        assert_problem(api.client.get(path, params={"after": "made up"}), 400, field="after")

    def test_a_misspelt_parameter_is_refused_and_not_ignored(self, api):
        problem = assert_problem(api.client.get("/v1/runs?agnet=x"), 400, field="agnet")
        assert 'Did you mean "agent"?' in problem["detail"]
        assert_problem(api.client.get("/v1/alarms?%00=x"), 400)

    def test_a_parameter_given_twice(self, api):
        assert_problem(api.client.get("/v1/runs?state=dead&state=done"), 400, field="state")

    @pytest.mark.parametrize("value", ["%00", "x" * 3000])
    def test_text_that_no_store_can_look_for(self, api, value):
        assert_problem(api.client.get(f"/v1/runs?agent={value}"), 400, field="agent")

    def test_an_error_of_the_reader_is_not_taken_for_a_bad_cursor(self, api):
        api.reader.error = ValueError("a bug")
        assert_problem(api.client.get("/v1/runs"), 500)
        assert_problem(api.client.get("/v1/events"), 500)


class TestErrors:
    @pytest.mark.parametrize("path", ["/v1", "/v1/rnus", "/v2/runs", "/", "/v1/runs/", "/v1/runs/a/b"])
    def test_an_unknown_path(self, api, path):
        assert_problem(api.client.get(path, follow_redirects=False), 404)

    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("DELETE", "/v1/events", {"GET", "HEAD", "POST"}),
            ("POST", "/v1/runs", {"GET", "HEAD"}),
            ("PUT", "/v1/why/x", {"GET", "HEAD"}),
            ("POST", "/healthz", {"GET", "HEAD"}),
        ],
    )
    def test_a_wrong_method(self, api, method, path, allowed):
        response = api.client.request(method, path)
        assert_problem(response, 405)
        assert {name.strip() for name in response.headers["allow"].split(",")} == allowed

    @pytest.mark.parametrize(
        "path", ["/v1/runs", "/v1/runs/x", "/v1/events", "/v1/events/x", "/v1/why/x", "/v1/alarms"]
    )
    def test_an_unavailable_store(self, api, path):
        api.reader.error = StoreUnavailable("gone")
        response = api.client.get(path)
        assert "stored" not in assert_problem(response, 503)["detail"]
        assert response.headers["retry-after"]

    def test_what_the_reader_does_not_find(self, api):
        api.reader.error = NotFound("no agent of that name")
        assert_problem(api.client.get("/v1/runs?agent=x"), 404, detail="no agent of that name")


class TestHealth:
    def test_it_lives_whatever_the_store_does(self, api):
        api.reader.error = StoreUnavailable("gone")
        assert api.client.get("/healthz").json() == {"status": "alive"}

    def test_ready(self, api):
        response = api.client.get("/readyz")
        assert response.status_code == 200
        assert response.json() == {"status": "ready", "parts": {"store": {"ok": True}, "schema": {"ok": True}}}

    def test_ready_with_a_note(self, monkeypatch):
        async def health(_):
            return {"store": "postgres", "schema": 9, "note": "the schema is ahead and compatible"}

        monkeypatch.setattr(FakeReader, "health", health)
        response = Api().client.get("/readyz")
        assert response.status_code == 200
        assert response.json() == {
            "status": "ready",
            "note": "the schema is ahead and compatible",
            "parts": {"store": "postgres", "schema": 9},
        }

    def test_the_store_is_gone(self, api):
        api.reader.error = StoreUnavailable("postgresql://user:secret@host")
        response = api.client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["parts"]["store"]["ok"] is False
        assert "secret" not in response.text

    def test_the_schema_is_behind(self, api):
        api.reader.error = SchemaMismatch("run wakeful migrate")
        response = api.client.get("/readyz")
        assert response.status_code == 503
        assert response.json()["parts"]["schema"] == {"ok": False, "detail": "run wakeful migrate"}

    async def test_a_store_that_hangs_is_not_ready(self, api):
        async def hang():
            await asyncio.Event().wait()

        api.reader.health = hang
        ready = health_routes(api.reader.health, ready_within=0.01)[1].endpoint
        assert (await ready(Request({"type": "http"}))).status_code == 503


def test_extra_routes_come_after_our_own():
    async def extra(_):
        return PlainTextResponse("extra")

    api = Api(extra_routes=[Route("/hooks/x", extra, methods=["POST"]), Route("/{anything:path}", extra)])
    assert api.client.post("/hooks/x").text == "extra"
    assert api.client.get("/").text == "extra"
    assert api.client.get("/v1/runs").json()["runs"] == [RUN]
