"""An event whose handler takes its process with it: it ends as a dead letter, and takes nobody else there with it."""

from __future__ import annotations

from pathlib import Path

from crash.children.workload import NEIGHBOURS, Counter
from crash.harness import KILLED, Nursery, Place

QUICK = 15
MAX_CRASHES = 5  # the default


async def test_a_run_that_kills_its_worker_ends_dead_and_alone(place: Place, nursery: Nursery, tmp_path: Path):
    events = [
        ("poison.bad", "bad", None),
        *(("poison.neighbour", f"neighbour-{number}", None) for number in range(NEIGHBOURS)),
        *(("poison.quick", f"quick-{number}", None) for number in range(QUICK)),
    ]
    deaths = 0
    # A supervisor: start the worker again for as long as it dies.
    while True:
        # The first one sends everything; whatever it got no answer for is sent again by the next.
        answered = {run.cause for run in await place.runs(after_a_crash=True)}
        emit = [event for event in events if event[1] not in answered]
        async with nursery.child(place.plan(emit=emit, done=len(events))) as child:
            code = await child.ends()
            if code == 0:
                break
            assert code == KILLED, child.log
            deaths += 1
            assert deaths <= MAX_CRASHES

    assert deaths == MAX_CRASHES
    runs = {run.cause: run for run in await place.runs()}
    assert len(runs) == len(events)
    bad = runs.pop("bad")
    assert (bad.state, bad.crashes, bad.attempts, bad.error["type"]) == ("dead", MAX_CRASHES, 0, "TooManyCrashes")
    assert {(run.state, run.attempts) for run in runs.values()} == {("done", 0)}
    assert max(run.crashes for run in runs.values()) == 2, "neighbours are not harmed after the second time"
    ((key, text, count),) = await place.alarms()
    assert key.startswith("dead/")
    assert "TooManyCrashes" in text
    assert count == 1
    alone_from_the_third_time_on(place)


def alone_from_the_third_time_on(place: Place) -> None:
    lines = Counter(place.counter).lines()
    poisoned = [pid for event, name, pid in lines if (event, name) == ("bad", "start")]
    assert len(poisoned) == len(set(poisoned)) == MAX_CRASHES
    for pid in poisoned[2:]:
        in_flight: set[str] = set()
        for event, name, where in lines:
            if where == pid and name == "start":
                assert event != "bad" or not in_flight, f"{in_flight} ran beside it"
                in_flight.add(event)
            elif where == pid and name == "end":
                in_flight.discard(event)
        assert in_flight == {"bad"}
