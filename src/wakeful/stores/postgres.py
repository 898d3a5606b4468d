"""PostgreSQL through asyncpg: one connection for the journal, one that listens, a small pool for reading.

A transaction is the same generator as on SQLite; each query goes out once with all its rows (`fetchmany`). Leases,
due times and waits use the database's clock. When the connection breaks, the transaction's callers are told
StoreUnavailable and the next one connects anew; what a COMMIT whose answer was lost did or did not do is found out by
the verbs, which can all be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from wakeful.clock import Clock, Microseconds
from wakeful.errors import ConfigError, Persistent, StoreForbidden, StoreFull, StoreUnavailable
from wakeful.settings import shown_store
from wakeful.stores.connections import POOLERS_REFUSAL, SAME_SERVER, budget_of, is_a_pooler, is_another
from wakeful.stores.grants import forbidden, may_not_migrate
from wakeful.stores.guard import GuardedPostgres
from wakeful.stores.keyring import KeyRing
from wakeful.stores.migration_author import MigrationAuthor
from wakeful.stores.migrations import Applied, Migration, Patience, Told, standing
from wakeful.stores.origins import cluster, determine_origin
from wakeful.stores.postgres_migrating import Migrator, migration_settings, read_ledger
from wakeful.stores.queries import Dialect, codec, statements, written_queries
from wakeful.stores.request import Actor, Ready
from wakeful.stores.transaction import Call, Count, Row, Transaction
from wakeful.telemetry.logger import Logger, logger_of
from wakeful.telemetry.outage import note_outage

if TYPE_CHECKING:
    import asyncpg

R = TypeVar("R")

CHANNEL = "wakeful"
RESULTS = "wakeful_results"  # which runs are waited for, and which of these have ended
COMMAND_TIMEOUT = 15.0
CONNECT_TIMEOUT = 5.0
# How long the server waits for the next word of a transaction of ours. After a connection was lost the journal waits for
# what may still be on its way by it, and the server may not know yet that nobody is there any more.
IDLE_IN_TRANSACTION_LIMIT = 5.0
LISTEN_AGAIN_AFTER = 0.5
LISTEN_CHECK_EVERY = 20.0
# Every statement of the journal finds its rows by key. A planner that has no statistics yet, as right after a migration,
# would rather read a whole small table, and go on doing so with a cached plan when it has grown.
ONLY_POINT_LOOKUPS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
# A setting that is gone with its transaction: a COMMIT that no text check saw is noticed by it.
TRANSACTION_MARK = "wakeful.transaction"
# And who writes, for those who hear of changes in this database (connect/rows/causes.py): those who read its log find a
# message before the changes, those who have triggers a setting. The message is written only where somebody reads the log.
BEGIN_MARKED = f"""
select set_config('{TRANSACTION_MARK}', '1', true), set_config('wakeful.cause', $1::text, true),
  case when $1::text <> '' and current_setting('wal_level') = 'logical' and exists (
    select 1 from pg_replication_slots where slot_type = 'logical' and database = current_database()
  ) then cast(pg_logical_emit_message(true, 'wakeful', $1::text) as text) end"""
# How many new events go into one statement: it joins them by their place, each with each.
MOST_AT_ONCE = 128
# Queries that exist together with the fence as one statement.
FENCED = {"save_step": "save_step_fenced", "finish_well": "finish_well_fenced"}
OLDEST_VERSION = 15
DEADLOCK_TRIES = 5


def driver() -> Any:
    """asyncpg, loaded when it is first needed."""
    try:
        import asyncpg
    except ImportError as error:
        message = "a postgresql:// store needs asyncpg: pip install 'wakeful[postgres]'"
        raise ConfigError(message) from error
    return asyncpg


def limits() -> dict[str, str]:
    """What makes the server notice soon that nobody is there any more. Milliseconds, and seconds for TCP."""
    return {
        "idle_in_transaction_session_timeout": str(round(IDLE_IN_TRANSACTION_LIMIT * 1000)),
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "3",
    }


def session_name(process: str) -> str:
    return f"wakeful {process}"


@dataclass(slots=True)
class OneStatement:
    """A whole transaction in one statement: what it says when all went well, and what the result is then."""

    statement: tuple[Any, ...]
    count: int
    result: Any


PARAMETER = re.compile(r"\$(\d+)")
# In no text that PostgreSQL takes.
SEPARATOR = "\0"


def count_of(status: str) -> int:
    """How many rows a command wrote, out of what it answers: INSERT 0 64, UPDATE 64."""
    return int(status.rpartition(" ")[2])


def array(column: Sequence[Any]) -> str:
    """A column in PostgreSQL's notation for arrays: {1,2,NULL} or {"a","b",NULL}.

    Most columns are numbers, or texts, or nothing at all: these are written as a whole, without a look at each value.
    """
    first = column[0]
    if type(first) is int:
        return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"
    if first is None and column.count(None) == len(column):
        return "{" + ",".join(["NULL"] * len(column)) + "}"
    if None not in column:
        text: str = SEPARATOR.join(column)
        if text.count(SEPARATOR) == len(column) - 1:
            text = text.replace("\\", "\\\\").replace('"', '\\"').replace(SEPARATOR, '","')
            return f'{{"{text}"}}'
    return "{" + ",".join([_element(value) for value in column]) + "}"


def arrays(rows: Sequence[Row], width: int) -> list[str]:
    """The columns of some rows, perhaps of none."""
    return [array(column) for column in zip(*rows, strict=True)] if rows else ["{}"] * width


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    return '"' + str.__str__(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


class PostgresBackend:
    """Carries out transactions on one PostgreSQL database."""

    dialect: Dialect = "postgres"
    notifies = True
    restored_before = (
        0  # runs below this may have gone on elsewhere, after the backup that this store was restored from
    )

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        *,
        ring: KeyRing | None = None,
        connections: int | None = None,
        listen: str | None = None,
    ) -> None:
        """`connections`: all that it may have. `listen`: the address of the server itself, where `dsn` is that of a pooler."""
        self._dsn = dsn
        self._direct_dsn = listen or dsn
        self._pooled = listen is not None
        self._budget = budget_of(connections)
        self._clock = clock
        self._asyncpg = driver()
        self._queries = statements("postgres", ring)
        self.codec = codec("postgres", ring)
        written = written_queries("postgres").items()
        self._bulk = {name: "now" in query.parameters for name, query in written if query.bulk}
        self._idle: list[asyncpg.Connection[Any]] = []
        self._lost: set[int] = set()
        self._pools: dict[bool, asyncpg.Pool[Any]] = {}
        self._pool_lock = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._name = "wakeful"
        self.on_ready: Callable[[Ready], None] = lambda _: None
        self.on_results: Callable[[str], None] = lambda _: None
        errors = self._asyncpg.exceptions
        self._gone: tuple[type[BaseException], ...] = (
            OSError,
            TimeoutError,
            errors.PostgresConnectionError,
            errors.InterfaceError,
            errors.InternalClientError,
            errors.OperatorInterventionError,
            errors.InsufficientResourcesError,
            errors.ReadOnlySQLTransactionError,
            errors.InvalidAuthorizationSpecificationError,
            errors.InvalidCatalogNameError,
            errors.IdleInTransactionSessionTimeoutError,
        )
        self._silenced: tuple[type[BaseException], ...] = (StoreUnavailable, *self._gone)
        self._denied: type[Exception] = errors.InsufficientPrivilegeError
        self._again = (errors.DeadlockDetectedError, errors.SerializationError)

    @cached_property
    def _log(self) -> Logger:
        return logger_of(part="postgres")

    # life

    async def open(self, *, migrate: bool = False) -> None:
        """Connect; refuse a schema that is behind or ahead, unless asked to migrate."""
        try:
            await self._look_at_server()
        except StoreUnavailable as error:
            if POOLERS_REFUSAL in str(error) and not self._pooled:
                raise is_a_pooler(shown_store(self._dsn)) from error
            raise
        if migrate:
            await self.migrate()
        standing("postgres", await self.ledger()).refuse_behind()
        async with self._borrowed() as connection:
            await self._determine_origin(connection)

    async def _look_at_server(self) -> None:
        """Is it new enough, and is it the server itself, or a pooler of the server that we listen to?"""
        async with self._borrowed() as connection:
            version = connection.get_server_version().major
            if version < OLDEST_VERSION:
                message = f"PostgreSQL {version} is too old: Wakeful needs {OLDEST_VERSION} or newer"
                raise ConfigError(message)
            if self._pooled:
                await self._refuse_another_server(connection)
            elif connection.get_server_pid() != await connection.fetchval("select pg_backend_pid()"):
                raise is_a_pooler(shown_store(self._dsn))  # it tells its clients a number of its own

    async def _refuse_another_server(self, connection: Any) -> None:
        """A lease that is kept in another database than the runs would let every process die."""
        through = await connection.fetchrow(SAME_SERVER)
        directly = await self._connect_directly()
        try:
            if tuple(await directly.fetchrow(SAME_SERVER)) != tuple(through):
                raise is_another(shown_store(self._direct_dsn), shown_store(self._dsn))
        finally:
            await self._drop(directly)

    async def listen(self) -> None:
        """Hear of runs that other processes made ready."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="wakeful listener")

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None
        while self._idle:
            await self._drop(self._idle.pop())
        while self._pools:
            _, pool = self._pools.popitem()
            try:
                await asyncio.wait_for(pool.close(), CONNECT_TIMEOUT)
            except self._gone:
                pool.terminate()

    # writing

    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:
        """One transaction on a connection of the journal's."""
        connection = await self._journal_connection()
        process = connection.get_server_pid()
        try:
            one = self._as_one_statement(transaction) if plain and not self._pooled else None
            if one is not None and await self._went_well(connection, one):
                result = cast("R", one.result)
            else:
                result = await self._in_transaction(connection, lambda: self.drive(connection, transaction))
        except self._gone as error:
            if (
                not self._pooled
            ):  # there the number is the pooler's, and nothing that is on its way can be whole without us
                self._lost.add(process)
            await self._drop(connection)
            raise self._unavailable(error) from error
        except self._denied as error:
            self._idle.append(connection)
            raise forbidden(error, role_of(connection)) from error
        except BaseException:
            self._idle.append(connection)
            raise
        self._idle.append(connection)
        return result

    async def end_lost(self) -> None:
        """End the sessions whose answers were lost, and wait until they have ended. A statement that is a transaction of
        its own may still be on its way there, and would see what was true when it arrived.
        """
        if not self._lost:
            return
        ending = sorted(self._lost)
        async with self._borrowed() as connection:
            for process in ending:
                await connection.execute(self._queries["end_session"], process, self._name)
        self._lost.difference_update(ending)

    def _columns(self, name: str, rows: Sequence[Row]) -> list[Any]:
        """The parameters of a bulk query."""
        columns = list(zip(*rows, strict=True))
        if self._bulk[name]:  # `now` comes first, and is the same for all
            return [columns[0][0], *map(array, columns[1:])]
        return list(map(array, columns))

    def _as_one_statement(self, transaction: Callable[[int | None], Transaction[R]]) -> OneStatement | None:
        """A transaction that can be one statement, for one round trip instead of four or six.

        The generator is told in advance that all will go well: the fence holds, every row is written, every event is new.
        If that turns out wrong, nothing is lost by doing the whole of it again, the long way: what was written is written
        again the same, and what must not be was not.
        """
        now = self._clock.for_database()
        generator = transaction(now)
        try:
            first: Any = next(generator)
            if isinstance(first, Count | Call):
                return None
            if first[0] == "fence" and len(first[1]) == 1:
                return self._fenced(now, generator, process=first[1][0][1])
            if first[0] == "insert_event":
                return self._accepted(now, generator, first[1])
        except StopIteration:
            return None
        finally:
            generator.close()
        return None

    def _fenced(self, now: int | None, generator: Transaction[Any], *, process: str) -> OneStatement | None:
        """A fence and one query after it."""
        operation: Any = generator.send([(process, True)])
        if not isinstance(operation, Count) or operation.name not in FENCED or not operation.rows:
            return None
        rows, blobs = self.codec.encode(operation.name, operation.rows)
        if blobs:  # they are a statement of their own
            return None
        try:
            generator.send(len(operation.rows))
        except StopIteration as stop:
            columns = self._columns(operation.name, rows)
            if self._bulk[operation.name]:
                columns = columns[1:]
            statement = (self._queries[FENCED[operation.name]], now, array((process,)), *columns)
            return OneStatement(statement, len(operation.rows), stop.value)
        return None

    def _accepted(self, now: int | None, generator: Transaction[Any], events: Sequence[Row]) -> OneStatement | None:
        """Events that nobody has seen before, with what they become. Until they have a number, they go by their place."""
        keys = [row[1] for row in events]
        if not 0 < len(keys) <= MOST_AT_ONCE or len(set(keys)) < len(keys):
            return None
        given: dict[str, Sequence[Row]] = {
            "insert_admission": (),
            "insert_run": (),
            "any_wait": (),  # none, or the statement fails
            "notify": ((None,),),
        }
        try:
            operation: Any = generator.send([(key, place) for place, key in enumerate(keys, start=1)])
            while not isinstance(operation, Count | Call) and operation[0] in given:
                given[operation[0]] = operation[1]
                operation = generator.send([])
        except StopIteration as stop:
            runs = [(row[5], row[1], row[2], row[3], row[4], row[6]) for row in given["insert_run"]]
            events, blobs = self.codec.encode("insert_event", events)
            if self.codec.binds and any(row[4] is not None for row in given["insert_admission"]):
                return None  # a reason is bound to the event's number, which is not known yet
            admissions, _ = self.codec.encode("insert_admission", given["insert_admission"])
            if blobs:
                return None
            statement = (
                self._queries["accept_new"],
                now,
                len(keys),
                given["notify"][0][0],
                *arrays([row[1:] for row in events], 10),
                *arrays(admissions, 5),
                *arrays(runs, 6),
            )
            return OneStatement(statement, 1, stop.value)
        return None

    async def _went_well(self, connection: Any, one: OneStatement) -> bool:
        try:
            return count_of(await connection.execute(*one.statement)) == one.count
        except (*self._again, self._asyncpg.exceptions.DivisionByZeroError):
            return False

    async def _in_transaction(self, connection: Any, work: Callable[[], Awaitable[R]]) -> R:
        """Again from the start when the database picked this transaction to break a deadlock."""
        for tried in range(1, DEADLOCK_TRIES + 1):
            try:
                async with connection.transaction():
                    if self._pooled:
                        await connection.execute(self._settings_of_a_transaction())
                    return await work()
            except self._again:
                if tried == DEADLOCK_TRIES:
                    raise
        raise AssertionError

    async def drive(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator on a connection that is in a transaction already."""
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
                    columns = self._columns(name, rows)
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
        """The rows as they are stored; what is too large for them is stored now."""
        encoded, blobs = self.codec.encode(name, rows)
        if blobs:
            now = self._clock.for_database()
            await connection.executemany(self._queries["insert_blob"], [(now, *blob) for blob in blobs])
        return encoded

    async def _decode(self, connection: Any, name: str, rows: list[Row], *, acting: bool = False) -> list[Row]:
        """The rows with their payloads, wherever those are."""
        references = self.codec.references(name, rows)
        if references is None:
            return rows
        query = self._queries["find_blob"]
        found = [row for one in references for row in await connection.fetch(query, one)]
        return self.codec.decode(name, rows, dict(found), acting=acting)

    @contextlib.asynccontextmanager
    async def user_transaction(self, cause: str | None = None) -> AsyncIterator[Any]:
        """A connection of its own with an open transaction, for run.transaction, marked with its cause."""
        async with self._borrowed(for_users=True) as connection, connection.transaction():
            await connection.fetchval(BEGIN_MARKED, cause or "")
            yield connection

    async def conclude(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator as the end of a user_transaction. From its fence on it is like one of the journal's."""
        marked = connection.is_in_transaction() and await connection.fetchval(
            "select current_setting($1, true)", TRANSACTION_MARK
        )
        if marked != "1":
            message = (
                "COMMIT or ROLLBACK inside run.transaction (or RESET ALL, by which they are noticed): "
                "the transaction is Wakeful's, it ends when the function returns"
            )
            raise Persistent(message)
        settings = {**limits(), "application_name": self._name}
        await connection.execute("; ".join(f"set local {name} = '{value}'" for name, value in settings.items()))
        return await self._drive_with_rights(connection, transaction)

    async def _drive_with_rights(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """As drive, on a connection that others use too: a right that is missing for what is ours is told as ours."""
        try:
            return await self.drive(connection, transaction)
        except self._denied as error:
            raise forbidden(error, role_of(connection)) from error

    async def within(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R:
        """Run a generator inside the caller's own transaction: it commits with theirs, or not at all."""
        if isinstance(connection, GuardedPostgres):  # of a run.transaction
            connection = connection.unguarded
        if not isinstance(connection, self._asyncpg.Connection | self._asyncpg.pool.PoolConnectionProxy):
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
            async with self._borrowed() as connection:
                await self._determine_origin(connection)
            return []
        try:
            connection = await self._asyncpg.connect(
                self._direct_dsn,
                timeout=CONNECT_TIMEOUT,
                server_settings={"application_name": "wakeful migrate", "jit": "off", **migration_settings()},
            )
            try:
                migrator = Migrator(
                    connection,
                    self._asyncpg,
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
            except self._denied as error:
                raise may_not_migrate(error, role_of(connection)) from error
            finally:
                await self._drop(connection)
        except self._gone as error:
            raise self._unavailable(error) from error

    # reading

    async def fetch(self, name: str, *parameters: Any) -> list[Row]:
        """Rows of a query, read on another connection than the journal's."""
        async with self._borrowed() as connection:
            rows: list[Row] = await connection.fetch(self._queries[name], *parameters)
            return await self._decode(connection, name, rows)

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """The rows of a query for each of some parameters, which are whole numbers or texts, in one statement."""
        if len(given) < 2:
            return [await self.fetch(name, *parameters) for parameters in given]
        columns = [list(column) for column in zip(*given, strict=True)]
        found: list[list[Row]] = [[] for _ in given]
        async with self._borrowed() as connection:
            rows = await connection.fetch(self._for_each(name, columns), *columns)
            places = [row[0] - 1 for row in rows]
            decoded = await self._decode(connection, name, [tuple(row)[1:] for row in rows])
        for place, row in zip(places, decoded, strict=True):
            found[place].append(row)
        return found

    def _for_each(self, name: str, columns: Sequence[Sequence[Any]]) -> str:
        """The query, once for each row of some arrays. Rows of one answer stay together, in the order that the query gives them:
        for each the whole of it is carried out, one after the other.
        """
        kinds = ["bigint" if isinstance(column[0], int) else "text" for column in columns]
        arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, start=1))
        names = ", ".join(f"v{number}" for number in range(1, len(kinds) + 1))
        query = PARAMETER.sub(r"given.v\1", self._queries[name])
        return f"select given.n, found.* from unnest({arrays}) with ordinality as given ({names}, n) cross join lateral ({query}) found"

    async def ledger(self) -> list[Applied]:
        """Which migrations the database has, and what it knows of them."""
        async with self._borrowed() as connection:
            return await read_ledger(connection, self._queries, self._asyncpg.exceptions)

    async def applied_migrations(self) -> list[Row]:
        return [(one.number, one.name) for one in await self.ledger() if one.finished]

    def read_clock(self) -> Microseconds | None:
        """What to hand a reading query as `:now`."""
        return self._clock.for_database()

    async def refuse_locked(self) -> None:
        """Nothing to refuse: rows are locked here, and never the whole store."""

    # processes

    def renewer(self) -> PostgresRenewer:
        return PostgresRenewer(self)

    def presence(self) -> PostgresRenewer:
        """What keeps the lease of a process, and tells others whether it is connected. Not where time stands still unless a test moves
        it: there a process that dies is dead once its lease is over.
        """
        from wakeful.stores.postgres_presence import PostgresPresence

        return PostgresPresence(self) if self._clock.for_database() is None else PostgresRenewer(self)

    def lock(self, process: str) -> None:
        """Nothing to hold: on PostgreSQL a process lives by its lease alone. But its sessions carry its name from now on,
        so that they can be ended when it is not alive any more.
        """
        self._name = session_name(process)
        while self._idle:
            self._idle.pop().terminate()

    def unlock(self, process: str) -> None:
        """Nothing to let go."""

    def is_certainly_dead(self, process: str) -> bool:  # noqa: ARG002 the question SQLite can answer
        """Never certain: another machine may only be slow. Its lease decides."""
        return False

    def tidy_locks(self, living: Collection[str]) -> None:
        """There are none."""

    async def end_sessions(self, process: str) -> int:
        """End the transactions of a process whose lease is over: it may have been stopped inside one, and its locks are
        in the way. What it has not committed it could not commit any more anyhow.
        """
        try:
            return len(await self.fetch("end_sessions", session_name(process)))
        except StoreForbidden as error:
            self._log.warning("cannot end the sessions of a dead process; the server will", error=str(error))
            return 0

    # listening

    async def _listen(self) -> None:
        """Listen for as long as this runs; after every new connection look at everything once, something may have
        been said while nobody listened.
        """
        while True:
            lost = asyncio.Event()
            connection = None
            try:
                connection = await self._connect_directly()
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
            except self._silenced as error:
                note_outage(self._log, "not listening; trying again", error, again_in=LISTEN_AGAIN_AFTER)
            finally:
                await self._drop(connection)
            await asyncio.sleep(LISTEN_AGAIN_AFTER)

    def _heard(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        app, *agents = payload.split(" ")
        self.on_ready(Ready(app, frozenset(agents)) if app else Ready())

    def _heard_results(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        self.on_results(payload)

    # connections

    async def _connect(self, **settings: str) -> Any:
        try:
            return await self._asyncpg.connect(self._dsn, **self._options(pooled=self._pooled, **settings))
        except self._gone as error:
            raise self._unavailable(error) from error

    async def _connect_directly(self, **settings: str) -> Any:
        """A session of our own, also where everything else goes through a pooler."""
        try:
            return await self._asyncpg.connect(self._direct_dsn, **self._options(pooled=False, **settings))
        except self._gone as error:
            raise self._unavailable(error) from error

    @staticmethod
    def _options(*, pooled: bool, **settings: str) -> dict[str, Any]:
        options = {"timeout": CONNECT_TIMEOUT, "command_timeout": COMMAND_TIMEOUT}
        if (
            pooled
        ):  # a pooler refuses settings that it does not know, and the next transaction may be in another session
            return {**options, "server_settings": {"application_name": "wakeful"}, "statement_cache_size": 0}
        return {**options, "server_settings": {"application_name": "wakeful", "jit": "off", **settings}}

    def _settings_of_a_transaction(self) -> str:
        """What a session of the journal's has by itself where there is no pooler."""
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
        connection = await self._connect(**ONLY_POINT_LOOKUPS, **limits(), application_name=self._name)
        try:  # behind this address may be another server than before, into which a copy was restored
            await self._determine_origin(connection)
        except BaseException as error:
            role = role_of(connection)
            await self._drop(connection)
            if isinstance(error, self._gone):
                raise self._unavailable(error) from error
            if isinstance(error, self._denied):
                raise forbidden(error, role) from error
            raise
        return connection

    async def _determine_origin(self, connection: Any) -> None:
        """Before the first write over a connection: see origins.py."""
        errors = self._asyncpg.exceptions
        now = self._clock.for_database()
        self.restored_before, moved = await determine_origin(connection, self._queries, errors, now)
        if moved is not None:
            self._log.warning(
                "this store was restored into another PostgreSQL cluster: events and runs are compared anew from here on. "
                "Make sure that the original is not at work as well",
                was_in=moved[0],
                now_in=moved[1],
            )

    async def identity(self) -> str:
        """Which cluster this is."""
        async with self._borrowed() as connection:
            return await cluster(connection, self._queries, self._asyncpg.exceptions)

    @contextlib.asynccontextmanager
    async def _borrowed(self, *, for_users: bool = False) -> AsyncIterator[Any]:
        """A connection of a pool. Users' transactions have a pool of their own: slow ones must not keep us from reading. Unless
        there are too few: then those who read wait for them.
        """
        budget = self._budget
        of_users = for_users
        for_users = for_users and budget.users > 0
        try:
            async with self._pool_lock:
                pool = self._pools.get(for_users)
                if pool is None:
                    pool = self._pools[for_users] = await self._asyncpg.create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=budget.users if for_users else budget.reading,
                        max_inactive_connection_lifetime=60,
                        reset=None if (for_users or not budget.users) and not self._pooled else nothing_to_reset,
                        **self._options(pooled=self._pooled),
                    )
            patience = None if for_users or not budget.users else CONNECT_TIMEOUT
            async with pool.acquire(timeout=patience) as connection:
                try:
                    yield connection
                except self._denied as error:
                    if of_users:  # what the user's function may not do is its own matter
                        raise
                    raise forbidden(error, role_of(connection)) from error
        except self._gone as error:
            raise self._unavailable(error) from error

    @staticmethod
    async def _drop(connection: Any) -> None:
        """Close without waiting for the other side: it may be what broke."""
        if connection is not None and not connection.is_closed():
            connection.terminate()

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        if isinstance(error, self._asyncpg.exceptions.DiskFullError):
            return StoreFull(f"the disk of PostgreSQL is full: make room, it goes on by itself ({error})")
        return StoreUnavailable(f"PostgreSQL is unavailable: {str(error) or type(error).__name__}")


def role_of(connection: Any) -> str | None:
    """The role that a connection works as."""
    if connection is None or connection.is_closed():
        return None
    return getattr(connection.get_settings(), "session_authorization", None)


async def nothing_to_reset(_: Any) -> None:
    """What we read leaves no trace on a connection, so it is spared the round trip that would remove one."""


class PostgresRenewer:
    """Renews a lease, or writes, on a connection and event loop of its own, called from a thread of its own."""

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend
        self._runner = asyncio.Runner()
        self._connection: Any = None

    def renew(self, process: str, lease: Microseconds) -> bool:
        """True while the process counts as alive. StoreUnavailable when it could not be told."""
        return bool(self._runner.run(self._execute("renew_lease", process, lease)))

    def write(self, name: str, *parameters: object) -> None:
        """One query, which takes the time first, as a transaction of its own. StoreUnavailable as above."""
        self._runner.run(self._execute(name, *parameters))

    async def _execute(self, name: str, *parameters: object, timed: bool = True) -> list[Row]:
        """`timed`: the query takes the time first."""
        backend = self._backend
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            given = (backend._clock.for_database(), *parameters) if timed else parameters  # noqa: SLF001 the two belong together
            rows: list[Row] = await self._connection.fetch(backend._queries[name], *given, timeout=3)  # noqa: SLF001
            return rows
        except backend._gone as error:  # noqa: SLF001
            await backend._drop(self._connection)  # noqa: SLF001
            self._connection = None
            raise backend._unavailable(error) from error  # noqa: SLF001
        except backend._denied as error:  # noqa: SLF001
            raise forbidden(error, role_of(self._connection)) from error

    async def _connect(self) -> Any:
        return await self._backend._connect_directly()  # noqa: SLF001 the two belong together

    def close(self) -> None:
        self._runner.run(self._backend._drop(self._connection))  # noqa: SLF001
        self._runner.close()
