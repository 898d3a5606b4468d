"""Reads the change table of one PostgreSQL database: woken by NOTIFY, without losing changes of transactions that end late.

Rows get their ids when they are written, but become visible when their transaction commits. A reader that continues after the highest
id it saw would lose rows committed later with a lower id. So it reads in windows of transactions:

    ── read before ──┤ low ── all of these have ended ── high ├── some of these may still be running ──►

`high` is the oldest transaction that is still running. Nothing can be added below it. Inside a window rows come in the order of their
ids; for one row of the application this is the order of its changes. A long transaction delays the changes after it, and nothing else.
There is no separate cursor: a row that is read again after a crash has the same mark, so it is a duplicate.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wakeful.clock import from_datetime
from wakeful.connect.postgres.database import connect, driver, trouble, troubles
from wakeful.connect.postgres.json_rows import read_row
from wakeful.connect.postgres.table import (
    CHANNEL,
    LOCK,
    ChangeTableSetup,
    WatchedTable,
    look,
    look_at_tables,
    parts_of,
    quoted,
)
from wakeful.connect.rows.change import OPERATIONS, RowChange
from wakeful.connect.rows.held_up import held_up
from wakeful.connect.rows.telling import RowEvents, RowSelection, changed_columns
from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, may_hold_a_fault, refuse_faults
from wakeful.model import Event
from wakeful.secrets import Secret, reveal
from wakeful.stored_errors import words_of
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable

R = TypeVar("R")

MOST = 1_000
# How soon to look again for an announced change while an older transaction is still running.
FIRST_LOOK, LAST_LOOK = 0.01, 0.5
LOOK_EVERY = 10.0  # check tables and triggers: they may be dropped or recreated
HELD_UP_AFTER = 30.0
# How long a caller that does not wait still waits for changes that are committed but hidden by a transaction about to end.
GRACE = 1.0
OLDEST_RUNNING = "select pg_snapshot_xmin(pg_current_snapshot())::text"
NEXT = "select pg_snapshot_xmax(pg_current_snapshot())::text"
# A row of a transaction that has not begun yet came with a restored dump: its transaction ended long ago.
READ = """
select id, mark::text, table_name, operation, old, new, changed_at, cause from {schema}.wakeful_change
where app = $1 and id > $2 and transaction_id >= $3::text::xid8 and table_name <> all($6)
  and (transaction_id < $4::text::xid8 or transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
order by id limit $5
"""
HIDDEN = """
select exists (select from {schema}.wakeful_change
               where app = $1 and transaction_id >= $2::text::xid8 and table_name <> all($3))
"""
DELETE = "delete from {schema}.wakeful_change where app = $1 and id = any($2::bigint[])"


@dataclass(slots=True)
class ReadRows:
    """The rows of a batch, and the rows of outbox tables to delete with them."""

    rows: list[int]
    gone: dict[str, list[str]] = field(default_factory=dict)  # ids by table


class TableReader(Reader):
    kind = "change-table"

    look_every, held_up_after = LOOK_EVERY, HELD_UP_AFTER

    def __init__(self, place: str, dsn: Secret, parts: Sequence[RowSelection], context: Context) -> None:
        super().__init__(f"change-table/{place}")
        self._dsn = dsn
        self._row_events = RowEvents(parts)
        self._context = context
        self._where = f"postgres_changes {place}"
        self._connection: Any = None
        self._ground: ChangeTableSetup | None = None
        self._woken = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        self._low = self._high = 0
        self._last: int | None = None  # last row read of the window; None: the window was read completely
        self._heard = 0  # the latest transaction that was announced
        self._look_again = FIRST_LOOK
        self._looked_at = 0.0
        self._held_up: str | None = None

    # the contract

    async def open(self, cursor: str | None) -> None:  # noqa: ARG002 the rows themselves are the cursor
        await self.close()
        self._forget()
        dsn = reveal(self._dsn, needed_by=self._where)
        self._connection = await connect(dsn, self._where, application=f"wakeful {self._context.app}")
        await self._asking(self._prepare)

    async def read(self, within: float) -> Batch | None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + within
        while True:
            self._woken.clear()
            rows = await self._asking(self._rows)
            if rows:
                self._look_again = FIRST_LOOK
                return await self._asking(lambda: self._batch(rows))  # noqa: B023 awaited here
            rest = ends - loop.time()
            if rest <= 0 and (rest < -GRACE or not await self._asking(self._hidden)):
                return None
            if rest <= 0 or self._heard >= self._low:
                rest = self._look_again if rest <= 0 else min(rest, self._look_again)
                self._look_again = min(self._look_again * 2, LAST_LOOK)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._woken.wait()

    async def acknowledge(self, batch: Batch) -> None:
        if isinstance(batch.receipt, ReadRows):
            read = batch.receipt
            await self._asking(lambda: self._delete(read))

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.close(timeout=2)
        except troubles():
            connection.terminate()

    @property
    def busy(self) -> bool:
        return self._last is not None

    @property
    def concern(self) -> str | None:
        """Tables that cannot be watched while others can; changes that wait for another transaction."""
        faults = [] if self._ground is None else self._ground.faults
        return "; ".join([*faults, *([] if self._held_up is None else [self._held_up])]) or None

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        return self._row_events.read_again(raw, headers)

    # asking

    async def _asking(self, work: Callable[[], Awaitable[R]]) -> R:
        if self._connection is None:
            message = f"{self._where}: not open"
            raise SourceTrouble(message)
        try:
            return await work()
        except troubles() as error:
            raise trouble(self._where, error) from error

    async def _prepare(self) -> None:
        connection = self._connection
        ground = await look(connection, self._context.app, self._row_events, where=self._where)
        if not ground.tables:
            raise SourceTrouble("; ".join(ground.faults))
        if ground.steps:
            ground = await install(connection, self._context.app, self._row_events, where=self._where)
        self._ground = ground
        self._looked_at = asyncio.get_running_loop().time()
        connection.add_termination_listener(lambda _: self._woken.set())
        await connection.add_listener(CHANNEL, self._hear)
        # Changes committed before we listened may still be hidden by an older transaction.
        self._heard = int(await connection.fetchval(NEXT)) - 1

    def _hear(self, _connection: Any, _process: int, _channel: str, payload: object) -> None:
        app, _, transaction = str(payload).rpartition(" ")
        if app == self._context.app and transaction.isdigit():
            self._heard = max(self._heard, int(transaction))
            self._look_again = FIRST_LOOK
            self._woken.set()

    async def _rows(self) -> list[Any]:
        if self._last is None:
            await self._look()
            high = int(await self._connection.fetchval(OLDEST_RUNNING))
            if high == self._high:
                return []
            self._low, self._high, self._last = self._high, high, 0
        rows: list[Any] = await self._connection.fetch(
            self._sql(READ), self._context.app, self._last, str(self._low), str(self._high), MOST, self._skipped_tables
        )
        self._last = rows[-1][0] if len(rows) == MOST else None
        if self._last is None:
            self._low = self._high
        return rows

    async def _look(self) -> None:
        """Check tables and triggers: a missing table may exist now, and a watched one may have been recreated."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < self.look_every:
            return
        self._looked_at = now
        spared = self._skipped_tables
        ground = await look(self._connection, self._context.app, self._row_events, where=self._where)
        if ground.steps and ground.tables:
            ground = await install(self._connection, self._context.app, self._row_events, where=self._where)
        self._ground = ground
        if self._skipped_tables != spared:
            self._low = self._high = 0  # rows that were left out must be read now
        schema, app = quoted(ground.schema), self._context.app
        words = await held_up(self._connection, schema, app, longer_than=self.held_up_after)
        self._held_up = None if words is None else f"{self._where}: {words}"

    @property
    def _skipped_tables(self) -> list[str]:
        """Tables that have a problem now: their rows are left until they can be read."""
        return [table for table in self._row_events.tables if table not in self._tables]

    async def _hidden(self) -> bool:
        return bool(
            await self._connection.fetchval(self._sql(HIDDEN), self._context.app, str(self._low), self._skipped_tables)
        )

    async def _delete(self, read: ReadRows) -> None:
        asyncpg = driver()
        async with self._connection.transaction():
            for table, identifiers in read.gone.items():
                place = ".".join(map(quoted, parts_of(table)))
                kind = self._tables[table].types["id"]
                try:
                    await self._connection.execute(
                        f"delete from {place} where id = any($1::text[]::{kind}[])", identifiers
                    )
                except asyncpg.InsufficientPrivilegeError as error:
                    role = quoted("…" if self._ground is None else self._ground.role)
                    message = (
                        f"{self._where}: delete=True, but {words_of(error)}: GRANT SELECT, DELETE ON {place} TO {role}, or leave "
                        "out delete=True"
                    )
                    raise SourceTrouble(message) from error
            await self._connection.execute(self._sql(DELETE), self._context.app, read.rows)

    def _sql(self, query: str) -> str:
        return query.format(schema=quoted("public" if self._ground is None else self._ground.schema))

    @property
    def _tables(self) -> dict[str, WatchedTable]:
        return {} if self._ground is None else self._ground.tables

    # from rows to events

    async def _batch(self, rows: Sequence[Any]) -> Batch:
        read = ReadRows([row[0] for row in rows])
        batch = Batch(receipt=read, lag=max(0, self._context.clock.now() - from_datetime(rows[-1][6])))
        for row in rows:
            try:
                change = self._change(row)
                if self._ground is not None and not set(change.new or change.old or ()) <= set(
                    self._tables[change.table].types
                ):
                    # A column was added since the last check.
                    self._ground.tables, _ = await look_at_tables(self._connection, self._row_events, where=self._where)
                    change = self._change(row)
            except KeyError:
                if row[2] in self._row_events.tables:  # it cannot be read now; its rows are left
                    read.rows.remove(row[0])
                continue  # or no trigger wants it any more
            except (ValueError, RecursionError, InvalidEvent) as error:
                reason = f"change {row[1]} of table {row[2]} cannot be read: {words_of(error)}"
                raw = "\n".join(part or "" for part in (row[4], row[5])).encode()
                batch.unreadable.append(Unreadable(raw, reason, {"table": row[2], "change": row[1]}))
                continue
            self._row_events.tell(change, batch)
            if self._row_events.deletes(change):
                read.gone.setdefault(change.table, []).append(str((change.new or {}).get("id")))
        return batch

    def _change(self, row: Sequence[Any]) -> RowChange:
        _, mark, name, operation, old, new, changed_at, cause = row
        table = self._tables[name]
        if operation not in OPERATIONS:
            message = f"unknown operation {operation!r}"
            raise ValueError(message)
        before, after = (None if one is None else _values(one, table) for one in (old, new))
        changed = None if before is None or after is None else changed_columns(before, after)
        row_now = after or before or {}
        key = {column: row_now[column] for column in table.key if column in row_now}
        return RowChange(
            name, operation, mark, key, after, before, changed, from_datetime(changed_at), cause, table.forms
        )


def _values(written: str, table: WatchedTable) -> dict[str, Any]:
    row = read_row(written)
    if may_hold_a_fault(written.encode(), DEPTH_LIMIT):
        refuse_faults(row, depth=DEPTH_LIMIT - 2, inside=("data",))
    for column, value in row.items():
        if table.types.get(column) == "bytea" and isinstance(value, str) and value.startswith("\\x"):
            row[column] = b64encode(bytes.fromhex(value[2:])).decode()
    return row


async def install(connection: Any, app: str, row_events: RowEvents, *, where: str) -> ChangeTableSetup:
    """Create table, function and triggers as needed. The state is checked again inside: another process may have been first."""
    import asyncpg

    ground = await look(connection, app, row_events, where=where)
    try:
        async with connection.transaction():
            # CREATE TRIGGER waits for writers of the table, and all later writers wait behind it: so limit the wait.
            await connection.execute("set local lock_timeout = '2s'")
            await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
            ground = await look(connection, app, row_events, where=where)
            for step in ground.steps:
                await connection.execute(step)
    except asyncpg.InsufficientPrivilegeError as error:
        message = (
            f"{where}: role {ground.role} may not create the change table and triggers ({words_of(error)}): let the owner of the "
            f"tables run this once: {'; '.join(ground.remedies())}"
        )
        raise SourceTrouble(message) from error
    except asyncpg.LockNotAvailableError as error:
        message = f"{where}: a table is in use by a long transaction, so its trigger cannot be created now; retrying"
        raise SourceTrouble(message) from error
    ground.steps = []
    return ground
