"""SIGTERM: what runs is finished, or given back when the time of grace is over. Neither is a failure nor a crash."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from crash.children.workload import Counter
from crash.conftest import NewPlace
from crash.harness import WAITING_FOR_A_LOCK, Nursery, Place
from crash.orders import check, order, recorded_steps
from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import until

STOPS = 3


async def test_what_runs_is_finished_within_the_time_of_grace(place: Place, nursery: Nursery, tmp_path: Path):
    gate = tmp_path / "gate"
    events = [("gate.reached", f"held-{number}", None) for number in range(3)]
    async with nursery.child(place.plan(emit=events, gate=str(gate), grace=60.0)) as child:
        await child.says("at the gate", times=3)
        child.signal(signal.SIGTERM)
        await until(lambda: "waiting for runs to finish" in child.log)
        gate.touch()
        assert await child.ends() == 0
    runs = await place.runs()
    assert {(run.state, run.output, run.attempts, run.crashes) for run in runs} == {("done", "before held after", 0, 0)}
    assert list((await place.processes()).values()) == ["stopped"]


async def test_what_does_not_finish_is_given_back(place: Place, nursery: Nursery, tmp_path: Path):
    events = [("gate.reached", f"held-{number}", None) for number in range(3)]
    plan = place.plan(emit=events, gate=str(tmp_path / "never"), grace=0.05)
    async with nursery.child(plan) as child:
        await child.says("at the gate", times=3)
        await child.stops()
    runs = await place.runs()
    assert {(run.state, run.reason, run.attempts, run.crashes, run.owner) for run in runs} == {
        ("ready", "its worker stopped", 0, 0, None)
    }
    assert list((await place.processes()).values()) == ["stopped"]

    async with nursery.child(place.plan(done=3)) as following:
        assert await following.ends() == 0
    runs = await place.runs()
    assert {(run.state, run.output, run.attempts, run.crashes) for run in runs} == {("done", "before held after", 0, 0)}
    ran = [(event, name) for event, name, _ in Counter(place.counter).lines()]
    assert all(ran.count((f"held-{number}", "before")) == 1 for number in range(3)), "a finished step ran again"
    history = await place.query("select outcome, count(*) from wakeful_attempt group by outcome")
    assert history == [("released", 3)]


async def test_a_handler_that_takes_its_time_to_be_cancelled_does_not_keep_its_run(
    place: Place, nursery: Nursery, tmp_path: Path
):
    """The worker leaves without waiting for it for ever; then nobody would look for what it still owns."""
    plan = place.plan(
        emit=[("gate.reached", "slow", None)], gate=str(tmp_path / "never"), grace=0.05, slow_to_cancel=60.0
    )
    async with nursery.child(plan) as child:
        await child.says("at the gate")
        await child.stops()
    (run,) = await place.runs()
    assert (run.state, run.attempts, run.crashes, run.owner) == ("ready", 0, 0, None)
    async with nursery.child(place.plan(done=1)) as following:
        assert await following.ends() == 0
    (run,) = await place.runs()
    assert (run.state, run.crashes) == ("done", 0)


async def test_a_stop_in_the_middle_of_the_work_loses_and_repeats_nothing(
    place: Place, nursery: Nursery, tmp_path: Path
):
    """Workers that come and go under load: every run is finished by one of them, and no recorded step runs twice."""
    numbers = list(range(40))
    orders = [order(number) for number in numbers]
    for turn in range(STOPS):
        seen, recorded = len(Counter(place.counter).lines()), await recorded_steps(place)
        plan = place.plan(emit=[] if turn else orders, grace=0.0)
        async with nursery.child(plan) as child:
            await (child.says("working") if turn else child.says("accepted", times=len(numbers)))
            await child.stops()
        again = {(event, name) for event, name, _ in Counter(place.counter).lines()[seen:]}
        assert not again & recorded
        assert not any(run.owner for run in await place.runs())
    async with nursery.child(place.plan(done=2 * len(numbers))) as last:
        assert await last.ends() == 0
    await check(place, numbers, kills=0, stops=STOPS)


async def test_a_step_that_waits_to_be_recorded_is_recorded_when_its_run_is_given_back(
    place: Place, nursery: Nursery, tmp_path: Path
):
    """The database is slow, so results queue up; then the worker is asked to stop. What was done is worth keeping."""
    gate = tmp_path / "gate"
    gate.mkdir()
    names = ["a", "b", "c"]
    plan = place.plan(emit=[("gate.reached", name, None) for name in names], gate=str(gate), grace=0.0, lease=60.0)
    async with nursery.child(plan) as child:
        await child.says("at the gate", times=len(names))
        async with place.no_steps_can_be_stored():
            for name in names:
                (gate / name).touch()
                await until(partial(has_run, place, name, "through"))
            child.signal(signal.SIGTERM)
            await until(lambda: "releasing runs" in child.log)
        assert await child.ends() == 0
    assert {(run.state, run.crashes) for run in await place.runs()} == {("ready", 0)}
    assert {(name, "held") for name in names} <= await recorded_steps(place)


def has_run(place: Place, event: str, name: str) -> bool:
    return any(line[:2] == (event, name) for line in Counter(place.counter).lines())


async def test_a_step_whose_record_is_on_its_way_is_recorded_before_its_run_is_given_back_postgres(
    new_postgres_place: NewPlace, postgres_server: PostgresServer, nursery: Nursery
):
    """Its COMMIT takes long, and the worker is asked to stop meanwhile. Whoever has the run next must find the step."""
    place = await new_postgres_place()
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        plan = place.plan(emit=[order(7)], stop_on=("within", ["SaveSteps"]), grace=0.0, lease=60.0, idle_limit=60.0)
        plan.store = postgres_server.dsn(place.url.rpartition("/")[2], port=proxy.port)
        async with nursery.child(plan) as first:
            await first.says("at the boundary")
            await first.is_stopped()
            held = proxy.hold(b"COMMIT")
            first.signal(signal.SIGCONT)
            await held.done.wait()
            first.signal(signal.SIGTERM)
            await until(lambda: place.query(WAITING_FOR_A_LOCK))
            (run,) = await place.runs()
            assert run.state == "running", "given back before the step was recorded"
            await proxy.pass_through()
            assert await first.ends() == 0
    assert ("order-7", "fetch") in await recorded_steps(place)
    async with nursery.child(place.plan(done=2)) as following:
        assert await following.ends() == 0
    await check(place, [7], kills=0)
