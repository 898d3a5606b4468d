"""Pure decisions about changes of a schedule. `schedules.py` stores them, and decides again if another process was first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.stores.timing import OccurrenceRecord, Origin, Span, StoredSchedule, reached
from wakeful.stores.verbs.schedules import ChangeSchedule, ChangeVerb
from wakeful.triggers.due import judge, put_off
from wakeful.triggers.schedule import Schedule, UnreadableRule, as_stored


def make_schedule(
    app: str,
    name: str,
    schedule: Schedule,
    agent: str,
    before: StoredSchedule | None,
    now: Microseconds,
    *,
    data: Any = None,
    origin: Origin,
    owner: str | None,
    operator: str,
    note: str | None,
) -> ChangeSchedule:
    """A new schedule, or one that reuses the name of a removed one."""
    # The occurrences of an earlier schedule of this name never come again, even if the clock was set back.
    after = now if before is None else max(now, before.done_until)
    next_at = schedule.rule.next(after)
    return ChangeSchedule(
        app,
        name,
        "add",
        operator,
        before,
        agent,
        origin,
        "live" if next_at is not None else "done",
        definition_text(schedule),
        after,
        data_text(data),
        owner,
        note,
        next_at,
        None if next_at is None else next_at + schedule.offset(app, name),
    )


def edit_schedule(
    app: str,
    known: StoredSchedule,
    schedule: Schedule,
    now: Microseconds,
    *,
    agent: str,
    data: str | None,
    operator: str,
    note: str | None,
    verb: ChangeVerb,
) -> ChangeSchedule:
    """1. Occurrences due by the old definition are recorded or queued. 2. The new definition begins after them."""
    old = as_stored(known.definition)
    offset = old.offset(app, known.name)
    later = schedule.offset(app, known.name)
    stays = (old.rule, old.fires_all, offset) == (schedule.rule, schedule.fires_all, later)
    if known.state == "live" and verb != "pause" and old.fires_all and stays:
        # Its occurrences stay the same, and each has a run of its own: queued, they would become one.
        records: list[OccurrenceRecord] = []
        current, done_until, next_at = known, known.done_until, known.next_at
    else:
        records, current = record_due(known, old, now, offset)
        done_until = max(now - offset, reached(known.done_until, records, current.queued))
        next_at = schedule.rule.next(done_until)
    queued, waits_for = current.queued, current.waits_for
    return change_request(
        app,
        known,
        verb=verb,
        operator=operator,
        note=note,
        state="done" if next_at is None and queued is None else "paused" if known.state == "paused" else "live",
        definition=definition_text(schedule),
        done_until=done_until,
        next_at=next_at,
        offset=later,
        records=records,
        queued=queued,
        waits_for=waits_for,
        agent=agent,
        data=data,
    )


def change_request(
    app: str,
    known: StoredSchedule,
    *,
    verb: ChangeVerb,
    operator: str,
    note: str | None,
    state: Any,
    definition: str,
    done_until: Microseconds,
    next_at: Microseconds | None,
    offset: Microseconds,
    records: list[OccurrenceRecord],
    queued: Span | None = None,
    waits_for: str | None = None,
    agent: str | None = None,
    data: Any = ...,
) -> ChangeSchedule:
    """A change of an existing schedule; agent and data stay unless given."""
    return ChangeSchedule(
        app,
        known.name,
        verb,
        operator,
        known,
        agent or known.agent,
        known.origin,
        state,
        definition,
        done_until,
        known.data if data is ... else data,
        known.owner,
        note,
        next_at,
        None if next_at is None else next_at + offset,
        records,
        queued,
        waits_for,
    )


def remove_schedule(
    app: str, known: StoredSchedule, now: Microseconds, *, operator: str, note: str | None
) -> ChangeSchedule:
    schedule = as_stored(known.definition)
    records, current = record_due(known, schedule, now, schedule.offset(app, known.name))
    if current.queued is not None:
        records.append(OccurrenceRecord("skipped", current.queued, f"removed by {operator}"))
    return change_request(
        app,
        known,
        verb="remove",
        operator=operator,
        note=note,
        state="removed",
        definition=known.definition,
        done_until=reached(known.done_until, records, None),
        next_at=None,
        offset=0,
        records=records,
    )


def record_due(
    known: StoredSchedule, schedule: Schedule, now: Microseconds, offset: Microseconds
) -> tuple[list[OccurrenceRecord], StoredSchedule]:
    """Records for all due occurrences, for a caller that cannot fire; and the schedule after that."""
    if known.state == "paused":
        return skip_due(known, schedule, now - offset)
    records, current = [], known
    if isinstance(schedule.rule, UnreadableRule):  # only the stored next occurrence is known
        if known.next_at is not None and known.next_at <= now:
            records.append(OccurrenceRecord("missed", Span(known.next_at, known.next_at, 1), schedule.describe()))
        return records, replace(known, next_at=None)
    while known.state == "live" and (verdict := judge(schedule, current, now, offset)) is not None:
        put_off(verdict)
        records += verdict.records
        moved = verdict.next_at != current.next_at
        current = replace(
            current, next_at=verdict.next_at, queued=verdict.queued, waits_for=verdict.waits_for, open_run=None
        )
        if not moved or verdict.next_at is None or verdict.next_at > now - offset:
            break
    return records, current


def skip_due(
    known: StoredSchedule, schedule: Schedule, until: Microseconds
) -> tuple[list[OccurrenceRecord], StoredSchedule]:
    """Records for occurrences due during a pause, and the schedule after that. Occurrences queued before are skipped too, because
    later ones were skipped.
    """
    records: list[OccurrenceRecord] = []
    upcoming = known.next_at
    while upcoming is not None and upcoming <= until:
        last = schedule.rule.previous(until + 1) or upcoming
        count, seen = schedule.rule.count(upcoming, last, 1_000_000)
        records.append(
            OccurrenceRecord("skipped", Span(upcoming, seen, max(1, count)), f"paused by {known.changed_by}")
        )
        upcoming = schedule.rule.next(seen)
    if not records or known.queued is None:
        return records, replace(known, next_at=upcoming)
    waited = OccurrenceRecord(
        "skipped", known.queued, f"paused by {known.changed_by} while the run before it was still in progress"
    )
    return [waited, *records], replace(known, next_at=upcoming, queued=None, waits_for=None)


def definition_text(schedule: Schedule) -> str:
    return to_json(schedule.definition()).decode()


def data_text(data: Any) -> str | None:
    return None if data is None else to_json(data).decode()
