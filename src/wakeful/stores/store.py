"""The store: it carries out requests, over any database.

What carries a claim is tried again until the database is back or the claim is lost; everything else tells its caller
at once when the database is gone, because that caller (an HTTP request, a person) can decide better what to do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.errors import CancelAsked, ConfigError, EncryptionKeyMissing, StoreUnavailable
from wakeful.model import Claim, Decision, Effect, Receipt, Step
from wakeful.settings import strict_encryption
from wakeful.stores.glance import Glance, glance_of
from wakeful.stores.guard import GuardedPostgres
from wakeful.stores.journal import Died, Journal, Probe, whole
from wakeful.stores.migrations import Applied, Migration, Patience, Told, standing
from wakeful.stores.payloads import Codec
from wakeful.stores.queries import Dialect
from wakeful.stores.rechecking import LEFT_BEHIND_AFTER
from wakeful.stores.request import Actor, Ready, Request
from wakeful.stores.sealing import BOUND, Sealing, refuse_without_mark, strict_mark
from wakeful.stores.tampered import Tampered, refuse_to_act_on
from wakeful.stores.timing import Fired, StoredSchedule
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.agents import KeepAgents
from wakeful.stores.verbs.alarms import AlarmChanged, ChangeAlarm, ResolveAlarms, StoredAlarm, TellAlarms
from wakeful.stores.verbs.approvals import AnswerApproval, Answered, AskPerson
from wakeful.stores.verbs.backfill import FillOccurrences, LedgerRow
from wakeful.stores.verbs.cancel import Cancelled, CancelRun, FinishCancelled
from wakeful.stores.verbs.change import NoteChange
from wakeful.stores.verbs.circuits import ChangeCircuit, CircuitChanged, StoredCircuit, circuit_of
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, ForgetRuns
from wakeful.stores.verbs.commit import CloseRun, CommitRun, ReleaseRun
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect, effect_of
from wakeful.stores.verbs.expectations import FinishLook, KeepExpectations
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.heartbeat import ReportHeartbeat
from wakeful.stores.verbs.keeping import EnterCipher, NoteBinding
from wakeful.stores.verbs.locks import FreeLock, HeldLock, LockHolder, TakeLock
from wakeful.stores.verbs.operation_keys import SaveOnce
from wakeful.stores.verbs.outbox import Lane, RedoDelivery, WorkLane
from wakeful.stores.verbs.pauses import ChangePause, Paused
from wakeful.stores.verbs.people import RaiseAlarm, RecordOperation
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess, RetireProcess, TakeOver
from wakeful.stores.verbs.progress import LeaveRun, SaveTransacted, TransactStep
from wakeful.stores.verbs.quarantine import EndQuarantine
from wakeful.stores.verbs.redo import Redone, RedoRun
from wakeful.stores.verbs.reminders import BEFORE_ALL, CameSince, MakeReminder
from wakeful.stores.verbs.retiring import BringBackApp, RetireApp
from wakeful.stores.verbs.schedules import RecordOccurrences, schedule_of
from wakeful.stores.verbs.scheduling import ScheduleByRun
from wakeful.stores.verbs.settling import Settled, SettleEffect
from wakeful.stores.verbs.sources import (
    EnterSources,
    ForgetSource,
    HeldSource,
    HoldSource,
    LetSourceGo,
    ReportSource,
    ServeSources,
    StoredSource,
    source_of,
)
from wakeful.stores.verbs.state import ChangeState
from wakeful.stores.verbs.take_in import Item, TakeIn, TakenIn
from wakeful.stores.verbs.waits import EndWait, LookAgain
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage

R = TypeVar("R")

LEDGER_PAGE = 5_000
ITEMS_PAGE = 10_000

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0


class Renewer(Protocol):
    """Renews leases, and writes what must not wait for the event loop, from a thread of its own."""

    def renew(self, process: str, lease: Microseconds) -> bool: ...

    def write(self, name: str, *parameters: object) -> None: ...

    def close(self) -> None: ...


class Database(Protocol):
    """What the store needs of a database."""

    dialect: Dialect
    notifies: bool
    restored_before: int
    codec: Codec

    async def open(self, *, migrate: bool) -> None: ...
    async def close(self) -> None: ...
    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R: ...
    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...
    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]: ...
    async def migrate(
        self, *, patience: Patience | None = None, told: Told | None = None, by: Actor | None = None
    ) -> list[Migration]: ...
    async def refuse_locked(self) -> None: ...
    async def ledger(self) -> list[Applied]: ...
    async def applied_migrations(self) -> list[Row]: ...
    async def identity(self) -> str: ...
    def read_clock(self) -> Microseconds | None: ...
    def renewer(self) -> Renewer: ...
    def presence(self) -> Renewer: ...
    def lock(self, process: str) -> None: ...
    def unlock(self, process: str) -> None: ...
    def is_certainly_dead(self, process: str) -> bool: ...
    def tidy_locks(self, living: Collection[str]) -> None: ...
    async def end_sessions(self, process: str) -> int: ...
    async def end_lost(self) -> None: ...


@runtime_checkable
class TransactionalDatabase(Database, Protocol):
    """A database that can open a transaction beside the journal's, or work inside the caller's (PostgreSQL)."""

    def user_transaction(self, cause: str | None = None) -> AbstractAsyncContextManager[Any]: ...
    async def conclude(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R: ...
    async def within(self, connection: Any, transaction: Callable[[int | None], Transaction[R]]) -> R: ...
    async def listen(self) -> None: ...


class RecordedBefore(Exception):
    """A transaction whose step is recorded already: an earlier COMMIT happened, only its answer was lost."""


class DatabaseStore:
    """Requests are carried out here, over one database. The class of each says what it promises."""

    def __init__(self, database: Database, *, probe: Probe | None = None) -> None:
        self.database = database
        self.journal = Journal(database, probe=probe)
        self._probe: Probe = probe or (lambda _point, _requests: None)
        self.log = logger_of(part="store")

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    @property
    def encrypts(self) -> bool:
        """Are payloads encrypted? Then they are not written into a plain log either."""
        return self.database.codec.ring is not None

    @property
    def restored_before(self) -> int:
        """Runs with a lower number may have gone on elsewhere, after the backup that this store was restored from."""
        return self.database.restored_before

    async def was_restored(self, claim: Claim) -> bool:
        """Is it one of these, or of the family of one? A later run of a family does the same operations."""
        if claim.seq < self.restored_before:
            return True
        if not self.restored_before or claim.id == claim.root:
            return False
        rows = await self.database.fetch("seq_of_run", claim.root)
        return not rows or rows[0][0] < self.restored_before

    async def open(self, *, migrate: bool, resealing: bool = False) -> None:
        """Connect, and see that every key is here. `resealing`: to encrypt everything anew, so that a store that is not strict yet
        is opened even if the setting demands a strict one.
        """
        await self.database.open(migrate=migrate)
        try:
            await self._check_keys(resealing=resealing)
        except (EncryptionKeyMissing, ConfigError):
            await self.database.close()
            raise

    async def _check_keys(self, *, resealing: bool) -> None:
        """Is every key here that payloads are encrypted with? The first one is entered before it is used. In a store without any,
        payloads are bound to their places from the start: nobody has to read them who cannot.
        """
        if standing(self.dialect, await self.database.ledger()).missing:
            return  # whoever works with it is told that first
        codec = self.database.codec
        ring, demanded = codec.ring, strict_encryption() and not resealing
        sealing = Sealing.of([row[0] for row in await self.database.fetch("list_ciphers")])
        sealing.apply(codec, demanded=demanded)
        if ring is None:
            return
        codec.binds = sealing.bound or sealing.is_new
        entered = [ring.first.id, *([f"{ring.first.id}{BOUND}"] if codec.binds else [])]
        if demanded and not sealing.strict:
            if not sealing.is_new or (await self.database.fetch("span_of_events"))[0][0] is not None:
                raise refuse_without_mark()
            entered.append(strict_mark(ring))
        for one in entered:
            if one not in sealing.ids:
                await self.journal.submit(EnterCipher(one))

    async def look_at_sealing(self) -> bool:
        """Have payloads been bound to their places since, or the store become strict? True while this process binds what it
        writes. What is demanded, or was so once, is so for as long as the process lives.
        """
        codec = self.database.codec
        if codec.ring is None:
            return False
        Sealing.of([row[0] for row in await self.database.fetch("list_ciphers")]).apply(codec)
        return codec.binds

    async def note_binding(self, process: str) -> None:
        await self.journal.submit(NoteBinding(process))

    async def close(self) -> None:
        await self.journal.close()
        await self.database.close()

    def hear(self, ready: Callable[[Ready], None]) -> None:
        """Call this whenever runs may have become ready."""
        self.journal.on_ready = ready

    def hear_deliveries(self, waiting: Callable[[], None]) -> None:
        """Call this whenever deliveries may have to go that no run of ours has just sent."""
        self.journal.heard.deliveries = waiting

    def hear_waits(self, registered: Callable[[int], None]) -> None:
        """Call this whenever a run has registered what it waits for."""
        self.journal.heard.waits = registered

    def hear_cancels(self, to_stop: Callable[[CancelAsked | None], None]) -> None:
        """Call this whenever runs may have been asked to stop; with the one of which that is known."""
        self.journal.heard.stops = to_stop

    def hear_alarms(self, raised: Callable[[], None]) -> None:
        """Call this whenever there may be an alarm to tell."""
        self.journal.on_alarm = raised

    def hear_trouble(self, unavailable: Callable[[StoreUnavailable], None]) -> None:
        """Call this whenever a transaction could not be stored."""
        self.journal.on_unavailable = unavailable

    async def do(self, request: Request[R]) -> R:
        """Carry a request out; its result is on disk then. A patient one, which a run in flight waits for, is tried until it is
        stored or refused. Every other one raises StoreUnavailable at once when the database is gone: its caller (an HTTP
        request, a person) can decide better what to do.
        """
        try:
            return await self.journal.submit(request)
        except StoreUnavailable as error:
            if not request.patient:
                raise
            return await self._persist_after(request, error)

    # events

    accept = do

    async def accept_within(self, connection: Any, request: AcceptEvents) -> list[Receipt]:
        """Accept inside the caller's own transaction."""
        database = self.database
        if not isinstance(database, TransactionalDatabase):
            message = "within= needs a PostgreSQL store: SQLite has one writer, and it is not the caller's"
            raise ConfigError(message)
        results = await database.within(connection, lambda now: whole(now, [request], notifies=True))
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]  # type: ignore[no-any-return]

    # runs

    async def claim(self, request: ClaimRuns, *, now: bool) -> Claimed:
        return await (self.journal.submit(request) if now else self.journal.rest(request))

    save_steps = do

    async def take_lock(self, request: TakeLock) -> HeldLock | LockHolder:
        return await self.do(request)

    async def free_lock(self, request: FreeLock) -> None:
        await self.do(request)

    async def transact_step(
        self,
        claim: Claim,
        key: str,
        function: Callable[[Any], Any],
        to_step: Callable[[Any], Step],
        *,
        locks: tuple[HeldLock, ...] = (),
        cause: str | None = None,
    ) -> Step:
        database = self.database
        if not isinstance(database, TransactionalDatabase):
            return await self.do(TransactStep(claim, function, to_step, locks, cause))
        wait, in_doubt = FIRST_WAIT, False
        while True:
            try:
                return await self._transact_beside(database, claim, function, to_step, locks, cause)
            except Died:
                await asyncio.get_running_loop().create_future()  # no answer ever comes
            except StoreUnavailable as error:
                if self.journal.closed:
                    raise
                in_doubt = True
                note_outage(self.log, "the store is unavailable; a run waits for it", error, again_in=wait)
            except Exception:
                # After a lost COMMIT the function may have failed on its own rows of that earlier try.
                if not in_doubt or (done := await self._find_step(claim, key)) is None:
                    raise
                return done
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            done = await self._find_step(claim, key)  # the COMMIT may have happened although its answer was lost
            if done is not None:
                return done

    async def _transact_beside(
        self,
        database: TransactionalDatabase,
        claim: Claim,
        function: Callable[[Any], Any],
        to_step: Callable[[Any], Step],
        locks: tuple[HeldLock, ...],
        cause: str | None,
    ) -> Step:
        """The user's function on a connection of its own; the fence and the checkpoint are its last statements."""
        refused: Exception | None = None
        results: list[Any] = []
        self._probe("before", [TransactStep(claim, function, to_step)])
        try:
            async with database.user_transaction(cause) as connection:
                try:
                    step: Step = to_step(await function(GuardedPostgres(connection)))
                except Exception as error:
                    if connection.is_closed():
                        raise StoreUnavailable(str(error)) from error
                    refused = error
                    raise
                request = SaveTransacted(claim, step, locks)
                results = await database.conclude(connection, lambda now: whole(now, [request], notifies=False))
                if isinstance(results[0], Exception):
                    refused = results[0]
                    raise refused
                if results[0] is not step:
                    raise RecordedBefore
                self._probe("within", [request])
        except RecordedBefore:
            return results[0]  # type: ignore[no-any-return]
        except StoreUnavailable:
            if refused is not None:
                raise refused from None
            raise
        self._probe("after", [request])
        return step  # type: ignore[no-any-return]  # the comparison with a result made it Any

    async def _find_step(self, claim: Claim, key: str) -> Step | None:
        """What is recorded under a key. Asks until the store answers: without an answer nothing may be done again."""
        rows = await self._fetch_at_last("load_steps", claim.seq)
        return next((step for row in rows if (step := Step(*row[1:])).key == key and step.state == "done"), None)

    async def _fetch_at_last(self, name: str, *parameters: Any) -> list[Row]:
        wait = FIRST_WAIT
        while True:
            try:
                return await self.database.fetch(name, *parameters)
            except StoreUnavailable:
                if self.journal.closed:
                    raise
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)

    async def change_circuit(self, request: ChangeCircuit) -> CircuitChanged:
        return await self.do(request)

    async def circuits(self, app: str) -> list[StoredCircuit]:
        rows = await self.database.fetch("circuits_of_app", self.database.read_clock(), app)
        return [circuit_of(row) for row in rows]

    async def end_wait(self, request: EndWait) -> Step:
        return await self.do(request)

    async def ask(self, request: AskPerson) -> None:
        await self.do(request)

    async def answer(self, request: AnswerApproval) -> Answered | None:
        return await self.journal.submit(request)

    async def look_again(self, request: LookAgain) -> None:
        await self.journal.submit(request)

    async def open_effect(self, request: OpenEffect) -> Effect | Decision:
        return await self.do(request)

    async def save_effect(self, request: SaveEffect) -> None:
        await self.do(request)

    async def save_once(self, request: SaveOnce) -> None:
        await self.do(request)

    async def settle_effect(self, request: SettleEffect) -> Settled | None:
        return await self.journal.submit(request)

    async def settle_all(self, requests: Sequence[SettleEffect]) -> list[Settled | None]:
        return list(await asyncio.gather(*map(self.journal.submit, requests)))

    async def commit(self, request: CommitRun) -> None:
        await self.do(request)

    async def close_run(self, request: CloseRun) -> None:
        await self.do(request)

    async def release(self, request: ReleaseRun) -> Redone | None:
        return await self.journal.submit(request)

    async def first_delivery(self, app: str, channel: str) -> Microseconds | None:
        rows = await self.database.fetch("first_delivery", self.database.read_clock(), app, channel)
        return rows[0][0] if rows else None

    async def work_lane(self, request: WorkLane) -> Lane:
        return await self.journal.submit(request)

    async def redo_delivery(self, request: RedoDelivery) -> str | None:
        return await self.journal.submit(request)

    async def change_state(self, request: ChangeState) -> int:
        return await self.journal.submit(request)

    async def cancel(self, request: CancelRun) -> Cancelled | None:
        return await self.journal.submit(request)

    async def finish_cancelled(self, request: FinishCancelled) -> None:
        await self.do(request)

    async def note_change(self, request: NoteChange) -> None:
        await self.do(request)

    async def effects_to_undo(self, claim: Claim) -> list[Effect]:
        rows = await self._fetch_at_last("effects_to_undo", claim.root, claim.seq)
        refuse_to_act_on(rows)
        return [effect_of(row) for row in rows]

    async def failed_with(self, claim: Claim) -> str | None:
        """Why a run ends dead once what it did is undone; None if it is cancelled."""
        rows = await self._fetch_at_last("failed_with", claim.seq)
        return rows[0][0] if rows else None

    async def cancelled_runs(self, app: str, process: str) -> list[tuple[str, str, str | None]]:
        rows = await self.database.fetch("cancelled_runs", app, process)
        return [(row[0], row[1], row[2]) for row in rows]

    async def redo(self, request: RedoRun) -> Redone | None:
        return await self.journal.submit(request)

    async def redo_all(self, requests: Sequence[RedoRun]) -> list[Redone | None]:
        return list(await asyncio.gather(*map(self.journal.submit, requests)))

    async def fork(self, request: ForkRun) -> Redone | None:
        return await self.journal.submit(request)

    async def feed(self, request: FeedEvents) -> int:
        return await self.journal.submit(request)

    finish = do

    async def leave(self, request: LeaveRun) -> None:
        await self.do(request)

    async def forget(self, request: ForgetRuns) -> int:
        return await self.journal.submit(request)

    # processes

    async def register(self, request: RegisterProcess) -> None:
        self.database.lock(request.id)
        try:
            await self.journal.submit(request)
        except BaseException:
            self.database.unlock(request.id)
            raise

    async def retire(self, request: RetireProcess) -> None:
        await self.journal.submit(request)
        self.database.unlock(request.id)  # where it could not be written down, the free lock will tell the others

    async def bury(self, request: BuryProcess) -> int:
        return await self.journal.submit(request)

    async def take_over(self, request: TakeOver) -> int:
        """Put back what a process had that is not connected any more; how many runs."""
        return await self.journal.submit(request)

    async def end_sessions(self, process: str) -> int:
        return await self.database.end_sessions(process)

    async def peers(self, app: str, own: str) -> dict[str, int]:
        rows = await self.database.fetch("living_peers", self.database.read_clock(), app, own)
        return dict(Counter(agent for row in rows for agent in from_json(row[0])))

    async def others(self, own: str) -> list[tuple[str, Microseconds, bool]]:
        rows = await self.database.fetch("living_processes", self.database.read_clock())
        self.database.tidy_locks({row[0] for row in rows})
        return [(row[0], row[1], self.database.is_certainly_dead(row[0])) for row in rows if row[0] != own]

    # people

    async def raise_alarm(self, request: RaiseAlarm) -> None:
        await self.journal.submit(request)

    async def resolve_alarms(self, request: ResolveAlarms) -> None:
        await self.journal.submit(request)

    async def change_alarm(self, request: ChangeAlarm) -> AlarmChanged | None:
        return await self.journal.submit(request)

    async def tell_alarms(self, request: TellAlarms) -> list[StoredAlarm]:
        return await self.journal.submit(request)

    async def first_to_tell(self, app: str) -> Microseconds | None:
        rows = await self.database.fetch("first_to_tell", self.database.read_clock(), app)
        return rows[0][0] if rows else None

    async def open_alarms(self, app: str) -> list[tuple[str, Microseconds]]:
        return [(row[0], row[1]) for row in await self.database.fetch("open_alarms_of_app", app)]

    async def report_heartbeat(self, request: ReportHeartbeat) -> None:
        await self.journal.submit(request)

    async def record_operation(self, request: RecordOperation) -> None:
        await self.journal.submit(request)

    async def change_pause(self, request: ChangePause) -> Paused:
        return await self.journal.submit(request)

    async def retire_app(self, request: RetireApp) -> bool:
        return await self.journal.submit(request)

    async def bring_app_back(self, request: BringBackApp) -> bool:
        return await self.journal.submit(request)

    # time

    async def due_schedules(
        self, app: str, after: tuple[Microseconds, int] | None, most: int
    ) -> tuple[Microseconds | None, list[StoredSchedule]]:
        due, seq = after or (-1, -1)
        rows = await self.database.fetch("due_schedules", self.database.read_clock(), app, due, seq, most)
        return (rows[0][-1] if rows else None), [schedule_of(row) for row in rows]

    async def queued_schedules(self, app: str) -> list[StoredSchedule]:
        rows = await self.database.fetch("queued_schedules", self.database.read_clock(), app)
        return [schedule_of(row) for row in rows]

    async def next_schedule(self, app: str) -> tuple[Microseconds, Microseconds | None]:
        rows = await self.database.fetch("next_schedule", self.database.read_clock(), app)
        return rows[0][0], rows[0][1]

    async def find_schedule(self, app: str, name: str) -> StoredSchedule | None:
        rows = await self.database.fetch("find_schedule", self.database.read_clock(), app, name)
        return schedule_of(rows[0]) if rows else None

    async def schedules(self, app: str) -> list[StoredSchedule]:
        rows = await self.database.fetch("schedules_of_app", self.database.read_clock(), app)
        return [schedule_of(row) for row in rows]

    async def record_occurrences(self, request: RecordOccurrences) -> Fired | None:
        return await self.journal.submit(request)

    async def schedule_by_run(self, request: ScheduleByRun) -> Step | None:
        return await self.do(request)

    async def fill_occurrences(self, request: FillOccurrences) -> Fired:
        return await self.journal.submit(request)

    async def ledger_between(
        self, schedule: int, first: Microseconds, last: Microseconds
    ) -> AsyncIterator[list[LedgerRow]]:
        after = (-1, -1)
        while True:
            rows = await self.database.fetch("ledger_between", schedule, first, last, *after, LEDGER_PAGE)
            page = [LedgerRow(*row) for row in rows]
            yield page
            if len(page) < LEDGER_PAGE:
                return
            after = (page[-1].last, page[-1].seq)

    async def known_events(self, keys: list[str]) -> set[str]:
        return {row[0] for row in await self.database.fetch("known_events", to_json(keys).decode())}

    async def not_begun(self, ids: list[str]) -> list[str]:
        return [row[0] for row in await self.database.fetch("not_begun", to_json(ids).decode())]

    async def make_reminder(self, request: MakeReminder) -> StoredSchedule:
        return await self.do(request)

    async def what_came(self) -> str:
        """A mark of all events that have come until now."""
        return str((await self.database.fetch("what_came"))[0][0])

    async def came_since(self, app: str, type_: str, mark: str, passed: str = BEFORE_ALL) -> list[CameSince]:
        """Events of a type that the mark does not know, oldest first, a page of those after a place."""
        rows = await self.database.fetch("came_since", app, type_, mark, passed)
        return [CameSince(*row) for row in rows if not isinstance(row[2], Tampered)]

    def await_end(self, runs: frozenset[str], then: Callable[[], None]) -> None:
        self.journal.awaited, self.journal.on_awaited = runs, then

    # expectations

    async def keep_agents(self, request: KeepAgents) -> None:
        """Until it is stored: each process does this at its start, and done twice it is the same."""
        await self.do(request)

    async def keep_expectations(self, request: KeepExpectations) -> None:
        await self.journal.submit(request)

    async def finish_look(self, request: FinishLook) -> None:
        await self.journal.submit(request)

    # sources

    async def serve_sources(self, request: ServeSources) -> None:
        await self.journal.submit(request)

    async def enter_sources(self, request: EnterSources) -> None:
        await self.journal.submit(request)

    async def hold_source(self, request: HoldSource) -> HeldSource | None:
        held: HeldSource | None = await self.journal.submit(request)
        return held

    async def let_source_go(self, request: LetSourceGo) -> None:
        await self.journal.submit(request)

    async def take_in(self, request: TakeIn) -> TakenIn:
        taken: TakenIn = await self.journal.submit(request)
        return taken

    async def report_source(self, request: ReportSource) -> None:
        await self.journal.submit(request)

    async def end_quarantine(self, request: EndQuarantine) -> TakenIn | None:
        settled: TakenIn | None = await self.journal.submit(request)
        return settled

    async def forget_source(self, request: ForgetSource) -> bool:
        gone: bool = await self.journal.submit(request)
        return gone

    async def find_source(self, app: str, name: str) -> StoredSource | None:
        rows = await self.database.fetch("find_source", app, name)
        return source_of(rows[0]) if rows else None

    async def held_sources(self, app: str) -> dict[str, str]:
        """Which process that is alive reads which source."""
        rows = await self.database.fetch("held_sources", self.database.read_clock(), app)
        return {row[0]: row[1] for row in rows}

    async def items_of(self, app: str, source: str) -> list[Item]:
        """Everything a source has seen."""
        found: list[Item] = []
        after = ""
        while rows := await self.database.fetch("items_of_source", app, source, after, ITEMS_PAGE):
            found += [Item(item, version, mark, bool(gone)) for item, version, mark, gone in rows]
            after = found[-1].item
        return found

    async def kept_inputs(self, app: str, source: str) -> list[str]:
        """The keys of what a source could not read, and a person is to look at."""
        found: list[str] = []
        after = 0
        while rows := await self.database.fetch("kept_of_source", app, source, "unreadable", after, ITEMS_PAGE):
            found += [key for _, key in rows]
            after = rows[-1][0]
        return found

    async def backlog(self, app: str, agents: Sequence[str], most: int) -> int:
        """How many runs of these agents could start now; it stops counting at `most`."""
        listed = to_json(list(agents)).decode()
        rows = await self.database.fetch("backlog_of", self.database.read_clock(), app, listed, most)
        return int(rows[0][0])

    # waking

    async def glance(self, app: str, agents: Sequence[str], channels: Sequence[str]) -> Glance:
        """What there is to do for a process that has these agents and channels, in one query."""
        listed = [to_json(list(names)).decode() for names in (agents, channels)]
        return glance_of(
            await self.database.fetch("glance", self.database.read_clock(), app, *listed, LEFT_BEHIND_AFTER)
        )

    def poke(self) -> None:
        self.journal.poke()

    async def _persist_after(self, request: Request[R], error: StoreUnavailable) -> R:
        """Try until it is stored or refused: a run in flight waits for its store."""
        wait = FIRST_WAIT
        while True:
            if self.journal.closed:
                raise error
            note_outage(self.log, "the store is unavailable; a run waits for it", error, again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            try:
                return await self.journal.submit(request)
            except StoreUnavailable as again:
                error = again
