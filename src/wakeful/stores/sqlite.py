"""SQLite: one file, one writer thread, readers on connections of their own.

The writer is the only thread of this process that writes (the lease keeper has its own connection for its one row). It runs each
transaction whole: BEGIN IMMEDIATE, the generator, COMMIT with the WAL synced to disk. Between jobs it reads `PRAGMA data_version`
every 50 ms: that number moves when another process (the command line, a second worker) has committed a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from wakeful.clock import Clock, Microseconds
from wakeful.errors import StoreUnavailable
from wakeful.stores.keyring import KeyRing
from wakeful.stores.lock_holder import locked_by
from wakeful.stores.migration_author import MigrationAuthor
from wakeful.stores.migrations import (
    CREATE_DETAILS,
    CREATE_LEDGER,
    Applied,
    Migration,
    Patience,
    Told,
    held_back,
    standing,
)
from wakeful.stores.origins import file_identity
from wakeful.stores.queries import Dialect, codec, statements
from wakeful.stores.request import Actor
from wakeful.stores.sqlite_connecting import (
    BUSY_TIMEOUT_MILLISECONDS,
    UNAVAILABLE,
    SqliteFile,
    explain,
    refuse_network_file_system,
)
from wakeful.stores.sqlite_locks import ProcessLocks
from wakeful.stores.sqlite_user_function import call_user_function
from wakeful.stores.transaction import Call, Count, Row, Transaction

R = TypeVar("R")

LOOK_FOR_OTHERS_EVERY = 0.05
LOOK_FOR_A_LOCK_MILLISECONDS = 3_000
WROTE_JUST_NOW = 1.0


class SqliteBackend:
    """Carries out transactions on one SQLite file."""

    dialect: Dialect = "sqlite"
    notifies = False
    restored_before = 0  # runs with a lower number may have continued elsewhere, after this copy was made

    def __init__(
        self, path: Path, clock: Clock, *, busy_timeout: int = BUSY_TIMEOUT_MILLISECONDS, ring: KeyRing | None = None
    ) -> None:
        self.path = path.absolute()  # a handler may change the current folder
        self.locks = ProcessLocks(self.path)
        self._file = SqliteFile(self.path, busy_timeout)
        self._clock = clock
        self._queries = statements("sqlite", ring)
        self.codec = codec("sqlite", ring)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="wakeful-reader")
        self._local = threading.local()
        self._reading: list[apsw.Connection] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began_at = 0.0  # when a transaction had the write lock last
        self._lock_look: asyncio.Future[None] | None = None
        self._looker: apsw.Connection | None = None
        self.on_change: Callable[[], None] = lambda: None

    # life

    async def open(self, *, migrate: bool = True) -> None:
        """Connect. Migrate the schema, unless told not to; SchemaMismatch for a schema of a newer version."""
        refuse_network_file_system(self.path)
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._write, args=(ready,), name="wakeful-writer", daemon=True)
        self._thread.start()
        await ready
        if migrate:
            await self.migrate()

    async def close(self) -> None:
        """Finish the jobs that were handed in, close all connections, free the locks."""
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._readers.shutdown(wait=True)
        if self._lock_look is not None:
            await asyncio.wait([self._lock_look])
        for connection in [*self._reading, *([self._looker] if self._looker is not None else [])]:
            connection.close()
        self.locks.let_all_go()

    # writing

    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:  # noqa: ARG002 no round trips to save here
        """One transaction on the writer thread."""
        return await self._job(lambda: self._drive(transaction))

    async def migrate(
        self,
        *,
        patience: Patience | None = None,  # noqa: ARG002 there is one lock, and it has its own timeout
        told: Told | None = None,
        by: Actor | None = None,
    ) -> list[Migration]:
        """Apply the missing migrations in one transaction, together with the author's row where `by` names one."""
        author = None if by is None else MigrationAuthor(by)
        return await self._job(lambda: self._migrate(told or (lambda _: None), author))

    async def _job(self, work: Callable[[], R]) -> R:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()

        def job() -> None:
            try:
                result = work()
            except BaseException as error:
                tell(loop, future, error=error)
            else:
                tell(loop, future, result=result)

        if self._thread is None:
            message = f"{self.path} is not open"
            raise StoreUnavailable(message)
        self._jobs.put(job)
        return await future

    def _write(self, ready: asyncio.Future[None]) -> None:
        loop = ready.get_loop()
        try:
            self._connection = self._file.connect()
        except BaseException as error:
            tell(loop, ready, error=error)
            return
        tell(loop, ready, result=None)
        version = self._connection.execute("pragma data_version").get
        looked = time.monotonic()
        while True:
            job: Callable[[], None] | None = nothing_to_do
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=LOOK_FOR_OTHERS_EVERY)
            if job is None:
                break
            job()
            if (
                time.monotonic() - looked >= LOOK_FOR_OTHERS_EVERY
            ):  # also when busy: other processes must not wait for a lull
                looked = time.monotonic()
                try:
                    seen = self._connection.execute("pragma data_version").get
                except apsw.Error:
                    continue  # the next transaction tells its callers what is wrong with the file
                if seen != version:
                    version = seen
                    with contextlib.suppress(RuntimeError):  # the loop may be closing
                        loop.call_soon_threadsafe(self.on_change)
        self._connection.close()

    def _drive(self, transaction: Callable[[int | None], Transaction[R]]) -> R:
        connection = self._connection
        cursor = connection.cursor()
        queries = self._queries
        try:
            cursor.execute("begin immediate")
            self._began_at = time.monotonic()
            generator = transaction(self._clock.now())
            try:
                operation = next(generator)
                while True:
                    reply: Any
                    if isinstance(operation, Call):
                        reply = call_user_function(connection, operation.function, operation.cause)
                    elif isinstance(operation, Count):
                        rows = self._encode(connection, operation.name, operation.rows)
                        before = connection.total_changes()
                        for _ in cursor.executemany(queries[operation.name], rows):
                            pass  # the rows are not needed, but SQLite continues only if they are read
                        reply = connection.total_changes() - before
                    elif operation[1]:
                        name, rows = operation
                        rows = self._encode(connection, name, rows)
                        found = list(cursor.executemany(queries[name], rows))
                        reply = self._decode(connection, name, found, acting=True)
                    else:
                        reply = []
                    operation = generator.send(reply)
            except StopIteration as stop:
                cursor.execute("commit")
                return stop.value  # type: ignore[no-any-return]  # a generator's return value is not typed at run time
        except UNAVAILABLE as error:
            raise self._file.unavailable(connection, error) from error
        finally:
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("rollback")

    def _encode(self, connection: apsw.Connection, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows as they are stored. Payloads that are too large for a row are stored now."""
        encoded, blobs = self.codec.encode(name, rows)
        if blobs:
            now = self._clock.now()
            connection.executemany(self._queries["insert_blob"], [(now, *blob) for blob in blobs])
        return encoded

    def _decode(self, connection: apsw.Connection, name: str, rows: list[Row], *, acting: bool = False) -> list[Row]:
        """The rows with their payloads, read from the row or from the table of blobs."""
        references = self.codec.references(name, rows)
        if references is None:
            return rows
        query = self._queries["find_blob"]
        found = [row for one in references for row in connection.execute(query, (one,))]
        return self.codec.decode(name, rows, dict(found), acting=acting)

    def _migrate(self, told: Told, author: MigrationAuthor | None) -> list[Migration]:
        connection, queries = self._connection, self._queries
        applied = []
        try:
            connection.execute("begin immediate")
            connection.execute(CREATE_LEDGER)
            connection.execute(CREATE_DETAILS)
            for migration in standing("sqlite", self._ledger(connection)).pending:
                now = self._clock.now()
                if migration.contracts and (
                    older := list(connection.execute(queries["older_processes"], (now, migration.needs)))
                ):
                    for row in older:
                        told(held_back(migration, *row))
                    break
                connection.execute(migration.sql)
                detail = (migration.number, migration.name, migration.digest, migration.needs)
                connection.execute(queries["begin_migration"], detail)
                connection.execute(queries["finish_migration"], (now, migration.number))
                connection.execute(queries["record_migration"], (now, migration.number, migration.name))
                author = None if author is None else self._write_author(connection, author, migration)
                applied.append(migration)
            self._determine_origin(connection)
            connection.execute("commit")
        except UNAVAILABLE as error:
            raise self._file.unavailable(connection, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
        return applied

    def _write_author(
        self, connection: apsw.Connection, author: MigrationAuthor, migration: Migration
    ) -> MigrationAuthor:
        writing, rows = author.write(self._clock.now(), migration, self.codec, finished=True), None
        while True:
            try:
                name, parameters = next(writing) if rows is None else writing.send(rows)
            except StopIteration as stop:
                written: MigrationAuthor = stop.value
                return written
            (encoded,) = self._encode(connection, name, [parameters])
            rows = list(connection.execute(self._queries[name], tuple(encoded)))

    def _determine_origin(self, connection: apsw.Connection) -> None:
        """Record it if this is another file than the last one: a copy."""
        identity = file_identity(self.path)
        last = connection.execute(self._queries["last_origin"]).fetchone()
        if last is None or last[1] != identity:
            connection.execute(self._queries["begin_origin"], (self._clock.now(), identity, str(self.path)))
        self.restored_before = connection.execute(self._queries["restored_before"]).get

    async def identity(self) -> str:
        """Which file this is."""
        return file_identity(self.path)

    def _ledger(self, connection: apsw.Connection) -> list[Applied]:
        return [Applied.of(row) for row in connection.execute(self._queries["migration_ledger"])]

    # reading

    async def fetch(self, name: str, *parameters: Any) -> list[Row]:
        """The rows of a query, read on another connection than the writer's."""
        return (await self.fetch_each(name, [parameters]))[0]

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """The rows of a query for each set of parameters, in one job of a reading thread."""

        def read() -> list[list[Row]]:
            try:
                connection = getattr(self._local, "connection", None)
                if connection is None:
                    connection = self._local.connection = self._file.connect(reading=True)
                    self._reading.append(connection)
                sql = self._queries[name]
                return [
                    self._decode(connection, name, list(connection.execute(sql, parameters))) for parameters in given
                ]
            except UNAVAILABLE as error:
                message = f"{self.path}: {explain(error)}"
                raise StoreUnavailable(message) from error

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def ledger(self) -> list[Applied]:
        """The migrations of the file, with their details. A file of an older version has no details."""
        try:
            rows = await self.fetch("migration_ledger")
        except apsw.SQLError:
            rows = [(*row, None, None, 1) for row in await self.fetch("applied_migrations")]
        return [Applied.of(row) for row in rows]

    async def applied_migrations(self) -> list[Row]:
        return await self.fetch("applied_migrations")

    def read_clock(self) -> Microseconds | None:
        """The time for a reading query's `:now`."""
        return self._clock.now()

    async def refuse_locked(self) -> None:
        """StoreUnavailable if another process keeps this one from writing. One look at a time, on a connection of its own: the
        writer's connection may be the one that waits.
        """
        if time.monotonic() - self._began_at < WROTE_JUST_NOW:
            return
        if self._lock_look is None or self._lock_look.done():
            self._lock_look = asyncio.get_running_loop().run_in_executor(None, self._look_for_a_lock)
        await asyncio.shield(self._lock_look)

    def _look_for_a_lock(self) -> None:
        if self._looker is None:
            self._looker = self._file.connect()
            self._looker.set_busy_timeout(LOOK_FOR_A_LOCK_MILLISECONDS)
        try:
            self._looker.execute("begin immediate")
            self._looker.execute("rollback")
        except apsw.BusyError as error:
            raise StoreUnavailable(locked_by(self.path), locked=True) from error
        except UNAVAILABLE as error:
            raise self._file.unavailable(self._looker, error) from error

    # processes

    def renewer(self) -> SqliteRenewer:
        return SqliteRenewer(self)

    def presence(self) -> SqliteRenewer:
        """Keeps the lease of a process. The file lock tells other processes that it lives."""
        return SqliteRenewer(self)

    def lock(self, process: str) -> None:
        """Hold a file lock under this identity for as long as the process lives."""
        self.locks.lock(process)

    def unlock(self, process: str) -> None:
        """Remove the lock of a process that has signed off or was buried."""
        self.locks.unlock(process)

    def is_certainly_dead(self, process: str) -> bool:
        """Whether its lock is free. Otherwise its lease decides."""
        return self.locks.is_free(process)

    def tidy_locks(self, living: Collection[str]) -> None:
        """Remove the free locks, except those of processes that count as alive."""
        self.locks.tidy(living)

    async def end_lost(self) -> None:
        """Nothing can be lost on the way to a file."""

    async def end_sessions(self, process: str) -> int:  # noqa: ARG002 the same shape as PostgreSQL's
        """Nothing to end: a process inside a transaction holds the file, and every other process waits for it."""
        return 0


class SqliteRenewer:
    """Renews a lease, or writes, on a connection of its own, called from a thread of its own."""

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend
        self._connection: apsw.Connection | None = None

    def renew(self, process: str, lease: Microseconds) -> bool:
        """True while the process counts as alive. StoreUnavailable if the store did not answer."""
        return bool(self._execute("renew_lease", process, lease))

    def write(self, name: str, *parameters: object) -> None:
        """Run one query, whose first parameter is the time, as a transaction of its own. StoreUnavailable as above."""
        self._execute(name, *parameters)

    def _execute(self, name: str, *parameters: Any) -> list[Row]:
        backend = self._backend
        try:
            if self._connection is None:
                self._connection = backend._file.connect()  # noqa: SLF001 the two belong together
            now = backend._clock.now()  # noqa: SLF001
            return list(self._connection.execute(backend._queries[name], (now, *parameters)))  # noqa: SLF001
        except apsw.BusyError as error:
            raise StoreUnavailable(locked_by(backend.path), locked=True) from error
        except apsw.Error as error:
            raise StoreUnavailable(str(error)) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def nothing_to_do() -> None:
    """The writer's job when none is waiting."""


def tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    *,
    result: Any = None,
    error: BaseException | None = None,
) -> None:
    """Answer a future of the event loop from another thread."""

    def answer() -> None:
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits any more
        loop.call_soon_threadsafe(answer)
