"""Old and new code of one agent side by side, while events keep coming: every run is done once, whichever code begins it
and whichever ends it.
"""

from __future__ import annotations

import asyncio
import itertools

from crash.children.workload import SOURCE
from fleet.children.workload import build_fleet
from fleet.harness import NEWER, Fleet
from support.schemas import knowing, later
from wakeful.clock import SystemClock
from wakeful.stores.opening import open_database
from wakeful.testing.waiting import until

OLD_WAY = ["fetch", "hold", "posted"]
NEW_WAY = ["fetch", "audit", "hold", "posted"]
PACE = 0.05


async def keep_sending(fleet: Fleet, enough: asyncio.Event) -> int:
    """One event after the other, until told so; how many there were."""
    app = build_fleet(fleet.place.url, fleet.counter, fleet.open_gate)
    async with app.running(worker=False):
        for number in itertools.count(1):
            await app.emit("upgrade.wanted", id=f"flow-{number}", source=SOURCE)
            if enough.is_set():
                return number
            await asyncio.sleep(PACE)
    raise AssertionError


async def has_its_part(fleet: Fleet, pid: int) -> None:
    """Wait until a process works on what keeps coming."""
    await until(lambda: any(event.startswith("flow") and who == pid for event, _, who in fleet.counter.lines()))


# What a later version might bring: new columns, an index on a table that is written all the time, a wider check, a table.
GROWS = later(
    9001,
    """
alter table wakeful_run add column later text;
alter table wakeful_event add column later bigint not null default 0;
create index wakeful_run_later on wakeful_run (app, later);
alter table wakeful_step add constraint wakeful_step_later check (state <> 'never');
create table wakeful_later (id bigint primary key);
""",
)


async def test_the_schema_grows_under_workers_that_do_not_know_it(fleet: Fleet):
    """They go on through the migration, one of them is restarted after it, and every run is done once."""
    enough = asyncio.Event()
    sending = asyncio.create_task(keep_sending(fleet, enough))
    async with fleet.worker(grace="0s") as first, fleet.worker(grace="0s") as second:
        for worker in (first, second):
            await has_its_part(fleet, worker.pid)
        database = open_database(fleet.place.url, SystemClock())
        try:
            with knowing(GROWS):
                assert [migration.label for migration in await database.migrate()] == ["9001_later"]
        finally:
            await database.close()
        before = len(fleet.counter.lines())
        await until(lambda: {who for _, _, who in fleet.counter.lines()[before:]} >= {first.pid, second.pid})
        await first.stops()
        async with fleet.worker(grace="0s") as again:
            await has_its_part(fleet, again.pid)
            enough.set()
            await fleet.come_to(done=await sending)
            for worker in (second, again):
                await worker.stops()
        for worker in (first, second, again):
            assert "Traceback" not in worker.log
    assert await fleet.place.alarms() == []
    runs = await fleet.place.runs()
    assert {(run.attempts, run.crashes) for run in runs} == {(0, 0)}
    assert {len(fleet.operations(run.cause)) for run in runs} == {1}


async def test_old_and_new_workers_side_by_side(fleet: Fleet):
    """1. An old worker. 2. A new one beside it, which goes again, as after a change of mind: the old one ends what it
    began. 3. New ones to stay; the old one goes in the middle of a run: they end it.
    """
    enough = asyncio.Event()
    sending = asyncio.create_task(keep_sending(fleet, enough))
    gate = {name: fleet.gate(name) for name in ("old", "hasty", "new")}
    async with fleet.worker(gate=gate["old"], grace="0s", in_flight=1) as old:
        await has_its_part(fleet, old.pid)
        await fleet.emit(("upgrade.held", "only-old", None))
        await fleet.have_come("held", ["only-old"], old.pid)

        # The old one has room for one run, and has one: what comes now is begun by the new one.
        async with fleet.worker(NEWER, gate=gate["hasty"], grace="0s") as hasty:
            await has_its_part(fleet, hasty.pid)
            await fleet.emit(("upgrade.held", "new-to-old", None))
            await fleet.have_come("held", ["new-to-old"], hasty.pid)
            await hasty.stops()
        for event in ("only-old", "new-to-old"):
            (gate["old"] / event).touch()
        await fleet.have_come("posted", ["only-old", "new-to-old"], old.pid)

        await fleet.emit(("upgrade.held", "old-to-new", None))
        await fleet.have_come("held", ["old-to-new"], old.pid)
        async with fleet.worker(NEWER, gate=gate["new"]) as first, fleet.worker(NEWER, gate=gate["new"]) as second:
            await has_its_part(fleet, first.pid)
            await has_its_part(fleet, second.pid)
            await old.stops()
            (gate["new"] / "old-to-new").touch()
            await fleet.have_come("posted", ["old-to-new"])
            enough.set()
            await fleet.come_to(done=await sending + 3)
            for worker in (first, second):
                await worker.stops()
                assert "Traceback" not in worker.log
    assert not [key for key, _, _ in await fleet.place.alarms() if key.startswith(("dead/", "held/"))]
    runs = {run.cause: run for run in await fleet.place.runs()}
    assert {(run.attempts, run.crashes) for run in runs.values()} == {(0, 0)}
    for event, run in runs.items():
        assert len(fleet.operations(event)) == 1, "the service outside could not know it again"
        assert run.output in (OLD_WAY, NEW_WAY)
    assert (runs["only-old"].output, runs["new-to-old"].output, runs["old-to-new"].output) == (
        OLD_WAY,
        OLD_WAY,
        NEW_WAY,
    )
    assert fleet.who("new-to-old", "fetch") == fleet.who("new-to-old", "audit") == [hasty.pid]
    assert fleet.who("new-to-old", "posted") == [old.pid]
    assert fleet.who("old-to-new", "fetch") == [old.pid]
    assert set(fleet.who("old-to-new", "audit")) <= {first.pid, second.pid}
