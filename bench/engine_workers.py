"""One, two or four worker processes on one PostgreSQL, with steps that wait 50 ms, as those that ask a model do.

Few runs are in flight in each, so that waiting is the limit and not the cores. There is always more to do than they can. What
counts are the runs that were done in the database from one moment to another, all
workers being at work.
"""

import argparse
import asyncio
import logging
import math
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import structlog

from wakeful import App, Run, on
from wakeful.cli.working import spare_the_collector
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs

IN_FLIGHT = 8
STEPS = 3
WAIT = 0.05
WARM_UP = 0.5
MARGIN = 10.0  # seconds for which there is work beyond what is measured: a machine may be busy with other things


async def ask(number: int) -> int:
    """A step that waits for somebody else."""
    await asyncio.sleep(WAIT)
    return number


def make_app(store: str) -> App:
    app = App("workers", store=store, in_flight=IN_FLIGHT)

    @app.agent(on("bench.asked"))
    async def think(run: Run) -> None:
        for number in range(STEPS):
            await run.step(ask, number)

    return app


async def measure(store: str, workers: int, seconds: float) -> float:
    """Runs per second of so many processes together."""
    app = make_app(store)
    fastest = workers * IN_FLIGHT / (STEPS * WAIT)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(app.running(worker=False, migrate=True))
        processes = [await _start(stack, store) for _ in range(workers)]
        for process in processes:
            await process.stdout.readline()  # it works
        await _emit(app, math.ceil(fastest * (seconds + WARM_UP + MARGIN)))
        await asyncio.sleep(WARM_UP)
        before, began = await _done(runtime), time.perf_counter()
        await asyncio.sleep(seconds)
        after, took = await _done(runtime), time.perf_counter() - began
        if not (await count_runs(runtime.reader)).get("ready"):
            message = "the backlog is gone before the time is over, so the figures mean nothing"
            raise RuntimeError(message)
    return (after - before) / took


async def _emit(app: App, count: int) -> None:
    for first in range(0, count, 100):
        await asyncio.gather(*(app.emit("bench.asked", id=str(number)) for number in range(first, first + 100)))


async def _done(runtime: Runtime) -> int:
    return (await count_runs(runtime.reader)).get("done", 0)


async def _start(stack: AsyncExitStack, store: str) -> Any:
    command = [sys.executable, "-m", "bench.engine_workers", "--store", store]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    return process


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
