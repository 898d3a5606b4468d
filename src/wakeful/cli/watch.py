"""watch: check expectations in a separate process.

Without APP it needs only the store: it checks expectations, raises alarms, and pings. With APP it also runs Wakeful's
own agents, such as the one that sends alarms to people; the app's agents are left to its workers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from wakeful.api.health import Silent, health_routes
from wakeful.cli.http_server import HttpServer
from wakeful.cli.listening import add_address, bind, url_of
from wakeful.cli.working import PERMANENT_ERRORS, close, first_of, is_open, prepare, start_patiently
from wakeful.clock import SECOND, Microseconds, SystemClock, readable
from wakeful.errors import ConfigError, StoreUnavailable
from wakeful.http.security import ApiSettings, Guard, refuse_open_binding
from wakeful.settings import ping_url, shown_store
from wakeful.shell.arguments import Command, Parser, UsageError, add_app, add_logs, add_store, seconds
from wakeful.shell.life import Stopping, live
from wakeful.shell.logs import start_logs
from wakeful.shell.opening import chosen_store, refuse_missing
from wakeful.shell.terminal import announce, say
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import CURRENT, Outage, note_outage
from wakeful.watch.ping import Ping
from wakeful.watch.watcher import EVERY, Watcher

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.declarations import Declarations
    from wakeful.resources.desk import Reads
    from wakeful.stores.store import DatabaseStore

SHORTEST = 1.0
GRACE = 10.0
AGAIN_AFTER = 5.0


def declare(parser: Parser) -> None:
    add_app(parser, optional=True)
    add_store(parser)
    parser.add_argument(
        "--every", metavar="TIME", type=seconds, default=EVERY / SECOND, help="check at least this often (default: 1m)"
    )
    parser.add_argument(
        "--ping",
        metavar="URL",
        help="request this URL after each check, and URL/fail if a check fails (default: WAKEFUL_PING)",
    )
    add_address(parser, port=None)
    add_logs(parser)
    parser.set_defaults(in_flight=None, grace=GRACE)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.every < SHORTEST:
        message = f"--every: must be at least {SHORTEST:g} s"
        raise UsageError(message)
    app = prepare(arguments) if arguments.app is not None else None
    if app is None:
        start_logs(arguments)
        refuse_missing(chosen_store(arguments))
    url = arguments.ping or (None if app is None else app.ping) or ping_url()
    try:
        ping = None if url is None else Ping(url, where="--ping" if arguments.ping else "ping")
    except ConfigError as error:
        raise UsageError(str(error)) from None
    if arguments.port is None:
        return live(lambda stopping: _watch(arguments, app, ping, None, stopping))
    refuse_open_binding(ApiSettings.of_environment(arguments.host))
    with bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: _watch(arguments, app, ping, listener, stopping))


watch_command = Command(
    declare,
    execute,
    "With --port it serves /healthz and /readyz; /readyz fails when the last successful check is too old.",
)


async def _watch(
    arguments: argparse.Namespace,
    app: Declarations | None,
    ping: Ping | None,
    listener: socket.socket | None,
    stopping: Stopping,
) -> int:
    every = round(arguments.every * SECOND)
    if ping is not None:  # a watcher that fails to start is reported too
        await ping.start()
    try:
        if app is None:
            await _watch_store(arguments, every, ping, listener, stopping)
        else:
            await _watch_app(arguments, app, every, ping, listener, stopping)
    finally:
        if ping is not None:
            await ping.stop()
    say("stopped")
    return stopping.exit_code


async def _watch_store(
    arguments: argparse.Namespace,
    every: Microseconds,
    ping: Ping | None,
    listener: socket.socket | None,
    stopping: Stopping,
) -> None:
    """Watch everything in the store, without an app's code."""
    from wakeful.resources.desk import Reads
    from wakeful.stores.opening import open_database
    from wakeful.stores.store import DatabaseStore
    from wakeful.watch.facts import Facts

    url = chosen_store(arguments)
    store = DatabaseStore(open_database(url, SystemClock()))
    CURRENT.set(Outage(store=shown_store(url)))
    watcher = Watcher(Facts(store.database), store, every=every, ping=ping)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await stack.enter_async_context(health(arguments.host, listener, watcher, Reads(store.database), stopping))
        if await _opened(store, ping, stopping):
            await watcher.start()
            stack.push_async_callback(watcher.stop)
            announce(f"watching {shown_store(url)} every {readable(every)}")
            await stopping.asked.wait()


async def _opened(store: DatabaseStore, ping: Ping | None, stopping: Stopping) -> bool:
    """Open the store, waiting while it is unavailable. False if asked to stop first."""
    while not stopping.asked.is_set():
        try:
            await store.open(migrate=False)
        except StoreUnavailable as error:
            if store.dialect == "sqlite" or type(error.__cause__).__name__ in PERMANENT_ERRORS:
                raise
            note_outage(logger_of(), "the store is unavailable; waiting for it", error)
            if ping is not None:
                ping.signal("fail", "the store is unavailable")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.asked.wait(), AGAIN_AFTER)
        else:
            return True
    return False


async def _watch_app(
    arguments: argparse.Namespace,
    app: Declarations,
    every: Microseconds,
    ping: Ping | None,
    listener: socket.socket | None,
    stopping: Stopping,
) -> None:
    """Watch everything in the store, and run Wakeful's own agents for this app."""
    from wakeful.runtime import Runtime

    runtime = Runtime(app, store=arguments.store, watching=True, watch_every=every, ping=ping)
    app.runtime = runtime
    try:
        opened = await is_open(runtime)
        async with health(arguments.host, listener, runtime.watcher, runtime.reader, stopping, runtime.silent_parts):
            if await start_patiently(runtime, stopping, opened=opened):
                announce(f"watching {app.name} ({shown_store(runtime.url)}) every {readable(every)}")
                await stopping.asked.wait()
                await first_of(runtime.worker.stop(arguments.grace), stopping.hurry.wait())
    finally:
        await close(runtime)


@contextlib.asynccontextmanager
async def health(
    host: str, listener: socket.socket | None, watcher: Watcher, reads: Reads, stopping: Stopping, parts: Silent = dict
) -> AsyncIterator[None]:
    """Answer the health checks of a supervisor inside the block."""
    if listener is None:
        yield
        return
    server = HttpServer(only_health(host, watcher, reads, parts), grace=1, access_log=False)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    say(f"health on {url_of(host, listener)}/healthz and /readyz")
    try:
        yield
    finally:
        await server.stop(serving, stopping)


def only_health(host: str, watcher: Watcher, reads: Reads, parts: Silent = dict) -> Starlette:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    def silent() -> dict[str, float]:
        return {**parts(), **({"watcher": watcher.blind_for} if watcher.is_red else {})}

    guard = Middleware(Guard, settings=ApiSettings.of_environment(host))
    return Starlette(routes=health_routes(reads.health, silent=silent), middleware=[guard])
