"""SQLite on a disk that is full: intake is told, runs in flight wait, nothing is corrupted, and it goes on by itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import Nursery, Place
from wakeful.testing.ports import free_port
from wakeful.testing.waiting import until

LARGE = "x" * 60_000


@pytest.fixture
async def place(new_sqlite_place: NewPlace) -> Place:
    return await new_sqlite_place()


async def ceiling_of_pages(place: Place) -> dict[str, Any]:
    ((pages,),) = await place.query("pragma page_count")
    return {"pages": pages + 60}


async def ceiling_of_files(place: Place) -> dict[str, Any]:
    ((pages,),) = await place.query("pragma page_count")
    return {"file_size": 4096 * (pages + 120)}


@pytest.mark.parametrize("ceiling", [ceiling_of_pages, ceiling_of_files])
async def test_a_full_disk_refuses_events_and_goes_on_when_there_is_room(
    place: Place, nursery: Nursery, tmp_path: Path, ceiling: Any
):
    gate = tmp_path / "gate"
    port = free_port()
    # The run that is in flight has a result that does not fit either.
    first = ("gate.reached", "in-flight", {"size": 400_000})
    plan = place.plan(emit=[first], gate=str(gate), port=port, lease=15.0, **await ceiling(place))
    async with nursery.child(plan) as child, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        await child.says("at the gate")
        accepted = await fill(http)
        gate.touch()
        await until(lambda: "a run waits for it" in child.log)
        assert (await http.get("/healthz")).status_code == 200
        assert not await place.alarms() or "full" in (await place.alarms())[0][1]
        await sound(place)

        child.signal(signal.SIGUSR1)
        await child.says("there is room")
        await until(lambda: sent(http, "after"))
        await until(lambda: is_done(place, len(accepted) + 2))
        ((key, text, count),) = await until(place.alarms)
        assert "full" in key
        assert "the disk is full" in text
        assert "free some space" in text
        assert count < 10, "one alarm, refreshed now and then, and not one for each refusal"
        assert '"event":"alarm"' in child.log
        await child.stops()
    await sound(place)
    assert sorted(event for event, name, _ in Counter(place.counter).lines() if name == "note") == sorted(
        [*accepted, "after"]
    )
    (run,) = [run for run in await place.runs() if run.agent == "wait"]
    assert (run.state, run.output, run.attempts, run.crashes) == ("done", "before held after", 0, 0)


async def fill(http: httpx2.AsyncClient) -> list[str]:
    """Send until it is refused; what was accepted, which does not include the refused one."""
    accepted: list[str] = []
    for number in range(1000):
        identifier = f"note-{number}"
        answer = await post(http, identifier)
        if answer.status_code == 503:
            assert answer.headers["content-type"] == "application/problem+json"
            assert "Retry-After" in answer.headers
            return accepted
        assert answer.status_code == 202
        accepted.append(identifier)
    raise AssertionError("the disk was never full")


async def post(http: httpx2.AsyncClient, identifier: str) -> httpx2.Response:
    event = {"specversion": "1.0", "type": "note.taken", "source": "/test", "id": identifier, "data": LARGE}
    return await http.post("/v1/events", json=event)


async def sent(http: httpx2.AsyncClient, identifier: str) -> bool:
    return (await post(http, identifier)).status_code == 202


async def is_done(place: Place, count: int) -> bool:
    return (await place.states()).get("done") == count


async def sound(place: Place) -> None:
    assert await place.query("pragma integrity_check") == [("ok",)]
