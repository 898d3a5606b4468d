"""DBOS on the same PostgreSQL server: what a user could pick instead, tuned as its documentation allows.

Two things are measured, as `bench` measures them of the engine:

- finished workflows a second: three trivial steps each, a closed loop that keeps 64 of them running;
- idle dispatch: from just before a workflow is enqueued until its body starts, on a queue with nothing else in it.

How it is tuned, by its reference (configuration and queues) and the source of 3.3; what was compared has its figures
beside the constant:

- async workflows with async steps, started directly and not through a queue, which by its source costs more queries;
- few executor threads: DBOS does all its database work in threads even for async workflows, and that work is mostly
  Python, so more threads only fight for the interpreter lock. See `_EXECUTOR_THREADS` for figures;
- a handle of a workflow in the same process is a future, so waiting for it does not poll;
- the queue polls as often as it can instead of once a second;
- logs and traces off.

DBOS keeps its state in globals and is meant to be one per process, so this is a program and not a function:

    python -m bench.rival_dbos --dsn postgresql://postgres@127.0.0.1:5432/postgres --seconds 5 --json

It works in a database of its own on that server, which it makes anew and drops at the end. Where DBOS is not
installed it says so in the same JSON line, and that is not a failure.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from importlib.util import find_spec
from urllib.parse import urlsplit

import asyncpg

_MISSING = "DBOS is not installed: uv sync --group bench, or pip install dbos"
_DATABASE = "wakeful_rival_dbos"
_QUEUE = "dispatch"
_STEPS = 3
_WARM_UP_SECONDS = 1.0
_WARM_UP_SAMPLES = 3
"""The first ones also wait for DBOS to find its new queue, which it looks for once a second."""
_EXECUTOR_THREADS = 4
"""Medians of seven rounds in turn, workflows/s: async with 2, 4, 8 threads 42, 54, 50; sync in 64 threads 44 to 51.
The machine was busy and the rounds overlap (41 to 69 for the 4), so this is a mild preference and not a law."""
_POOL_SIZE = 8
"""Enough for the executor, the queues and the listener. Sizes from 4 to 64 were tried once each: no clear difference."""
_QUEUE_POLLING_SECONDS = 0.001
"""Seen at 20 ms: p50 37 ms; at 5 ms: 19 ms; at 1 ms: 17 ms. A poll's own queries take most of what is left."""
_PAUSE_SECONDS = 0.05
"""Between two dispatches. Longer than a poll, so that each finds the queue idle and at no particular point of it."""


class WrongResultError(Exception):
    """A workflow did not count its steps: what is being measured is not what was meant."""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What DBOS did. Latencies are in milliseconds; of 50 samples the p99 is little else than the slowest."""

    version: str
    workflows_per_second: float
    dispatch_p50: float
    dispatch_p99: float


async def measure(dsn: str, seconds: float, in_flight: int, samples: int) -> Report:
    """Start DBOS in a new database and measure it. Once per process: what it registers is global."""
    from dbos import DBOS  # optional, and slow to import

    loop = asyncio.get_running_loop()
    starts: asyncio.Queue[float] = asyncio.Queue()

    async def add_one(number: int) -> int:
        return number + 1

    async def count_up(number: int) -> int:
        for _ in range(_STEPS):
            number = await increase(number)
        return number

    async def tell_start() -> None:
        # Says so itself: to poll for its result would load the very thing that is measured.
        loop.call_soon_threadsafe(starts.put_nowait, time.perf_counter())

    # Registered globally, which must come before the launch. Called and not written as decorators, so that the types
    # also hold where DBOS is not installed and its names are unknown.
    increase = DBOS.step()(add_one)
    counting = DBOS.workflow()(count_up)
    telling = DBOS.workflow()(tell_start)

    async def finish_one() -> None:
        handle = await DBOS.start_workflow_async(counting, 0)
        result = await handle.get_result()
        if result != _STEPS:
            raise WrongResultError(result)

    async def dispatch_one() -> float:
        enqueued = time.perf_counter()
        handle = await DBOS.enqueue_workflow_async(_QUEUE, telling)
        latency = await starts.get() - enqueued
        # Its end is not measured but waited for: DBOS retries for ever what it cannot write, so a workflow that is
        # still being recorded when the database goes would keep this process from ending.
        await handle.get_result(polling_interval_sec=_PAUSE_SECONDS)
        return latency

    async with _launched(dsn):
        await _finish(finish_one, _WARM_UP_SECONDS, in_flight)
        throughput = await _finish(finish_one, seconds, in_flight)
        await DBOS.register_queue_async(_QUEUE, polling_interval_sec=_QUEUE_POLLING_SECONDS)
        await _dispatch(dispatch_one, _WARM_UP_SAMPLES)
        latencies = await _dispatch(dispatch_one, samples)
    percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
    return Report(version("dbos"), throughput, percentiles[49] * 1000, percentiles[98] * 1000)


@contextlib.asynccontextmanager
async def _launched(dsn: str) -> AsyncIterator[None]:
    """Run DBOS on a new database, beside whatever else is on that server."""
    from dbos import DBOS, DBOSConfig

    async with _database(dsn) as own_dsn:
        configuration = DBOSConfig(
            name="wakeful-rival",
            system_database_url=own_dsn,
            max_executor_threads=_EXECUTOR_THREADS,
            sys_db_pool_size=_POOL_SIZE,
            application_version="1",
            enable_otlp=False,
            log_level="ERROR",
        )
        DBOS(config=configuration)
        DBOS.launch()
        try:
            yield
        finally:
            await asyncio.to_thread(DBOS.destroy)


@contextlib.asynccontextmanager
async def _database(dsn: str) -> AsyncIterator[str]:
    server = await asyncpg.connect(dsn)
    try:
        await server.execute(f"drop database if exists {_DATABASE} with (force)")
        await server.execute(f"create database {_DATABASE}")
        yield urlsplit(dsn)._replace(path=f"/{_DATABASE}").geturl()
    finally:
        # By force, because DBOS closes its connections from threads that may still be at it.
        await server.execute(f"drop database if exists {_DATABASE} with (force)")
        await server.close()


async def _finish(finish_one: Callable[[], Awaitable[None]], seconds: float, in_flight: int) -> float:
    """Keep `in_flight` workflows running for `seconds`, and return how many were finished in a second."""
    finished = 0
    start = time.perf_counter()

    async def keep_one_running() -> None:
        nonlocal finished
        while time.perf_counter() - start < seconds:
            await finish_one()
            finished += 1

    await asyncio.gather(*(keep_one_running() for _ in range(in_flight)))
    return finished / (time.perf_counter() - start)


async def _dispatch(dispatch_one: Callable[[], Awaitable[float]], samples: int) -> list[float]:
    latencies = []
    for _ in range(samples):
        await asyncio.sleep(_PAUSE_SECONDS)
        latencies.append(await dispatch_one())
    return latencies


def main() -> None:
    """Measure DBOS and print one line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dsn", required=True, help="any database of the server; DBOS gets one of its own beside it")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if find_spec("dbos") is None:
        print(json.dumps({"missing": _MISSING}) if options.json else _MISSING)
        return
    report = asyncio.run(measure(options.dsn, options.seconds, options.in_flight, options.samples))
    if options.json:
        print(json.dumps(dataclasses.asdict(report)))
    else:
        print(
            f"DBOS {report.version}: {report.workflows_per_second:,.0f} workflows/s, "
            f"idle dispatch p50 {report.dispatch_p50:.1f} ms, p99 {report.dispatch_p99:.1f} ms"
        )


if __name__ == "__main__":
    main()
