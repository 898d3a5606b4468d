"""An event that comes in while a hundred thousand runs wait for its type, each about something else, against none; and how
soon a run that does wait for it goes on.

The waits of the others are put in by SQL, with their runs. Both stores take turns.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engine_dispatch import percentiles
from bench.engine_sleepers import Lateness
from wakeful import App, Run, on
from wakeful.clock import SECOND
from wakeful.runtime import Runtime

APP = "waits"
AWAITED = "bench.answered"
FAR_AWAY = 4_000_000_000 * SECOND
WARM_UP = 5

Woken = dict[str, asyncio.Future[float]]

RUNS = (
    "insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, created_at, token) "
    f"select 'old-' || n, 'old-' || n, '{APP}', 'wait', 0, 'waiting', {FAR_AWAY} + n, n, 1 from "
)
STEPS = (
    "insert into wakeful_step (run_seq, key, name, state, position, tries, attempt, result, started_at, finished_at) "
    f"select seq, 'wait', 'wait_for {AWAITED}', 'waiting', 0, 0, 1, '{{}}', seq, seq from wakeful_run"
)
WAITS = (
    "insert into wakeful_wait (run_seq, key, app, type, subject, registered_at) "
    f"select seq, 'wait', '{APP}', '{AWAITED}', 'old/' || seq, seq from wakeful_run"
)


@dataclass(frozen=True, slots=True)
class Waits:
    """Milliseconds: for an event, without and with others that wait; and until who waits goes on."""

    empty: float
    full: float
    woken: Lateness


def make_app(store: str, woken: Woken) -> App:
    app = App(APP, store=store)

    @app.agent(on("bench.asked"))
    async def wait(run: Run) -> None:
        await run.wait_for(AWAITED, subject=run.event.id)
        woken[run.event.id].set_result(time.perf_counter())

    return app


async def measure(empty: str, full: str, *, waits: int, samples: int) -> Waits:
    """By median, in turns."""
    woken: Woken = {}
    async with _opened(empty, {}) as (first, _), _opened(full, woken) as (second, runtime):
        await fill(runtime, full, waits)
        times: tuple[list[float], list[float]] = ([], [])
        for sample in range(samples + WARM_UP):
            for app, taken in ((first, times[0]), (second, times[1])):
                began = time.perf_counter()
                await app.emit(AWAITED, id=f"other-{sample}", subject="something else")
                if sample >= WARM_UP:
                    taken.append((time.perf_counter() - began) * 1000)
        late = [await wake(second, runtime, woken, f"asked-{sample}") for sample in range(samples)]
    return Waits(statistics.median(times[0]), statistics.median(times[1]), Lateness(*percentiles(late)))


@contextlib.asynccontextmanager
async def _opened(url: str, woken: Woken) -> AsyncIterator[tuple[App, Runtime]]:
    app = make_app(url, woken)
    async with app.running(migrate=True) as runtime:
        yield app, runtime


async def wake(app: App, runtime: Runtime, woken: Woken, name: str) -> float:
    """Milliseconds from the answer to an event until the run that waits for it goes on."""
    woken[name] = asyncio.get_running_loop().create_future()
    await app.emit("bench.asked", id=name)
    await runtime.worker.drained()  # it waits
    await app.emit(AWAITED, id=f"answer to {name}", subject=name)
    accepted = time.perf_counter()
    went_on = await woken[name]
    await runtime.worker.idle()
    return max(0.0, went_on - accepted) * 1000


async def fill(runtime: Runtime, url: str, count: int) -> None:
    """So many runs that wait, each about something of its own."""
    if not count:
        return
    database: Any = runtime.database
    if database.dialect == "postgres":
        async with database.user_transaction() as connection:
            for statement in (f"{RUNS} generate_series(1, {count}) n", STEPS, WAITS):
                await connection.execute(statement, timeout=600)
        return
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    connection.set_busy_timeout(10_000)
    series = f"with recursive counted(n) as (select 1 union all select n + 1 from counted where n < {count})"
    connection.execute("begin immediate")
    for statement in (f"{series} {RUNS} counted", STEPS, WAITS):
        connection.execute(statement)
    connection.execute("commit")
    connection.close()
