"""Accepted is durable: whoever got an answer may rely on it, even if the process that gave it dies the next moment."""

from __future__ import annotations

from pathlib import Path

import httpx2

from crash.children.workload import Counter
from crash.harness import KILLED, Nursery, Place
from wakeful.testing.ports import free_port


async def test_an_emitted_event_survives_the_death_of_its_emitter(place: Place, nursery: Nursery, tmp_path: Path):
    plan = place.plan(emit=[("note.taken", "precious", {"worth": 1})], die_when_accepted=True, work=False)
    async with nursery.child(plan) as emitter:
        assert await emitter.ends() == KILLED
        assert emitter.said("accepted")
    (run,) = await place.runs(after_a_crash=True)
    assert (run.state, run.cause) == ("ready", "precious")
    async with nursery.child(place.plan(done=1)) as finisher:
        assert await finisher.ends() == 0
    assert [(event, name) for event, name, _ in Counter(place.counter).lines()] == [("precious", "note")]


async def test_a_posted_event_survives_the_death_of_the_server(place: Place, nursery: Nursery, tmp_path: Path):
    port = free_port()
    async with nursery.child(place.plan(port=port, work=False)) as server:
        await server.says("serving")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            batch = [{"specversion": "1.0", "type": "note.taken", "source": "/test", "id": f"{n}"} for n in range(20)]
            answer = await http.post("/v1/events", json=batch)
            server.kill()
        assert answer.status_code == 202
        assert await server.ends() == KILLED
    runs = await place.runs(after_a_crash=True)
    assert {(run.state, run.cause) for run in runs} == {("ready", f"{n}") for n in range(20)}
    assert {event["status"] for event in answer.json()["events"]} == {"accepted"}
    async with nursery.child(place.plan(done=20)) as finisher:
        assert await finisher.ends() == 0
    ran = sorted(event for event, _, _ in Counter(place.counter).lines())
    assert ran == sorted(f"{n}" for n in range(20))
