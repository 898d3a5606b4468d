"""`?wait=10s`: outputs in the answer to the request that started the runs."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from support.apps import NewApp, working
from support.tokens import TOKEN
from wakeful import App, Persistent, Run, on

HOST = "http://127.0.0.1"
JSON = {"Content-Type": "application/json"}


def desk(app: App) -> App:
    @app.agent(on("ask"))
    async def answer(run: Run, words: str) -> dict:
        if words == "boom":
            message = "no such words"
            raise Persistent(message)
        return {"words": words}

    @app.agent(on("ask.nobody"))
    async def patient(run: Run) -> None:
        await run.sleep("30d")

    return app


def client(app: App, **options) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app.asgi(**({"open_to": "loopback"} | options)))
    return httpx2.AsyncClient(transport=transport, base_url=HOST)


def event(identifier: str, type_: str = "ask", data="hello") -> dict:
    return {"source": "/test", "id": identifier, "type": type_, "data": data}


async def test_the_outputs_of_an_event(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app) as http:
        answer = await http.post("/v1/events?wait=30s", json=event("1"))
        again = await http.post("/v1/events?wait=30s", json=event("1"))
    (told,) = answer.json()["events"]
    assert answer.status_code == 200
    assert told["status"] == "accepted"
    assert told["outputs"] == {told["runs"][0]: {"words": "hello"}}
    assert again.status_code == 200  # a duplicate has the outputs of the first one
    assert again.json()["events"][0] == told | {"status": "duplicate"}


async def test_a_batch_waits_for_all(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app) as http:
        answer = await http.post(
            "/v1/events?wait=30s", json=[event("1", data="a"), event("2", data="boom"), event("3", "no")]
        )
    first, second, third = answer.json()["events"]
    assert answer.status_code == 200
    assert list(first["outputs"].values()) == [{"words": "a"}]
    assert second["outputs"] == {}
    assert second["failed"][second["runs"][0]]["state"] == "dead"
    assert second["failed"][second["runs"][0]]["error"] == {"type": "Persistent", "message": "no such words"}
    assert (third["status"], third["outputs"]) == ("unmatched", {})
    assert "failed" not in first


async def test_what_is_not_over_in_time_is_accepted(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app) as http:
        answer = await http.post("/v1/events?wait=10ms", json=event("1", "ask.nobody"))
    (told,) = answer.json()["events"]
    assert answer.status_code == 202
    assert (told["status"], len(told["runs"]), told["outputs"]) == ("accepted", 1, {})


async def test_without_wait_nothing_has_changed(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app) as http:
        answer = await http.post("/v1/events", json=event("1"))
    assert answer.status_code == 202
    assert set(answer.json()["events"][0]) == {"source", "id", "status", "runs"}


@pytest.mark.parametrize(
    ("query", "words"),
    [("wait=2h", "use 0 to 60s"), ("wait=soon", "is not a duration"), ("wiat=1s", 'Did you mean "wait"?')],
)
async def test_a_bad_wait_is_refused_and_nothing_is_stored(new_app: NewApp, query: str, words: str):
    app = desk(new_app(clock=None))
    async with working(app) as runtime, client(app) as http:
        for path in ("/v1/events", "/v1/agents/answer/runs"):
            answer = await http.post(f"{path}?{query}", json=event("1"))
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:wakeful:problem:bad-parameter")
            assert words in answer.json()["detail"]
        assert (await runtime.reader.events())["events"] == []


async def test_an_agent_is_run_now(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app) as http:
        at_once = await http.post("/v1/agents/answer/runs?id=mine", json="hello")
        (told,) = at_once.json()["events"]
        assert at_once.status_code == 202
        assert (told["source"], told["id"], told["status"], len(told["runs"])) == ("/app/run", "mine", "accepted", 1)
        waited = await http.post("/v1/agents/answer/runs?id=mine&wait=30s", json="hello")
        assert waited.status_code == 200
        assert waited.json()["events"][0]["outputs"] == {told["runs"][0]: {"words": "hello"}}
        dead = await http.post("/v1/agents/answer/runs?wait=30s", json="boom")
        assert next(iter(dead.json()["events"][0]["failed"].values()))["state"] == "dead"
        patient = await http.post("/v1/agents/patient/runs?wait=10ms", headers=JSON)  # no body: no data
        assert patient.status_code == 202


async def test_what_an_agent_is_not_run_with(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app) as runtime, client(app) as http:
        nobody = await http.post("/v1/agents/anwser/runs", json=1)
        assert (nobody.status_code, nobody.json()["type"]) == (404, "urn:wakeful:problem:not-found")
        assert 'Did you mean "answer"?' in nobody.json()["detail"]
        text = await http.post("/v1/agents/answer/runs", content=b"hello", headers={"content-type": "text/plain"})
        assert text.status_code == 415
        broken = await http.post("/v1/agents/answer/runs", content=b"{", headers={"content-type": "application/json"})
        assert broken.status_code == 400
        assert (await runtime.reader.events())["events"] == []


async def test_the_token_is_asked_for(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with working(app), client(app, token=TOKEN) as http:
        assert (await http.post("/v1/agents/answer/runs", json="hello")).status_code == 401
        allowed = await http.post("/v1/agents/answer/runs", json="a", headers={"Authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 202


async def test_an_app_that_stops_answers_whoever_waits(new_app: NewApp):
    app = desk(new_app(clock=None))
    async with client(app) as http:
        async with working(app):
            waiting = asyncio.create_task(http.post("/v1/events?wait=60s", json=event("1", "ask.nobody")))
            while app.runtime is None or not app.runtime.results._waiters:
                await asyncio.sleep(0)
        answer = await waiting
    assert (answer.status_code, answer.json()["events"][0]["outputs"]) == (202, {})
