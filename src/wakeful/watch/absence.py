"""What should have happened but did not: facts in, verdict out. Nothing is read or written here; the time is an
argument.

    not-fired    nothing began it: no process was running, it was missed, or no event came
    skipped      policy denied it
    parked       it waits for a dependency, for a person, or until it is resumed
    failed       it was given up
    too-long     it began and is not over
    no-output    it is done, but without output
    not-read     no process reads a source any more

A verdict is met, pending (until a time that it names), absent (one of these), or excused (a person decided so).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from wakeful.clock import SECOND, Microseconds, readable, to_text
from wakeful.model import FINAL_RUN_STATES, AdmissionState, OccurrenceState, RunState, ScheduleState, SourceState
from wakeful.triggers.schedule import Rule, Schedule

Kind = Literal["not-fired", "skipped", "parked", "failed", "too-long", "no-output", "not-read"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WORDS: dict[Kind, str] = {
    "not-fired": "not fired",
    "skipped": "skipped by policy",
    "parked": "parked",
    "failed": "failed",
    "too-long": "running too long",
    "no-output": "done without output",
    "not-read": "not read",
}

SHORTEST_START: Microseconds = 60 * SECOND
LATE_START: Microseconds = 3600 * SECOND
SHORTEST_RUN: Microseconds = 600 * SECOND
LONGEST_RUN: Microseconds = 86400 * SECOND
# The reader of a source reports every half minute; the sources of a dead one are taken over within a second of its
# lease.
SILENT_SOURCE: Microseconds = 180 * SECOND
TAKEN_OVER_WITHIN: Microseconds = 30 * SECOND
# How many past deadlines are checked, to know which deadline a late arrival belongs to.
DEADLINES_BACK = 8


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run that an expectation needs."""

    id: str
    agent: str
    state: RunState
    created_at: Microseconds
    started_at: Microseconds | None = None
    finished_at: Microseconds | None = None
    due_at: Microseconds | None = None
    reason: str | None = None
    parked_for: str | None = None
    paused_by: str | None = None  # who paused its agent, or the whole app
    halted_by: str | None = None  # who halted its agent, or the whole app
    workers: int = 1  # living processes that have its agent
    has_output: bool = True


@dataclass(frozen=True, slots=True)
class Admitted:
    """The result of one event for an agent. `run` is None if it started no run."""

    at: Microseconds
    state: AdmissionState
    reason: str | None = None
    run: RunFacts | None = None


@dataclass(frozen=True, slots=True)
class OccurrenceFacts:
    """The state of a schedule's last occurrence."""

    state: OccurrenceState
    at: Microseconds
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WatchedSchedule:
    """A schedule, its last occurrences, and the last run that it started."""

    name: str
    agent: str
    schedule: Schedule
    state: ScheduleState
    next_at: Microseconds | None
    due_at: Microseconds | None
    queued_from: Microseconds | None = None  # a due occurrence that waits
    last: OccurrenceFacts | None = None
    last_at: Microseconds | None = None  # the occurrence of the run
    run: RunFacts | None = None
    changed_by: str = ""
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict. `due_at`: when it would be overdue. `told`: another part of Wakeful raises the alarm about this. `cause`: the facts of an
    absence; while they stay the same, it is the same absence, independent of its words.
    """

    state: Literal["met", "pending", "absent", "excused"]
    reason: str
    kind: Kind | None = None
    met_at: Microseconds | None = None
    due_at: Microseconds | None = None
    told: bool = False
    cause: tuple[object, ...] = ()


def absent(kind: Kind, reason: str, *cause: object) -> Judged:
    return Judged("absent", reason, kind, cause=cause)


def pending(reason: str, due_at: Microseconds | None) -> Judged:
    return Judged("pending", reason, due_at=due_at)


# runs


def judge_run(
    run: RunFacts, now: Microseconds, *, starts_by: Microseconds, ends_by: Microseconds, output: bool = False
) -> Judged:
    """Judge one run that should start and end in time and, with `output`, bring an output."""
    name = f"run {run.id}"
    match run.state:
        case "done" if output and not run.has_output:
            return absent("no-output", f"{name} of agent {run.agent} is done, but returned nothing", run.id)
        case "done":
            return Judged("met", f"{name} is done", met_at=run.finished_at)
        case "dead":
            reason = f"{name} of agent {run.agent} failed{_because(run.reason)}: `wakeful why {run.id}`"
            return absent("failed", reason, run.id, run.finished_at)
        case "denied":
            return absent("skipped", f"policy denied {name} of agent {run.agent}{_because(run.reason)}", run.id)
        case "cancelled":
            return Judged("excused", f"{name} was cancelled{_because(run.reason)}")
    limit = starts_by if run.started_at is None else ends_by
    if now < limit:
        return pending(f"{name} is {run.state}", limit)
    return absent(*_held_up(run))


def _held_up(run: RunFacts) -> tuple[Kind, str, str, object]:
    """Why a run is not as far as it should be: the kind, the words, and the facts."""
    name = f"run {run.id} of agent {run.agent}"
    if run.state == "parked":
        return "parked", f"{name} is parked: {_dependency(run)}", run.id, run.parked_for
    if run.state == "held":
        return "parked", f"{name} is held for a person{_because(run.reason)}: `wakeful why {run.id}`", run.id, "held"
    if run.halted_by is not None and run.state == "ready":
        reason = f"{name} waits because {run.halted_by} halted it: `wakeful halts` shows what is halted"
        return "parked", reason, run.id, f"halted by {run.halted_by}"
    if run.paused_by is not None and run.state == "ready":
        reason = f"{name} waits because {run.paused_by} paused it: `wakeful resume {run.agent}`"
        return "parked", reason, run.id, f"paused by {run.paused_by}"
    if run.started_at is None:
        why = "no living process has its agent" if run.workers == 0 else "it is not its turn yet"
        reason = f"{name} was created at {to_text(run.created_at)} and has not started: {why}"
        return "not-fired", reason, run.id, run.workers == 0
    began = f"{name} started at {to_text(run.started_at)} and is not over"
    match run.state:
        case "waiting":
            return "too-long", f"{began}: it waits{_because(run.reason)}", run.id, None
        case "ready" if run.workers == 0:
            return "too-long", f"{began}: no living process has its agent", run.id, None
        case "ready":
            return "too-long", f"{began}: it is to be retried{_because(run.reason)}", run.id, None
        case _:
            return "too-long", began, run.id, None


def _dependency(run: RunFacts) -> str:
    if run.parked_for is not None:
        return f"it waits for {run.parked_for}, whose circuit is not closed: `wakeful circuits`"
    return run.reason or "no reason was recorded"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


# schedules


def starts_within(schedule: Schedule, occurrence: Microseconds) -> Microseconds:
    """How late a schedule's run may start before an alarm: as declared, else its declared grace, else an hour; but at
    most until the next occurrence. A default grace may be longer: the late run is still worth doing, and the alarm is
    raised all the same.
    """
    if schedule.timing.starts_within is not None:
        return schedule.timing.starts_within
    grace = LATE_START if schedule.timing.grace is None else schedule.timing.grace
    return max(SHORTEST_START, min(grace, _period(schedule.rule, occurrence)))


def ends_within(schedule: Schedule, occurrence: Microseconds) -> Microseconds:
    """How long a schedule's run may take: as declared, else until the next occurrence; at least ten minutes, at most a
    day.
    """
    if schedule.timing.ends_within is not None:
        return schedule.timing.ends_within
    return min(LONGEST_RUN, max(SHORTEST_RUN, _period(schedule.rule, occurrence)))


def _period(rule: Rule, occurrence: Microseconds) -> Microseconds:
    following = rule.next(occurrence)
    return LONGEST_RUN if following is None else following - occurrence


def judge_schedule(facts: WatchedSchedule, now: Microseconds) -> Judged:
    """Check: 1. an occurrence that is due but not fired, 2. the result of the last occurrence, 3. its run."""
    schedule = facts.schedule
    overdue_at = None
    if facts.state == "live" and facts.next_at is not None and facts.due_at is not None:
        overdue_at = facts.due_at + starts_within(schedule, facts.next_at)
    if facts.state in {"paused", "removed"}:
        return Judged("excused", f"{facts.state} by {facts.changed_by}")
    queued = facts.queued_from
    if queued is not None and (facts.run is None or facts.run.state in FINAL_RUN_STATES):  # it waits for no other run
        waits_until = queued + starts_within(schedule, queued)
        overdue_at = waits_until if overdue_at is None else min(overdue_at, waits_until)
    if overdue_at is not None and overdue_at <= now:
        occurrence = facts.next_at if queued is None else queued
        who = (
            "no living process has its agent"
            if facts.workers == 0
            else "no process has fired it: see the log of its process"
        )
        reason = f"its occurrence {to_text(occurrence)} is due, but {who}"
        return absent("not-fired", reason, occurrence, facts.workers == 0)
    verdict = _last_of(facts, now)
    due = [moment for moment in (verdict.due_at, overdue_at) if moment is not None]
    return replace(verdict, due_at=min(due, default=None))


def _last_of(facts: WatchedSchedule, now: Microseconds) -> Judged:
    last, run = facts.last, facts.run
    if last is not None and last.state == "missed":
        reason = f"its occurrence {to_text(last.at)} was missed{_because(last.reason)}"
        return Judged("absent", reason, "not-fired", told=True)
    if last is not None and last.state == "skipped" and (last.reason or "").startswith("denied"):
        return absent("skipped", f"its occurrence {to_text(last.at)} was {last.reason}", last.at)
    if run is None or facts.last_at is None:
        return pending("no occurrence of it was due yet", None)
    began = run.started_at if run.started_at is not None else run.created_at
    verdict = judge_run(
        run,
        now,
        # A run that was fired late gets some time to start: the alarm about its lateness was raised before.
        starts_by=max(facts.last_at + starts_within(facts.schedule, facts.last_at), run.created_at + SHORTEST_START),
        ends_by=began + ends_within(facts.schedule, facts.last_at),
    )
    # One cause, one alarm: a dead letter and a held run have their own.
    return replace(verdict, told=run.state in {"dead", "held"}) if verdict.state == "absent" else verdict


# declared expectations


def judge_output(runs: Sequence[Admitted], within: Microseconds, now: Microseconds) -> Judged:
    """Each run of an agent should bring an output in time. The newest run that can be judged decides; `runs` begins
    with the newest.
    """
    first: Judged | None = None
    for one in runs:
        verdict = judge_admitted(one, within, now, output=True)
        if verdict is None:
            continue
        if verdict.state == "pending":
            first = first or verdict
        elif verdict.state != "excused":
            due = first.due_at if first is not None else None
            return replace(verdict, due_at=due)
    return first or pending("none of its runs can be judged yet", None)


def judge_admitted(one: Admitted, within: Microseconds, now: Microseconds, *, output: bool) -> Judged | None:
    """The verdict on one admission; None if nothing was to come of it."""
    if one.run is not None:
        return judge_run(
            one.run, now, starts_by=one.run.created_at + within, ends_by=one.run.created_at + within, output=output
        )
    if one.state == "denied":
        return absent("skipped", f"the event of {to_text(one.at)} was denied{_because(one.reason)}", one.at)
    if one.state == "expired":
        reason = f"the event of {to_text(one.at)} expired before its run began{_because(one.reason)}"
        return absent("not-fired", reason, one.at)
    return None


def judge_every(
    last: Microseconds | None, span: Microseconds, since: Microseconds, now: Microseconds, what: str, why: Judged | None
) -> Judged:
    """Something should happen at least this often. `why`: the result of the last attempt, if known."""
    due = max(since, last or 0) + span
    if now < due:
        return pending(f"no {what} yet", due) if last is None else Judged("met", what, met_at=last, due_at=due)
    if why is not None and why.state == "absent":
        return why
    when = f"since {to_text(last)}" if last is not None else f"at all, since it is expected ({to_text(since)})"
    return absent("not-fired", f"no {what} {when}; one is due every {readable(span)}", last, since)


def judge_by(
    arrivals: Sequence[Microseconds],
    rule: Rule,
    since: Microseconds,
    now: Microseconds,
    what: str,
    why: Judged | None,
    *,
    more: bool = False,
) -> Judged:
    """Something should happen by a time of the day. A late arrival counts for the deadline that it missed, and not for
    the next one as well. `arrivals` are the last ones, oldest first; `more`: there were older ones.
    """
    after = max(since, arrivals[0]) if more else since
    met_at = arrivals[-1] if arrivals else None
    deadlines = _deadlines(rule, after, now)
    upcoming = rule.next(now)
    if not deadlines:
        return pending(f"{what} is not due yet", upcoming) if met_at is None else _met(what, met_at, upcoming)
    owed = False
    for before, deadline in deadlines:
        came = bisect_right(arrivals, deadline) - bisect_right(arrivals, before)
        owed = came - owed <= 0
    last = deadlines[-1][1]
    if not owed or bisect_right(arrivals, now) > bisect_right(arrivals, last):
        return _met(what, met_at, upcoming)
    if why is not None and why.state == "absent":
        return replace(why, cause=(*why.cause, last))
    never = "and there was never one" if met_at is None else f"and the last one came at {to_text(met_at)}"
    return absent("not-fired", f"no {what} by {to_text(last)}, {never}", last)


def _met(what: str, met_at: Microseconds | None, due_at: Microseconds | None) -> Judged:
    return Judged("met", what, met_at=met_at, due_at=due_at)


def _deadlines(rule: Rule, after: Microseconds, now: Microseconds) -> list[tuple[Microseconds, Microseconds]]:
    """The last deadlines up to now, each with the one before it, oldest first; without those before it was expected."""
    found: list[tuple[Microseconds, Microseconds]] = []
    deadline = rule.previous(now + 1)
    while deadline is not None and deadline > after and len(found) < DEADLINES_BACK:
        before = rule.previous(deadline)
        found.append((before if before is not None else after, deadline))
        deadline = before
    return found[::-1]


# sources


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source that a process reads, or read when it died. `left` is the rest of its lease, None if unknown."""

    name: str
    state: SourceState
    read_at: Microseconds | None
    host: str | None
    pid: int | None
    alive: bool
    left: Microseconds | None


def judge_source(facts: SourceFacts, now: Microseconds, *, workers: int) -> Judged:
    """Whether a source's reader is alive and looks. Another process takes over a dead one's sources within a second of
    its lease. If no process of the app is alive at all, the app's own alarm says so.
    """
    who = "its reader" if facts.pid is None else f"pid {facts.pid} on {facts.host}"
    if facts.alive:
        looked = facts.read_at if facts.read_at is not None else now
        if facts.state == "failing":
            return Judged("absent", f"it cannot be read: `wakeful why {facts.name}` shows why", "not-read", told=True)
        if facts.state == "paused":  # it waits until its earlier events are done
            return Judged("met", f"{who} has it, and it is {facts.state}", met_at=facts.read_at)
        if now < looked + SILENT_SOURCE:
            return Judged("met", f"{who} reads it", met_at=facts.read_at, due_at=looked + SILENT_SOURCE)
        reason = f"{who} has it, but has not looked since {to_text(looked)}: see its log"
        return absent("not-read", reason, facts.host, facts.pid, looked)
    ended = now + facts.left if facts.left is not None else facts.read_at or 0
    if now < ended + TAKEN_OVER_WITHIN:
        return pending(f"{who} is dead; another process may take it over", ended + TAKEN_OVER_WITHIN)
    reason = (
        f"{who} had it and is dead, and no other process took it over: start a worker that has its trigger. If the trigger "
        f"was removed from the code: `wakeful sources forget {facts.name}`"
    )
    return Judged("absent", reason, "not-read", told=not workers, cause=(facts.host, facts.pid))


def judge_served(
    last: SourceFacts | None, read_at: Microseconds | None, now: Microseconds, *, name: str, workers: int
) -> Judged:
    """Whether a process answers the requests to a webhook. `last` is the one whose lease ended last; None while one is
    alive.
    """
    if last is None:
        return Judged("met", "a server answers its requests", met_at=read_at)
    who = "its server" if last.pid is None else f"pid {last.pid} on {last.host}"
    ended = now + last.left if last.left is not None else read_at or 0
    if now < ended + TAKEN_OVER_WITHIN:
        return pending(f"{who}, which answered its requests, is dead; another may start", ended + TAKEN_OVER_WITHIN)
    reason = (
        f"no server has answered its requests since {to_text(ended)}, when {who} died: start `wakeful serve APP` again. If it was "
        f"removed from the code: `wakeful sources forget {name}`"
    )
    return Judged("absent", reason, "not-read", told=not workers, cause=(last.host, last.pid))
