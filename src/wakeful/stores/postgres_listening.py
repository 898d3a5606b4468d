"""News from other processes over LISTEN: runs that became ready, runs that ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

from wakeful.stores.postgres_connections import CONNECT_TIMEOUT, PostgresConnections
from wakeful.stores.request import Ready
from wakeful.telemetry.logger import Logger, logger_of
from wakeful.telemetry.outage import note_outage

CHANNEL = "wakeful"
RESULTS = "wakeful_results"  # runs that processes wait for, and those of them that have ended
LISTEN_AGAIN_AFTER = 0.5
LISTEN_CHECK_EVERY = 20.0


class PostgresListener:
    """Listens on a connection of its own until it is stopped."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._task: asyncio.Task[None] | None = None
        self.on_ready: Callable[[Ready], None] = lambda _: None
        self.on_results: Callable[[str], None] = lambda _: None

    @cached_property
    def log(self) -> Logger:
        return logger_of(part="postgres")

    def start(self) -> None:
        """Begin to listen. Safe to call twice."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="wakeful listener")

    async def stop(self) -> None:
        """Stop listening. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _listen(self) -> None:
        """Listen for as long as this runs. After each new connection any run may be ready: news that came while no connection
        listened is lost.
        """
        connections = self._connections
        while True:
            lost = asyncio.Event()
            connection = None
            try:
                connection = await connections.connect_directly()
                connection.add_termination_listener(lambda _, lost=lost: lost.set())
                await connection.add_listener(CHANNEL, self._heard)
                await connection.add_listener(RESULTS, self._heard_results)
                self.on_ready(Ready())
                while not lost.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LISTEN_CHECK_EVERY):
                            await lost.wait()
                    if not lost.is_set():  # a connection that only listens would never notice that the network is gone
                        await connection.fetchval("select 1", timeout=CONNECT_TIMEOUT)
            except connections.silenced as error:
                note_outage(self.log, "not listening; trying again", error, again_in=LISTEN_AGAIN_AFTER)
            finally:
                await connections.drop(connection)
            await asyncio.sleep(LISTEN_AGAIN_AFTER)

    def _heard(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        app, *agents = payload.split(" ")
        self.on_ready(Ready(app, frozenset(agents)) if app else Ready())

    def _heard_results(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        self.on_results(payload)
