"""How long from an event to its handler when nothing else goes on: in one process, and from one process to another.

Two figures for each: from `emit` being called to the handler's first line, and from the answer ("it is on disk") to
the handler's first line. The second can be zero: a claim goes along in the transaction that accepts the event.
"""

import argparse
import asyncio
import logging
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import structlog

from wakeful import App, Run, on


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds."""

    sent_p50: float
    sent_p99: float
    accepted_p50: float
    accepted_p99: float


def make_app(store: str, *, tell: bool = False) -> tuple[App, dict[str, int]]:
    """An app whose agent notes when it starts, and with `tell` says so on standard output."""
    app = App("dispatch", store=store)
    started: dict[str, int] = {}

    @app.agent(on("bench.dispatch"))
    async def note(run: Run) -> None:
        started[run.event.id] = time.time_ns()
        if tell:
            print(run.event.id, started[run.event.id], flush=True)

    return app, started


async def within_one_process(store: str, samples: int) -> Latency:
    """Emit one event at a time, with a pause between them."""
    app, started = make_app(store)
    times: list[tuple[int, int, int]] = []
    async with app.running(migrate=True) as runtime:
        for number in range(samples):
            sent = time.time_ns()
            await app.emit("bench.dispatch", id=str(number))
            accepted = time.time_ns()
            await runtime.drain()
            times.append((sent, accepted, started[str(number)]))
            await asyncio.sleep(0.02)
    return summarise(times)


async def between_processes(store: str, samples: int) -> Latency:
    """Emit in this process, which has no worker; another process handles. One machine, so one clock."""
    app, _ = make_app(store)
    times: list[tuple[int, int, int]] = []
    command = [sys.executable, "-m", "bench.engine_dispatch", "--store", store]
    async with app.running(worker=False, migrate=True):
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            await process.stdout.readline()  # it is ready
            for number in range(samples):
                sent = time.time_ns()
                await app.emit("bench.dispatch", id=str(number))
                accepted = time.time_ns()
                _, started = (await process.stdout.readline()).split()
                times.append((sent, accepted, int(started)))
                await asyncio.sleep(0.02)
        finally:
            process.terminate()
            await process.wait()
    return summarise(times)


def summarise(times: list[tuple[int, int, int]]) -> Latency:
    sent = [(started - sent) / 1e6 for sent, _, started in times]
    accepted = [max(0, started - accepted) / 1e6 for _, accepted, started in times]
    return Latency(*percentiles(sent), *percentiles(accepted))


def percentiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]


async def work(store: str) -> None:
    """The other process: handle events until terminated."""
    app, _ = make_app(store, tell=True)
    async with app.running(migrate=True):
        print("ready", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Be the other process."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    import uvloop

    uvloop.run(work(parser.parse_args().store))


if __name__ == "__main__":
    main()
