"""The HTTP server under a command: uvicorn, which ends when we say so."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from wakeful.api.health import health_routes
from wakeful.api.security import ApiSettings, Guard
from wakeful.cli.life import Stopping
from wakeful.cli.working import first_of

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.runtime import Runtime


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
                # The address of a caller is that of its connection: what a header says of it, everybody can say.
                proxy_headers=False,
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


def only_health(runtime: Runtime, host: str) -> Starlette:
    """What a supervisor asks a worker."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    guard = Middleware(Guard, settings=ApiSettings.of_environment(host))
    routes = health_routes(runtime.reader, silent=runtime.silent_parts, sources=runtime.states_of_sources)
    return Starlette(routes=routes, middleware=[guard])
