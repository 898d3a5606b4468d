"""The store carries out requests, over either database.

    await store.do(CloseCircuit(app, name, by=Actor("ada", "cli")))     changes something; the result is typed by the class
    await circuits_of(store.database, app)                              reads something; the function is in the file of the noun

A patient request, which a run in flight waits for, is retried until it is stored or refused. Every other request raises
StoreUnavailable at once when the database is gone: its caller (an HTTP request, a person) decides better what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from wakeful.errors import CancelAsked, ConfigError, EncryptionKeyMissing, StoreUnavailable
from wakeful.stores.database import Database
from wakeful.stores.journal import Journal, Probe
from wakeful.stores.queries import Dialect
from wakeful.stores.request import Ready, Request
from wakeful.stores.sealed_store import check_keys
from wakeful.stores.verbs.processes import RegisterProcess, RetireProcess
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage

R = TypeVar("R")

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0


class DatabaseStore:
    """Carries out requests, over one database. The class of a request says what the store promises of it."""

    def __init__(self, database: Database, *, probe: Probe | None = None) -> None:
        self.database = database
        self.journal = Journal(database, probe=probe)
        self.probe: Probe = probe or (lambda _point, _requests: None)
        self.log = logger_of(part="store")

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    @property
    def encrypts(self) -> bool:
        """Whether payloads are encrypted. If so, they are not written into a plain log either."""
        return self.database.codec.ring is not None

    async def open(self, *, migrate: bool, resealing: bool = False) -> None:
        """Connect, and check that every key is here. EncryptionKeyMissing or ConfigError close the database again.

        `resealing`: the caller encrypts all payloads again. A store that is not strict yet is then opened even if the setting demands
        a strict one.
        """
        await self.database.open(migrate=migrate)
        try:
            await check_keys(self.database, self.journal.submit, resealing=resealing)
        except (EncryptionKeyMissing, ConfigError):
            await self.database.close()
            raise

    async def close(self) -> None:
        """Finish the requests that were handed in, then disconnect."""
        await self.journal.close()
        await self.database.close()

    async def do(self, request: Request[R]) -> R:
        """Carry out a request; its result is on disk when this returns. A patient request, which a run in flight waits for, is
        retried until it is stored or refused. Every other request raises StoreUnavailable at once when the database is gone.
        """
        try:
            return await self.journal.submit(request)
        except StoreUnavailable as error:
            if not request.patient:
                raise
            return await self._persist(lambda: self.journal.submit(request), error)

    async def patiently(self, read: Callable[[], Awaitable[R]]) -> R:
        """Read until the database answers: a run in flight waits for its store. StoreUnavailable once the store is closed."""
        try:
            return await read()
        except StoreUnavailable as error:
            return await self._persist(read, error)

    async def _persist(self, attempt: Callable[[], Awaitable[R]], error: StoreUnavailable) -> R:
        """Retry with growing waits."""
        wait = FIRST_WAIT
        while True:
            await self.sit_out(error, wait)
            wait = min(wait * 2, LONGEST_WAIT)
            try:
                return await attempt()
            except StoreUnavailable as again:
                error = again

    async def sit_out(self, error: StoreUnavailable, wait: float) -> None:
        """Wait before the next try. Raises the error once the store is closed."""
        if self.journal.closed:
            raise error
        note_outage(self.log, "the store is unavailable; a run waits for it", error, again_in=wait)
        await asyncio.sleep(wait)

    # The lock of a process is a file or a session, not a row: no transaction takes or frees it.

    async def register(self, request: RegisterProcess) -> None:
        """Lock the process, then enter it; the lock is freed if the process cannot be entered."""
        self.database.lock(request.id)
        try:
            await self.do(request)
        except BaseException:
            self.database.unlock(request.id)
            raise

    async def retire(self, request: RetireProcess) -> None:
        """Sign the process off, then free its lock. If the row cannot be written, the free lock tells the other processes."""
        await self.do(request)
        self.database.unlock(request.id)

    # Which part of this process hears what the journal committed.

    def hear(self, ready: Callable[[Ready], None]) -> None:
        """Call this whenever runs may have become ready."""
        self.journal.on_ready = ready

    def hear_deliveries(self, waiting: Callable[[], None]) -> None:
        """Call this whenever deliveries may be due that no run of this process has just sent."""
        self.journal.heard.deliveries = waiting

    def hear_waits(self, registered: Callable[[int], None]) -> None:
        """Call this with the number of a run that has registered a wait."""
        self.journal.heard.waits = registered

    def hear_cancels(self, to_stop: Callable[[CancelAsked | None], None]) -> None:
        """Call this when a run is asked to stop; with None if the store does not know which run."""
        self.journal.heard.stops = to_stop

    def hear_alarms(self, raised: Callable[[], None]) -> None:
        """Call this whenever people may have to be notified of an alarm."""
        self.journal.on_alarm = raised

    def hear_trouble(self, unavailable: Callable[[StoreUnavailable], None]) -> None:
        """Call this whenever a transaction could not be stored."""
        self.journal.on_unavailable = unavailable
