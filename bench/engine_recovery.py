"""How long after `kill -9` of a worker its run goes on in another one.

SQLite: from the moment that the new worker has joined (its lock tells it at once that the old one is dead).
PostgreSQL: a second worker stands by; from the kill to its handler's first line. Its free lock tells that the first one is gone; the
lease, which is what there was to wait for without that, is shown beside it. And the same with two that both work: until the last
run of the killed one has gone on.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time

import structlog

from wakeful import App, Run, on
from wakeful.clock import SECOND, Microseconds
from wakeful.execution.lease import LEASE

RUNS = 20


def make_app(store: str, in_flight: int = 64) -> App:
    app = App("recovery", store=store, in_flight=in_flight)

    @app.agent(on("bench.recovery"))
    async def hang(run: Run) -> None:  # noqa: ARG001 a handler takes its run
        print("started", time.time_ns(), os.getpid(), flush=True)
        await asyncio.Event().wait()

    return app


async def measure(store: str, *, stand_by: bool, lease: Microseconds = LEASE) -> float:
    """Seconds from the kill (with a worker standing by) or from joining (with one started after it)."""
    app = make_app(store)
    async with app.running(worker=False, migrate=True):
        first = await _start(store, lease)
        await app.emit("bench.recovery")
        await _line(first, b"started")
        second = await _start(store, lease) if stand_by else None
        began = time.time_ns()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        if second is None:
            second = await _start(store, lease)
            began = int(second.joined)  # type: ignore[attr-defined]
        resumed = int((await _line(second, b"started"))[1])
        second.kill()
        await second.wait()
    return (resumed - began) / 1e9


async def measure_busy(store: str, *, lease: Microseconds = LEASE) -> float:
    """Seconds from the kill of one of two workers until the last of its runs has gone on in the other."""
    app = make_app(store)
    async with app.running(worker=False, migrate=True):
        first = await _start(store, lease, in_flight=RUNS)
        await _begin(app, first)
        second = await _start(store, lease)  # the first one has no room, so that what comes now is this one's
        await _begin(app, second)
        began = time.time_ns()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        resumed = max([int((await _line(second, b"started"))[1]) for _ in range(RUNS)])
        second.kill()
        await second.wait()
    return (resumed - began) / 1e9


async def _begin(app: App, worker: asyncio.subprocess.Process) -> None:
    """Let a worker have runs."""
    for _ in range(RUNS):
        await app.emit("bench.recovery")
    for _ in range(RUNS):
        await _line(worker, b"started")


async def _start(store: str, lease: Microseconds, in_flight: int = 64) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "bench.engine_recovery", "--store", store, "--lease", str(lease)]
    command += ["--in-flight", str(in_flight)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    process.joined = (await _line(process, b"joined"))[1]  # type: ignore[attr-defined]
    return process


async def _line(process: asyncio.subprocess.Process, word: bytes) -> list[bytes]:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while line := await process.stdout.readline():
            if line.startswith(word):
                return line.split()
    message = f"the worker ended before it said {word!r}"
    raise RuntimeError(message)


async def work(store: str, lease: Microseconds, in_flight: int) -> None:
    app = make_app(store, in_flight)
    print("joined", time.time_ns(), flush=True)
    async with app.running(lease=lease):
        await asyncio.Event().wait()


def main() -> None:
    """Be a worker; with --measure, the one who starts two workers, kills one and prints how long it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--lease", type=int, default=15 * SECOND)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if options.measure:
        print(json.dumps({"took": asyncio.run(measure(options.store, stand_by=True, lease=options.lease))}))
        return
    asyncio.run(work(options.store, options.lease, options.in_flight))


if __name__ == "__main__":
    main()
