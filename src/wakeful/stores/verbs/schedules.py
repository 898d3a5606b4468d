"""Schedules: due occurrences become events or rows with a reason, in one transaction with the next occurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from wakeful.clock import Microseconds
from wakeful.model import FINAL_RUN_STATES, Receipt, ScheduleState
from wakeful.stores.alarm import Alarm, heartbeat_alarm, missed_alarm, unfired_alarm
from wakeful.stores.request import Actor, Audit, Bulk, ByPerson, Others, Request
from wakeful.stores.timing import DueOccurrence, Fired, OccurrenceRecord, Origin, Span, StoredSchedule, reached
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.with_events import WithEvents

ChangeVerb = Literal["add", "edit", "pause", "resume", "remove", "fire", "move"]


@dataclass(slots=True)
class RecordOccurrences(WithEvents[Fired | None]):
    """Record the due occurrences of a schedule and set the next one, all or nothing.

    `accept` has one arrival for each of the `occurrences`. None if another process was first or the schedule was changed.
    """

    schedule: StoredSchedule
    next_at: Microseconds | None
    due_at: Microseconds | None
    records: list[OccurrenceRecord] = field(default_factory=list)
    occurrences: list[DueOccurrence] = field(default_factory=list)
    accept: AcceptEvents | None = None
    queued: Span | None = None
    waits_for: str | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that this resolves

    @property
    def done(self) -> bool:
        """Whether no occurrence is left."""
        return self.next_at is None and self.queued is None

    @property
    def done_until(self) -> Microseconds:
        """The last occurrence that is recorded or queued with this."""
        return reached(
            self.schedule.done_until, self.records, self.queued, *(one.scheduled_for for one in self.occurrences)
        )

    def alarming(self) -> bool:
        return self.alarm is not None

    def tell(self, result: Fired | None, others: Others) -> None:
        if not self.waits_for:
            WithEvents.tell(self, result, others)
        elif result is not None:
            others.all = True  # another process may own the run that it waits for


@dataclass(slots=True)
class FireSchedule(WithEvents[Fired], ByPerson[Fired]):
    """Fire a schedule by hand, in addition to its occurrences."""

    schedule: StoredSchedule
    scheduled_for: Microseconds
    accept: AcceptEvents

    def audit(self, result: Fired) -> Audit | None:
        del result
        return Audit("schedule fire", self.schedule.app, self.schedule.name, self.note)


@dataclass(slots=True)
class ChangeSchedule(Request[StoredSchedule | None]):
    """Create, change, pause, resume or remove a schedule. `before` is the row as the caller knew it, None if there was none. If it
    differs by now, nothing is changed and the result is None.
    """

    app: str
    name: str
    verb: ChangeVerb
    operator: str
    before: StoredSchedule | None
    agent: str
    origin: Origin
    state: ScheduleState
    definition: str
    done_until: Microseconds
    data: str | None = None
    owner: str | None = None
    note: str | None = None
    next_at: Microseconds | None = None
    due_at: Microseconds | None = None
    records: list[OccurrenceRecord] = field(default_factory=list)
    queued: Span | None = None
    waits_for: str | None = None

    def tell(self, result: StoredSchedule | None, others: Others) -> None:
        """Another process may be the one that fires it next."""
        others.all = others.all or result is not None


@dataclass(slots=True)
class ScheduleByPerson(ByPerson[StoredSchedule | None]):
    """A change of a schedule or a reminder by a person or a token, stored together with its author."""

    change: ChangeSchedule

    carried_with: ClassVar[type[Request[StoredSchedule | None]]] = ChangeSchedule  # locks the same rows

    def audit(self, result: StoredSchedule | None) -> Audit | None:
        change = self.change
        noun = "reminder" if change.origin == "reminder" else "schedule"
        return None if result is None else Audit(f"{noun} {change.verb}", change.app, change.name, self.note)


def asked_by(by: Actor, change: ChangeSchedule, bulk: Bulk | None = None) -> ChangeSchedule | ScheduleByPerson:
    """The request for a change, with its author if that is a person. For code, files and runs, the change itself names the author."""
    person = by.way in {"cli", "http"}
    return ScheduleByPerson(change, by=by, note=change.note, bulk=bulk) if person else change


COALESCED = "into the one after it"
# Indexes in a row of `{schedule}`: the queued occurrences, and the state of its last run.
QUEUED, RUN_STATE = 12, 24


def record_occurrences(now: int | None, requests: Sequence[RecordOccurrences]) -> Transaction[list[Fired | None]]:
    """1. Advance each schedule, if it is where the caller knew it. 2. Accept the events of those. 3. Record the occurrences. In order of
    schedule, so that two processes cannot deadlock.
    """
    first = {
        one.schedule.seq: one for one in reversed(requests)
    }  # of several requests for one schedule, only the first can win
    ordered = sorted(first.values(), key=lambda one: one.schedule.seq)
    rows = []
    for one in ordered:
        queued, known = one.queued, one.schedule
        rows.append(
            (
                known.seq,
                known.revision,
                known.next_at,
                None if known.queued is None else known.queued.last,
                one.next_at,
                one.due_at,
                "done" if one.done else "live",
                *_columns(queued),
                one.done_until,
                one.waits_for,
            )
        )
    won = {row[0] for row in (yield "advance_schedule", rows)}
    winners = [one for one in ordered if one.schedule.seq in won]
    fired = yield from _let_in(now, winners)
    yield from _write_down(now, winners, fired)
    over = sorted({one.resolves for one in winners if one.resolves is not None})
    if over:
        yield from resolve_alarms(now, over)
    alarms = [one.alarm for one in winners if one.alarm is not None]
    if alarms:
        yield from open_alarms(now, alarms)
    winning = {id(one) for one in winners}
    return [Fired(fired.get(id(one), [])) if id(one) in winning else None for one in requests]


def _let_in(now: int | None, winners: Sequence[RecordOccurrences]) -> Transaction[dict[int, list[Receipt]]]:
    accepting = [(one, one.accept) for one in winners if one.accept is not None]
    if not accepting:
        return {}
    answers = yield from accept_events(now, [accept for _, accept in accepting])
    fired: dict[int, list[Receipt]] = {}
    for (one, _), answer in zip(accepting, answers, strict=True):
        if isinstance(answer, Exception):
            raise answer
        fired[id(one)] = answer
    return fired


def _write_down(
    now: int | None, winners: Sequence[RecordOccurrences], fired: dict[int, list[Receipt]]
) -> Transaction[None]:
    written: dict[int, list[OccurrenceRecord]] = {}
    noted = []
    for one in winners:
        seq = one.schedule.seq
        mine = written.setdefault(seq, [])
        mine += one.records
        for number, due in enumerate(one.occurrences):
            receipt = fired[id(one)][number]
            run = receipt.runs[0] if receipt.runs else None
            if run is None:
                arrival = one.accept.arrivals[number] if one.accept is not None else None
                reason = yield from _why_not(arrival.key if arrival is not None else "")
                mine.append(OccurrenceRecord("skipped", due.span, reason))
                continue
            if due.coalesced is not None:
                mine.append(OccurrenceRecord("coalesced", due.coalesced, COALESCED, run))
            mine.append(OccurrenceRecord("fired", Span(due.scheduled_for, due.scheduled_for, 1), "", run))
            noted.append((now, seq, due.scheduled_for, run))
        mine.sort(key=lambda one: one.span.first)
    yield from insert_occurrences(now, {one.schedule.seq: one.schedule for one in winners}, written)
    if noted:
        yield "note_fired", noted


def insert_occurrences(
    now: int | None, known: dict[int, StoredSchedule], written: dict[int, list[OccurrenceRecord]]
) -> Transaction[None]:
    """Equal neighbours share a row, also with the last stored one, if no queued occurrence lies between them."""
    rows: list[Row] = []
    longer: list[Row] = []
    apart = [seq for seq, mine in written.items() if mine and mine[0].state != "fired"]
    last = {}
    if apart:
        last = {row[0]: row[1:] for row in (yield "last_occurrence", [(seq,) for seq in sorted(apart)])}
    for seq, mine in sorted(written.items()):
        revision, done_until = known[seq].revision, known[seq].done_until
        for number, one in enumerate(mine):
            before = last.get(seq) if number == 0 else None
            if before is not None and before[1:6] == (one.state, one.reason, revision, one.run, done_until):
                longer.append((now, before[0], one.span.last, one.span.count))
            else:
                span = one.span
                rows.append(
                    (now, seq, one.state, one.reason or None, span.first, span.last, span.count, revision, one.run)
                )
    if longer:
        yield "extend_occurrence", longer
    if rows:
        yield "insert_occurrence", rows


def _why_not(key: str) -> Transaction[str]:
    """Why an accepted event led to no run."""
    became = yield "became_of_event", [(key,)]
    if not became:
        return "no agent took it"
    _, state, reason = became[0]
    return f"{state}: {reason}" if reason else str(state)


def fire_schedules(now: int | None, requests: Sequence[FireSchedule]) -> Transaction[list[Fired]]:
    """By hand: recorded as an occurrence of its own, in addition to those of the rule."""
    results = []
    for one in requests:
        answers = yield from accept_events(now, [one.accept])
        receipts = answers[0]
        if isinstance(receipts, Exception):
            raise receipts
        run = receipts[0].runs[0] if receipts[0].runs else None
        span = Span(one.scheduled_for, one.scheduled_for, 1)
        words = f"by hand, by {one.by.name}"
        if run is None:
            reason = yield from _why_not(one.accept.arrivals[0].key)
            became = OccurrenceRecord("skipped", span, f"{words}; {reason}")
        else:
            became = OccurrenceRecord("fired", span, words, run)
        seq = one.schedule.seq
        yield from insert_occurrences(now, {seq: one.schedule}, {seq: [became]})
        yield "insert_schedule_change", [(now, seq, "fire", one.by.name, one.note, None)]
        results.append(Fired(receipts))
    return results


def change_schedules(
    now: int | None, requests: Sequence[ChangeSchedule | ScheduleByPerson]
) -> Transaction[list[StoredSchedule | None]]:
    """One after the other; each only if the schedule is as the caller knew it."""
    changes = [one.change if isinstance(one, ScheduleByPerson) else one for one in requests]
    results: dict[int, StoredSchedule | None] = {}
    for number in sorted(range(len(changes)), key=lambda one: (changes[one].app, changes[one].name)):
        results[number] = yield from _change(now, changes[number])
    return [results[number] for number in range(len(changes))]


def _change(now: int | None, request: ChangeSchedule) -> Transaction[StoredSchedule | None]:
    before = request.before
    found = yield "lock_schedule", [(request.app, request.name)]
    if before is None:
        if found:
            return None
        row = (
            now,
            request.app,
            request.name,
            request.agent,
            request.origin,
            request.state,
            request.definition,
            request.data,
            request.owner,
            request.next_at,
            request.due_at,
            request.done_until,
            request.operator,
        )
        made = yield "insert_schedule", [row]
        if not made:
            return None
        seq = made[0][0]
    else:
        last = None if before.queued is None else before.queued.last
        if not found or tuple(found[0][1:]) != (before.revision, before.next_at, last, before.state):
            return None
        seq = found[0][0]
        again = int(before.state in {"done", "removed"} and request.state == "live")
        yield (
            "change_schedule",
            [
                (
                    now,
                    seq,
                    request.agent,
                    request.origin,
                    request.state,
                    request.definition,
                    request.data,
                    request.owner,
                    request.next_at,
                    request.due_at,
                    *_columns(request.queued),
                    request.done_until,
                    request.waits_for,
                    request.operator,
                    again,
                )
            ],
        )
        yield from insert_occurrences(now, {seq: before}, {seq: request.records})
        if over := _over(request):
            yield from resolve_alarms(now, over)
    yield "insert_schedule_change", [(now, seq, request.verb, request.operator, request.note, request.definition)]
    return schedule_of((yield "find_schedule", [(now, request.app, request.name)])[0])


def _over(request: ChangeSchedule) -> list[str]:
    """Alarms that nothing else would resolve. A person's pause also resolves the alarm about missed occurrences."""
    place = (request.app, request.name)
    if request.state == "removed":
        return [missed_alarm(*place), unfired_alarm(*place), heartbeat_alarm(*place)]
    if request.state == "paused":
        return [missed_alarm(*place)]
    return [unfired_alarm(*place)] if request.verb == "edit" else []


def _columns(span: Span | None) -> tuple[int | None, int | None, int, int | None]:
    return (None, None, 0, None) if span is None else (span.first, span.last, span.count, span.before)


def schedule_of(row: Row) -> StoredSchedule:
    """A schedule from a row of `{schedule}`: the columns are in its own order, except for the four of the queued occurrences."""
    queued = None if row[QUEUED] is None else Span(*row[QUEUED : QUEUED + 4])
    columns = [*row[:QUEUED], queued, *row[QUEUED + 4 : RUN_STATE]]
    stored = StoredSchedule(*columns)
    state = row[RUN_STATE]
    return stored if state is None or state in FINAL_RUN_STATES else replace(stored, open_run=stored.last_run)


async def due_schedules(
    database: Fetcher, app: str, after: tuple[Microseconds, int] | None, most: int
) -> tuple[Microseconds | None, list[StoredSchedule]]:
    """The store's time, and the schedules of an app that are due, a page of those after a place. The time is None if none is due."""
    due, seq = after or (-1, -1)
    rows = await database.fetch("due_schedules", database.read_clock(), app, due, seq, most)
    return (rows[0][-1] if rows else None), [schedule_of(row) for row in rows]


async def queued_schedules(database: Fetcher, app: str) -> list[StoredSchedule]:
    """The schedules of an app with an occurrence that waits for the run of an earlier one."""
    rows = await database.fetch("queued_schedules", database.read_clock(), app)
    return [schedule_of(row) for row in rows]


async def next_schedule(database: Fetcher, app: str) -> tuple[Microseconds, Microseconds | None]:
    """The store's time, and when the next schedule of an app is due."""
    rows = await database.fetch("next_schedule", database.read_clock(), app)
    return rows[0][0], rows[0][1]


async def find_schedule(database: Fetcher, app: str, name: str) -> StoredSchedule | None:
    """The schedule of this name."""
    rows = await database.fetch("find_schedule", database.read_clock(), app, name)
    return schedule_of(rows[0]) if rows else None


async def schedules_of(database: Fetcher, app: str) -> list[StoredSchedule]:
    """The schedules of an app."""
    rows = await database.fetch("schedules_of_app", database.read_clock(), app)
    return [schedule_of(row) for row in rows]
