"""Reads one source: hold it, open it, then repeatedly read, store, acknowledge.

    hold ──► open ──► read ──► one transaction: events, cursor, items, quarantine ──► acknowledge ──┐
     ▲                 ▲                                                                            │
     │                 └──────────────── while our backlog is small enough ◄────────────────────────┘
     └── SourceLost (another process has it) · SourceTrouble (an alarm with the remedy; retried with back-off; meanwhile
         another process may try, because the source may be unreadable only from here)

If a batch cannot be stored because the store is unavailable, it is stored when the store is back; it is not read again. Meanwhile
the reader releases its connection: if store and source are one server, that server could not shut down otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from wakeful.errors import ClaimLost, ConfigError, SourceLost, StoreUnavailable
from wakeful.intake.cloudevents import to_envelope
from wakeful.intake.matching import fits
from wakeful.intake.quarantine import could_not_be_taken_in, keep
from wakeful.model import Arrival, Event, Receipt, SourceState
from wakeful.service import Service
from wakeful.stored_errors import words_of
from wakeful.stores.alarm import Alarm, concern_alarm, source_alarm
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.quarantine import kept_inputs
from wakeful.stores.verbs.sources import HeldSource, HoldSource, LetSourceGo, ReportSource, held_sources
from wakeful.stores.verbs.take_in import Kept, QuarantineForm, TakeIn
from wakeful.telemetry.outage import note_outage
from wakeful.triggers.source import Batch, Reader, SourceTrouble, Unreadable

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

READ_WITHIN = 5.0
HOLD_AGAIN_AFTER = 0.5  # for a source that no other process has announced as released
LOOK_AT_BACKLOG_EVERY = 0.5
REPORT_ALIVE_EVERY = 30.0
SOON = 0.1
CLOSE_WITHIN = 10.0
SLICE = 200
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


def misfit(app: str, source: str, event: Event, error: Exception) -> Kept:
    """An event that cannot be taken in, in its stored form, so that it can be released after a fix."""
    form: QuarantineForm = "event"
    try:
        raw = to_envelope(event).encode()
    except Exception:  # the event cannot be encoded: that is its fault
        raw, form = repr(event).encode(errors="replace"), "raw"
    reason = f"{could_not_be_taken_in(event.id)}{type(error).__name__}: {words_of(error)}"
    return keep(app, source, raw, reason, kind="unreadable", headers={}, form=form)


class SourceReading(Service):
    """Reads one source for as long as the app runs."""

    name = "source"

    def __init__(
        self,
        app: str,
        reader: Reader,
        store: DatabaseStore,
        arrive: Callable[[Event], Arrival],
        process: Callable[[], str],
        *,
        too_much: Callable[[bool], Awaitable[str | None]],
        enter: Callable[[], Awaitable[None]],
        event_source: str,
        look_after: int | None = None,
        on_conflict: Callable[[Receipt], None] = lambda _: None,
        hold_again_after: float = HOLD_AGAIN_AFTER,
    ) -> None:
        """`too_much` says why nothing more may come in for now. It is called from time to time and after `look_after` events; with
        False, because no events came since, a recent answer is good enough. `enter` registers the source if it is missing.
        `event_source` is the source of quarantined input. While another process reads the source, this one tries again after
        `hold_again_after` seconds, or when told to.
        """
        super().__init__()
        self.log = self.log.bind(source=reader.name)
        self.reader = reader
        self._app = app
        self._store = store
        self._arrive = arrive
        self._process = process
        self._too_much = too_much
        self._enter = enter
        self._event_source = event_source
        self._held: HeldSource | None = None
        self._holder = ""
        self._token = 0  # the last one it had
        self._open = False
        self._state: SourceState = "idle"
        self._said: str | None = None
        self._said_at = 0.0
        self._wait = FIRST_WAIT
        self._looked_at_backlog = 0.0
        self._look_after = look_after
        self._on_conflict = on_conflict
        self._since_look = 0  # events since the last check of the backlog
        self._came = False  # whether the last read returned something to store
        self._nothing = False  # whether the last read returned nothing, not even something to acknowledge
        self._behind = False  # whether the last stored batch reported more to come
        self._concern: str | None = ""  # unknown: a process before this one may have reported one
        self._hold_again_after = hold_again_after
        self._waits_for_holder = False
        self._well_at = 0.0
        self._kept: set[str] = set()  # quarantine keys of this source, for a reader that recovers inputs

    @property
    def state(self) -> SourceState:
        return self._state

    @property
    def is_open(self) -> bool:
        return self._open

    async def stop(self) -> None:
        """Stop and release the source, so that another process can read it at once."""
        await super().stop()
        await self._close_reader()
        held, self._held = self._held, None
        with contextlib.suppress(StoreUnavailable, ClaimLost):
            if held is not None:
                await self._store.do(LetSourceGo(self._app, held.name, self._holder, held.token, leaves=True))
            elif self._state == "reading":
                await self._store.do(ReportSource(self._app, self.reader.name, "idle"))
        self._state = "idle"

    async def die(self) -> None:
        """Stop without releasing anything, like a killed process. For tests."""
        await super().stop()
        await self._close_reader()

    async def run_once(self) -> float | None:
        """Take one batch, or report what prevents it."""
        began = time.monotonic()
        rest = await self.take(READ_WITHIN)
        if not rest and self._nothing and time.monotonic() - began < SOON:
            return SOON  # a reader that does not wait for input would keep the whole process busy
        return rest

    async def take(self, within: float) -> float:
        """Read and store what comes within that time; returns how long to rest."""
        try:
            self._waits_for_holder = False
            if not await self._opened():
                self._waits_for_holder = True
                return self._hold_again_after
            await self._report_concern()
            if await self._is_too_much():
                return LOOK_AT_BACKLOG_EVERY
            batch = await self.reader.read(within)
            if batch is not None and not batch.empty:
                await self._store_batch(batch)
            if batch is not None:
                await self.reader.acknowledge(batch)
            await self._read_succeeded(batch)
        except StoreUnavailable:
            await self._let_go()
            raise
        except (SourceLost, ClaimLost) as lost:
            self.log.warning("another process reads the source now", reason=str(lost))
            await self._give_up_source()
            self._waits_for_holder = True
            return self._hold_again_after
        except Exception as error:  # trouble of any kind with this source must not stop the rest of the app
            return await self._failed(error)
        return 0.0

    def hold_again(self) -> None:
        """The process that reads the source may have released it: try now, if this one waits for it."""
        if self._waits_for_holder:
            self.wake()

    async def report_alive(self) -> None:
        """Record a sign of life if nothing came for a while. All sources of a process report at once."""
        now = time.monotonic()
        silent = now - self._said_at > REPORT_ALIVE_EVERY
        if self._state == "reading" and silent and self._well_at > self._said_at and not self._came:
            self._said_at = now
            token = None if self._held is None else self._held.token
            await self._store.do(ReportSource(self._app, self.reader.name, token=token))

    async def drain(self) -> int:
        """Take in everything that is there now; returns the number of batches."""
        batches = 0
        while True:
            before = self._wait
            rest = await self.take(SOON if self.reader.busy else 0.0)
            if rest or self._wait != before:
                return batches
            if self._came:
                batches += 1
            elif not self.reader.busy:
                return batches

    async def _opened(self) -> bool:
        if self._open and (self._held is None or self._holder == self._process()):
            return True
        if self._open:
            # This process was declared dead and continues under a new identity: another process may have the source. With a
            # quiet source, no write would ever reveal that.
            await self._give_up_source()
        cursor = None
        if self.reader.single:
            if not await self._hold():
                return False
            cursor = None if self._held is None else self._held.cursor
        try:
            if self.reader.recovers:
                self._kept = set(await kept_inputs(self._store.database, self._app, self.reader.name))
            await self.reader.open(cursor)
        except StoreUnavailable:
            await self._close_reader()  # close what the reader has already opened
            raise
        self._open = True
        return True

    async def _hold(self) -> bool:
        process = self._process()
        holder = (await held_sources(self._store.database, self._app)).get(self.reader.name)
        if holder is not None and holder != process:
            self._forget_state()
            return False
        self._held = await self._store.do(HoldSource(self._app, self.reader.name, process))
        self._holder = process
        if self._held is None:  # another process was faster, or a person removed the source from the store
            await self._enter()
            return False
        if self._held.token != self._token + 1:
            self._forget_state()
        self._token = self._held.token
        return True

    async def _give_up_source(self) -> None:
        """Close the reader: another process has the source, or may have it."""
        await self._close_reader()
        self._held = None
        self._forget_state()

    def _forget_state(self) -> None:
        """Forget the reported state: another process has had the source and may have stored another one."""
        self._state, self._said, self._concern = "idle", None, ""

    async def _close_reader(self) -> None:
        self._open = False
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.reader.close()
        except Exception as error:
            self.log.warning("closing the source failed", error=repr(error))

    async def _let_go(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.reader.let_go()
        except Exception as error:
            self.log.warning("releasing the connection failed", error=repr(error))

    async def _is_too_much(self) -> bool:
        """Whether the backlog is too large. Checked only from time to time, because it costs a query."""
        now = time.monotonic()
        many = self._look_after is not None and self._since_look >= self._look_after
        if self._state != "paused" and now - self._looked_at_backlog < LOOK_AT_BACKLOG_EVERY and not many:
            return False
        fresh = self._since_look > 0 or self._state == "paused"
        self._looked_at_backlog, self._since_look = now, 0
        words = await self._too_much(fresh)
        if words is None:
            return False
        await self._say("paused", words)
        return True

    async def _store_batch(self, batch: Batch) -> None:
        """Store the batch; retries until it is stored, or another process has the source."""
        accept = None
        self._since_look += len(batch.events)
        if batch.events:
            arrivals, kept = await self._arrivals(batch.events)
            accept = AcceptEvents(self._app, arrivals, matches=fits)
        else:
            kept = []
        kept += [self._keep(one) for one in batch.unreadable]
        recovered = self._recovered(batch)
        wait = FIRST_WAIT
        while True:
            request = TakeIn(
                self._app,
                self.reader.name,
                accept,
                self._holder if self._held is not None else None,
                None if self._held is None else self._held.token,
                batch.cursor,
                batch.items,
                kept,
                recovered,
                batch.lag,
                batch.behind,
            )
            try:
                taken = await self._store.do(request)
            except StoreUnavailable as error:
                note_outage(self.log, "the store is unavailable; the batch that was read waits for it", error)
                await self._let_go()
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                for receipt in taken.receipts:
                    if receipt.conflict:
                        self._on_conflict(receipt)
                if self.reader.recovers:
                    self._kept -= set(recovered)
                    self._kept |= {one.arrival.key for one in kept}
                return

    def _keep(self, one: Unreadable) -> Kept:
        return keep(
            self._app, self._event_source, one.raw, one.reason, kind=one.kind, headers=one.headers, size=one.size
        )

    def _recovered(self, batch: Batch) -> list[str]:
        """Quarantine keys that the batch makes obsolete. No work for a source without anything in quarantine."""
        if not self._kept:
            return []
        may_be = {self._keep(one).arrival.key for raw in batch.recovered for one in self.reader.refusals(raw)}
        return sorted(may_be & self._kept)

    async def _arrivals(self, events: list[Event]) -> tuple[list[Arrival], list[Kept]]:
        """Process a large batch in slices, so that other tasks can run. An event that cannot be taken in is kept and does not
        block those after it.
        """
        arrivals: list[Arrival] = []
        misfits: list[Kept] = []
        for begin in range(0, len(events), SLICE):
            if begin:
                await asyncio.sleep(0)
            part = events[begin : begin + SLICE]
            try:
                arrivals += [self._arrive(event) for event in part]
            except Exception:  # an event of a foreign trigger, or a value that is not JSON
                for event in part:
                    try:
                        arrivals.append(self._arrive(event))
                    except Exception as error:
                        misfits.append(misfit(self._app, self._event_source, event, error))
        return arrivals, misfits

    async def _read_succeeded(self, batch: Batch | None) -> None:
        self._came, self._nothing = batch is not None and not batch.empty, batch is None
        self._wait = FIRST_WAIT
        self._well_at = time.monotonic()
        if self._state != "reading":
            await self._say("reading", None, batch)
        if batch is not None:
            self._behind = bool(batch.behind)
        elif self._behind:  # nothing more came: the source has caught up
            token = None if self._held is None else self._held.token
            await self._store.do(ReportSource(self._app, self.reader.name, token=token, behind=0))
            self._behind = False

    async def _report_concern(self) -> None:
        """Report the reader's concern as an alarm of its own, beside the one about an unreadable source."""
        concern = self.reader.concern
        if concern == self._concern:
            return
        key = concern_alarm(source_alarm(self._app, self.reader.name))
        alarm = None if concern is None else Alarm(self._app, key, concern)
        resolves = key if concern is None else None
        await self._store.do(ReportSource(self._app, self.reader.name, alarm=alarm, resolves=resolves))
        self._concern = concern
        if concern is not None:
            self.log.warning("the source is read, but has a problem", reason=concern)

    async def _failed(self, error: Exception) -> float:
        await self._close_reader()
        if isinstance(error, SourceTrouble | ConfigError):
            words = str(error)
        else:
            self.log.warning("reading the source failed", error=repr(error), exc_info=error)
            words = f"{self.reader.kind} {self.reader.name}: {type(error).__name__}: {words_of(error)}"
        rest, self._wait = self._wait, min(self._wait * 2, LONGEST_WAIT)
        await self._say("failing", words)
        held, self._held = self._held, None
        if held is not None:
            await self._store.do(LetSourceGo(self._app, held.name, self._holder, held.token))
        return rest

    async def _say(self, state: SourceState, words: str | None, batch: Batch | None = None) -> None:
        """Store the state of the source, with an alarm while it is failing."""
        if (state, words) == (self._state, self._said) and state != "reading":
            return
        key = source_alarm(self._app, self.reader.name)
        if state == "failing":
            self.log.error("the source cannot be read; the rest of the app keeps running", reason=words)
        await self._store.do(
            ReportSource(
                self._app,
                self.reader.name,
                state,
                words,
                None if self._held is None else self._held.token,
                None if batch is None else batch.lag,
                None if batch is None else batch.behind,
                alarm=Alarm(self._app, key, words or "") if state == "failing" else None,
                resolves=key if state == "reading" and self._state != "reading" else None,
            )
        )
        self._state, self._said, self._said_at = state, words, time.monotonic()
