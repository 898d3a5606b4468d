"""Runs a runtime for a command: waits for the store at start-up, and stops gracefully."""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from wakeful.cli import USUAL_PACE
from wakeful.errors import StoreUnavailable
from wakeful.settings import next_token, shown_store, token
from wakeful.shell.arguments import Parser, add_app, add_logs, add_store, operator_of, seconds, whole_number
from wakeful.shell.carrying import number
from wakeful.shell.life import Stopping
from wakeful.shell.logs import start_logs
from wakeful.shell.terminal import SHOWN_OF_AN_ID, say
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage
from wakeful.triggers.schedules import code_schedules

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.runtime import Runtime

DEFAULT_GRACE = 10.0
FIRST_WAIT = 0.25
LONGEST_WAIT = 5.0
STOPPING_TAKES_AT_MOST = 20.0
SHOWN_RUNS = 4
# Errors of a database that waiting will not fix: fail at once instead of retrying every five seconds.
PERMANENT_ERRORS = {
    "InvalidPasswordError",
    "InvalidAuthorizationSpecificationError",
    "InvalidCatalogNameError",
    "InsufficientPrivilegeError",
}


def add_working(parser: Parser) -> None:
    """The options of every command that runs agents."""
    add_app(parser)
    add_store(parser)
    parser.add_argument(
        "--in-flight",
        metavar="N",
        type=whole_number(1),
        help="execute at most N runs at a time (default: the app's setting)",
    )
    parser.add_argument(
        "--grace",
        metavar="TIME",
        type=seconds,
        default=DEFAULT_GRACE,
        help="how long running runs may continue after Ctrl-C, like 30s (default: 10s; 2s for `dev`)",
    )
    add_logs(parser)


def add_paused(parser: Parser) -> None:
    parser.add_argument(
        "--paused", action="store_true", help="start with the whole app paused, until `wakeful resume all`"
    )


def prepare(arguments: argparse.Namespace) -> Declarations:
    """Configure logs, then load the app. The default level is info: the channel `log` writes its messages at that
    level.
    """
    from wakeful.loading import load_app

    start_logs(arguments)
    app = load_app(arguments.app)
    if arguments.in_flight is not None:
        app.in_flight = arguments.in_flight
    return app


def make_runtime(app: Declarations, arguments: argparse.Namespace, **options: Any) -> Runtime:
    from wakeful.runtime import Runtime

    runtime = Runtime(app, store=arguments.store, grace=arguments.grace, has_token=token() is not None, **options)
    app.runtime = runtime  # app.emit() inside a handler uses this runtime
    return runtime


def describe(runtime: Runtime) -> str:
    """(sqlite:///wakeful.db, 3 agents, 2 schedules)"""
    count, times = len(runtime.app.agents), len(code_schedules(runtime.agents))
    schedules = f", {number(times, 'schedule')}" if times else ""
    return f"({shown_store(runtime.url)}, {number(count, 'agent')}{schedules})"


async def is_open(runtime: Runtime) -> bool:
    """Try to open the store. False if it is unavailable for now; raises errors that waiting will not fix."""
    try:
        await runtime.open()
    except StoreUnavailable as error:
        if runtime.database.dialect == "sqlite" or type(error.__cause__).__name__ in PERMANENT_ERRORS:
            raise
        note_outage(logger_of(), "the store is unavailable; waiting for it", error)
        return False
    return True


def spare_the_collector() -> None:
    """Exclude everything loaded so far from garbage collection, which cost a busy worker some percent, and now and then
    a pause of many milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*USUAL_PACE)  # the command line slowed it down for the start


def pauses(arguments: argparse.Namespace) -> str | None:
    """The operator who pauses the app before it starts, or None."""
    return operator_of(arguments) if arguments.paused else None


async def pause_first(runtime: Runtime, operator: str) -> None:
    """Pause the app, so that an operator can look around before the first run is claimed."""
    from wakeful.resources.desk import Desk
    from wakeful.resources.pauses import change_one
    from wakeful.stores.request import Actor

    desk = Desk(runtime.reader, Actor(operator, "cli"), runtime.store, "started with --paused")
    await change_one(desk, runtime.app.name, None, paused=True)
    say("paused: start with `wakeful resume all`")


async def pause_before_start(runtime: Runtime, operator: str | None, *, opened: bool) -> str | None:
    """Pause before the process reports ready, because an operator who sees it ready may resume at once, and a later
    pause would undo that. Returns the operator who is still to pause it if the store is unavailable.
    """
    if operator is not None and opened:
        try:
            await pause_first(runtime, operator)
        except StoreUnavailable:
            return operator
        return None
    return operator


async def guard_app(runtime: Runtime, *, serves: bool) -> None:
    """Called before the first run, so before a run can start a program; if the store is unavailable, once it is there."""
    from wakeful.operations.guarding import guard

    tokens, process = (token(), next_token()), runtime.membership.process
    await guard(runtime.store, runtime.reader, runtime.app, tokens, serves=serves, process=process)


async def start_patiently(runtime: Runtime, stopping: Stopping, *, opened: bool, paused_by: str | None = None) -> bool:
    """Open and start, retrying until the store is available. False if asked to stop first."""
    log = logger_of()
    wait = FIRST_WAIT
    while not stopping.asked.is_set():
        if opened:
            try:
                if paused_by is not None:
                    await pause_first(runtime, paused_by)
                    paused_by = None  # only once: an operator may resume before the next iteration
                await runtime.start()
            except StoreUnavailable as error:
                note_outage(log, "the store is unavailable; waiting for it", error)
                await runtime.membership.leave()
            else:
                spare_the_collector()
                return True
        try:
            await asyncio.wait_for(stopping.asked.wait(), wait)
        except TimeoutError:
            wait = min(wait * 2, LONGEST_WAIT)
        opened = opened or (not stopping.asked.is_set() and await is_open(runtime))
    return False


async def stop_politely(runtime: Runtime, stopping: Stopping, grace: float) -> None:
    """Let running runs finish; release them when the grace period is over or the operator presses Ctrl-C again."""
    runs = runtime.worker.in_flight
    if runs:
        names = ", ".join(f"{run.agent} {run.id[:SHOWN_OF_AN_ID]}" for run in runs[:SHOWN_RUNS])
        more = f" and {len(runs) - SHOWN_RUNS} more" if len(runs) > SHOWN_RUNS else ""
        count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        say(f"stopping; waiting up to {grace:g} s for {count} ({names}{more}); press Ctrl-C again to stop at once")
    await first_of(runtime.worker.stop(grace), stopping.hurry.wait())


async def first_of(*waits: Awaitable[object]) -> None:
    """Wait until the first of these ends, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close(runtime: Runtime) -> None:
    """Release runs, sign off and close, within a time limit in case the database is unavailable."""
    try:
        async with asyncio.timeout(STOPPING_TAKES_AT_MOST):
            await runtime.stop(0)
    except TimeoutError:
        say("the store does not answer; the runs of this process are free when its lease expires")
    finally:
        runtime.app.runtime = None
