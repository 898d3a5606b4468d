"""Migrates a PostgreSQL schema while processes work on it.

1. One migrator at a time: it polls for a session's advisory lock. Waiting for the lock inside a statement would hold a snapshot open,
   and building an index concurrently waits for all snapshots.
2. Changes of tables are one transaction for each file. It waits only briefly for a lock, because every other session queues behind a
   waiting one: with one long reader, the whole store would stop. It then gives up and retries later.
3. Indexes and the validation of checks follow one by one, while other sessions read and write. A crash leaves an invalid index; the
   next migrator drops it and builds it again.
4. Then the file counts as applied. The row of the operator who migrates is part of the transactions of 2 and 4.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from wakeful.clock import Clock, readable
from wakeful.errors import StoreUnavailable
from wakeful.stores.grants import rights_like_run
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
from wakeful.stores.payloads import Codec
from wakeful.stores.statements import Statement, read

MIGRATION_LOCK = 0x77616B65  # arbitrary, unlikely to be used by other programs
ASK_EVERY = 0.1
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
REBUILDS = 3
# While it builds an index, the server checks that this client is still connected, and stops building if it is not.
LOOK_FOR_CLIENT = "5s"
HOLDERS = """
select distinct on (activity.pid) activity.pid, activity.application_name, activity.usename::text,
  coalesce(extract(epoch from clock_timestamp() - activity.xact_start), 0)::bigint
from pg_locks lock join pg_stat_activity activity on activity.pid = lock.pid
where lock.granted and lock.relation = any(select to_regclass(name) from unnest($1::text[]) name)
  and activity.pid <> pg_backend_pid()
order by activity.pid, activity.xact_start limit 3"""
IS_VALID = "select indisvalid from pg_index where indexrelid = to_regclass($1)"


def migration_settings() -> dict[str, str]:
    """Settings of a session without time limits."""
    return {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}


class Migrator:
    """Applies missing migrations over one connection without a time limit."""

    def __init__(
        self,
        connection: Any,
        driver: Any,
        queries: Mapping[str, str],
        clock: Clock,
        *,
        patience: Patience,
        told: Told,
        codec: Codec,
        author: MigrationAuthor | None = None,
    ) -> None:
        self._connection = connection
        self._errors = driver.exceptions
        self._queries = queries
        self._clock = clock
        self._patience = patience
        self._told = told
        self._codec = codec
        self._author = author
        self._made: set[str] = set()

    async def migrate(self) -> list[Migration]:
        """Apply what is missing and return it. A contracting migration is left for later while older processes are alive."""
        await self._take_the_lock()
        now = standing("postgres", await read_ledger(self._connection, self._queries, self._errors))
        if now.pending:
            with contextlib.suppress(self._errors.PostgresError):  # not every operating system supports the check
                await self._connection.execute(f"set client_connection_check_interval = '{LOOK_FOR_CLIENT}'")
            await self._connection.execute(f"{CREATE_LEDGER}; {CREATE_DETAILS}")
        applied = []
        for migration in now.pending:
            if migration.contracts and not await self._may_contract(migration):
                break
            await self._apply(migration, half_done=any(one.number == migration.number for one in now.applied))
            applied.append(migration)
        return applied

    async def _take_the_lock(self) -> None:
        waited = False
        while not await self._connection.fetchval("select pg_try_advisory_lock($1)", MIGRATION_LOCK):
            if not waited:
                self._told("another process is migrating this database; waiting for it")
            waited = True
            await asyncio.sleep(ASK_EVERY)

    async def _may_contract(self, migration: Migration) -> bool:
        older = await self._connection.fetch(
            self._queries["older_processes"], self._clock.for_database(), migration.needs
        )
        for row in older:
            self._told(held_back(migration, *row))
        return not older

    async def _apply(self, migration: Migration, *, half_done: bool) -> None:
        statements = read(migration.sql, self._made)
        self._made |= {one.makes for one in statements if one.makes}
        later = [one for one in statements if one.later]
        if not half_done:
            await self._change_tables(migration, [one for one in statements if not one.later], whole=not later)
        if half_done or later:
            for statement in later:
                await self._do_later(statement)
            async with self._connection.transaction():
                await self._record(migration)
                author = await self._write_author(migration, finished=True)
            self._author = author

    async def _change_tables(self, migration: Migration, statements: list[Statement], *, whole: bool) -> None:
        tables = sorted({one.table for one in statements if one.table})
        loop = asyncio.get_running_loop()
        started, pause, tries = loop.time(), FIRST_PAUSE, 1
        while True:
            try:
                async with self._connection.transaction():
                    await self._connection.execute(f"set local lock_timeout = {self._patience.lock // 1000}")
                    await self._connection.execute(";\n".join(one.sql for one in statements) or "select 1")
                    await self._let_others_in([one.makes for one in statements if one.makes])
                    await self._connection.execute(
                        self._queries["begin_migration"],
                        migration.number,
                        migration.name,
                        migration.digest,
                        migration.needs,
                    )
                    if whole:
                        await self._record(migration)
                    author = await self._write_author(migration, finished=whole)
                self._author = author  # not before the commit: a try that waited in vain was rolled back
                return
            except (self._errors.LockNotAvailableError, self._errors.DeadlockDetectedError):
                waited = round((loop.time() - started) * 1_000_000)
                said = f"{migration.label}: no lock on {', '.join(tables)} within {readable(self._patience.lock)}{await self._holders(tables)}"
                if waited >= self._patience.whole:
                    message = (
                        f"{said}; gave up after {readable(waited)} and {tries} attempts. Nothing of it was applied. "
                        "End that transaction, or migrate again when it has ended"
                    )
                    raise StoreUnavailable(message) from None
                self._told(f"{said}; retrying in {pause:.0f} s" if pause >= 1 else f"{said}; retrying")
            await asyncio.sleep(pause)
            pause, tries = min(pause * 2, LONGEST_PAUSE), tries + 1

    async def _let_others_in(self, made: list[str]) -> None:
        """Grant roles that may write wakeful_run the new tables too; otherwise the migration would lock them out."""
        grantees = [row[0] for row in await self._connection.fetch(self._queries["writers_of_runs"])]
        for statement in rights_like_run(made, grantees):
            await self._connection.execute(statement)

    async def _holders(self, tables: list[str]) -> str:
        holders = [
            f"pid {pid} ({name or user}, transaction open for {seconds} s)"
            for pid, name, user, seconds in await self._connection.fetch(HOLDERS, tables)
        ]
        return f": held by {', '.join(holders)}" if holders else ""

    async def _record(self, migration: Migration) -> None:
        now = self._clock.for_database()
        await self._connection.execute(self._queries["finish_migration"], now, migration.number)
        await self._connection.execute(self._queries["record_migration"], now, migration.number, migration.name)

    async def _write_author(self, migration: Migration, *, finished: bool) -> MigrationAuthor | None:
        if self._author is None:
            return None
        writing, rows = self._author.write(self._clock.for_database(), migration, self._codec, finished=finished), None
        while True:
            try:
                name, parameters = next(writing) if rows is None else writing.send(rows)
            except StopIteration as stop:
                written: MigrationAuthor = stop.value
                return written
            ((encoded,), _) = self._codec.encode(name, [parameters])  # too short to need blobs
            rows = await self._connection.fetch(self._queries[name], *encoded)

    async def _do_later(self, statement: Statement) -> None:
        if statement.index is None:
            await self._connection.execute(statement.sql)
            return
        for tries_left in range(REBUILDS - 1, -1, -1):
            valid = await self._connection.fetchval(IS_VALID, statement.index)
            if valid:
                return
            if valid is False:  # an earlier attempt stopped halfway
                self._told(f"{statement.index} was left half built; building it again")
                await self._connection.execute(f"drop index concurrently if exists {statement.index}")
            try:
                await self._connection.execute(statement.sql)
            except self._errors.DeadlockDetectedError:
                if not tries_left:
                    raise


async def read_ledger(connection: Any, queries: Mapping[str, str], errors: Any) -> list[Applied]:
    """The applied migrations. A database from before this ledger returns only numbers and names, an empty one nothing."""
    try:
        rows = await connection.fetch(queries["migration_ledger"])
    except errors.UndefinedTableError:
        try:
            rows = [(*row, None, None, 1) for row in await connection.fetch(queries["applied_migrations"])]
        except errors.UndefinedTableError:
            return []
    return [Applied.of(row) for row in rows]
