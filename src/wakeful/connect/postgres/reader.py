"""Reads the changes of a PostgreSQL database from the server's log, through a replication slot.

    slot ──► stream ──► decoder ──► batches ──► read ──► (stored) ──► acknowledge ──► the slot advances
                 in a task of its own, so that the server gets answers even while nothing may come in

The cursor is `SYSTEM/LSN/INDEX`: all transactions that committed before LSN are stored, and the first INDEX changes of the one that
committed there. The stored cursor is authoritative: a position is confirmed to the server only if it is below a stored cursor. So
after any crash, the slot is at the cursor or behind it, and the changes between are skipped. A slot ahead of the cursor was recreated
or moved; a log that ends before the cursor was reset. Then changes are missing; this is reported and kept in quarantine.

A transaction of any size is split where a batch is full. A change is identified by its transaction and its index in it, so its
identity stays the same however often it is read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from wakeful.connect.postgres.ground import PreparedReplication, ReplicationSetup, flushed
from wakeful.connect.postgres.pgoutput import Decoder, Garbled, PgBegin, PgCommit, PgMessage, PgRow, PgTruncated
from wakeful.connect.postgres.place import Cursor, Transaction, gap_between
from wakeful.connect.postgres.problems import problems
from wakeful.connect.postgres.replication import Life, SlotError, Stream, connect, driver, first_line
from wakeful.connect.postgres.wanted import CHANGE, ReplicatedTrigger, WantedRows, kept, told_again, wanted_by_table
from wakeful.connect.rows.change import OPERATIONS, RowChange
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.model import Event, digest
from wakeful.telemetry.logger import logger_of
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble

__all__ = ["PostgresReader", "problems", "reader"]

MOST, MOST_BYTES = 2_000, 8_000_000  # changes in a batch, and bytes of their messages
SLICE = 200  # messages before other tasks get their turn
AHEAD = 2  # batches that may wait to be stored
PARK_AFTER = 5.0
CONFIRM_EVERY = 10.0
SOON = 0.01
LOOK_EVERY = 30.0
# Log of other tables advances the slot too, but not for every byte: each advance is a write in our store.
QUIET_EVERY, QUIET_BYTES = 10.0, 1 << 20
STANDS_STILL_AFTER = 3.0
# A server that shuts down asks repeatedly, and waits until everything is confirmed.
ANSWER_AFTER = 0.2
ASKS_AGAIN_WITHIN = 1.0
WAITS_FOR_US_AT_MOST = 2.0
ANOTHER_READER_MAY_TAKE = 3.0
PREFIX = "wakeful"  # of messages that name the run that wrote a transaction
LONGEST_CAUSE = 10_000


class PostgresReader(Reader):
    """Reads the changes of all tables of one database that an app wants."""

    kind = "postgres"
    single = True

    look_every = LOOK_EVERY
    quiet_every, quiet_bytes = QUIET_EVERY, QUIET_BYTES

    def __init__(self, triggers: Sequence[ReplicatedTrigger], context: Context) -> None:
        first = triggers[0]
        super().__init__(f"postgres/{first.place}" + (f"/{first.slot}" if first.slot else ""))
        self._context = context
        self._first = first
        self._wanted: dict[str, list[list[WantedRows]]] = wanted_by_table([one.rows for one in triggers])
        wanted = {
            table: tuple(one for one in OPERATIONS if any(one in rows.operations for group in groups for rows in group))
            for table, groups in self._wanted.items()
        }
        self._ground = ReplicationSetup(
            context.app, first.place, wanted, slot=first.slot, publication=first.publication
        )
        self._log = logger_of(source=self.name)
        self._stream: Stream | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._concern: str | None = None
        self._said_gap: str | None = None
        self._forget()

    def _forget(self) -> None:
        """Reset to the state before anything was read."""
        self._keys: dict[int, tuple[str, ...]] = {}
        self._decoder = Decoder(self._keys)
        self._size = 0  # bytes of the messages in the present batch
        self._slot = ""
        self._publications: list[str] = []
        self._system = ""
        self._known = ""  # system and timeline, part of a change's identity: a log that was reset repeats its positions
        self._start = Cursor("", 0)
        self._transaction: Transaction | None = None
        self._batch = Batch()
        self._ready: deque[Batch] = deque()
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._trouble: Exception | None = None
        self._parked = False
        self._handed = ""  # the cursor of the last batch returned by `read`
        self._unstored = 0  # batches made but not acknowledged
        self._reached = 0  # everything committed before this position has come
        self._confirmed = 0
        self._confirmed_at = 0.0
        self._advanced_at = 0.0
        self._end = 0  # end of the server's log at the last check
        self._goal = 0
        self._moved_at = 0.0
        self._asked_since = 0.0
        self._asked_at = 0.0
        self._answer_at: float | None = None

    @property
    def concern(self) -> str | None:
        """Tables that cannot be read while others can; a slot that holds back much of the log."""
        return self._concern

    @property
    def busy(self) -> bool:
        if self._ready or self._parked or self._transaction is not None:
            return True
        return self._reached < self._goal and time.monotonic() - self._moved_at < STANDS_STILL_AFTER

    async def open(self, cursor: str | None) -> None:
        await self.close()
        self._forget()
        try:
            async with await self._connect() as connection:
                footing = await self._ground.prepare(connection)
            stream = self._stream = await self._open_stream(footing)
            self._begin(footing, stream.system, stream.timeline, cursor)
            await self._start_streaming(stream, footing)
        except SlotError as error:
            raise self._ground.ended(error, self._slot) from error
        except driver().Error as error:
            raise self._ground.unreachable(error) from error
        self._tasks = [asyncio.create_task(self._pump(stream)), asyncio.create_task(self._check_regularly())]

    async def _open_stream(self, footing: PreparedReplication) -> Stream:
        try:
            return await Stream.open(self._first.address, name=self._application)
        except driver().OperationalError as error:
            if footing.no_replication is None:
                raise
            raise self._ground.trouble(footing.no_replication) from error

    def _begin(self, footing: PreparedReplication, system: str, timeline: str, cursor: str | None) -> None:
        """Find the position to continue from; the first batch stores it if it is new."""
        self._keys.update(footing.keys)
        self._slot = footing.slot
        self._publications = footing.publications
        self._system, self._known = system, digest(system, timeline, size=4)
        self._end = self._goal = footing.flushed
        self._moved_at = time.monotonic()
        self._note(footing.faults)
        before = None if cursor is None else Cursor.read(cursor)
        here = Cursor(system, footing.confirmed)
        if before is None:
            self._offer(Batch(cursor=str(here), receipt=here.lsn))
        elif before.system != system or not here.lsn <= before.lsn <= footing.flushed:
            gap = gap_between(before, here, self._slot)
            if self._said_gap != gap.reason:
                self._said_gap = gap.reason
                raise self._ground.trouble(gap.reason)  # raise an alarm once; the next attempt continues
            self._offer(Batch(cursor=str(here), receipt=here.lsn, unreadable=[gap]))
        else:
            here = before
        self._start = here
        self._confirmed = here.lsn  # the slot is there, or a stored cursor
        self._reached = here.lsn

    async def _start_streaming(self, stream: Stream, footing: PreparedReplication) -> None:
        """Start the stream; wait for a moment, because a reader that just died may still hold the slot."""
        until = time.monotonic() + ANOTHER_READER_MAY_TAKE
        while True:
            try:
                return await stream.start(footing.slot, footing.publications, self._start.lsn)
            except SlotError as error:
                if error.state != "55006":
                    raise
                if time.monotonic() > until:
                    async with await self._connect() as connection:
                        raise await self._ground.in_use(connection, footing.slot) from error
            await asyncio.sleep(0.1)

    async def read(self, within: float) -> Batch | None:
        if self._parked and not self._ready:
            await self.open(self._handed)  # everything returned so far is stored
        if not self._ready and self._trouble is None:
            if within <= 0:
                await self._set_goal()
                await asyncio.sleep(0)
            else:
                self._came.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(within):
                        await self._came.wait()
        if self._ready:
            self._room.set()
            batch = self._ready.popleft()
            self._handed = batch.cursor or self._handed
            return batch
        if self._trouble is not None:
            raise self._trouble
        return None

    async def acknowledge(self, batch: Batch) -> None:
        self._unstored = max(0, self._unstored - 1)
        if batch.receipt is not None and batch.receipt > self._confirmed:
            self._confirmed = batch.receipt
        if self._stream is not None:
            with suppress(SlotError):  # the next read reports it
                self._confirm(self._stream)

    async def let_go(self) -> None:
        """Park at once: a server that shuts down waits for a confirmation that cannot be stored now."""
        if self._tasks:
            await self._disconnect()
            self._parked = True

    async def close(self) -> None:
        await self._disconnect()
        self._parked = False

    async def _disconnect(self) -> None:
        tasks, self._tasks = self._tasks, []
        stream, self._stream = self._stream, None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if stream is not None:
            await stream.close()

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        if headers.get("what") != CHANGE:
            return super().read_again(raw, headers)
        change = RowChange(**from_json(raw))
        told = told_again(change, self._wanted, headers.get("source"))
        if not told:
            raise self._ground.trouble(f"no agent wants {change.operation}s of {change.table} any more: discard it")
        return told

    # the stream

    async def _pump(self, stream: Stream) -> None:
        """Take in data as long as there is room for it. An error is reported by the next `read`, whose caller may be busy with an
        unavailable store; so the connection is closed here, not only then.
        """
        try:
            while True:
                if len(self._ready) >= AHEAD:
                    if not await self._has_room():
                        await self._park(stream)
                        return
                elif self._take_slice(stream):
                    await asyncio.sleep(0)
                else:
                    self._complete()
                    await stream.more(self._rest())
                if self._rest() == SOON:
                    self._answer(stream)
        except SlotError as error:
            self._end_with(self._ground.ended(error, self._slot))
        except Garbled as error:
            self._end_with(self._ground.trouble(f"{error}. It is requested again"))
        except Exception as error:
            self._end_with(error)
        self._stream = None
        await stream.close()

    async def _has_room(self) -> bool:
        """Wait until a batch is taken; False if none is for long."""
        self._room.clear()
        try:
            async with asyncio.timeout(PARK_AFTER):
                await self._room.wait()
        except TimeoutError:
            return False
        return True

    async def _park(self, stream: Stream) -> None:
        """Close the connection while nothing more may come in. A server that shuts down would wait for it, and the slot keeps the
        log for us without it.
        """
        self._parked = True
        self._stream = None
        await stream.close()

    def _rest(self) -> float:
        due = self._confirmed_at + CONFIRM_EVERY if self._answer_at is None else self._answer_at
        return max(SOON, due - time.monotonic())

    def _answer(self, stream: Stream) -> None:
        """Answer the server. One that shuts down waits for us forever: then end the stream; unstored changes are read again later."""
        self._confirm(stream)
        asked = time.monotonic() - self._asked_at < ASKS_AGAIN_WITHIN
        if asked and self._asked_at - self._asked_since > WAITS_FOR_US_AT_MOST:
            raise SlotError("the server is shutting down")

    def _end_with(self, error: Exception) -> None:
        self._trouble = error
        self._came.set()

    def _take_slice(self, stream: Stream) -> bool:
        """Take some of the data that has come; False if there is nothing more for now."""
        for _ in range(SLICE):
            came = stream.next()
            if came is None:
                return False
            if isinstance(came, Life):
                self._heard_of(came)
            else:
                self._size += len(came)
                self._hear(self._decoder.decode(came))
                if len(self._ready) >= AHEAD:
                    return True
        return True

    def _heard_of(self, life: Life) -> None:
        if self._transaction is None and life.lsn > self._reached:
            self._reached = life.lsn
            self._moved_at = time.monotonic()
        if life.wants_answer:
            now = time.monotonic()
            if now - self._asked_at > ASKS_AGAIN_WITHIN:
                self._asked_since = now
            self._asked_at = now
            if self._answer_at is None:
                self._answer_at = now + ANSWER_AFTER

    def _hear(self, message: Any) -> None:
        if isinstance(message, PgRow):
            self._change(message)
        elif isinstance(message, PgBegin):
            skip = 0
            if message.commit_lsn <= self._start.lsn:
                skip = self._start.index if message.commit_lsn == self._start.lsn else 1 << 62
            self._transaction = Transaction(message.commit_lsn, message.committed_at, skip)
        elif isinstance(message, PgCommit):
            self._tell()
            self._transaction = None
            self._reached = max(self._reached, message.end_lsn)
            self._moved_at = time.monotonic()
            if self._is_full(0):
                self._complete()
        elif isinstance(message, PgMessage):
            if message.prefix == PREFIX and message.transactional and self._transaction is not None:
                self._transaction.cause = message.content[:LONGEST_CAUSE].decode(errors="replace")
        elif isinstance(message, PgTruncated):
            self._log.warning(
                "a table was truncated; this is not an event, because no rows are sent", tables=message.tables
            )

    def _change(self, row: PgRow) -> None:
        transaction = self._transaction
        if transaction is None:
            raise Garbled("a row came outside of a transaction")
        transaction.index += 1
        relation, operation, new, old, changed = row
        if transaction.index <= transaction.skip or relation.table not in self._wanted:
            return
        told = new if new is not None else old
        transaction.changes.append(
            RowChange(
                relation.table,
                operation,
                f"{self._known}-{transaction.commit_lsn:X}/{transaction.index - 1}",
                {} if told is None else {name: told.get(name) for name in relation.key},
                new,
                old,
                changed,
                transaction.committed_at,
            )
        )
        if self._is_full(len(transaction.changes)):
            self._tell()
            self._complete(transaction)

    def _is_full(self, more: int) -> bool:
        return len(self._batch.events) + len(self._batch.unreadable) + more >= MOST or self._size >= MOST_BYTES

    def _tell(self) -> None:
        """Make events of the present transaction's changes, as far as it has come."""
        transaction, batch = self._transaction, self._batch
        if transaction is None:
            return
        for change in transaction.changes:
            change.cause = transaction.cause
            for group in self._wanted[change.table]:
                for one in group:
                    if one.takes(change):
                        try:
                            batch.events.append(one.event(change))
                        except InvalidEvent as error:
                            batch.unreadable.append(kept(change, one, str(error)))
                        break
        if transaction.changes:
            batch.lag = max(0, self._context.clock.now() - transaction.committed_at)
        transaction.changes = []

    def _complete(self, transaction: Transaction | None = None) -> None:
        """Finish the batch: at the end of the last transaction, or here, inside one that is too large."""
        if transaction is not None:
            here = Cursor(self._system, transaction.commit_lsn, transaction.index)
        elif self._transaction is None:
            here = Cursor(self._system, self._reached)
        else:
            return  # the rest of the transaction is on its way
        batch = self._batch
        self._size = 0
        nothing = not batch.events and not batch.unreadable
        if nothing and (self._unstored or not self._is_worth_a_move(here)):
            return
        self._batch = Batch()  # the finished batch is being stored, so the next changes go into a new one
        batch.cursor, batch.receipt = str(here), here.lsn
        batch.behind = max(0, self._end - here.lsn)
        self._offer(batch)

    def _is_worth_a_move(self, here: Cursor) -> bool:
        """Whether to advance the cursor without events: the slot must not hold back much log of other tables."""
        if self._answer_at is not None:  # the server asks for the position
            return here.lsn > self._confirmed
        due = time.monotonic() - self._advanced_at >= self.quiet_every
        return due and here.lsn - self._confirmed >= self.quiet_bytes

    def _offer(self, batch: Batch) -> None:
        self._advanced_at = time.monotonic()
        self._unstored += 1
        self._ready.append(batch)
        self._came.set()

    def _confirm(self, stream: Stream, *, ask: bool = False) -> None:
        stream.confirm(self._confirmed, ask=ask)
        self._confirmed_at = time.monotonic()
        self._answer_at = None

    # beside the stream

    async def _set_goal(self) -> None:
        """Set the goal for `wakeful once`: read everything that has committed by now."""
        try:
            async with await self._connect() as connection:
                self._end = self._goal = await flushed(connection)
        except driver().Error as error:
            raise self._ground.unreachable(error) from error
        self._moved_at = time.monotonic()
        if self._stream is not None and self._reached < self._goal:
            with suppress(SlotError):
                self._confirm(self._stream, ask=True)

    async def _check_regularly(self) -> None:
        """From time to time, check for tables that came or went, and how much of the log is held back."""
        while True:
            await asyncio.sleep(self.look_every)
            try:
                async with await self._connect() as connection:
                    self._end, words = await self._ground.held_back(connection, self._slot)
                    footing = await self._ground.prepare(connection, by=self._publications)
                self._keys.update(footing.keys)
                self._note(footing.faults, words)
            except SourceTrouble as error:
                self._end_with(error)
                return
            except (driver().Error, ConfigError) as error:
                self._log.warning("the regular check of the database failed", error=first_line(error))

    def _note(self, faults: Sequence[str], *words: str | None) -> None:
        told = [f"postgres_changes {self._first.place}: {one}" for one in faults]
        told += [one for one in words if one is not None]
        before, self._concern = self._concern, "; ".join(told) or None
        if self._concern != before:
            self._came.set()  # wake the caller, which reports it

    @property
    def _application(self) -> str:
        return f"wakeful {self._context.app}"

    async def _connect(self) -> Any:
        return await connect(self._first.address, name=self._application)


def reader(triggers: Sequence[ReplicatedTrigger], context: Context) -> PostgresReader:
    """The reader of `via="replication"`."""
    return PostgresReader(triggers, context)
