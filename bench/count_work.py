"""One thing after the other on one store, and what each of them cost: the counting half of `wakeful bench --count`.

Nothing here depends on speed. Work goes in one piece at a time, and the next begins only when the journal has carried out as many
transitions as one piece makes; so no two of them share a transaction. Each piece is counted by itself. What other parts of the process do
meanwhile (a lease, a lookout) falls into some of them: see `undisturbed`.

Runs in a process of its own: `python -m bench.count_work --store URL --only run`, one JSON line.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import random
import socket
import statistics
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import structlog

from bench import engine_claim, engine_idle, engine_intake, engine_runs, load_http
from bench.meters import Calls, DatabaseMeter, Functions, PostgresMeter, Reading, SqliteMeter
from wakeful.api.serving import create
from wakeful.cli.http_server import HttpServer
from wakeful.cli.listening import BACKLOG
from wakeful.runtime import Runtime
from wakeful.shell.life import Stopping, fast_loop
from wakeful.stores import sqlite

T = TypeVar("T")

WARM_UP = 12
LEARNED_FROM = 3
SHORTLY = 0.001
SETTLED_AFTER = 0.2  # seconds; only while it is learned how many transitions there are
PATIENCE = 20.0
IDLE_FROM, IDLE_FOR = 8.5, 20.0  # seconds after the start; at whole seconds parts of the process look
HEAVIEST = 25
LOOKS_EVERY = sqlite.LOOK_FOR_OTHERS_EVERY
LOOKED_AT = 21
NEVER = 3600.0


async def nothing() -> None:
    """Nothing has to be there."""


@dataclass(slots=True)
class Work:
    """`unit` is counted. `transitions` tells how many the journal has carried out."""

    unit: Callable[[], Awaitable[None]]
    transitions: Callable[[], int]
    before: Callable[[], Awaitable[None]] = nothing  # what has to be there for it, and is not counted


@contextlib.asynccontextmanager
async def runs(store: str, *, outgoing: bool = False) -> AsyncIterator[Work]:
    """An event by `app.emit`, three steps, the end; with `outgoing` an effect and a delivery too."""
    app = engine_runs.make_app(store, 64, outgoing=outgoing)
    async with app.running(migrate=True) as runtime:
        number = finished = 0

        def ended() -> None:
            nonlocal finished
            finished += 1

        runtime.worker.on_finished = ended

        async def run() -> None:
            nonlocal number
            number += 1
            await app.emit(
                "bench.ticket.created",
                engine_runs.PAYLOAD,
                source="/bench",
                id=f"event-{number:012d}",
                subject="ticket/42",
            )
            await rest_until(lambda: finished >= number)

        journal = runtime.store.journal
        yield Work(run, lambda: journal.transitions)


@contextlib.asynccontextmanager
async def http(store: str) -> AsyncIterator[Work]:
    """An event over HTTP, by one connection that stays open. There is no worker: intake alone."""
    runtime = Runtime(engine_intake.make_app(store))
    server = HttpServer(create(runtime), grace=1, access_log=False)
    await runtime.open(migrate=True)
    loop = asyncio.get_running_loop()
    number = 0
    with socket.create_server((load_http.LOOPBACK, 0), backlog=BACKLOG) as listener, socket.socket() as client:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        client.setblocking(False)
        await loop.sock_connect(client, listener.getsockname())

        async def post() -> None:
            nonlocal number
            number += 1
            await loop.sock_sendall(client, request(number))
            answer = await loop.sock_recv(client, 2048)
            if not answer.startswith(b"HTTP/1.1 202 "):
                raise RuntimeError(f"not accepted: {answer.decode(errors='replace')}")

        journal = runtime.store.journal
        yield Work(post, lambda: journal.transitions)
        client.close()
        await server.stop(serving, Stopping())
    await runtime.stop()


@contextlib.asynccontextmanager
async def claim(store: str) -> AsyncIterator[Work]:
    """A claim of ten runs that are ready. Their acceptance and their end are not counted."""
    async with engine_claim.opened(store) as opened:
        claimed: Any = None
        number = 0

        async def before() -> None:
            nonlocal number
            number += 1
            if claimed is not None:
                await engine_claim.finish(opened, claimed)
            await engine_claim.make_ready(opened, number)

        async def unit() -> None:
            nonlocal claimed
            claimed = await engine_claim.claim(opened)

        yield Work(unit, lambda: opened.journal.transitions, before)


WORK: dict[str, Callable[[str], contextlib.AbstractAsyncContextManager[Work]]] = {
    "run": runs,
    "outgoing": lambda store: runs(store, outgoing=True),
    "http": http,
    "claim": claim,
}


async def rest(seconds: float) -> None:
    """asyncio.sleep, but none of the functions that it enters is in Python: waiting costs no calls."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(seconds, over.set_result, None)
    await over


async def rest_until(true: Callable[[], bool]) -> None:
    ends = asyncio.get_running_loop().time() + PATIENCE
    while not true():
        if asyncio.get_running_loop().time() > ends:
            raise TimeoutError("the work that is counted does not come to its end")
        await rest(SHORTLY)


async def learn(work: Work) -> int:
    """How many transitions the journal carries out for one unit."""
    counts = []
    for _ in range(LEARNED_FROM):
        await work.before()
        before = work.transitions()
        await work.unit()
        await rest(SETTLED_AFTER)
        counts.append(work.transitions() - before)
    return min(counts)


async def do(work: Work, transitions: int) -> None:
    """One unit, whole: what comes after its answer too."""
    done = work.transitions() + transitions
    await work.unit()
    await rest_until(lambda: work.transitions() >= done)
    await rest(SHORTLY)


async def count(
    name: str, store: str, meter: DatabaseMeter, calls: Calls, *, pieces: int
) -> tuple[Reading, dict[str, float]]:
    """What one piece of work costs; and how often it enters each function."""
    sqlite.LOOK_FOR_OTHERS_EVERY = NEVER
    async with WORK[name](store) as work:
        for _ in range(WARM_UP):
            await work.before()
            await work.unit()
        transitions = await learn(work)
        gc.collect()
        gc.freeze()
        gc.disable()
        readings, functions = [], []
        for _ in range(pieces):
            await work.before()
            await rest(SHORTLY)
            at = await meter.read()
            entered = calls.read()
            await do(work, transitions)
            after = calls.read()
            readings.append((at, await meter.read()))
            functions.append(calls.between(entered, after))
        costs = typical(await meter.differences(readings))
        alone = undisturbed(functions, key=lambda one: sum(one.values()))
        costs["calls"] = sum(alone.values())
        calls.stop()
        costs["memory"] = await memory(work, transitions, pieces=pieces // 2)
        gc.enable()
    return costs, heaviest(alone)


async def memory(work: Work, transitions: int, *, pieces: int) -> float:
    """Bytes that one piece of work has in use at its most. How many times memory is asked for cannot be told from within Python; but what is
    made is in use for a moment, and that has a peak, which is the same each time.
    """
    tracemalloc.start()
    peaks = []
    for _ in range(pieces):
        await work.before()
        await rest(SHORTLY)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await do(work, transitions)
        peaks.append(tracemalloc.get_traced_memory()[1] - held)
    tracemalloc.stop()
    return undisturbed(peaks)


async def count_idle(store: str, meter: DatabaseMeter, calls: Calls) -> tuple[Reading, dict[str, float]]:
    """What a second costs in which there is nothing to do. Looks of SQLite's writer for others come so often that a busy machine
    makes fewer of them: what one costs is counted, and they are added as if all had come.
    """
    loop = asyncio.get_running_loop()
    sqlite.LOOK_FOR_OTHERS_EVERY = LOOKS_EVERY
    async with engine_idle.make_app(store, 9).running(migrate=True):
        ends = loop.time() + IDLE_FROM
        look = await cost_of_a_look(meter, calls) if isinstance(meter, SqliteMeter) else 0.0
        sqlite.LOOK_FOR_OTHERS_EVERY = NEVER
        await rest(ends - loop.time())
        at = await meter.read()
        entered = calls.read()
        await rest(IDLE_FOR)
        functions = calls.between(entered, calls.read())
        readings = [(at, await meter.read())]
        costs = {name: value / IDLE_FOR for name, value in (await meter.differences(readings))[0].items()}
    costs["calls"] = sum(functions.values()) / IDLE_FOR
    if isinstance(meter, SqliteMeter):
        costs["statements"] += 1 / LOOKS_EVERY
        costs["calls"] += look / LOOKS_EVERY
    return costs, heaviest(functions, IDLE_FOR)


async def cost_of_a_look(meter: SqliteMeter, calls: Calls) -> float:
    """Calls for one look: as many as in most of some short times, in which hardly anything else happens."""
    found: list[float] = []
    while len(found) < LOOKED_AT:
        polls, entered = meter.polls, calls.read()
        await rest(2 * LOOKS_EVERY)
        if meter.polls > polls:
            found.append(sum(calls.between(entered, calls.read()).values()) / (meter.polls - polls))
    return undisturbed(found)


def undisturbed(values: list[T], key: Callable[[T], float] | None = None) -> T:
    """The value below which a quarter of them are. What other parts of the process do meanwhile only ever adds, on a busy machine to more
    than half of the pieces; but the least may be of one whose end was counted with the next.
    """
    return sorted(values, key=key)[len(values) // 4]  # type: ignore[type-var, arg-type]  # without a key they are numbers


def typical(pieces: list[Reading]) -> Reading:
    """Of bytes the mean: pages get full now and then, and that is a part of the cost."""
    costs = {name: undisturbed([piece[name] for piece in pieces]) for name in pieces[0]}
    alone = [piece["bytes"] for piece in pieces if piece["commits"] == costs["commits"]]
    return {**costs, "bytes": statistics.mean(alone)}


def heaviest(functions: Functions, share: float = 1) -> dict[str, float]:
    """The functions that are entered most, and how often."""
    first = sorted(functions.items(), key=lambda one: -one[1])[:HEAVIEST]
    return {named(code): count / share for code, count in first}


def request(number: int) -> bytes:
    body = load_http.BODY % f"event-{number:012d}"
    head = f"POST /v1/events HTTP/1.1\r\nhost: {load_http.LOOPBACK}\r\ncontent-type: application/cloudevents+json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


def named(code: CodeType) -> str:
    """Where a function is: its module as far as it can be told from its file, and its name."""
    path = Path(code.co_filename)
    parts = path.with_suffix("").parts
    for top in ("site-packages", "src", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        if top in parts:
            parts = parts[len(parts) - parts[::-1].index(top) :]
            break
    return f"{'.'.join(parts)}.{code.co_qualname}"


async def main_of(options: argparse.Namespace) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for store in options.store:
        name, _, address = store.partition("=")
        meter: DatabaseMeter = SqliteMeter()
        if options.server is not None:
            meter = PostgresMeter(address, options.server, options.waldump)
        calls = Calls()
        await meter.open()
        calls.start()
        if name == "idle":
            costs, functions = await count_idle(address, meter, calls)
        else:
            costs, functions = await count(name, address, meter, calls, pieces=options.pieces)
            calls.stop()
        await meter.close()
        answer[name] = {"costs": costs, "functions": functions}
    return answer


def main() -> None:
    """Count on one store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", action="append", required=True, metavar="NAME=URL", help="what to count, and where")
    parser.add_argument("--server", type=Path, help="the folder of the PostgreSQL server")
    parser.add_argument("--waldump", type=Path)
    parser.add_argument("--pieces", type=int, default=25)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    random.seed(0)
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        print(json.dumps(runner.run(main_of(options))))


if __name__ == "__main__":
    main()
