"""PostgreSQL through asyncpg: one connection for the journal, one that listens, a small pool for reading.

A transaction is the same generator as on SQLite; each query goes out once with all its rows (`fetchmany`). Leases, due times and waits
use the database's clock. When the connection breaks, the callers of the transaction are told StoreUnavailable, and the next
transaction connects again. After a COMMIT whose answer was lost the verbs are repeated: each finds out whether it was carried out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from wakeful.clock import Clock, Microseconds
from wakeful.errors import ConfigError, Persistent, StoreForbidden, StoreUnavailable
from wakeful.settings import shown_store
from wakeful.stores.connections import POOLERS_REFUSAL, SAME_SERVER, is_a_pooler, is_another
from wakeful.stores.grants import forbidden, may_not_migrate
from wakeful.stores.guard import GuardedPostgres
from wakeful.stores.keyring import KeyRing
from wakeful.stores.migration_author import MigrationAuthor
from wakeful.stores.migrations import Applied, Migration, Patience, Told, standing
from wakeful.stores.origins import cluster, determine_origin
from wakeful.stores.postgres_arrays import count_of
from wakeful.stores.postgres_connections import CONNECT_TIMEOUT, OLDEST_VERSION, PostgresConnections, limits, role_of
from wakeful.stores.postgres_listening import PostgresListener
from wakeful.stores.postgres_migrating import Migrator, migration_settings, read_ledger
from wakeful.stores.postgres_one_statement import OneStatement, OneStatements
from wakeful.stores.postgres_presence import PostgresPresence
from wakeful.stores.postgres_renewing import PostgresRenewer
from wakeful.stores.queries import Dialect, codec, statements, written_queries
from wakeful.stores.request import Actor
from wakeful.stores.transaction import Call, Count, Row, Transaction
from wakeful.telemetry.logger import Logger, logger_of

if TYPE_CHECKING:
    import asyncpg

R = TypeVar("R")

# Every statement of the journal finds its rows by key. Without statistics, as right after a migration, the planner would read a whole
# small table instead, and keep doing so with a cached plan when the table has grown.
ONLY_POINT_LOOKUPS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
# A setting that ends with its transaction: its absence shows a COMMIT that no check of the text saw.
TRANSACTION_MARK = "wakeful.transaction"
# With it the cause, for triggers on changes in this database (connect/rows/causes.py). Readers of the log find a message before the
# changes, database triggers find a setting. The message is written only if a logical slot reads the log.
BEGIN_MARKED = f"""
select set_config('{TRANSACTION_MARK}', '1', true), set_config('wakeful.cause', $1::text, true),
  case when $1::text <> '' and current_setting('wal_level') = 'logical' and exists (
    select 1 from pg_replication_slots where slot_type = 'logical' and database = current_database()
  ) then cast(pg_logical_emit_message(true, 'wakeful', $1::text) as text) end"""
DEADLOCK_TRIES = 5


def session_name(process: str) -> str:
    return f"wakeful {process}"


PARAMETER = re.compile(r"\$(\d+)")


class PostgresBackend:
    """Carries out transactions on one PostgreSQL database."""

    dialect: Dialect = "postgres"
    notifies = True
    restored_before = 0  # runs with a lower number may have continued elsewhere, after the backup of this store

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        *,
        ring: KeyRing | None = None,
        connections: int | None = None,
        listen: str | None = None,
    ) -> None:
        """`connections`: the most it may have. `listen`: the address of the server itself, if `dsn` is that of a pooler."""
        self.connections = PostgresConnections(dsn, connections=connections, listen=listen)
        self.listener = PostgresListener(self.connections)
        self._clock = clock
        self._queries = statements("postgres", ring)
        self.codec = codec("postgres", ring)
        written = written_queries("postgres").items()
        self._bulk = {name: "now" in query.parameters for name, query in written if query.bulk}
        self._one_statements = OneStatements(self._queries, self.codec, self._bulk)
        self._idle: list[asyncpg.Connection[Any]] = []
        self._lost: set[int] = set()
        self._name = "wakeful"
        errors = self.connections.asyncpg.exceptions
        self._again = (errors.DeadlockDetectedError, errors.SerializationError)

    @cached_property
    def _log(self) -> Logger:
        return logger_of(part="postgres")

    # life

    async def open(self, *, migrate: bool = False) -> None:
        """Connect. SchemaMismatch for a schema that is behind, unless asked to migrate, or ahead."""
        try:
            await self._look_at_server()
        except StoreUnavailable as error:
            if POOLERS_REFUSAL in str(error) and not self.connections.pooled:
                raise is_a_pooler(shown_store(self.connections.dsn)) from error
            raise
        if migrate:
            await self.migrate()
        standing("postgres", await self.ledger()).refuse_behind()
        async with self.connections.borrowed() as connection:
            await self._determine_origin(connection)

    async def _look_at_server(self) -> None:
        """ConfigError if the server is too old, is an unnamed pooler, or is not the server that we listen to."""
        async with self.connections.borrowed() as connection:
            version = connection.get_server_version().major
            if version < OLDEST_VERSION:
                message = f"PostgreSQL {version} is too old: Wakeful needs {OLDEST_VERSION} or newer"
                raise ConfigError(message)
            if self.connections.pooled:
                await self._refuse_another_server(connection)
            elif connection.get_server_pid() != await connection.fetchval("select pg_backend_pid()"):
                raise is_a_pooler(shown_store(self.connections.dsn))  # a pooler gives its clients numbers of its own

    async def _refuse_another_server(self, connection: Any) -> None:
        """A lease in another database than the runs would make every process count as dead."""
        through = await connection.fetchrow(SAME_SERVER)
        directly = await self.connections.connect_directly()
        try:
            if tuple(await directly.fetchrow(SAME_SERVER)) != tuple(through):
                raise is_another(shown_store(self.connections.direct_dsn), shown_store(self.connections.dsn))
        finally:
            await self.connections.drop(directly)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        await self.listener.stop()
        while self._idle:
            await self.connections.drop(self._idle.pop())
        await self.connections.close()

    # writing

    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:
        """One transaction on a connection of the journal's."""
        connection = await self._journal_connection()
        process = connection.get_server_pid()
        try:
            one = (
                self._one_statements.of(self._clock.for_database(), transaction)
                if plain and not self.connections.pooled
                else None
            )
            if one is not None and await self._went_well(connection, one):
                result = cast("R", one.result)
            else:
                result = await self._in_transaction(connection, lambda: self.drive(connection, transaction))
        except self.connections.gone as error:
            # Behind a pooler the number is the pooler's, and no transaction on its way there can be whole without us.
            if not self.connections.pooled:
                self._lost.add(process)
            await self.connections.drop(connection)
            raise self.connections.unavailable(error) from error
        except self.connections.denied as error:
            self._idle.append(connection)
            raise forbidden(error, role_of(connection)) from error
        except BaseException:
            self._idle.append(connection)
            raise
        self._idle.append(connection)
        return result

    async def end_lost(self) -> None:
        """End the sessions whose answers were lost, and wait until they have ended. A statement that is a transaction of its own may
        still be on its way to the server, and would see the rows as they are when it arrives.
        """
        if not self._lost:
            return
        ending = sorted(self._lost)
        async with self.connections.borrowed() as connection:
            for process in ending:
                await connection.execute(self._queries["end_session"], process, self._name)
        self._lost.difference_update(ending)

    async def _went_well(self, connection: Any, one: OneStatement) -> bool:
        try:
            return count_of(await connection.execute(*one.statement)) == one.count
        except (*self._again, self.connections.asyncpg.exceptions.DivisionByZeroError):
            return False

    async def _in_transaction(self, connection: Any, work: Callable[[], Awaitable[R]]) -> R:
        """Start again if the database picked this transaction to break a deadlock."""
        for tried in range(1, DEADLOCK_TRIES + 1):
            try:
                async with connection.transaction():
                    if self.connections.pooled:
                        await connection.execute(self._settings_of_a_transaction())
                    return await work()
            except self._again:
                if tried == DEADLOCK_TRIES:
                    raise
        raise AssertionError

    async def drive(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator on a connection that is already in a transaction."""
        generator = transaction(self._clock.for_database())
        queries = self._queries
        try:
            operation = next(generator)
            while True:
                if isinstance(operation, Call):
                    message = "run.transaction on PostgreSQL has a connection of its own"
                    raise TypeError(message)
                name, rows = (operation.name, operation.rows) if isinstance(operation, Count) else operation
                if rows:
                    rows = await self._encode(connection, name, rows)
                if not rows:
                    reply = []
                elif name in self._bulk:
                    columns = self._one_statements.columns(name, rows)
                    if isinstance(operation, Count):
                        operation = generator.send(count_of(await connection.execute(queries[name], *columns)))
                        continue
                    reply = await connection.fetch(queries[name], *columns)
                elif len(rows) == 1:
                    reply = await connection.fetch(queries[name], *rows[0])
                else:
                    reply = await connection.fetchmany(queries[name], rows)
                if isinstance(operation, Count):
                    operation = generator.send(len(reply))
                else:
                    operation = generator.send(await self._decode(connection, name, reply, acting=True))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # a generator's return value is not typed at run time

    async def _encode(self, connection: Any, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows as they are stored. Payloads that are too large for a row are stored now."""
        encoded, blobs = self.codec.encode(name, rows)
        if blobs:
            now = self._clock.for_database()
            await connection.executemany(self._queries["insert_blob"], [(now, *blob) for blob in blobs])
        return encoded

    async def _decode(self, connection: Any, name: str, rows: list[Row], *, acting: bool = False) -> list[Row]:
        """The rows with their payloads, read from the row or from the table of blobs."""
        references = self.codec.references(name, rows)
        if references is None:
            return rows
        query = self._queries["find_blob"]
        found = [row for one in references for row in await connection.fetch(query, one)]
        return self.codec.decode(name, rows, dict(found), acting=acting)

    @contextlib.asynccontextmanager
    async def user_transaction(self, cause: str | None = None) -> AsyncIterator[Any]:
        """A connection of its own with an open transaction, for run.transaction, marked with its cause."""
        async with self.connections.borrowed(for_users=True) as connection, connection.transaction():
            await connection.fetchval(BEGIN_MARKED, cause or "")
            yield connection

    async def conclude(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator as the end of a user_transaction. From its fence on, it is like a transaction of the journal."""
        marked = connection.is_in_transaction() and await connection.fetchval(
            "select current_setting($1, true)", TRANSACTION_MARK
        )
        if marked != "1":
            message = (
                "COMMIT or ROLLBACK inside run.transaction (or RESET ALL, which removes the mark that detects them): "
                "Wakeful controls the transaction and ends it when the function returns"
            )
            raise Persistent(message)
        settings = {**limits(), "application_name": self._name}
        await connection.execute("; ".join(f"set local {name} = '{value}'" for name, value in settings.items()))
        return await self._drive_with_rights(connection, transaction)

    async def _drive_with_rights(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """As drive, on a connection that user code shares. StoreForbidden if a right on our tables is missing."""
        try:
            return await self.drive(connection, transaction)
        except self.connections.denied as error:
            raise forbidden(error, role_of(connection)) from error

    async def within(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator inside the caller's own transaction, with which it commits or not. ConfigError outside of one."""
        if isinstance(connection, GuardedPostgres):  # of a run.transaction
            connection = connection.unguarded
        if not isinstance(
            connection, self.connections.asyncpg.Connection | self.connections.asyncpg.pool.PoolConnectionProxy
        ):
            message = f"within= takes an asyncpg connection, not {type(connection).__name__}"
            raise ConfigError(message)
        if not connection.is_in_transaction():
            message = "within= takes a connection that is in a transaction: `async with connection.transaction():`"
            raise ConfigError(message)
        return await self._drive_with_rights(connection, transaction)

    async def migrate(
        self, *, patience: Patience | None = None, told: Told | None = None, by: Actor | None = None
    ) -> list[Migration]:
        """Apply the missing migrations, one process at a time, on a connection without a time limit of its own. Each of its
        transactions writes the author's row along, where `by` names one.
        """
        if not standing("postgres", await self.ledger()).pending:
            async with self.connections.borrowed() as connection:
                await self._determine_origin(connection)
            return []
        try:
            connection = await self.connections.asyncpg.connect(
                self.connections.direct_dsn,
                timeout=CONNECT_TIMEOUT,
                server_settings={"application_name": "wakeful migrate", "jit": "off", **migration_settings()},
            )
            try:
                migrator = Migrator(
                    connection,
                    self.connections.asyncpg,
                    self._queries,
                    self._clock,
                    patience=patience or Patience(),
                    told=told or self._log.info,
                    codec=self.codec,
                    author=None if by is None else MigrationAuthor(by),
                )
                applied = await migrator.migrate()
                await self._determine_origin(connection)
                return applied
            except self.connections.denied as error:
                raise may_not_migrate(error, role_of(connection)) from error
            finally:
                await self.connections.drop(connection)
        except self.connections.gone as error:
            raise self.connections.unavailable(error) from error

    # reading

    async def fetch(self, name: str, *parameters: Any) -> list[Row]:
        """The rows of a query, read on another connection than the journal's."""
        async with self.connections.borrowed() as connection:
            rows: list[Row] = await connection.fetch(self._queries[name], *parameters)
            return await self._decode(connection, name, rows)

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """The rows of a query for each set of parameters, in one statement. Parameters are whole numbers or texts."""
        if len(given) < 2:
            return [await self.fetch(name, *parameters) for parameters in given]
        columns = [list(column) for column in zip(*given, strict=True)]
        found: list[list[Row]] = [[] for _ in given]
        async with self.connections.borrowed() as connection:
            rows = await connection.fetch(self._for_each(name, columns), *columns)
            places = [row[0] - 1 for row in rows]
            decoded = await self._decode(connection, name, [tuple(row)[1:] for row in rows])
        for place, row in zip(places, decoded, strict=True):
            found[place].append(row)
        return found

    def _for_each(self, name: str, columns: Sequence[Sequence[Any]]) -> str:
        """The query, once for each row of some arrays. The server carries it out whole for one row after the other, so the rows of one
        answer stay together, in the order of the query.
        """
        kinds = ["bigint" if isinstance(column[0], int) else "text" for column in columns]
        arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, start=1))
        names = ", ".join(f"v{number}" for number in range(1, len(kinds) + 1))
        query = PARAMETER.sub(r"given.v\1", self._queries[name])
        return f"select given.n, found.* from unnest({arrays}) with ordinality as given ({names}, n) cross join lateral ({query}) found"

    async def ledger(self) -> list[Applied]:
        """The migrations of the database, with their details."""
        async with self.connections.borrowed() as connection:
            return await read_ledger(connection, self._queries, self.connections.asyncpg.exceptions)

    async def applied_migrations(self) -> list[Row]:
        return [(one.number, one.name) for one in await self.ledger() if one.finished]

    def read_clock(self) -> Microseconds | None:
        """The time for a reading query's `:now`; None: the database uses its own clock."""
        return self._clock.for_database()

    async def refuse_locked(self) -> None:
        """Nothing to refuse: PostgreSQL locks rows, never the whole store."""

    # processes

    def renewer(self) -> PostgresRenewer:
        return PostgresRenewer(self.connections, self._queries, self._clock)

    def presence(self) -> PostgresRenewer:
        """Keeps the lease of a process, and tells other processes whether it is connected. Under a virtual clock it keeps the lease alone:
        a process that dies there is dead once its lease has expired.
        """
        return (PostgresPresence if self._clock.for_database() is None else PostgresRenewer)(
            self.connections, self._queries, self._clock
        )

    def lock(self, process: str) -> None:
        """Nothing to hold: on PostgreSQL a process lives by its lease. Its sessions carry its name from now on, so that another process
        can end them when it is dead.
        """
        self._name = session_name(process)
        while self._idle:
            self._idle.pop().terminate()

    def unlock(self, process: str) -> None:
        """Nothing to free."""

    def is_certainly_dead(self, process: str) -> bool:  # noqa: ARG002 the question SQLite can answer
        """Never certain: another machine may only be slow. The lease decides."""
        return False

    def tidy_locks(self, living: Collection[str]) -> None:
        """Nothing to tidy."""

    async def end_sessions(self, process: str) -> int:
        """End the transactions of a process whose lease expired; how many. It may have been stopped inside one, whose locks are in the
        way. The fence would refuse its COMMIT anyway.
        """
        try:
            return len(await self.fetch("end_sessions", session_name(process)))
        except StoreForbidden as error:
            self._log.warning("cannot end the sessions of a dead process; the server will", error=str(error))
            return 0

    # connections

    def _settings_of_a_transaction(self) -> str:
        """The settings of the journal's sessions, for a transaction through a pooler."""
        settings = {
            **ONLY_POINT_LOOKUPS,
            "jit": "off",
            "idle_in_transaction_session_timeout": limits()["idle_in_transaction_session_timeout"],
            "application_name": self._name,
        }
        return "; ".join(f"set local {name} = '{value}'" for name, value in settings.items())

    async def _journal_connection(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        connection = await self.connections.connect(**ONLY_POINT_LOOKUPS, **limits(), application_name=self._name)
        try:  # this address may now lead to another server, into which a copy was restored
            await self._determine_origin(connection)
        except BaseException as error:
            role = role_of(connection)
            await self.connections.drop(connection)
            if isinstance(error, self.connections.gone):
                raise self.connections.unavailable(error) from error
            if isinstance(error, self.connections.denied):
                raise forbidden(error, role) from error
            raise
        return connection

    async def _determine_origin(self, connection: Any) -> None:
        """Record where the store is, before the first write over a connection (see origins.py)."""
        errors = self.connections.asyncpg.exceptions
        now = self._clock.for_database()
        self.restored_before, moved = await determine_origin(connection, self._queries, errors, now)
        if moved is not None:
            self._log.warning(
                "this store was restored into another PostgreSQL cluster: from now on events and runs are compared by its transactions. "
                "Make sure that the original is not running as well",
                was_in=moved[0],
                now_in=moved[1],
            )

    async def identity(self) -> str:
        """Which cluster this is."""
        async with self.connections.borrowed() as connection:
            return await cluster(connection, self._queries, self.connections.asyncpg.exceptions)
