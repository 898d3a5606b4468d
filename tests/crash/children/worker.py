"""What a child does: it works on the crash app, as its plan says; see plan.py."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from pydantic_core import to_json

from crash.children.plan import Plan
from crash.children.workload import Counter, build
from wakeful.api.serving import create
from wakeful.clock import SECOND
from wakeful.errors import StoreUnavailable
from wakeful.runtime import Runtime
from wakeful.shell.life import fast_loop
from wakeful.stores import postgres_connections
from wakeful.testing import Boundaries, Boundary
from wakeful.testing.nursery import Voice
from wakeful.testing.waiting import until

Say = Callable[..., None]

FOR_EVER = 3600.0  # the test that started us has less patience


def boundaries(plan: Plan) -> Boundaries:
    """The probe: ends or stops the process where its plan says."""
    say = Voice(plan.case).say

    def passed(boundary: Boundary) -> None:
        if plan.say_boundaries:
            say("passed", **boundary.to_json())

    return Boundaries(
        crash_at=plan.crash_at,
        stop_at=plan.stop_at,
        stop_in=plan.stop_in,
        stop_on=plan.stop_on,
        crash_on=plan.crash_on,
        single=plan.single,
        passed=passed,
        reached=lambda boundary: say("at the boundary", **boundary.to_json()),
    )


def make_runtime(plan: Plan, probe: Boundaries | None = None) -> Runtime:
    gate = None if plan.gate is None else Path(plan.gate)
    app = build(
        plan.store,
        Counter(Path(plan.counter)),
        say=Voice(plan.case).say,
        in_flight=plan.in_flight,
        gate=gate,
        slow_to_cancel=plan.slow_to_cancel,
    )
    runtime = Runtime(app, lease=round(plan.lease * SECOND), probe=probe, grace=plan.grace)
    app.runtime = runtime
    database: Any = runtime.database
    if plan.pages is not None:
        database._file.max_page_count = plan.pages
    if plan.command_timeout is not None:
        postgres_connections.COMMAND_TIMEOUT = plan.command_timeout
    if plan.idle_limit is not None:
        postgres_connections.IDLE_IN_TRANSACTION_LIMIT = plan.idle_limit
    return runtime


async def send(runtime: Runtime, say: Say, kind: str, identifier: str, data: Any) -> None:
    """Send an event until there is an answer. Sending it again is safe, because it has an id."""
    while True:
        try:
            receipt = await runtime.app.emit(kind, data, id=identifier)
        except StoreUnavailable as error:
            say("unavailable", id=identifier, error=str(error))
            await asyncio.sleep(0.05)
        else:
            say("accepted", id=identifier, status=receipt.status, runs=receipt.runs)
            return


async def send_orders(runtime: Runtime, plan: Plan, numbers: Iterator[int], told_to_stop: asyncio.Event) -> None:
    while not told_to_stop.is_set():
        number = next(numbers)
        await send(runtime, Voice(plan.case).say, "order.placed", f"order-{number}", {"number": number})
        await asyncio.sleep(plan.rest)


async def has_done(runtime: Runtime, count: int) -> bool:
    try:
        counts = await runtime.reader.counts()
        late = (await runtime.reader.deliveries(state="pending", limit=1))["deliveries"]
        return counts.get("done", 0) + counts.get("dead", 0) + counts.get("held", 0) >= count and not late
    except StoreUnavailable:
        return False


class HttpServer(uvicorn.Server):
    """Leaves the signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def make_room(runtime: Runtime, say: Say) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    database: Any = runtime.database
    if runtime.database.dialect == "sqlite":
        await database._job(lambda: database._connection.execute("pragma max_page_count = 1000000").get)
    say("there is room")


async def work(plan: Plan) -> None:
    say = Voice(plan.case).say
    probe = boundaries(plan)
    runtime = make_runtime(plan, probe)
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    background: set[asyncio.Task[Any]] = set()
    loop.add_signal_handler(signal.SIGTERM, told_to_stop.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: background.add(loop.create_task(make_room(runtime, say))))
    await runtime.open()
    server: HttpServer | None = None
    if plan.port is not None:
        server = HttpServer(uvicorn.Config(create(runtime), port=plan.port, lifespan="off", log_config=None))
        background.add(loop.create_task(server.serve()))
        await until(lambda: server is not None and server.started)
        say("serving")
    if plan.work:
        await runtime.start()
        say("working", process=runtime.membership.process)
    for kind, identifier, data in plan.emit:
        await send(runtime, say, kind, identifier, data)
        if plan.die_when_accepted:
            os.kill(os.getpid(), signal.SIGKILL)
    if plan.senders:
        numbers = itertools.count(1)
        await asyncio.gather(*(send_orders(runtime, plan, numbers, told_to_stop) for _ in range(plan.senders)))
        say("sent", count=next(numbers) - 1)
    if plan.done is None:
        await told_to_stop.wait()
    else:
        await until(lambda: has_done(runtime, plan.done or 0), within=FOR_EVER)
    if server is not None:
        server.should_exit = True
    await runtime.stop()
    await asyncio.gather(*background)
    say("stopped", boundaries=probe.count)


def main(given: dict[str, Any]) -> None:
    plan = Plan.read(given)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=lambda value, **_: to_json(value, fallback=repr).decode()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    if plan.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan.file_size, resource.RLIM_INFINITY))
    with asyncio.Runner(loop_factory=fast_loop()) as runner:  # the loop that `wakeful worker` has
        runner.run(work(plan))
