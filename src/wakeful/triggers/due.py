"""What happens to due occurrences: a pure decision from the rule, the row, the time, and whether the last run has ended.

    next_at ── … ── latest due ──┬── within grace ──┬── last run ended   ──► the latest fires, earlier ones coalesce into it
                                 │                  └── still in progress ──► they queue, or are skipped
                                 └── too late       ──────────────────────► missed, and an alarm is raised

`queued` occurrences came in time and wait for a run to end. Then they fire as one, together with others that are due by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wakeful.clock import Microseconds, readable, to_text
from wakeful.stores.timing import DueOccurrence, OccurrenceRecord, Span, StoredSchedule
from wakeful.triggers.schedule import Rule, Schedule

# At most this many occurrences are counted at a time, so that a schedule that was off for a year does not delay the others.
MOST_OCCURRENCES = 20_000
NO_WORKER_IN_TIME = "no worker was running to fire it in time"


@dataclass(slots=True)
class Decided:
    """The decision about a schedule, to be stored."""

    next_at: Microseconds | None
    records: list[OccurrenceRecord] = field(default_factory=list)
    occurrences: list[DueOccurrence] = field(default_factory=list)
    queued: Span | None = None
    waits_for: str | None = None
    missed: Span | None = None

    @property
    def on_time(self) -> bool:
        return bool(self.occurrences) and self.missed is None


def judge(schedule: Schedule, stored: StoredSchedule, now: Microseconds, offset: Microseconds) -> Decided | None:
    """The decision about the occurrences that are due now; None if nothing changes."""
    rule, timing = schedule.rule, schedule.timing
    until = now - offset
    verdict = Decided(stored.next_at, queued=stored.queued, waits_for=stored.waits_for)
    # Time zone rules change: a stored occurrence may no longer be one.
    first = None if stored.next_at is None else rule.next(stored.next_at - 1)
    verdict.next_at = first
    due: Span | None = None
    last_of_all = until
    # While others already wait for a run, new occurrences wait with them, late or not: they need no run of their own.
    joins = stored.queued is not None and stored.open_run is not None
    if first is not None and first <= until:
        last_of_all = rule.previous(until + 1) or first
        if timing.catch_up == "all":
            _go(schedule, stored, verdict, None)  # queued occurrences are older
            _all_of_them(schedule, verdict, first, last_of_all, until)
            return verdict
        if timing.catch_up == "none" and not joins:
            boundary = until - schedule.grace_at(last_of_all)
            first = _missed_before(rule, verdict, first, boundary)
            if first is None or first > until or first < boundary:
                verdict.next_at = first
                return _go(schedule, stored, verdict, None)
        count, last = rule.count(first, last_of_all, MOST_OCCURRENCES)
        due = Span(first, last, max(1, count))
        verdict.next_at = rule.next(last)
    if due is not None and until - last_of_all > schedule.grace_at(last_of_all) and not joins:
        _miss(verdict, due)
        due = None
    elif due is not None and due.last < last_of_all:
        # More occurrences follow: these join the latest one, which is found when the rest has been counted.
        due = _to_keep(rule, due)
        verdict.queued = due if verdict.queued is None else verdict.queued.and_then(due)
        verdict.waits_for = stored.waits_for or ""
        return verdict
    if due is None and verdict.queued is None and not verdict.records and verdict.next_at == stored.next_at:
        return None
    return _go(schedule, stored, verdict, due)


def _go(schedule: Schedule, stored: StoredSchedule, verdict: Decided, due: Span | None) -> Decided:
    """Fire, queue or skip the occurrences that came in time."""
    rule, overlap = schedule.rule, schedule.timing.overlap
    queued = verdict.queued
    pending = due if queued is None else queued.and_then(due)
    if pending is None:
        return verdict
    if stored.open_run is not None and overlap == "queue_one":
        verdict.queued, verdict.waits_for = _to_keep(rule, pending), stored.open_run
    elif stored.open_run is not None and overlap == "skip":
        verdict.records.append(
            OccurrenceRecord("skipped", pending, f'overlap="skip": run {stored.open_run} was not over')
        )
        verdict.queued = verdict.waits_for = None
    else:
        verdict.occurrences.append(coalesce(rule, pending))
        verdict.queued = verdict.waits_for = None
    return verdict


def coalesce(rule: Rule, pending: Span) -> DueOccurrence:
    """The last of these occurrences, with the others coalesced into it."""
    if pending.count == 1:
        return DueOccurrence(pending.last)
    return DueOccurrence(
        pending.last, Span(pending.first, _to_keep(rule, pending).before or pending.first, pending.count - 1)
    )


def _to_keep(rule: Rule, span: Span) -> Span:
    """The span with its last but one occurrence filled in: when it fires, the rule may have changed."""
    if span.count == 1 or span.before is not None:
        return span
    before = rule.previous(span.last)
    return replace(span, before=span.first if before is None or before < span.first else before)


def _miss(verdict: Decided, span: Span) -> None:
    verdict.records.append(OccurrenceRecord("missed", span, NO_WORKER_IN_TIME))
    verdict.missed = span if verdict.missed is None else verdict.missed.and_then(span)


def _missed_before(rule: Rule, verdict: Decided, first: Microseconds, boundary: Microseconds) -> Microseconds | None:
    """Mark occurrences before the boundary as missed, up to MOST_OCCURRENCES; returns the next occurrence after them."""
    last = rule.previous(boundary)
    if last is None or last < first:
        return first
    count, seen = rule.count(first, last, MOST_OCCURRENCES)
    _miss(verdict, Span(first, seen, max(1, count)))
    return rule.next(seen)


def _all_of_them(
    schedule: Schedule, verdict: Decided, first: Microseconds, last: Microseconds, until: Microseconds
) -> None:
    """Fire each occurrence, except those that are too old or too many."""
    rule, timing = schedule.rule, schedule.timing
    chosen: list[Microseconds] = []
    occurrence: Microseconds | None = last
    while occurrence is not None and occurrence >= first and len(chosen) < timing.max_count:
        if until - occurrence > timing.max_age:
            break
        chosen.append(occurrence)
        occurrence = rule.previous(occurrence)
    chosen.reverse()
    boundary = chosen[0] if chosen else last + 1
    if first < boundary:
        before = rule.previous(boundary) or first
        count, seen = rule.count(first, before, MOST_OCCURRENCES)
        _miss(verdict, Span(first, seen, max(1, count)))
        if seen < before:
            verdict.next_at = rule.next(seen)
            return
    verdict.occurrences += [DueOccurrence(one) for one in chosen]
    verdict.next_at = rule.next(last)


def put_off(verdict: Decided) -> None:
    """Queue what would fire, for a caller that cannot fire: it lacks the agents' code, or is about to change the rule."""
    for one in verdict.occurrences:
        verdict.queued = one.span if verdict.queued is None else verdict.queued.and_then(one.span)
    if verdict.occurrences:
        verdict.waits_for = ""
    verdict.occurrences = []


def covered(rule: Rule, one: DueOccurrence, last_fired: Microseconds | None) -> Microseconds:
    """Start of the interval that an occurrence covers: the occurrence before the first one that was coalesced into it, but not
    earlier than the end of the last one fired, in case the rule was different then.
    """
    first = one.scheduled_for if one.coalesced is None else one.coalesced.first
    before = rule.previous(first)
    if last_fired is not None and last_fired < first:
        before = last_fired if before is None else max(before, last_fired)
    return first if before is None else before


def missed_text(name: str, span: Span, *, now: Microseconds) -> str:
    """The text of the alarm about missed occurrences."""
    if span.count == 1:
        what = f"its occurrence of {to_text(span.first)}"
    else:
        what = f"{span.count:,} occurrences, from {to_text(span.first)} to {to_text(span.last)}"
    return (
        f"schedule {name} missed {what}: no worker was running to fire in time (the last was due {readable(now - span.last)} ago). "
        f"See `wakeful schedules show {name}`; run them with `wakeful backfill`"
    )
