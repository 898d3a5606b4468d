"""Views of schedules and of the results of their occurrences, made from rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic_core import from_json
from typing_extensions import TypedDict

from wakeful.clock import Microseconds, seconds, to_text
from wakeful.model import EventState, RunState, ScheduleState
from wakeful.resources.alarms import Alarm
from wakeful.resources.desk import Row
from wakeful.resources.fields import About, Count, InPlace, Moment, MomentOrNone
from wakeful.stores.timing import Origin, Span, StoredSchedule
from wakeful.triggers.cadence import Cadence, FiredOccurrence, cadence_of
from wakeful.triggers.occurrences import is_span, moment_summary, zone_of
from wakeful.triggers.schedule import TIMING_FIELDS, CatchUp, Rule, ScheduleOverlap, as_stored
from wakeful.triggers.schedule import Schedule as Declared

OCCURRENCES_LOOKED_AT = 20

Became = Literal["fired", "missed", "coalesced", "skipped", "superseded"]
SecondsOf = Annotated[float | None, About("Seconds")]


class Occurrence(TypedDict):
    """An occurrence, with its local time."""

    at: Moment
    local: Annotated[str, About("Local time in the zone")]
    zone: str


class ComingOccurrence(Occurrence):
    """A future occurrence."""

    due_at: Moment


class LastOccurrence(Occurrence):
    """The last occurrence that fired, with the state of its run."""

    fired_at: Moment
    run: str | None
    state: RunState | None


OccurrenceSpan = TypedDict(
    "OccurrenceSpan",
    {
        "from": Annotated[Moment, About("The first occurrence")],
        "to": Annotated[Moment, About("The last occurrence")],
        "count": Count,
    },
)


class QueuedOccurrences(OccurrenceSpan):
    """Occurrences that are queued behind a run."""

    waits_for: str | None


class LedgerRow(OccurrenceSpan):
    """Consecutive occurrences with the same result."""

    state: Became
    reason: str | None
    revision: Annotated[Count, About("Revision of the schedule's definition")]
    run: Annotated[str | None, About("The run that was started, or that they were coalesced into")]
    run_state: Annotated[RunState | None, About("null: there is no run, or it was removed")]
    settled_at: Moment
    redone: Annotated[Count, About("How many of them a backfill ran later")]


class ScheduleOptions(TypedDict):
    """How the occurrences of a schedule are handled; durations in seconds."""

    overlap: ScheduleOverlap | None
    catch_up: CatchUp
    grace: SecondsOf
    max_age: SecondsOf
    max_count: int | None
    jitter: SecondsOf
    expires: SecondsOf
    starts_within: SecondsOf
    ends_within: SecondsOf


class ScheduleCadence(TypedDict):
    """How punctual a schedule is."""

    firings: Annotated[Count, About("Number of recent occurrences these figures cover")]
    late: Annotated[float | None, About("Seconds that the last occurrence was late")]
    typically_late: Annotated[float | None, About("Median lateness in seconds")]
    configured: Annotated[float | None, About("Configured seconds between these occurrences")]
    real: Annotated[float | None, About("Actual seconds between these occurrences")]
    drift: Annotated[float | None, About("0.4: the actual interval is 40 % longer")]


class ScheduleCounts(TypedDict):
    """Recent occurrences, counted by result."""

    since: MomentOrNone
    fired: Count
    missed: Count
    coalesced: Count
    skipped: Count
    superseded: Count


class Schedule(TypedDict):
    """A schedule: when an agent is woken."""

    app: str
    name: str
    agent: str
    origin: Origin
    state: ScheduleState
    revision: int
    rule: Annotated[str, About("The rule as written in code, with its zone")]
    zone: str
    options: Annotated[
        Annotated[ScheduleOptions, InPlace()], About("overlap, catch_up and the rest; durations in seconds")
    ]
    owner: str | None
    next: Annotated[Occurrence, InPlace()] | None
    due_at: Annotated[MomentOrNone, About("When the next occurrence fires, jitter included")]
    last: Annotated[LastOccurrence, InPlace()] | None
    queued: Annotated[Annotated[QueuedOccurrences, InPlace()] | None, About("Occurrences that are queued behind a run")]
    latest: Annotated[Annotated[LedgerRow, InPlace()] | None, About("The last row of the ledger")]
    cadence: Annotated[ScheduleCadence, InPlace()]
    counts: Annotated[
        Annotated[ScheduleCounts, InPlace()], About("Recent occurrences, counted by result, and since when")
    ]
    created_at: Moment
    changed_at: Moment
    changed_by: str


class ScheduleChange(TypedDict):
    """A change of a schedule: who made it, and the rule from then on."""

    revision: int
    verb: str
    operator: str
    note: str | None
    rule: str | None
    changed_at: Moment


class ScheduleDetail(Schedule):
    """A schedule with the results of its occurrences, its changes and its alarms."""

    data: Annotated[Any, About("Data of its events")]
    occurrences: Annotated[list[Annotated[LedgerRow, InPlace()]], About("Latest first")]
    changes: Annotated[list[Annotated[ScheduleChange, InPlace()]], About("Latest first")]
    alarms: list[Annotated[Alarm, InPlace()]]


class Occurrences(TypedDict):
    """The next occurrences of a schedule, computed from its rule."""

    app: str
    name: str
    state: ScheduleState
    rule: str
    zone: str
    next: list[Annotated[ComingOccurrence, InPlace()]]


class FiredSchedule(TypedDict):
    """The event and runs of a schedule that was fired by hand."""

    app: str
    name: str
    event: Annotated[str, About("The id of its event")]
    status: EventState
    runs: list[str]


# from rows


def schedule_view(stored: StoredSchedule, run_state: str | None, ledger: Sequence[Row]) -> Any:
    """A schedule as listings show it. `ledger` has the rows of its recent occurrences, latest first."""
    schedule = as_stored(stored.definition)
    zone = zone_of(schedule)
    return {
        "app": stored.app,
        "name": stored.name,
        "agent": stored.agent,
        "origin": stored.origin,
        "state": stored.state,
        "revision": stored.revision,
        "rule": schedule.rule.describe(),
        "zone": zone,
        "options": options_view(schedule),
        "owner": stored.owner,
        "next": None if stored.next_at is None else moment_summary(stored.next_at, zone),
        "due_at": to_text(stored.due_at),
        "last": last_view(stored, run_state, zone),
        "queued": None if stored.queued is None else {**span_view(stored.queued), "waits_for": stored.waits_for},
        "latest": ledger_row(ledger[0]) if ledger else None,
        "cadence": cadence_view(cadence_of_ledger(schedule, stored, ledger)),
        "counts": counts_of(ledger),
        "created_at": to_text(stored.created_at),
        "changed_at": to_text(stored.changed_at),
        "changed_by": stored.changed_by,
    }


def options_view(schedule: Declared) -> dict[str, Any]:
    timing = schedule.timing
    shown = {name: getattr(timing, name) for name in TIMING_FIELDS}
    if timing.catch_up != "all":
        shown |= {"max_age": None, "max_count": None}
    return {name: seconds(value) if is_span(name, value) else value for name, value in shown.items()}


def last_view(stored: StoredSchedule, run_state: str | None, zone: str) -> dict[str, Any] | None:
    """The last occurrence that fired; its run's state is None once the run was removed."""
    if stored.last_at is None or stored.fired_at is None:
        return None
    moment = moment_summary(stored.last_at, zone)
    return {**moment, "fired_at": to_text(stored.fired_at), "run": stored.last_run, "state": run_state}


def cadence_of_ledger(schedule: Declared, stored: StoredSchedule, ledger: Sequence[Row]) -> Cadence:
    """The cadence of occurrences that fired under the current definition. Firings by hand are left out: they have a reason."""
    fired = [
        FiredOccurrence(to_at, recorded_at)
        for _, state, reason, _, to_at, _, revision, _, recorded_at, *_ in ledger
        if state in {"fired", "superseded"}
        and (reason is None or state == "superseded")
        and revision == stored.revision
    ]
    fired = fired[:OCCURRENCES_LOOKED_AT]
    return cadence_of(schedule.rule, schedule.offset(stored.app, stored.name), fired[::-1])


def cadence_view(cadence: Cadence) -> dict[str, Any]:
    return {
        "firings": cadence.occurrences,
        "late": in_seconds(cadence.late),
        "typically_late": in_seconds(cadence.typically_late),
        "configured": in_seconds(cadence.configured),
        "real": in_seconds(cadence.real),
        "drift": None if cadence.drift is None else round(cadence.drift, 3),
    }


def in_seconds(span: Microseconds | None) -> float | None:
    return None if span is None else seconds(span)


def counts_of(ledger: Sequence[Row]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for row in ledger:
        counts[row[1]] += row[5]
    states = ("fired", "missed", "coalesced", "skipped", "superseded")
    return {"since": to_text(ledger[-1][3]) if ledger else None, **{state: counts[state] for state in states}}


def ledger_row(row: Row) -> Any:
    """A row of `ledger_of_schedule`."""
    _, state, reason, from_at, to_at, count, revision, run, records, redone, run_state = row
    return {
        "state": state,
        "reason": reason,
        **span_view(Span(from_at, to_at, count)),
        "revision": revision,
        "run": run,
        "run_state": run_state,
        "settled_at": to_text(records),
        "redone": redone,
    }


def span_view(span: Span) -> dict[str, Any]:
    return {"from": to_text(span.first), "to": to_text(span.last), "count": span.count}


def change_view(row: Row) -> Any:
    """A row of `changes_of_schedule`."""
    revision, verb, operator, note, definition, changed = row
    rule = None if definition is None else as_stored(definition).rule.describe()
    return {
        "revision": revision,
        "verb": verb,
        "operator": operator,
        "note": note,
        "rule": rule,
        "changed_at": to_text(changed),
    }


def data_of(stored: StoredSchedule) -> Any:
    return None if stored.data is None else from_json(stored.data)


# next occurrences


def occurrences_view(stored: StoredSchedule, count: int, *, now: Microseconds) -> Any:
    """The next occurrences, computed from the rule. A schedule that is done or removed has none."""
    schedule = as_stored(stored.definition)
    offset, zone = schedule.offset(stored.app, stored.name), zone_of(schedule)
    found = [
        {**moment_summary(one, zone), "due_at": to_text(one + offset)}
        for one in upcoming(schedule.rule, stored, count, now=now)
    ]
    return {
        "app": stored.app,
        "name": stored.name,
        "state": stored.state,
        "rule": schedule.rule.describe(),
        "zone": zone,
        "next": found,
    }


def upcoming(rule: Rule, stored: StoredSchedule, most: int, *, now: Microseconds) -> list[Microseconds]:
    """Occurrences from the stored next one on, which may be due already; of a paused schedule, from now on."""
    if stored.state not in {"live", "paused"}:
        return []
    begin = now if stored.state == "paused" or stored.next_at is None else stored.next_at - 1
    return list(after(rule, begin, most))


def after(rule: Rule, moment: Microseconds, most: int) -> Iterator[Microseconds]:
    occurrence = rule.next(moment)
    while occurrence is not None and most > 0:
        yield occurrence
        most -= 1
        occurrence = rule.next(occurrence)
