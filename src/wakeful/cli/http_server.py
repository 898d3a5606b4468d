"""The HTTP server of a command: uvicorn with limits on its clients, stopped by the command.

Acceptor      accepts connections, and rejects those above the limits
Connection    one connection: counts its bytes and knows since when it waits
Connections   all connections: advances the time once a second, and closes those that exceeded a limit
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from wakeful.api.health import health_routes
from wakeful.cli.http_accepting import Acceptor
from wakeful.cli.http_connection import Connection
from wakeful.cli.http_connections import Connections
from wakeful.cli.http_limits import HttpLimits, http_limits
from wakeful.cli.working import first_of
from wakeful.http.security import ApiSettings, Guard
from wakeful.resources.approval_links import PATH
from wakeful.shell.life import Stopping

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.runtime import Runtime


class WithoutLinks(logging.Filter):
    """Hides the tokens of links to approvals in the access log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(f"{PATH}…" if isinstance(one, str) and PATH in one else one for one in record.args)
        return True


class HttpServer(uvicorn.Server):
    """uvicorn without signal handling, which the command does itself. Without `limits`, those of the environment apply."""

    def __init__(self, http: Starlette, *, grace: float, access_log: bool, limits: HttpLimits | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                http,
                http=Connection,
                ws="none",
                access_log=access_log,
                log_config=None,
                log_level="info" if access_log else None,
                lifespan="off",
                # A caller's address is that of its connection: any client can forge a header.
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, math.ceil(grace)),
            )
        )
        if access_log:
            logging.getLogger("uvicorn.access").addFilter(WithoutLinks())
        self.open = Connections(http_limits() if limits is None else limits)
        self.server_state = self.open
        self.acceptors: list[Acceptor] = []
        self.ready = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Given no sockets, uvicorn opens none itself; it would accept all waiting connections, without a limit.
        await super().startup(sockets=[])
        self.acceptors = [Acceptor(one, self.open, self._connection) for one in sockets or ()]
        self.servers = list(self.acceptors)  # type: ignore[arg-type]
        self._looking = asyncio.create_task(self._look())
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().shutdown(sockets=sockets)
        finally:
            if self._looking is not None:
                self._looking.cancel()

    def _connection(self, network: str) -> Connection:
        return Connection(self.config, self.open, self.lifespan.state, network=network)

    async def _look(self) -> None:
        every = self.open.limits.look_every
        before = time.monotonic()
        while True:
            await asyncio.sleep(every)
            now = time.monotonic()
            # While a handler blocks the event loop, nothing is read: do not count that time against clients.
            self.open.look(min(now - before, 2 * every))
            before = now
            for acceptor in self.acceptors:
                acceptor.look()

    async def stop(self, serving: asyncio.Task[None], stopping: Stopping) -> None:
        """Answer the requests in flight, then stop; at once if the operator hurries."""
        self.should_exit = True
        await first_of(asyncio.shield(serving), stopping.hurry.wait())
        self.force_exit = stopping.hurry.is_set()
        await serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def only_health(runtime: Runtime, host: str) -> Starlette:
    """An app that answers only the health checks of a supervisor."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    guard = Middleware(Guard, settings=ApiSettings.of_environment(host))
    routes = health_routes(runtime.reader.health, silent=runtime.silent_parts, sources=runtime.states_of_sources)
    return Starlette(routes=routes, middleware=[guard])
