"""Steady load for a long time, and what it leaves behind in the tables of PostgreSQL.

Two worker processes handle short runs that come in at a steady rate: three steps and an effect each, one in ten sleeps in
between, one in ten fails at first and is tried again later. Every update of a row leaves a dead one behind, until the
server's autovacuum comes by. What is looked at every few seconds is how many there are: where a queue is not looked after,
they become more and more, and every claim reads past them. There is a long history from the start, put in by SQL: the longer
it is, the more dead rows PostgreSQL lets be by its own defaults.

    wakeful bench --only soak --seconds 10m
"""

import argparse
import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import structlog

from bench.engine_runs import PAYLOAD, comment, fetch, judge, summarise
from wakeful import App, Run, Transient, on
from wakeful.cli.working import spare_the_collector
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs

WORKERS = 2
PER_SECOND = 100
LOOKS = 60  # in the whole time, and not more often than it takes the server to count
LEAST_REST = 1.0
ONE_IN = 10
# Longer than what a run waits for in place, so that it is put away.
PUT_AWAY = "2500ms"
# A table with fewer dead rows than this has no bloat to speak of, however they come and go.
FEW = 1_000
MOST_GROWTH = 1.25
# Autovacuum looks once a minute: in less time than this it has not come by several times in each half.
LEAST_TO_JUDGE = 480.0
HISTORY = """
insert into wakeful_run (id, root, app, agent, event_seq, state, created_at, token)
select md5('old' || n), md5('old' || n), 'soak', 'handle', 0, 'done', n, 1 from generate_series(1, cast($1 as bigint)) n
"""
LOOK = """
select relname, n_live_tup, n_dead_tup, pg_table_size(relid), pg_indexes_size(relid), autovacuum_count
from pg_stat_user_tables where relname like 'wakeful_%' order by relname
"""


@dataclass(slots=True)
class Bloat:
    """One table: its dead rows over the time, and what it is in the end."""

    table: str
    live: int
    most: int
    first_half: int
    second_half: int
    table_size: int
    index_size: int
    vacuums: int
    judged: bool

    @property
    def bounded(self) -> bool | None:
        """Did it stop growing? None: there was not enough time to tell."""
        if not self.judged:
            return None
        return self.second_half <= max(FEW, self.first_half * MOST_GROWTH)


def make_app(store: str) -> App:
    app = App("soak", store=store)

    @app.agent(on("bench.ticket.created"))
    async def handle(run: Run, data: dict[str, Any]) -> dict[str, object]:
        found = await run.step(fetch, data["number"])
        if data["number"] % ONE_IN == 1:
            await run.sleep(PUT_AWAY)
        verdict = await run.step(judge, found)
        if data["number"] % ONE_IN == 2 and run.attempt == 1:
            raise Transient("the first attempt of some always fails", retry_after=PUT_AWAY)
        await run.act(comment, data["number"], "nothing to do")
        return await run.step(summarise, verdict)

    return app


async def measure(store: str, seconds: float, *, history: int) -> list[Bloat]:
    """The tables that have dead rows, most first."""
    app = make_app(store)
    async with app.running(worker=False, migrate=True) as runtime:
        connection = await asyncpg.connect(store)
        await connection.execute(HISTORY, history, timeout=600)
        await connection.execute("vacuum analyze wakeful_run", timeout=600)
        found = await _soak(app, runtime, store, connection, seconds)
    return sorted((one for one in found if one.most), key=lambda one: -one.most)


async def _soak(app: App, runtime: Runtime, store: str, connection: Any, seconds: float) -> list[Bloat]:
    async with _workers(store):
        feeding = asyncio.create_task(_feed(app))
        try:
            looks = await _look(connection, seconds, feeding)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await connection.close()
        counts = await count_runs(runtime.reader)
        if set(counts) - {"done", "ready", "running", "waiting"}:
            message = f"not every run went well, so the figures mean nothing: {counts}"
            raise RuntimeError(message)
    return [_bloat(table, [look[table] for look in looks], judged=seconds >= LEAST_TO_JUDGE) for table in looks[-1]]


async def _feed(app: App) -> None:
    """One event after the other, at a steady rate."""
    began, number = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * PER_SECOND)
        news = range(number, due)
        number = due
        await asyncio.gather(
            *(app.emit("bench.ticket.created", {**PAYLOAD, "number": one}, id=f"event-{one:012d}") for one in news)
        )
        await asyncio.sleep(1 / PER_SECOND)


async def _look(connection: Any, seconds: float, feeding: asyncio.Task[None]) -> list[dict[str, Any]]:
    ends = time.perf_counter() + seconds
    looks = []
    while time.perf_counter() < ends:
        await asyncio.sleep(max(LEAST_REST, seconds / LOOKS))
        if feeding.done():
            feeding.result()
        looks.append({row["relname"]: row for row in await connection.fetch(LOOK)})
    return looks


def _bloat(table: str, rows: list[Any], *, judged: bool) -> Bloat:
    dead = [row["n_dead_tup"] for row in rows]
    half = max(1, len(dead) // 2)
    last = rows[-1]
    return Bloat(
        table,
        last["n_live_tup"],
        max(dead),
        max(dead[:half]),
        max(dead[half:], default=0),
        last["pg_table_size"],
        last["pg_indexes_size"],
        last["autovacuum_count"],
        judged,
    )


@contextlib.asynccontextmanager
async def _workers(store: str) -> AsyncIterator[None]:
    """Worker processes, for as long as the block lasts."""
    command = [sys.executable, "-m", "bench.soak", "--store", store]
    processes = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(WORKERS)]
    try:
        for process in processes:
            assert process.stdout is not None
            await process.stdout.readline()  # it works
        yield
        for process in processes:
            if process.returncode is not None:
                message = f"a worker ended with {process.returncode}, so the figures mean nothing"
                raise RuntimeError(message)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def work(store: str) -> None:
    app = make_app(store)
    async with app.running():
        spare_the_collector()  # as `wakeful worker` does
        print("working", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Be a worker."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    import uvloop

    uvloop.run(work(parser.parse_args().store))


if __name__ == "__main__":
    main()
