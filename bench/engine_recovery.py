"""How long after `kill -9` of a worker its run goes on in another one.

SQLite: from the moment that the new worker has joined (its lock tells it at once that the old one is dead).
PostgreSQL: a second worker stands by; from the kill to its handler's first line, to be compared with the lease.
"""

import argparse
import asyncio
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


def make_app(store: str) -> App:
    app = App("recovery", store=store)

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


async def _start(store: str, lease: Microseconds) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "bench.engine_recovery", "--store", store, "--lease", str(lease)]
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


async def work(store: str, lease: Microseconds) -> None:
    app = make_app(store)
    print("joined", time.time_ns(), flush=True)
    async with app.running(lease=lease):
        await asyncio.Event().wait()


def main() -> None:
    """Be a worker."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--lease", type=int, default=15 * SECOND)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(work(options.store, options.lease))


if __name__ == "__main__":
    main()
