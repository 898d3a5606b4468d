"""serve: HTTP and a worker in one process. worker: the worker alone."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import math
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from wakeful.api.health import health_routes
from wakeful.api.security import ApiSettings, Guard, is_loopback, refuse_open_binding
from wakeful.api.serving import create
from wakeful.cli.arguments import Command, Parser, operator_of, whole_number
from wakeful.cli.life import Stopping, live
from wakeful.cli.terminal import say
from wakeful.cli.working import (
    add_working,
    close,
    describe,
    first_of,
    is_open,
    make_runtime,
    paused_before_anything,
    prepare,
    start_patiently,
    stop_politely,
)
from wakeful.errors import ConfigError
from wakeful.settings import token

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.app import App
    from wakeful.runtime import Runtime

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
BACKLOG = 2048


# options


def add_address(parser: Parser, *, port: int | None = DEFAULT_PORT) -> None:
    parser.add_argument("--host", metavar="HOST", default=DEFAULT_HOST, help=f"bind here (default {DEFAULT_HOST})")
    default = "none: no HTTP" if port is None else str(port)
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=whole_number(0, 65535),
        default=port,
        help=f"0 picks a free one (default {default})",
    )


def add_names(parser: Parser) -> None:
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a further name this server is reached by"
    )


def add_paused(parser: Parser) -> None:
    parser.add_argument("--paused", action="store_true", help="pause all of the app first, until `wakeful resume all`")


def declare_serve(parser: Parser) -> None:
    add_working(parser)
    add_address(parser)
    add_names(parser)
    parser.add_argument("--access-log", action="store_true", help="log every request")
    add_paused(parser)
    # From `wakeful dev`: the listening socket, and a pipe that closes when dev is gone.
    parser.add_argument("--from-dev", help=argparse.SUPPRESS)


def declare_worker(parser: Parser) -> None:
    add_working(parser)
    add_paused(parser)
    add_address(parser, port=None)


# commands


def serve(arguments: argparse.Namespace) -> int:
    app = prepare(arguments)
    refuse_open_binding(ApiSettings(host=arguments.host, token=token()))
    inherited, lifeline = read_from_dev(arguments.from_dev)
    with inherited or bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: _serve(app, arguments, listener, lifeline, stopping))


def worker(arguments: argparse.Namespace) -> int:
    app = prepare(arguments)
    if arguments.port is None:
        return live(lambda stopping: _work(app, arguments, None, stopping))
    refuse_open_binding(ApiSettings(host=arguments.host, token=token()))
    with bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: _work(app, arguments, listener, stopping))


serve_command = Command(
    declare_serve,
    serve,
    "Beyond loopback (--host 0.0.0.0) it wants a token: WAKEFUL_TOKEN=… wakeful serve APP --host 0.0.0.0",
)
worker_command = Command(declare_worker, worker, "With --port it answers /healthz and /readyz there, and nothing else.")


async def _serve(
    app: App, arguments: argparse.Namespace, listener: socket.socket, lifeline: int | None, stopping: Stopping
) -> int:
    """1. Open the store, or find it away; pause, if that is wanted. 2. Answer HTTP: /readyz tells which. 3. Work. 4. Stop when asked."""
    runtime = make_runtime(app, arguments)
    if lifeline is not None:
        asyncio.get_running_loop().add_reader(lifeline, stop_when_dev_is_gone, lifeline, stopping)
    try:
        opened = await is_open(runtime)
        paused_by = await paused_before_anything(runtime, pauses(arguments), opened=opened)
        http = create(runtime, host=arguments.host, token=token(), allowed_hosts=tuple(arguments.allow_host))
        server = HttpServer(http, grace=arguments.grace, access_log=arguments.access_log)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await first_of(server.ready.wait(), asyncio.shield(serving))
            if await start_patiently(runtime, stopping, opened=opened, paused_by=paused_by):
                address = url_of(arguments.host, listener)
                await runtime.webhooks.start()
                print(f"wakeful: serving {app.name} on {address} {describe(runtime)}", flush=True)
                for path, one in runtime.webhooks.endpoints.items():
                    print(f"wakeful: webhook {address}{path} ({one.verifier.name})", flush=True)
                await first_of(stopping.asked.wait(), asyncio.shield(serving))
                server.should_exit = True
                await stop_politely(runtime, stopping, arguments.grace)
        finally:
            await server.stop(serving, stopping)
    finally:
        await close(runtime)
    if lifeline is None:  # else `wakeful dev` has its own words
        say("stopped")
    return stopping.exit_code


async def _work(app: App, arguments: argparse.Namespace, listener: socket.socket | None, stopping: Stopping) -> int:
    runtime = make_runtime(app, arguments)
    server: HttpServer | None = None
    serving: asyncio.Task[None] | None = None
    try:
        opened = await is_open(runtime)
        paused_by = await paused_before_anything(runtime, pauses(arguments), opened=opened)
        if listener is not None:
            server = HttpServer(only_health(runtime, arguments.host), grace=1, access_log=False)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            say(f"health on {url_of(arguments.host, listener)}/healthz and /readyz")
        if await start_patiently(runtime, stopping, opened=opened, paused_by=paused_by):
            print(f"wakeful: working for {app.name} {describe(runtime)}", flush=True)
            await stopping.asked.wait()
            await stop_politely(runtime, stopping, arguments.grace)
    finally:
        if server is not None and serving is not None:
            await server.stop(serving, stopping)
        await close(runtime)
    say("stopped")
    return stopping.exit_code


def pauses(arguments: argparse.Namespace) -> str | None:
    """Who pauses the app before it begins, if somebody does."""
    return operator_of(arguments) if arguments.paused else None


def only_health(runtime: Runtime, host: str) -> Starlette:
    """What a supervisor asks a worker."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    guard = Middleware(Guard, settings=ApiSettings(host=host, token=token()))
    routes = health_routes(runtime.reader, silent=runtime.silent_parts, sources=runtime.states_of_sources)
    return Starlette(routes=routes, middleware=[guard])


# HTTP


class HttpServer(uvicorn.Server):
    """uvicorn, without a say over signals: those are ours."""

    def __init__(self, http: Starlette, *, grace: float, access_log: bool) -> None:
        super().__init__(
            uvicorn.Config(
                http,
                access_log=access_log,
                log_config=None,
                log_level="info" if access_log else None,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=max(1, math.ceil(grace)),
            )
        )
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()

    async def stop(self, serving: asyncio.Task[None], stopping: Stopping) -> None:
        """Answer what was asked, unless somebody is in a hurry."""
        self.should_exit = True
        await first_of(asyncio.shield(serving), stopping.hurry.wait())
        self.force_exit = stopping.hurry.is_set()
        await serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; taken before anything else is done, so that a taken port is said at once."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        remedy = ""
        if isinstance(error, socket.gaierror):
            remedy = ": is the name right?"
        elif error.errno == errno.EADDRINUSE:
            remedy = ": another process listens there. Use --port 0 for a free port, or another number"
        message = f"cannot listen on {host} port {port}: {error.strerror or error}{remedy}"
        raise ConfigError(message) from None
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    name = host.strip("[]")
    if name in {"0.0.0.0", "::", ""} or is_loopback(name):  # noqa: S104 only compared
        name = listener.getsockname()[0] if name != "localhost" else name
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


# under `wakeful dev`


def read_from_dev(text: str | None) -> tuple[socket.socket | None, int | None]:
    if text is None:
        return None, None
    listener, lifeline = (int(part) for part in text.split(","))
    return socket.socket(fileno=listener), lifeline


def stop_when_dev_is_gone(lifeline: int, stopping: Stopping) -> None:
    asyncio.get_running_loop().remove_reader(lifeline)
    stopping.ask()
