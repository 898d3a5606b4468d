"""Schedules: what many of them cost while nothing is due, how long many that are due at once take, and how late one is.

Runs in a process of its own: `python -m bench.engine_schedules --stores URL URL URL --count 10000`.
"""

import argparse
import asyncio
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from bench.engine_dispatch import percentiles
from wakeful import App, Run
from wakeful.cli.working import spare_the_collector
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.triggers.at import at
from wakeful.triggers.cron import cron

ADDED_AT_ONCE = 200
# Longer than it takes to add them all, on a slow machine.
ADDED_PER_SECOND = 300
BEFORE_ALL = 5.0
APART = 0.1
SOON = 1.0


def make_app(store: str, late: list[float] | None = None) -> App:
    app = App("timed", store=store)

    @app.agent(name="timed")
    async def timed(run: Run) -> None:
        if late is not None and run.scheduled_for is not None:
            late.append((datetime.now(UTC) - run.scheduled_for).total_seconds() * 1000)

    return app


async def add(runtime: Runtime, schedules: list[Any]) -> None:
    for first in range(0, len(schedules), ADDED_AT_ONCE):
        await asyncio.gather(
            *(
                runtime.schedules.add(f"s{first + number}", one, "timed", by=Actor("bench", "cli"))
                for number, one in enumerate(schedules[first : first + ADDED_AT_ONCE])
            )
        )


async def idle(store: str, count: int, seconds: float) -> float:
    """The share of a core that a process with so many schedules takes, none of which is due."""
    app = make_app(store)
    now = datetime.now(UTC)
    async with app.running(migrate=True) as runtime:
        await add(
            runtime, [cron(f"{number % 60} {(now.hour + 6 + number % 12) % 24} * * *") for number in range(count)]
        )
        await asyncio.sleep(SOON)
        began, busy = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        return (time.process_time() - busy) / (time.perf_counter() - began)


async def at_once(store: str, count: int) -> float:
    """Seconds from the moment at which so many are due until the last one's event and run are stored."""
    app = make_app(store)
    async with app.running(migrate=True) as runtime:
        await runtime.store.do(ChangePause("timed", "timed", paused=True, by=Actor("bench", "code")))
        moment = datetime.now(UTC) + timedelta(seconds=BEFORE_ALL + count / ADDED_PER_SECOND)
        await add(runtime, [at(moment)] * count)
        if datetime.now(UTC) >= moment:
            message = "not all were there in time, so the figure means nothing"
            raise RuntimeError(message)
        spare_the_collector()
        await asyncio.sleep((moment - datetime.now(UTC)).total_seconds())
        while runtime.scheduler.fired < count:  # noqa: ASYNC110 nobody tells
            await asyncio.sleep(0.002)
        took = (datetime.now(UTC) - moment).total_seconds()
        counts = await count_runs(runtime.reader)
        if counts != {"ready": count}:
            message = f"not every occurrence has its run, so the figure means nothing: {counts}"
            raise RuntimeError(message)
        return took


async def lateness(store: str, samples: int) -> tuple[float, float]:
    """Milliseconds from an occurrence to the handler's first line, p50 and p99, while nothing else goes on."""
    late: list[float] = []
    app = make_app(store, late)
    async with app.running(migrate=True) as runtime:
        start = datetime.now(UTC) + timedelta(seconds=SOON + samples / ADDED_PER_SECOND)
        await add(runtime, [at(start + timedelta(seconds=APART * number)) for number in range(samples)])
        while len(late) < samples:  # noqa: ASYNC110
            await asyncio.sleep(APART)
    return percentiles(late)


async def measure(options: argparse.Namespace) -> dict[str, float]:
    of_few, of_many, of_all = options.stores
    p50, p99 = await lateness(of_few, options.samples)
    return {
        "idle": await idle(of_many, options.count, options.seconds),
        "at_once": await at_once(of_all, options.count),
        "p50": p50,
        "p99": p99,
    }


def main() -> None:
    """Measure one kind of store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--stores", nargs=3, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    import uvloop

    print(json.dumps(uvloop.run(measure(options))))


if __name__ == "__main__":
    main()
