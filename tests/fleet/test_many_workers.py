"""Several `wakeful worker`, as a person starts them, on one PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter as Tally
from contextlib import ExitStack, closing

from crash.orders import check, order
from fleet.harness import OLDER, Fleet

WORKERS = 3
AT_ONCE = 4


async def test_all_workers_take_part_and_everything_is_done_once(fleet: Fleet):
    gate = fleet.gate("all")
    words = ["worker", OLDER, "--in-flight", str(AT_ONCE)]
    with ExitStack() as stack:
        workers = [stack.enter_context(closing(fleet.command(*words, gate=gate))) for _ in range(WORKERS)]
        for worker in workers:
            await asyncio.to_thread(worker.wait_for, "working for crash")
        held = [f"held-{number}" for number in range(WORKERS * AT_ONCE)]
        await fleet.emit(*(("gate.reached", event, None) for event in held))
        # Each has room for four: all are at the gate at once only if everybody has its part.
        await fleet.have_come("held", held)
        pids = {worker.process.pid for worker in workers}
        assert Tally(fleet.who(event, "held")[0] for event in held) == dict.fromkeys(pids, AT_ONCE)
        for event in held:
            (gate / event).touch()
        await fleet.come_to(done=len(held))

        numbers = list(range(40))
        await fleet.emit(*map(order, numbers))
        await fleet.come_to(done=len(held) + 2 * len(numbers))
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            assert await asyncio.to_thread(worker.end) == 0, worker.output
            assert "Traceback" not in worker.output
    assert set((await fleet.place.processes()).values()) == {"stopped"}
    for event in held:
        assert [len(fleet.who(event, name)) for name in ("before", "held", "through", "after")] == [1, 1, 1, 1]
    await fleet.place.query("delete from wakeful_run where agent = 'wait'")
    await check(fleet.place, numbers, kills=0)
