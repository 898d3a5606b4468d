"""The one order that most crash tests send through, and what must be true of it in the end."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

from pydantic_core import from_json

from crash.children.workload import SOURCE, STEPS, Counter, build, expected
from crash.conftest import NewPlace
from crash.harness import Nursery, Place


def order(number: int) -> tuple[str, str, Any]:
    return "order.placed", f"order-{number}", {"number": number}


async def emit(place: Place, kind: str, identifier: str, data: Any = None) -> None:
    """Send an event from this process, which does not work."""
    app = build(place.url, Counter(place.counter))
    async with app.running(worker=False):
        await app.emit(kind, data, id=identifier, source=SOURCE)


async def boundaries_of_one_order(new_place: NewPlace, nursery: Nursery) -> list[tuple[int, str]]:
    """The boundaries from its acceptance and claim on, until both of its runs are done: number and point."""
    place = await new_place()
    code, said = await nursery.carry_out(place.plan(emit=[order(7)], done=2, say_boundaries=True))
    assert code == 0, said
    passed = [line for line in said if line["says"] == "passed"]
    first = next(line["number"] for line in passed if "AcceptEvents" in line["requests"])
    await place.leave()
    last = max(line["number"] for line in passed if "FinishRun" in line["requests"])
    return [(line["number"], line["point"]) for line in passed if first <= line["number"] < last]


async def recorded_steps(place: Place) -> set[tuple[str, str]]:
    """(event from outside, step) of everything that is recorded as done."""
    return {
        (run.cause, f"price.{arguments[0]}" if name == "price" else name)
        for run, name, state, arguments in await place.steps(after_a_crash=True)
        if state == "done"
    }


async def check(place: Place, numbers: list[int], *, kills: int, stops: int = 0) -> None:
    """Each order is done once, by both agents, with the right outputs, and booked once.

    A body that a kill or a stop interrupted before its result was recorded runs again; nothing else does.
    """
    runs = await place.runs()
    assert {run.state for run in runs} == {"done"}
    assert Tally(run.agent for run in runs) == {"order": len(numbers), "ship": len(numbers)}
    outputs = {(run.agent, run.cause): run.output for run in runs}
    for number in numbers:
        ordered, shipped = expected(number)
        assert {**outputs["order", f"order-{number}"], "moment": None} == {**ordered, "moment": None}
        assert outputs["ship", f"order-{number}"] == shipped
    assert {run.attempts for run in runs} == {0}, "crashes are counted apart from failures"
    assert max(run.crashes for run in runs) <= kills
    assert {state for _, _, state, _ in await place.steps()} <= {"done", "fact"}
    booked = await place.query("select event, total from booked order by event")
    assert booked == sorted((f"order-{number}", expected(number)[0]["booked"]) for number in numbers)
    ran = Tally((event, name) for event, name, _ in Counter(place.counter).lines())
    for number in numbers:
        for name in STEPS:
            least = 2 if name == "flaky" else 1
            assert least <= ran[f"order-{number}", name] <= least + kills + stops, (name, ran)
    await check_what_left(place, numbers, again=kills + stops)
    if place.dialect == "sqlite":  # on PostgreSQL a lease may outlive this look
        assert "alive" not in (await place.processes()).values()


async def check_what_left(place: Place, numbers: list[int], *, again: int) -> None:
    """What the shipping agent let out: counted outside of every process, and held against the store."""
    lines = Tally((event, name) for event, name, _ in Counter(place.counter).lines())
    effects = await place.query("select id, action, state, staged from wakeful_effect order by id")
    assert Tally((action, state, staged) for _, action, state, staged in effects) == {
        ("repeatable", "confirmed", 0): len(numbers),
        ("searchable", "confirmed", 1): len(numbers),
    }
    for identifier, action, _, _ in effects:
        calls = sum(count for (_, name), count in lines.items() if name == identifier)
        assert 1 <= calls <= (1 if action == "searchable" else 1 + again), (action, calls)
    deliveries = await place.query(
        "select delivery.id, delivery.state, run.id from wakeful_delivery delivery join wakeful_run run on run.seq = delivery.run_seq"
    )
    assert len(deliveries) == len(numbers)
    assert {state for _, state, _ in deliveries} == {"delivered"}
    arrived = {
        (run, name.removeprefix("message.")): count for (run, name), count in lines.items() if "message." in name
    }
    assert set(arrived) == {(run, identifier) for identifier, _, run in deliveries}
    assert max(arrived.values()) <= 1 + again
    ((kept,),) = await place.query("select value from wakeful_state")
    assert sorted(from_json(kept)["orders"]) == sorted(f"order-{number}" for number in numbers)
