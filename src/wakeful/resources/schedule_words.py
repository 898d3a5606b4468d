"""Schedules as the command line prints them: the cells of a listing, one schedule with its ledger, and its next occurrences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from wakeful.clock import SECOND, readable
from wakeful.resources.declare import Printed
from wakeful.resources.schedule_views import (
    FiredSchedule,
    LedgerRow,
    Occurrence,
    Occurrences,
    QueuedOccurrences,
    Schedule,
    ScheduleCadence,
    ScheduleChange,
    ScheduleDetail,
)
from wakeful.resources.words import Line, Look, Span, Table, ago, clock_time, in_json, line, moment, now, number, plain

WIDE = 140
NARROW = 90
# A real interval is shown if it differs from the configured one by more than this fraction.
WORTH_A_WORD = 0.05
ORIGINS = {
    "code": "declared in code",
    "runtime": "added at run time",
    "reminder": "a reminder",
    "heartbeat": "of a heartbeat",
}


def wall(occurrence: Occurrence) -> str:
    """Local time with its zone: Mon 16 Nov 2026 08:00 Europe/London."""
    return f"{on_the_wall(occurrence, '%a %d %b %Y')} {plain(occurrence['zone'])}"


def on_the_wall(occurrence: Occurrence, day: str) -> str:
    at = datetime.fromisoformat(occurrence["local"])
    exact = "%H:%M:%S" if at.second else "%H:%M"
    return at.strftime(f"{day} {exact}")


def span(seconds: float | None) -> str:
    return "–" if seconds is None else readable(round(seconds * SECOND))


def interval(seconds: float | None) -> str:
    """An interval in whole seconds, since no rule is finer. Caught-up occurrences may all have fired at once."""
    if seconds is None:
        return "–"
    return readable(round(seconds) * SECOND) if round(seconds) else "less than 1 s"


# all


def last(one: Schedule, look: Look) -> str:
    fired = one["last"]
    return "–" if fired is None else f"{look.ago(fired['at'])}, {fired['state'] or 'run removed'}"


def coming(one: Schedule, look: Look) -> str:
    """The local time of the next occurrence and the time until then; in a narrow terminal only the latter."""
    if one["next"] is None or one["state"] != "live":
        return "–"
    if (moment(one["due_at"]) or look.now) <= look.now:
        return f"due {look.ago(one['due_at'])}"
    soon = look.ago(one["next"]["at"])
    return soon if look.width < NARROW else f"{on_the_wall(one['next'], '%a %d %b')}, {soon}"


def lateness(cadence: ScheduleCadence) -> str:
    """How late the last occurrence was, and how late occurrences typically are."""
    if cadence["late"] is None:
        return "–"
    typical = f" (mostly {span(cadence['typically_late'])})" if cadence["firings"] > 1 else ""
    return f"{span(cadence['late'])}{typical}"


def really(cadence: ScheduleCadence) -> str:
    """The real interval, with the configured one if they differ."""
    if cadence["real"] is None:
        return "–"
    real, configured = interval(cadence["real"]), interval(cadence["configured"])
    if abs(cadence["drift"] or 0) <= WORTH_A_WORD or real == configured:
        return f"every {real}"
    return f"every {real}, not {configured}"


def not_fired(one: Schedule) -> str:
    counts: Mapping[str, Any] = one["counts"]
    parts = [f"{counts[what]:,} {what}" for what in ("missed", "skipped", "coalesced", "superseded") if counts[what]]
    return ", ".join(parts) or "–"


def note(one: Schedule, look: Look) -> str:
    """Anything unusual about the schedule now."""
    if one["state"] == "paused":
        return f"paused by {plain(one['changed_by'])}"
    if one["queued"] is not None:
        return waiting(one["queued"], look)
    latest = one["latest"]
    if latest is not None and latest["state"] in {"missed", "skipped"}:
        return plain(f"the last {latest['count']:,} {latest['state']}: {latest['reason'] or 'no reason given'}")
    return ""


def has_notes(items: Sequence[Schedule], look: Look) -> bool:
    """Whether the column of notes is needed."""
    return look.width >= WIDE or any(note(one, look) for one in items)


def waiting(queued: QueuedOccurrences, look: Look) -> str:
    many = number(queued["count"], "occurrence")
    waits = "waits" if queued["count"] == 1 else "wait"
    if queued["waits_for"]:
        return f"{many} {waits} for run {look.short(queued['waits_for'])}"
    return f"{many} {waits} for a worker that has the agent"


# one


def shown(one: ScheduleDetail, look: Look) -> Printed:
    def labelled(label: str, text: str) -> Line:
        return line((f"{label:<9} ", "dim"), text, whole=look.piped)

    name = (plain(one["name"]), "bold")
    yield line(("schedule ", "dim"), name, "  ", (one["state"], "state"), f"  revision {one['revision']}")
    owner = f", owner {plain(one['owner'])}" if one["owner"] else ""
    yield labelled("rule", plain(one["rule"]))
    of = f"agent {plain(one['agent'])} of app {plain(one['app'])}{owner}, {ORIGINS[one['origin']]}"
    yield labelled("wakes", of)
    yield labelled("options", plain(options(one["options"])))
    if one["data"] is not None:
        yield labelled("data", in_json(one["data"]))
    if one["next"] is not None:
        paused = one["state"] == "paused"
        words = "would be next if it were resumed" if paused else look.ago(one["next"]["at"])
        yield labelled("next", f"{wall(one['next'])} ({one['next']['at']}), {words}")
    if (fired := one["last"]) is not None:
        ended = fired["state"] or "since removed"
        run = look.short(fired["run"] or "")
        yield labelled("last", f"{wall(fired)}, {look.ago(fired['at'])}, run {run} is {ended}")
    cadence = one["cadence"]
    if cadence["late"] is not None:
        yield labelled("late", lateness(cadence))
    if cadence["real"] is not None:
        kept = f"every {interval(cadence['real'])} over the last {cadence['firings']} occurrences"
        yield labelled("really", f"{kept}; configured is every {interval(cadence['configured'])}")
    if (queued := one["queued"]) is not None:
        yield labelled("queued", f"{waiting(queued, look)}, {queued['from']} to {queued['to']}")
    if one["occurrences"]:
        rows = [ledger_cells(row, look) for row in one["occurrences"]]
        yield Table(["became", "occurrence", "to", "count", "run", "why"], rows, flexible="why")
    else:
        yield "No occurrence has been due yet."
    if one["changes"]:
        header = ["changed", "how", "by", "revision", "rule", "note"]
        yield Table(header, [change_cells(change) for change in one["changes"]], flexible="note")
    for alarm in one["alarms"]:
        yield line("alarm ", (alarm["state"], "state"), f"  {plain(alarm['text'])}", whole=look.piped)


def options(given: Mapping[str, Any]) -> str:
    told = []
    for name, setting in given.items():
        if setting is None or (name == "jitter" and not setting):
            continue
        words = span(setting) if isinstance(setting, float) else str(setting)
        told.append(f"{name.replace('_', ' ')} {words}")
    return ", ".join(told)


def ledger_cells(row: LedgerRow, look: Look) -> list[Span]:
    """The ledger: consecutive occurrences with the same result are one row."""
    many = row["count"] > 1
    run = f"{look.short(row['run'])} {row['run_state'] or 'removed'}" if row["run"] else "–"
    redone = f"{row['redone']:,} done later" if row["redone"] else ""
    why = "; ".join(part for part in (row["reason"], redone) if part)
    return [
        (row["state"], "state"),
        clock_time(row["from"]),
        clock_time(row["to"]) if many else "",
        f"{row['count']:,}" if many else "",
        run,
        (plain(why), "dim"),
    ]


def change_cells(change: ScheduleChange) -> list[Span]:
    return [
        clock_time(change["changed_at"]),
        change["verb"],
        plain(change["operator"]),
        str(change["revision"]),
        plain(change["rule"] or "–"),
        plain(change["note"] or "–"),
    ]


# next occurrences


def occurrences(found: Occurrences, look: Look) -> Printed:
    yield f"{plain(found['name'])}: {plain(found['rule'])}"
    if found["state"] == "paused":
        yield "paused: none of these fires until the schedule is resumed"
    if not found["next"]:
        yield f"no next occurrence: the schedule is {found['state']}"
        return
    rows = []
    for one in found["next"]:
        later = (moment(one["due_at"]) or 0) - (moment(one["at"]) or 0)
        jittered = f"fires {readable(later)} later" if later else ""
        rows.append([wall(one), one["at"], look.ago(one["at"]), jittered])
    yield Table(["local time", "UTC", "", ""], rows, flexible="local time")


# results of verbs


def added(one: ScheduleDetail) -> list[str]:
    woken = f"agent {plain(one['agent'])} of app {plain(one['app'])}"
    return [f"schedule {plain(one['name'])}: {plain(one['rule'])} wakes {woken}", comes(one)]


def changed(one: ScheduleDetail, before: ScheduleDetail) -> list[str]:
    was = "" if before["rule"] == one["rule"] else f", was {plain(before['rule'])}"
    return [f"schedule {plain(one['name'])} (revision {one['revision']}): {plain(one['rule'])}{was}", comes(one)]


def paused(one: ScheduleDetail) -> str:
    name = plain(one["name"])
    return f"schedule {name} is paused: occurrences due meanwhile are skipped. Resume with `wakeful schedules resume {name}`"


def comes(one: ScheduleDetail) -> str:
    """The next occurrence, or why there is none."""
    if one["next"] is None:
        past = ": its time has passed" if one["state"] == "done" else ""
        return f"it no longer fires{past}"
    return f"next: {wall(one['next'])}, {ago(one['next']['at'], now())}"


def fired(one: FiredSchedule) -> str:
    run = f"run {one['runs'][0]}" if one["runs"] else f"no run: `wakeful why {one['event']}` shows why"
    return f"fired {plain(one['name'])} → {run}"
