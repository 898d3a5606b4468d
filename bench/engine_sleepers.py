"""Runs that sleep: many due at the same moment, and one alone.

Many: all of them are put away, their moment comes, and the time until the last one is done is taken; beside it, the time that
as many runs take which were ready all along and do the same from then on. One: how late its handler goes on.

Runs in a process of its own: `python -m bench.engine_sleepers --store URL --store-of-ready URL --count 10000`.
"""

import argparse
import asyncio
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from bench.engine_dispatch import percentiles
from wakeful import App, Run, on
from wakeful.cli.working import spare_the_collector
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs

IN_FLIGHT = 64
EMITTED_AT_ONCE = 64
# How many go to sleep in a second at least, on a slow machine; and the seconds that all are given besides.
ASLEEP_PER_SECOND = 400
BEFORE_ALL = 6.0
# Longer than what a run waits for in place.
NAP = 2.5
APART = 0.05


@dataclass(frozen=True, slots=True)
class Lateness:
    """Milliseconds."""

    p50: float
    p99: float


async def tell(number: int) -> int:
    return number


def make_app(store: str, late: list[float] | None = None) -> App:
    """An app with an agent that sleeps until its event says, or not at all, and takes a step then."""
    app = App("sleepers", store=store, in_flight=IN_FLIGHT)

    @app.agent(on("bench.slept"))
    async def sleep(run: Run, data: dict[str, Any]) -> None:
        until = data.get("until")
        if until is not None:
            await run.sleep_until(until)
            if late is not None:
                late.append((datetime.now(UTC) - datetime.fromisoformat(until)).total_seconds() * 1000)
        await run.step(tell, data["number"])

    return app


async def emit(app: App, count: int, until: datetime | None) -> None:
    for first in range(0, count, EMITTED_AT_ONCE):
        await asyncio.gather(
            *(
                app.emit("bench.slept", {"number": number, "until": until and until.isoformat()}, id=str(number))
                for number in range(first, min(count, first + EMITTED_AT_ONCE))
            )
        )


def ended(runtime: Runtime, count: int) -> asyncio.Event:
    """Set when so many more attempts have ended, as the worker counts them: asking the store would slow it down."""
    event = asyncio.Event()
    whole = runtime.worker.finished + count

    def look() -> None:
        if runtime.worker.finished >= whole:
            event.set()

    runtime.worker.on_finished = look
    return event


async def refuse_others_than_done(runtime: Runtime, count: int) -> None:
    counts = await count_runs(runtime.reader)
    if counts != {"done": count}:
        message = f"not every run went well, so the figures mean nothing: {counts}"
        raise RuntimeError(message)


async def asleep(store: str, count: int) -> float:
    """Seconds from their moment until the last is done."""
    app = make_app(store)
    async with app.running(migrate=True) as runtime:
        spare_the_collector()
        moment = datetime.now(UTC) + timedelta(seconds=BEFORE_ALL + count / ASLEEP_PER_SECOND)
        await emit(app, count, moment)
        await runtime.worker.drained()
        counts = await count_runs(runtime.reader)
        if counts != {"waiting": count} or datetime.now(UTC) >= moment:
            message = f"not everybody was asleep in time, so the figures mean nothing: {counts}"
            raise RuntimeError(message)
        await ended(runtime, count).wait()
        took = (datetime.now(UTC) - moment).total_seconds()
        await refuse_others_than_done(runtime, count)
        return took


async def ready(store: str, count: int) -> float:
    """Seconds from the start of a worker until the last is done."""
    app = make_app(store)
    async with app.running(worker=False, migrate=True) as runtime:
        await emit(app, count, None)
        spare_the_collector()
        all_ended = ended(runtime, count)
        began = time.perf_counter()
        await runtime.start()
        await all_ended.wait()
        took = time.perf_counter() - began
        await refuse_others_than_done(runtime, count)
        return took


async def lateness(store: str, samples: int) -> Lateness:
    """Sleepers that wake one after the other, while nothing else goes on."""
    late: list[float] = []
    app = make_app(store, late)
    async with app.running(migrate=True) as runtime:
        all_ended = ended(runtime, 2 * samples)  # each is put away once
        for number in range(samples):
            until = datetime.now(UTC) + timedelta(seconds=NAP)
            await app.emit("bench.slept", {"number": number, "until": until.isoformat()}, id=str(number))
            await asyncio.sleep(APART)
        await all_ended.wait()
    return Lateness(*percentiles(late))


async def measure(store: str, store_of_ready: str, count: int) -> dict[str, float]:
    return {"asleep": await asleep(store, count), "ready": await ready(store_of_ready, count)}


def main() -> None:
    """Measure one store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--store-of-ready", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    import uvloop

    print(json.dumps(uvloop.run(measure(options.store, options.store_of_ready, options.count))))


if __name__ == "__main__":
    main()
