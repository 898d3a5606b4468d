"""SQLite: one file, one writer thread, readers on connections of their own.

The writer is the only thread of this process that writes (the lease keeper has its own connection for its one row).
It runs each transaction whole: BEGIN IMMEDIATE, the generator, COMMIT with the WAL synced to disk. Between jobs it
looks at `PRAGMA data_version` every 50 ms: that number moves when another process (the command line, a second worker)
has committed something.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from wakeful.clock import Clock, Microseconds
from wakeful.errors import ConfigError, Persistent, StoreFull, StoreUnavailable
from wakeful.private_files import FILE, make_folder, mode_of, reserve
from wakeful.stores.guard import NOT_YOURS, refuse_transaction_control
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
from wakeful.stores.transaction import Call, Count, Row, Transaction

R = TypeVar("R")

LOOK_FOR_OTHERS_EVERY = 0.05
# How long a write waits for another process's. Whoever wants to store an event hears within 5 s that it cannot be.
BUSY_TIMEOUT_MILLISECONDS = 4_000
LOOK_FOR_A_LOCK_MILLISECONDS = 3_000
WROTE_JUST_NOW = 1.0
# The table that sqlite_changes makes (connect/rows/causes.py): its triggers read from it who writes.
HAS_CAUSES = "select 1 from pragma_table_info('wakeful_cause') where name = 'cause'"
LEAVE_CAUSE = "insert into wakeful_cause (cause) values (?)"
USER_FUNCTION_LIMIT = 1.0
# What SQLite raises when the file, the disk or another process is in the way: nothing was stored, trying again is safe.
UNAVAILABLE = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.LockedError,
)
# What the system says when a file cannot grow: no space, over the quota, over the limit for a file (RLIMIT_FSIZE).
# Of these, what even a statement of the user's own can only mean: the disk. The rest is then the function's own error.
NOWHERE_TO_WRITE = (apsw.FullError, apsw.IOError, apsw.NoMemError, apsw.ReadOnlyError)
TRANSACTION_CONTROL = {
    apsw.SQLITE_TRANSACTION,
    apsw.SQLITE_SAVEPOINT,
    apsw.SQLITE_ATTACH,
    apsw.SQLITE_DETACH,
    apsw.SQLITE_PRAGMA,
}
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "gfs2",
}


class SqliteBackend:
    """Carries out transactions on one SQLite file."""

    dialect: Dialect = "sqlite"
    notifies = False
    restored_before = 0  # runs below this may have gone on elsewhere, after the backup that this file is a copy of

    def __init__(
        self, path: Path, clock: Clock, *, busy_timeout: int = BUSY_TIMEOUT_MILLISECONDS, ring: KeyRing | None = None
    ) -> None:
        self.path = path.absolute()  # a handler may change the current folder
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._queries = statements("sqlite", ring)
        self.codec = codec("sqlite", ring)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="wakeful-reader")
        self._local = threading.local()
        self._reading: list[apsw.Connection] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._locks: dict[str, int] = {}
        self._began_at = 0.0  # when a transaction had the write lock last
        self._lock_look: asyncio.Future[None] | None = None
        self._looker: apsw.Connection | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.max_page_count: int | None = None

    # life

    async def open(self, *, migrate: bool = True) -> None:
        """Connect; bring the schema up to date (SQLite needs no leave for that) or refuse one that is ahead."""
        refuse_network_file_system(self.path)
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._write, args=(ready,), name="wakeful-writer", daemon=True)
        self._thread.start()
        await ready
        if migrate:
            await self.migrate()

    async def close(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._readers.shutdown(wait=True)
        if self._lock_look is not None:
            await asyncio.wait([self._lock_look])
        for connection in [*self._reading, *([self._looker] if self._looker is not None else [])]:
            connection.close()
        while self._locks:  # of one that could not say goodbye: the file stays, and its free lock tells the others
            os.close(self._locks.popitem()[1])

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
            self._connection = self._connect()
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
            if time.monotonic() - looked >= LOOK_FOR_OTHERS_EVERY:  # also when busy: others must not wait for a lull
                looked = time.monotonic()
                try:
                    seen = self._connection.execute("pragma data_version").get
                except apsw.Error:
                    continue  # whatever is wrong with the file, the next transaction will tell its callers
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
                        reply = self._call(operation.function, operation.cause)
                    elif isinstance(operation, Count):
                        rows = self._encode(connection, operation.name, operation.rows)
                        before = connection.total_changes()
                        for _ in cursor.executemany(queries[operation.name], rows):
                            pass  # rows that come back are not asked for, but the statements go on only if they are taken
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
            raise self._unavailable(connection, error) from error
        finally:
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("rollback")

    def _encode(self, connection: apsw.Connection, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows as they are stored; what is too large for them is stored now."""
        encoded, blobs = self.codec.encode(name, rows)
        if blobs:
            now = self._clock.now()
            connection.executemany(self._queries["insert_blob"], [(now, *blob) for blob in blobs])
        return encoded

    def _decode(self, connection: apsw.Connection, name: str, rows: list[Row], *, acting: bool = False) -> list[Row]:
        """The rows with their payloads, wherever those are."""
        references = self.codec.references(name, rows)
        if references is None:
            return rows
        query = self._queries["find_blob"]
        found = [row for one in references for row in connection.execute(query, (one,))]
        return self.codec.decode(name, rows, dict(found), acting=acting)

    def _call(self, function: Callable[[Any], Any], cause: str | None) -> tuple[Any, Exception | None]:
        """The user's function, under a savepoint and a time limit, so that its failure is its caller's alone. Where changes in
        this file are heard of, its cause stands there meanwhile.
        """
        connection = self._connection
        connection.execute("savepoint wakeful_user")
        marked = cause is not None and connection.execute(HAS_CAUSES).get is not None
        if marked:
            connection.execute(LEAVE_CAUSE, (cause,))
        deadline = time.monotonic() + USER_FUNCTION_LIMIT
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
        connection.authorizer = forbid_transaction_control
        value: Any = None
        failed: Exception | None = None
        try:
            value = function(GuardedConnection(connection))
        except (*NOWHERE_TO_WRITE, StoreUnavailable):
            raise
        except apsw.InterruptError:
            failed = too_slow()
        except apsw.AuthError:
            failed = Persistent("COMMIT, ROLLBACK, PRAGMA or ATTACH inside run.transaction: " + NOT_YOURS)
        except Exception as error:
            failed = error
        finally:
            connection.set_progress_handler(None)
            connection.authorizer = None
        if failed is None and time.monotonic() > deadline:
            failed = too_slow()  # not in SQLite, where it could be interrupted, but in Python
        if failed is not None:
            connection.execute("rollback to wakeful_user")
        elif marked:
            connection.execute("delete from wakeful_cause")
        connection.execute("release wakeful_user")
        return value, failed

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
            raise self._unavailable(connection, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
        return applied

    def _write_author(
        self, connection: apsw.Connection, author: MigrationAuthor, migration: Migration
    ) -> MigrationAuthor:
        writing, rows = author.write(self._clock.now(), migration, finished=True), None
        while True:
            try:
                name, parameters = next(writing) if rows is None else writing.send(rows)
            except StopIteration as stop:
                written: MigrationAuthor = stop.value
                return written
            (encoded,) = self._encode(connection, name, [parameters])
            rows = list(connection.execute(self._queries[name], tuple(encoded)))

    def _determine_origin(self, connection: apsw.Connection) -> None:
        """Write down that this is another file than the last one: a copy."""
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
        """Rows of a query, read on another connection than the writer's."""
        return (await self.fetch_each(name, [parameters]))[0]

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """The rows of a query for each of some parameters, in one go."""

        def read() -> list[list[Row]]:
            try:
                connection = getattr(self._local, "connection", None)
                if connection is None:
                    connection = self._local.connection = self._connect(reading=True)
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
        """Which migrations the file has, and what it knows of them: little, as long as an older version wrote it."""
        try:
            rows = await self.fetch("migration_ledger")
        except apsw.SQLError:
            rows = [(*row, None, None, 1) for row in await self.fetch("applied_migrations")]
        return [Applied.of(row) for row in rows]

    async def applied_migrations(self) -> list[Row]:
        return await self.fetch("applied_migrations")

    def read_clock(self) -> Microseconds | None:
        """What to hand a reading query as `:now`."""
        return self._clock.now()

    async def refuse_locked(self) -> None:
        """Raises StoreUnavailable if another process keeps this one from writing. One look at a time, on a connection of its own: the writer's
        may be what waits.
        """
        if time.monotonic() - self._began_at < WROTE_JUST_NOW:
            return
        if self._lock_look is None or self._lock_look.done():
            self._lock_look = asyncio.get_running_loop().run_in_executor(None, self._look_for_a_lock)
        await asyncio.shield(self._lock_look)

    def _look_for_a_lock(self) -> None:
        if self._looker is None:
            self._looker = self._connect()
            self._looker.set_busy_timeout(LOOK_FOR_A_LOCK_MILLISECONDS)
        try:
            self._looker.execute("begin immediate")
            self._looker.execute("rollback")
        except apsw.BusyError as error:
            raise StoreUnavailable(locked_by(self.path), locked=True) from error
        except UNAVAILABLE as error:
            raise self._unavailable(self._looker, error) from error

    # processes

    def renewer(self) -> SqliteRenewer:
        return SqliteRenewer(self)

    def presence(self) -> SqliteRenewer:
        """What keeps the lease of a process. Its file lock tells others whether it is there."""
        return SqliteRenewer(self)

    def lock(self, process: str) -> None:
        """Hold a file lock under this identity for as long as the process lives: the kernel lets go when it dies."""
        path = self._lock_folder / process
        while process not in self._locks:
            try:
                # As SQLite does it for the WAL: those who may use the store may use what stands beside it.
                mode = (mode_of(self.path) if self.path.exists() else FILE) & 0o666
                path.parent.mkdir(mode=mode | mode >> 2 & 0o111, exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
            except FileNotFoundError:
                continue  # the last one that left has just removed the folder
            except OSError as error:
                message = f"{self._lock_folder}: {error.strerror or error}"
                raise (StoreFull if error.errno in NO_ROOM else StoreUnavailable)(message) from error
            fcntl.flock(handle, fcntl.LOCK_EX)
            if is_at(path, handle):
                self._locks[process] = handle
            else:
                os.close(handle)  # somebody who tidied up was between us and the lock

    def unlock(self, process: str) -> None:
        """It is written down that this process left, or was buried: its lock is of no use any more."""
        handle = self._locks.pop(process, None)
        if handle is not None:
            (self._lock_folder / process).unlink(missing_ok=True)
            os.close(handle)
        with contextlib.suppress(OSError):
            self._lock_folder.rmdir()  # goes when the last one has left

    def is_certainly_dead(self, process: str) -> bool:
        """Its lock is free, so it is gone, whatever its lease says. The file stays until that is written down: whoever
        looked may die as well, and the next one needs the sign.
        """
        handle = self._take_if_free(process)
        if handle is None:
            return (
                False  # not there is no sign of death: somebody tidied up, or came by another path. Its lease decides
            )
        os.close(handle)
        return True

    def tidy_locks(self, living: Collection[str]) -> None:
        """Remove the locks that nobody holds, but for those of processes that count as alive."""
        with contextlib.suppress(OSError):
            for path in self._lock_folder.iterdir():
                if path.name not in living and (handle := self._take_if_free(path.name)) is not None:
                    path.unlink(missing_ok=True)
                    os.close(handle)

    def _take_if_free(self, process: str) -> int | None:
        try:
            handle = os.open(self._lock_folder / process, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    async def end_lost(self) -> None:
        """Nothing can be lost on the way to a file."""

    async def end_sessions(self, process: str) -> int:  # noqa: ARG002 the same shape as PostgreSQL's
        """Nothing to end: one that is in the middle of a transaction holds the file, and everybody waits for it."""
        return 0

    @property
    def _lock_folder(self) -> Path:
        file = self.path.resolve()  # one file, one folder of locks, whatever links led here
        return file.with_name(file.name + "-processes")

    # connections

    def _unavailable(self, connection: apsw.Connection, error: apsw.Error) -> StoreUnavailable:
        if isinstance(error, apsw.FullError) or (
            isinstance(error, apsw.IOError) and connection.system_errno in NO_ROOM
        ):
            return StoreFull(f"{self.path}: {explain(apsw.FullError())}")
        if isinstance(error, apsw.BusyError):
            return StoreUnavailable(locked_by(self.path), locked=True)
        return StoreUnavailable(f"{self.path}: {explain(error)}")

    def _connect(self, *, reading: bool = False) -> apsw.Connection:
        try:
            make_folder(self.path.parent)
            reserve(self.path)  # SQLite gives the mode of this file to its -wal and -shm
            # NOMUTEX: every connection here is used by one thread at a time, so SQLite need not lock for us
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
            connection = apsw.Connection(str(self.path), flags=flags)
            connection.set_busy_timeout(self._busy_timeout)
            self._use_wal(connection)
            connection.execute("pragma synchronous = full")
            connection.execute("pragma cache_size = -65536")
            connection.execute(
                "pragma wal_autocheckpoint = 4000"
            )  # 16 MB: pages that change often are copied back less
            if reading:
                connection.execute("pragma query_only = on")
            if self.max_page_count is not None and not reading:
                connection.execute(f"pragma max_page_count = {self.max_page_count}")
        except (apsw.Error, OSError) as error:
            message = f"cannot open {self.path}: {explain(error)}"
            raise StoreUnavailable(message) from error
        return connection

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Several that open a new file at once must all change its mode, and SQLite does not wait its busy timeout for that:
        it answers at once that somebody else is just doing it.
        """
        ends = time.monotonic() + self._busy_timeout / 1000
        while True:
            try:
                connection.execute("pragma journal_mode = wal")
            except apsw.BusyError:
                if time.monotonic() >= ends:
                    raise
                time.sleep(0.01)
            else:
                return


class SqliteRenewer:
    """Renews a lease, or writes, on a connection of its own, called from a thread of its own."""

    def __init__(self, backend: SqliteBackend) -> None:
        self._backend = backend
        self._connection: apsw.Connection | None = None

    def renew(self, process: str, lease: Microseconds) -> bool:
        """True while the process counts as alive. StoreUnavailable when it could not be told."""
        return bool(self._execute("renew_lease", process, lease))

    def write(self, name: str, *parameters: object) -> None:
        """One query, which takes the time first, as a transaction of its own. StoreUnavailable as above."""
        self._execute(name, *parameters)

    def _execute(self, name: str, *parameters: Any) -> list[Row]:
        backend = self._backend
        try:
            if self._connection is None:
                self._connection = backend._connect()  # noqa: SLF001 the two belong together
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


class GuardedConnection:
    """What `run.transaction` hands the user's function: statements, but no say over the transaction itself."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = ()) -> apsw.Cursor:
        """Run one statement; the cursor has fetchone() and fetchall(), and iterates over rows."""
        refuse_transaction_control(sql, trigger_bodies=True)  # the authorizer sees whatever this lets through
        self._refuse_after_rollback()
        return self._connection.execute(sql, parameters or None)

    def executemany(self, sql: str, rows: Sequence[Any]) -> apsw.Cursor:
        """Run one statement for each row of parameters."""
        refuse_transaction_control(sql, trigger_bodies=True)
        self._refuse_after_rollback()
        return self._connection.executemany(sql, rows)

    def _refuse_after_rollback(self) -> None:
        """When the disk is full SQLite rolls back by itself. A function that caught the error must not go on alone."""
        if not self._connection.in_transaction:
            message = "SQLite has rolled the transaction back, because it could not write"
            raise StoreUnavailable(message)


def forbid_transaction_control(action: int, *_: str | None) -> int:
    """SQLite asks this about each statement of the user's function: the transaction around it is not theirs to end."""
    return apsw.SQLITE_DENY if action in TRANSACTION_CONTROL else apsw.SQLITE_OK


def too_slow() -> Persistent:
    return Persistent(
        f"the function given to run.transaction was interrupted after {USER_FUNCTION_LIMIT:g} s and undone: on SQLite all "
        "other writes wait for it. Do the slow part in a step before it"
    )


def nothing_to_do() -> None:
    """What the writer does when nobody has asked for anything."""


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

    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(answer)


def explain(error: BaseException) -> str:
    """An error of SQLite in words that say what to do."""
    if isinstance(error, apsw.FullError):
        return "the disk is full (or the database's size limit is reached): make room, it goes on by itself"
    if isinstance(error, apsw.BusyError):
        return "another process has held the write lock for too long"
    if isinstance(error, apsw.ReadOnlyError):
        return "the file or its folder is read-only for this user"
    if isinstance(error, apsw.CantOpenError | PermissionError):
        return f"the file cannot be opened or made ({error})"
    return str(error)


def refuse_network_file_system(path: Path) -> None:
    """WAL needs shared memory and honest locks: a database on a network file system gets corrupted sooner or later."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    target = str(path.absolute().parent)
    best = ("", "")
    for line in mounts:
        fields = line.split()
        point, kind = fields[4], fields[fields.index("-") + 1]
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    if best[1] in NETWORK_FILE_SYSTEMS:
        message = f"{path} is on {best[1]}: SQLite's WAL does not work there. Use a local disk, or postgresql://…"
        raise ConfigError(message)


def is_at(path: Path, handle: int) -> bool:
    """Is the open file still the one at this path?"""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
