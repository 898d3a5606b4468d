"""How other processes see a process on PostgreSQL: by its lease, and by a lock that the server frees when the process disconnects.

The connection that renews the lease holds an advisory lock under a random number, and the process's row names that number. When the
process dies, the server ends its session at once and the lock is free. A process that finds the lock free twice declares its owner
dead before the lease expires (verbs/processes.py says which work is then taken back).

A living process that lost its connection looks the same. It notices at once and reconnects under another number, usually before
another process has looked. If it is too late, or cut off, it is fenced like a process whose lease expired, and starts again under a new
identity. After a restart of the server all locks are free and mean nothing, so the row also names the server that gave the lock.

Two processes look, once a second: the first two of all that have such a lock. Each of them watches the other.

Behind a pooler that shares sessions, a session's lock belongs to no process. Such a process takes no lock and relies on its lease alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from wakeful.clock import Clock, Microseconds
from wakeful.stores.postgres_connections import PostgresConnections, limits
from wakeful.stores.postgres_renewing import PostgresRenewer
from wakeful.stores.transaction import Row
from wakeful.telemetry.logger import logger_of

LOOKERS = 2
LOOK_AGAIN_AFTER = 0.15  # seconds; a living process has its lock again by then


class PostgresPresence(PostgresRenewer):
    """Renews the lease of one process and holds its lock, in a thread of its own."""

    def __init__(self, connections: PostgresConnections, queries: Mapping[str, str], clock: Clock) -> None:
        super().__init__(connections, queries, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None
        self._guard: int | None = None
        self._pooled = False
        self._log = logger_of(part="lease")
        self.looks = False

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    def renew(self, process: str, lease: Microseconds) -> bool:
        """True while the process counts as alive. Raises StoreUnavailable if the database does not answer."""
        return self._runner.run(self._renew(process, lease))

    def rest(self, time: float, stopping: threading.Event) -> None:
        """Return when the time is over, the connection is lost, or `wake` is called."""
        self._runner.run(self._rest(time, stopping))

    def wake(self) -> None:
        """End `rest`, from any thread. Set `stopping` first."""
        if self._loop is not None and self._woken is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._woken.set)

    def gone(self, process: str) -> list[tuple[str, int]]:
        """Other processes that are no longer connected, each with its lock that is free. Raises StoreUnavailable as `renew` does."""
        return self._runner.run(self._gone(process))

    async def _renew(self, process: str, lease: Microseconds) -> bool:
        if not self.connected:
            self._guard = None
        if self._guard is None and not self._pooled:
            self._guard = await self._take_guard()
        rows = await self._execute("renew_present", process, lease, self._guard)
        if not rows:
            return False
        _, others, before, session = rows[0]
        self.looks = others > 0 and before < LOOKERS
        if self._guard is not None and session != self._connection.get_server_pid():
            self._do_without()
        return True

    async def _take_guard(self) -> int | None:
        """Take a lock under a new number. None if the answering session is not the one that we connected to."""
        ((session,),) = await self._ask("session")
        if session != self._connection.get_server_pid():
            self._do_without()
            return None
        guard = secrets.randbits(63)
        ((taken,),) = await self._ask("take_guard", guard)
        return guard if taken else None

    def _do_without(self) -> None:
        self._pooled, self._guard = True, None
        self._log.info(
            "the lease connection goes through a connection pooler: if this process is killed, its runs wait until its lease expires"
        )

    async def _gone(self, process: str) -> list[tuple[str, int]]:
        first = {(row[0], row[1]) for row in await self._ask("gone_processes", process)}
        if not first:
            return []
        await asyncio.sleep(LOOK_AGAIN_AFTER)
        return [found for row in await self._ask("gone_processes", process) if (found := (row[0], row[1])) in first]

    async def _rest(self, time: float, stopping: threading.Event) -> None:
        woken = self._woken = self._woken or asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if stopping.is_set() or time <= 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(time):
                await woken.wait()
        woken.clear()

    async def _connect(self) -> Any:
        """Connect with limits by which the server soon notices that the client is gone, and the client that the server is."""
        connection = await self._connections.connect_directly(**limits())
        connection.add_termination_listener(lambda _: self._woken.set() if self._woken is not None else None)
        return connection

    async def _ask(self, name: str, *parameters: object) -> list[Row]:
        return await self._execute(name, *parameters, timed=False)
