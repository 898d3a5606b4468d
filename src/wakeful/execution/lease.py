"""A process's membership: its identity, its lease, and the thread that renews it.

The lease is renewed by a thread with its own connection, never through the journal or the event loop: a busy loop must
not cost a process its runs. The deadline is counted on the monotonic clock from before the renewal was sent, so it can
only be earlier than the database's. A process that others declared dead gets a new identity and starts clean.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from wakeful.clock import SECOND, Microseconds, seconds
from wakeful.errors import StoreUnavailable
from wakeful.stores.database import Renewer
from wakeful.stores.verbs.limits import Limit
from wakeful.stores.verbs.processes import RegisterProcess, RetireProcess
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage, outage_is_over

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

LEASE: Microseconds = 15 * SECOND
BEFORE_THE_LEASE = 1.0
SHARE_OF_A_SHORT_LEASE = 0.2
LOOK_FOR_OTHERS_EVERY = 1.0


@runtime_checkable
class Presence(Renewer, Protocol):
    """A renewer that also shows others that this process is connected, and sees which of them no longer are."""

    looks: bool

    @property
    def connected(self) -> bool: ...

    def rest(self, time: float, stopping: threading.Event) -> None: ...

    def wake(self) -> None: ...

    def gone(self, process: str) -> list[tuple[str, int]]: ...


class Membership:
    """The membership of this process."""

    def __init__(
        self,
        registry: DatabaseStore,
        make_renewer: Callable[[], Renewer],
        *,
        lease: Microseconds = LEASE,
        on_lost: Callable[[str], None] = lambda _: None,
        on_gone: Callable[[list[tuple[str, int]]], None] = lambda _: None,
        app: str | None = None,
        limits: Mapping[str, Limit | None] | None = None,
        versions: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._registry = registry
        self._app = app
        self._limits = limits or {}  # of each agent that is loaded here
        self._versions = versions  # of their code; read when the process joins, not when they are declared
        self._make_renewer = make_renewer
        self._lease = lease
        self._on_lost = on_lost
        self._on_gone = on_gone  # other processes are no longer connected
        self._renewer: Renewer | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._deadline = 0.0
        self._log = logger_of(part="lease")
        self.process = ""

    @property
    def lease(self) -> Microseconds:
        return self._lease

    def left(self) -> float:
        """The seconds for which this process certainly still owns its runs."""
        return self._deadline - time.monotonic()

    def time_for_calls(self) -> float:
        """The seconds for which a call to the outside may go on. It ends a while before the lease can: a later call
        could overlap with that of the next owner.
        """
        return self.left() - min(BEFORE_THE_LEASE, seconds(self._lease) * SHARE_OF_A_SHORT_LEASE)

    async def join(self) -> None:
        """Join under a new identity and keep the lease from now on."""
        again, self.process = bool(self.process), secrets.token_hex(8)
        before = time.monotonic()
        limits = {agent: limit for agent, limit in self._limits.items() if limit is not None}
        host, number, agents = socket.gethostname(), os.getpid(), list(self._limits)
        await self._registry.register(
            RegisterProcess(
                self.process, host, number, self._lease, self._app, agents, limits, self._versions(), again=again
            )
        )
        self._deadline = before + seconds(self._lease)
        self._stopping = threading.Event()
        self._renewer = self._make_renewer()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._keep, self._renewer, self.process, self._stopping, asyncio.get_running_loop()),
            name="wakeful-lease",
            daemon=True,
        )
        self._thread.start()

    async def leave(self) -> None:
        """Leave. Runs that were not released before are released now."""
        if self._thread is None:
            return
        self._end_keeping()
        thread, self._thread = self._thread, None
        with contextlib.suppress(StoreUnavailable):
            await self._registry.retire(RetireProcess(self.process))
        await asyncio.to_thread(thread.join)

    async def die(self) -> None:
        """Stop renewing the lease without telling the others, like a killed process. For tests."""
        if self._thread is not None:
            self._end_keeping()
            thread, self._thread = self._thread, None
            await asyncio.to_thread(thread.join)

    def _end_keeping(self) -> None:
        self._stopping.set()
        if isinstance(self._renewer, Presence):
            self._renewer.wake()

    def _keep(self, renewer: Renewer, process: str, stopping: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        rest = seconds(self._lease) / 3
        wait = 0.0 if isinstance(renewer, Presence) else rest  # others must see at once that it is connected
        try:
            while not self._rests(renewer, process, wait, stopping, loop):
                before = time.monotonic()
                try:
                    alive = renewer.renew(process, self._lease)
                except (
                    Exception
                ) as error:  # of any kind: without this thread the process would be declared dead unnoticed
                    wait = rest / 5
                    note_outage(self._log, "lease not renewed; trying again", error, left=round(self.left(), 1))
                    continue
                if not alive:
                    if not stopping.is_set():
                        self._log.error("other processes declared this one dead; it joins again under a new identity")
                        with contextlib.suppress(RuntimeError):
                            loop.call_soon_threadsafe(self._on_lost, process)
                    return
                self._deadline = before + seconds(self._lease)
                wait = rest
                outage_is_over()
        finally:
            renewer.close()

    def _rests(
        self, renewer: Renewer, process: str, wait: float, stopping: threading.Event, loop: asyncio.AbstractEventLoop
    ) -> bool:
        """Rest until the next renewal, which is due at once if the connection is lost; meanwhile watch other processes.
        True: stop.
        """
        if not isinstance(renewer, Presence):
            return stopping.wait(wait)
        due = time.monotonic() + wait
        had_connection = renewer.connected
        while not stopping.is_set() and (left := due - time.monotonic()) > 0:
            looks = renewer.looks and renewer.connected
            if looks:
                with contextlib.suppress(StoreUnavailable, RuntimeError):
                    if gone := renewer.gone(process):
                        loop.call_soon_threadsafe(self._on_gone, gone)
            renewer.rest(min(left, LOOK_FOR_OTHERS_EVERY) if looks else left, stopping)
            if had_connection and not renewer.connected:
                break
        return stopping.is_set()
