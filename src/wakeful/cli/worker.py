"""worker: run agents without HTTP. Only --port loads a server, for /healthz and /readyz."""

from __future__ import annotations

import argparse
import asyncio
import socket
from typing import TYPE_CHECKING

from wakeful.cli.listening import add_address, bind, url_of
from wakeful.cli.working import (
    add_paused,
    add_working,
    close,
    describe,
    guard_app,
    is_open,
    make_runtime,
    pause_before_start,
    pauses,
    prepare,
    start_patiently,
    stop_politely,
)
from wakeful.shell.arguments import Command, Parser
from wakeful.shell.life import Stopping, live
from wakeful.shell.terminal import announce, say

if TYPE_CHECKING:
    from wakeful.cli.http_server import HttpServer
    from wakeful.declarations import Declarations


def declare_worker(parser: Parser) -> None:
    add_working(parser)
    add_paused(parser)
    add_address(parser, port=None)


def worker(arguments: argparse.Namespace) -> int:
    app = prepare(arguments)
    if arguments.port is None:
        return live(lambda stopping: _work(app, arguments, None, stopping))
    from wakeful.http.security import ApiSettings, refuse_open_binding

    refuse_open_binding(ApiSettings.of_environment(arguments.host))
    with bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: _work(app, arguments, listener, stopping))


worker_command = Command(declare_worker, worker, "With --port it serves /healthz and /readyz, and nothing else.")


async def _work(
    app: Declarations, arguments: argparse.Namespace, listener: socket.socket | None, stopping: Stopping
) -> int:
    runtime = make_runtime(app, arguments)
    server: HttpServer | None = None
    serving: asyncio.Task[None] | None = None
    try:
        opened = await is_open(runtime)
        paused_by = await pause_before_start(runtime, pauses(arguments), opened=opened)
        if opened:
            await guard_app(runtime, serves=False)
        if listener is not None:
            from wakeful.cli.http_server import HttpServer, only_health

            server = HttpServer(only_health(runtime, arguments.host), grace=1, access_log=False)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            say(f"health on {url_of(arguments.host, listener)}/healthz and /readyz")
        if await start_patiently(runtime, stopping, opened=opened, paused_by=paused_by):
            if not opened:
                await guard_app(runtime, serves=False)
            announce(f"working for {app.name} {describe(runtime)}")
            await stopping.asked.wait()
            await stop_politely(runtime, stopping, arguments.grace)
    finally:
        if server is not None and serving is not None:
            await server.stop(serving, stopping)
        await close(runtime)
    say("stopped")
    return stopping.exit_code
