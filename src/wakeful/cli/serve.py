"""serve: the HTTP API and a worker in one process."""

from __future__ import annotations

import argparse
import asyncio
import socket
from typing import TYPE_CHECKING

from wakeful.api.serving import create
from wakeful.cli.http_server import HttpServer
from wakeful.cli.listening import add_address, add_names, bind, url_of
from wakeful.cli.working import (
    add_paused,
    add_working,
    close,
    describe,
    first_of,
    guard_app,
    is_open,
    make_runtime,
    pause_before_start,
    pauses,
    prepare,
    start_patiently,
    stop_politely,
)
from wakeful.http.security import ApiSettings, refuse_open_binding
from wakeful.settings import next_token, token
from wakeful.shell.arguments import Command, Parser
from wakeful.shell.life import Stopping, live
from wakeful.shell.terminal import announce, say

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

# options


def declare_serve(parser: Parser) -> None:
    add_working(parser)
    add_address(parser)
    add_names(parser)
    parser.add_argument("--access-log", action="store_true", help="log every request")
    add_paused(parser)
    # From `wakeful dev`: the listening socket, and a pipe that closes when dev is gone.
    parser.add_argument("--from-dev", help=argparse.SUPPRESS)


# commands


def serve(arguments: argparse.Namespace) -> int:
    app = prepare(arguments)
    refuse_open_binding(ApiSettings.of_environment(arguments.host))
    inherited, lifeline = read_from_dev(arguments.from_dev)
    with inherited or bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: _serve(app, arguments, listener, lifeline, stopping))


serve_command = Command(
    declare_serve,
    serve,
    "Listening beyond loopback (--host 0.0.0.0) requires a token: WAKEFUL_TOKEN=… wakeful serve APP --host 0.0.0.0",
)


async def _serve(
    app: Declarations, arguments: argparse.Namespace, listener: socket.socket, lifeline: int | None, stopping: Stopping
) -> int:
    """1. Open the store, or note that it is unavailable; pause if asked to. 2. Answer HTTP; /readyz reports the state.
    3. Work. 4. Stop when asked.
    """
    runtime = make_runtime(app, arguments)
    if lifeline is not None:
        asyncio.get_running_loop().add_reader(lifeline, stop_when_dev_is_gone, lifeline, stopping)
    try:
        opened = await is_open(runtime)
        paused_by = await pause_before_start(runtime, pauses(arguments), opened=opened)
        if opened:
            await guard_app(runtime, serves=True)
        http = create(
            runtime,
            host=arguments.host,
            token=token(),
            next_token=next_token(),
            allowed_hosts=tuple(arguments.allow_host),
        )
        server = HttpServer(http, grace=arguments.grace, access_log=arguments.access_log)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await first_of(server.ready.wait(), asyncio.shield(serving))
            if await start_patiently(runtime, stopping, opened=opened, paused_by=paused_by):
                if not opened:
                    await guard_app(runtime, serves=True)
                address = url_of(arguments.host, listener)
                await runtime.webhooks.start()
                announce(f"serving {app.name} on {address} {describe(runtime)}")
                for path, one in runtime.webhooks.endpoints.items():
                    announce(f"webhook {address}{path} ({one.verifier.name})")
                if runtime.webhooks.endpoints and token() is None:
                    announce(
                        "no token: only webhooks and health checks are served; set WAKEFUL_TOKEN to serve the rest (`wakeful token` prints one)"
                    )
                await first_of(stopping.asked.wait(), asyncio.shield(serving))
                server.should_exit = True
                await stop_politely(runtime, stopping, arguments.grace)
        finally:
            await server.stop(serving, stopping)
    finally:
        await close(runtime)
    if lifeline is None:  # otherwise `wakeful dev` prints its own message
        say("stopped")
    return stopping.exit_code


# under `wakeful dev`


def read_from_dev(text: str | None) -> tuple[socket.socket | None, int | None]:
    if text is None:
        return None, None
    listener, lifeline = (int(part) for part in text.split(","))
    return socket.socket(fileno=listener), lifeline


def stop_when_dev_is_gone(lifeline: int, stopping: Stopping) -> None:
    asyncio.get_running_loop().remove_reader(lifeline)
    stopping.ask()
