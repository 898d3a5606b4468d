"""Reading one source, whichever it is: hold it, open it, and then over and over read, store, acknowledge.

    hold ──► open ──► read ──► one transaction: events, cursor, items, quarantine ──► acknowledge ──┐
     ▲                 ▲                                                                            │
     │                 └──────────────── our own backlog is small enough ◄───────────────────────────┘
     └── SourceLost (another process has it) · SourceTrouble (an alarm with the remedy; tried again, less and less often, and
         meanwhile another process may try: perhaps it is only from here that it cannot be read)

A batch that could not be stored because the store is gone is stored when that is back: it is not read again. Meanwhile the
reader lets go of its connection: where store and source are one server, that server could not shut down otherwise.
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
HOLD_AGAIN_AFTER = 0.5  # where no other process says that it let a source go
LOOK_AT_BACKLOG_EVERY = 0.5
SAY_THAT_IT_LIVES_EVERY = 30.0
SOON = 0.1
CLOSE_WITHIN = 10.0
SLICE = 200
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


def misfit(app: str, source: str, event: Event, error: Exception) -> Kept:
    """An event that cannot be taken in, as it would have been stored, so that it can be after a fix."""
    form: QuarantineForm = "event"
    try:
        raw = to_envelope(event).encode()
    except Exception:  # that is what is wrong with it
        raw, form = repr(event).encode(errors="replace"), "raw"
    reason = f"{could_not_be_taken_in(event.id)}{type(error).__name__}: {words_of(error)}"
    return keep(app, source, raw, reason, kind="unreadable", headers={}, form=form)


class SourceReading(Service):
    """One source, read for as long as the app runs."""

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
        """`too_much` says, in words, why nothing more is to come in for now: it is asked now and then, and after so many events;
        with False, because none came since then, an answer that others were given lately will do. `enter` makes the source known,
        should it not be. `event_source` is the source of what it keeps. While another process reads the source, this one looks
        again after `hold_again_after` seconds, or when it is told to.
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
        self._since_look = 0  # events
        self._came = False  # something, with the last look
        self._nothing = False  # not even something to acknowledge
        self._behind = False  # by what was stored last
        self._concern: str | None = ""  # not known: a process before this one may have had one
        self._hold_again_after = hold_again_after
        self._waits_for_holder = False
        self._well_at = 0.0
        self._kept: set[str] = set()  # keys of what is in quarantine, of a reader that recovers some of it

    @property
    def state(self) -> SourceState:
        return self._state

    @property
    def is_open(self) -> bool:
        return self._open

    async def stop(self) -> None:
        """Whoever comes next may read at once."""
        await super().stop()
        await self._shut()
        held, self._held = self._held, None
        with contextlib.suppress(StoreUnavailable, ClaimLost):
            if held is not None:
                await self._store.do(LetSourceGo(self._app, held.name, self._holder, held.token, leaves=True))
            elif self._state == "reading":
                await self._store.do(ReportSource(self._app, self.reader.name, "idle"))
        self._state = "idle"

    async def die(self) -> None:
        """End without a word, as a killed process does. For tests."""
        await super().stop()
        await self._shut()

    async def run_once(self) -> float | None:
        """One batch, or what is in the way of it."""
        began = time.monotonic()
        rest = await self.take(READ_WITHIN)
        if not rest and self._nothing and time.monotonic() - began < SOON:
            return SOON  # a reader that does not wait for anything to come would keep the whole process busy
        return rest

    async def take(self, within: float) -> float:
        """Read and store what comes within that time; returns how long to rest."""
        try:
            self._waits_for_holder = False
            if not await self._opened():
                self._waits_for_holder = True
                return self._hold_again_after
            await self._worry()
            if await self._is_too_much():
                return LOOK_AT_BACKLOG_EVERY
            batch = await self.reader.read(within)
            if batch is not None and not batch.empty:
                await self._store_batch(batch)
            if batch is not None:
                await self.reader.acknowledge(batch)
            await self._well(batch)
        except StoreUnavailable:
            await self._let_go()
            raise
        except (SourceLost, ClaimLost) as lost:
            self.log.warning("another process reads the source now", reason=str(lost))
            await self._stand_back()
            self._waits_for_holder = True
            return self._hold_again_after
        except Exception as error:  # whatever the outside does: the rest of the app runs on
            return await self._failed(error)
        return 0.0

    def hold_again(self) -> None:
        """The process that reads the source may have let it go: look now, if that is what this one waits for."""
        if self._waits_for_holder:
            self.wake()

    async def say_that_it_lives(self) -> None:
        """For those who watch: nothing came for a while, and that is all. Told by all sources of a process at once."""
        now = time.monotonic()
        silent = now - self._said_at > SAY_THAT_IT_LIVES_EVERY
        if self._state == "reading" and silent and self._well_at > self._said_at and not self._came:
            self._said_at = now
            token = None if self._held is None else self._held.token
            await self._store.do(ReportSource(self._app, self.reader.name, token=token))

    async def drain(self) -> int:
        """Everything that is there now; returns how many batches that was."""
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
            # This process was given up for dead, and lives on under another name: somebody else may have the source. One that is
            # quiet would never tell.
            await self._stand_back()
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
            await self._shut()  # what it has open already
            raise
        self._open = True
        return True

    async def _hold(self) -> bool:
        process = self._process()
        holder = (await held_sources(self._store.database, self._app)).get(self.reader.name)
        if holder is not None and holder != process:
            self._know_nothing()
            return False
        self._held = await self._store.do(HoldSource(self._app, self.reader.name, process))
        self._holder = process
        if self._held is None:  # somebody was quicker, or somebody had it forgotten
            await self._enter()
            return False
        if self._held.token != self._token + 1:
            self._know_nothing()
        self._token = self._held.token
        return True

    async def _stand_back(self) -> None:
        """Another process has it, or may have."""
        await self._shut()
        self._held = None
        self._know_nothing()

    def _know_nothing(self) -> None:
        """Somebody else has had the source: what is stored of how it is may be another's word."""
        self._state, self._said, self._concern = "idle", None, ""

    async def _shut(self) -> None:
        self._open = False
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.reader.close()
        except Exception as error:
            self.log.warning("could not be closed in order", error=repr(error))

    async def _let_go(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.reader.let_go()
        except Exception as error:
            self.log.warning("could not be let go in order", error=repr(error))

    async def _is_too_much(self) -> bool:
        """Asked now and then: it costs a query."""
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
        """Until it is stored, or it turns out that another process has the source."""
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
                note_outage(self.log, "the store is unavailable; what was read waits for it", error)
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
        """Keys of what the batch makes superfluous in quarantine. Not asked of a source that has nothing there."""
        if not self._kept:
            return []
        may_be = {self._keep(one).arrival.key for raw in batch.recovered for one in self.reader.refusals(raw)}
        return sorted(may_be & self._kept)

    async def _arrivals(self, events: list[Event]) -> tuple[list[Arrival], list[Kept]]:
        """A large batch in slices: others must not wait for all of it. One that cannot be taken in is kept: it must not hold up
        those behind it.
        """
        arrivals: list[Arrival] = []
        misfits: list[Kept] = []
        for begin in range(0, len(events), SLICE):
            if begin:
                await asyncio.sleep(0)
            part = events[begin : begin + SLICE]
            try:
                arrivals += [self._arrive(event) for event in part]
            except Exception:  # of a trigger of somebody else's, or a value that JSON does not have
                for event in part:
                    try:
                        arrivals.append(self._arrive(event))
                    except Exception as error:
                        misfits.append(misfit(self._app, self._event_source, event, error))
        return arrivals, misfits

    async def _well(self, batch: Batch | None) -> None:
        self._came, self._nothing = batch is not None and not batch.empty, batch is None
        self._wait = FIRST_WAIT
        self._well_at = time.monotonic()
        if self._state != "reading":
            await self._say("reading", None, batch)
        if batch is not None:
            self._behind = bool(batch.behind)
        elif self._behind:  # nothing more came: it has caught up
            token = None if self._held is None else self._held.token
            await self._store.do(ReportSource(self._app, self.reader.name, token=token, behind=0))
            self._behind = False

    async def _worry(self) -> None:
        """What the reader is concerned about is an alarm beside the one about a source that cannot be read at all."""
        concern = self.reader.concern
        if concern == self._concern:
            return
        key = concern_alarm(source_alarm(self._app, self.reader.name))
        alarm = None if concern is None else Alarm(self._app, key, concern)
        resolves = key if concern is None else None
        await self._store.do(ReportSource(self._app, self.reader.name, alarm=alarm, resolves=resolves))
        self._concern = concern
        if concern is not None:
            self.log.warning("goes on, but not well", reason=concern)

    async def _failed(self, error: Exception) -> float:
        await self._shut()
        if isinstance(error, SourceTrouble | ConfigError):
            words = str(error)
        else:
            self.log.warning("could not be read", error=repr(error), exc_info=error)
            words = f"{self.reader.kind} {self.reader.name}: {type(error).__name__}: {words_of(error)}"
        rest, self._wait = self._wait, min(self._wait * 2, LONGEST_WAIT)
        await self._say("failing", words)
        held, self._held = self._held, None
        if held is not None:
            await self._store.do(LetSourceGo(self._app, held.name, self._holder, held.token))
        return rest

    async def _say(self, state: SourceState, words: str | None, batch: Batch | None = None) -> None:
        """How it is; an alarm while it is failing."""
        if (state, words) == (self._state, self._said) and state != "reading":
            return
        key = source_alarm(self._app, self.reader.name)
        if state == "failing":
            self.log.error("cannot be read; the rest goes on", reason=words)
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
