"""The read side of time: schedules and their ledger as the JSON objects that the HTTP API and `--json` show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from pydantic_core import from_json

from wakeful.clock import Microseconds, from_datetime, seconds, to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.stores.timing import Span, StoredSchedule
from wakeful.stores.transaction import Row
from wakeful.stores.verbs.schedules import RUN_STATE, schedule_of
from wakeful.triggers.cadence import Cadence, Firing, cadence_of
from wakeful.triggers.schedule import TIMING_FIELDS, TYPE, Rule, Schedule, as_stored
from wakeful.triggers.zones import local, zone_named

LONGEST_PAGE = 500
# So many rows of the ledger say how well a schedule keeps its time.
LOOKED_AT = 100
FIRINGS_LOOKED_AT = 20
SHOWN_OCCURRENCES = 50
SHOWN_CHANGES = 50
AFTER_ALL = 2**62

Shown = dict[str, Any]


class Fetching(Protocol):
    """What this needs of a database."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...
    def read_clock(self) -> Microseconds | None: ...


class ScheduleReader:
    """Answers questions about schedules."""

    def __init__(self, database: Fetching) -> None:
        self._database = database

    async def page(
        self,
        *,
        app: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        whole: bool = False,
        limit: int = 50,
        after: int | None = None,
    ) -> Shown:
        """A page of schedules, by app and name; with `whole`, reminders and removed ones too."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_schedules", app, agent, state, int(whole), after, most + 1)
        shown = [await self._summary(row) for row in rows[:most]]
        return {"schedules": shown, "next": str(rows[most - 1][0]) if len(rows) > most else None}

    async def one(self, name: str, app: str | None = None, *, occurrences: int = SHOWN_OCCURRENCES) -> Shown | None:
        """Everything about one schedule. NotFound if several apps have one of that name, and none is named."""
        row = await self._find(name, app)
        if row is None:
            return None
        stored = schedule_of(row)
        ledger = await self._database.fetch("ledger_of_schedule", stored.seq, AFTER_ALL, occurrences)
        changes = await self._database.fetch("changes_of_schedule", stored.seq, SHOWN_CHANGES)
        return {
            **await self._summary(row),
            "data": None if stored.data is None else from_json(stored.data),
            "occurrences": [occurrence_summary(one) for one in ledger],
            "changes": [change_summary(one) for one in changes],
        }

    async def names(self, app: str | None = None) -> list[str]:
        return [row[0] for row in await self._database.fetch("names_of_schedules", app)]

    async def stored(self, name: str, app: str | None = None) -> StoredSchedule:
        """As it is stored. NotFound, with a guess, where there is none, or more than one."""
        row = await self._find(name, app)
        if row is None or row[5] == "removed":
            where = f"app {app} has" if app is not None else "there is"
            message = f'{where} no schedule "{name}".{did_you_mean(name, await self.names(app))}'
            raise NotFound(message)
        return schedule_of(row)

    async def instants(self, name: str, app: str | None, count: int, *, now: Microseconds) -> Shown | None:
        """The next instants of a schedule, by its rule. What is paused, done or removed has none to come."""
        row = await self._find(name, app)
        if row is None:
            return None
        stored = schedule_of(row)
        schedule = as_stored(stored.definition)
        offset = schedule.offset(stored.app, stored.name)
        found = [
            {**moment_summary(one, zone_of(schedule)), "due_at": to_text(one + offset)}
            for one in upcoming(schedule.rule, stored, count, now=now)
        ]
        return {
            "app": stored.app,
            "name": stored.name,
            "state": stored.state,
            "rule": schedule.rule.describe(),
            "zone": zone_of(schedule),
            "next": found,
        }

    async def occurrence(self, app: str, source: str, envelope: Shown) -> Shown | None:
        """What the ledger says of the occurrence that an event is; None for an event that is none."""
        name = schedule_of_source(app, source)
        instant = instant_of(envelope)
        row = None if name is None or instant is None else await self._find(name, app)
        if row is None or instant is None:
            return None
        stored = schedule_of(row)
        found = await self._database.fetch("ledger_from", stored.seq, instant)
        mine = [occurrence_summary(row) for row in found if row[3] <= instant <= row[4]]
        runs = {one["run"] for one in mine if one["run"] is not None}
        before = await self._database.fetch("ledger_of_schedule", stored.seq, instant, 1)
        merged = [
            occurrence_summary(row) for row in before if row[1] == "coalesced" and row[7] is not None and row[7] in runs
        ]
        schedule = as_stored(stored.definition)
        return {
            "app": app,
            "schedule": stored.name,
            "rule": schedule.rule.describe(),
            **moment_summary(instant, zone_of(schedule)),
            "became": mine[0] if mine else None,
            "coalesced": merged[0] if merged else None,
        }

    async def loaded_last(self, app: str) -> set[str]:
        """The agents that the code of an app has now, as far as the store can know: those that its living processes have
        loaded, and the one that began last.
        """
        rows = await self._database.fetch("loaded_last", self._database.read_clock(), app)
        return {agent for row in rows for agent in from_json(row[0])}

    async def live(self) -> list[Shown]:
        """How many schedules each app has that go on, and when (microseconds) the next one is due."""
        rows = await self._database.fetch("live_schedules")
        return [{"app": app, "count": count, "next": due} for app, count, due in rows]

    async def _find(self, name: str, app: str | None) -> Row | None:
        if app is not None:
            rows = await self._database.fetch("find_schedule", self._database.read_clock(), app, name)
        else:
            rows = await self._database.fetch("schedules_named", name)
        there = [row for row in rows if row[5] != "removed"] or rows
        if len(there) > 1:
            apps = ", ".join(row[1] for row in there)
            message = f"schedule {name} is in several apps ({apps}): say which with --of NAME"
            raise NotFound(message)
        return there[0] if there else None

    async def _summary(self, row: Row) -> Shown:
        stored = schedule_of(row)
        ledger = await self._database.fetch("ledger_of_schedule", stored.seq, AFTER_ALL, LOOKED_AT)
        return schedule_summary(stored, row[RUN_STATE], ledger)


# what is shown


def schedule_summary(stored: StoredSchedule, run_state: str | None, ledger: Sequence[Row]) -> Shown:
    """A schedule as every listing shows it. `ledger` is what became of its last instants, the latest first."""
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
        "options": options_summary(schedule),
        "owner": stored.owner,
        "next": None if stored.next_at is None else moment_summary(stored.next_at, zone),
        "due_at": to_text(stored.due_at),
        "last": last_summary(stored, run_state, zone),
        "queued": None if stored.queued is None else {**span_summary(stored.queued), "waits_for": stored.waits_for},
        "latest": occurrence_summary(ledger[0]) if ledger else None,
        "cadence": cadence_summary(cadence_of_ledger(schedule, stored, ledger)),
        "counts": counts_of(ledger),
        "created_at": to_text(stored.created_at),
        "changed_at": to_text(stored.changed_at),
        "changed_by": stored.changed_by,
    }


def options_summary(schedule: Schedule) -> Shown:
    """What becomes of its instants: durations in seconds."""
    timing = schedule.timing
    shown = {name: getattr(timing, name) for name in TIMING_FIELDS}
    if timing.catch_up != "all":
        shown |= {"max_age": None, "max_count": None}
    return {name: seconds(value) if is_span(name, value) else value for name, value in shown.items()}


def is_span(name: str, value: Any) -> bool:
    return isinstance(value, int) and name != "max_count"


def last_summary(stored: StoredSchedule, run_state: str | None, zone: str) -> Shown | None:
    """The last instant that was fired, and how its run stands; its state is None once it was removed."""
    if stored.last_at is None or stored.fired_at is None:
        return None
    moment = moment_summary(stored.last_at, zone)
    return {**moment, "fired_at": to_text(stored.fired_at), "run": stored.last_run, "state": run_state}


def cadence_of_ledger(schedule: Schedule, stored: StoredSchedule, ledger: Sequence[Row]) -> Cadence:
    """By what was fired at its instants since the definition is what it is now; not by hand, which has a reason."""
    fired = [
        Firing(to_at, settled)
        for _, state, reason, _, to_at, _, revision, _, settled, *_ in ledger
        if state in {"fired", "superseded"}
        and (reason is None or state == "superseded")
        and revision == stored.revision
    ]
    fired = fired[:FIRINGS_LOOKED_AT]
    return cadence_of(schedule.rule, schedule.offset(stored.app, stored.name), fired[::-1])


def cadence_summary(cadence: Cadence) -> Shown:
    """In seconds."""
    return {
        "firings": cadence.firings,
        "late": span_of(cadence.late),
        "typically_late": span_of(cadence.typically_late),
        "configured": span_of(cadence.configured),
        "real": span_of(cadence.real),
        "drift": None if cadence.drift is None else round(cadence.drift, 3),
    }


def span_of(span: Microseconds | None) -> float | None:
    return None if span is None else seconds(span)


def counts_of(ledger: Sequence[Row]) -> Shown:
    """How many instants became what, since when."""
    counts: Counter[str] = Counter()
    for row in ledger:
        counts[row[1]] += row[5]
    states = ("fired", "missed", "coalesced", "skipped", "superseded")
    return {"since": to_text(ledger[-1][3]) if ledger else None, **{state: counts[state] for state in states}}


def occurrence_summary(row: Row) -> Shown:
    """A row of the ledger: instants that became the same, one after the other."""
    _, state, reason, from_at, to_at, count, revision, run, settled, redone, run_state = row
    return {
        "state": state,
        "reason": reason,
        **span_summary(Span(from_at, to_at, count)),
        "revision": revision,
        "run": run,
        "run_state": run_state,
        "settled_at": to_text(settled),
        "redone": redone,
    }


def span_summary(span: Span) -> Shown:
    return {"from": to_text(span.first), "to": to_text(span.last), "count": span.count}


def change_summary(row: Row) -> Shown:
    """Who did what, and the rule as it was from then on."""
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


def moment_summary(moment: Microseconds, zone: str) -> Shown:
    """An instant, and what the clock on the wall shows then."""
    return {"at": to_text(moment), "local": local(moment, zone_named(zone, where="schedule")).isoformat(), "zone": zone}


def zone_of(schedule: Schedule) -> str:
    return str(schedule.rule.definition()["zone"])


def upcoming(rule: Rule, stored: StoredSchedule, most: int, *, now: Microseconds) -> list[Microseconds]:
    """From the one that is next, which may be due already."""
    if stored.state not in {"live", "paused"}:
        return []
    begin = now if stored.state == "paused" or stored.next_at is None else stored.next_at - 1
    return list(after(rule, begin, most))


def after(rule: Rule, moment: Microseconds, most: int) -> Iterator[Microseconds]:
    """The next instants of a rule."""
    instant = rule.next(moment)
    while instant is not None and most > 0:
        yield instant
        most -= 1
        instant = rule.next(instant)


# events


def schedule_of_source(app: str, source: str) -> str | None:
    """The schedule whose events come from here."""
    prefix = f"/{app}/schedules/"
    return source[len(prefix) :] if source.startswith(prefix) else None


def instant_of(envelope: Shown) -> Microseconds | None:
    """The instant that an event of a schedule says it is of."""
    if envelope.get("type") != TYPE:
        return None
    try:
        return from_datetime(datetime.fromisoformat(envelope["scheduledfor"]))
    except (KeyError, TypeError, ValueError):  # somebody else may have sent it
        return None


def scheduled_summary(app: str, source: str, envelope: Shown, started_at: Microseconds | None) -> Shown | None:
    """Of a run that a schedule started: which one, for which instant, how late it started, and what it covers."""
    name, instant = schedule_of_source(app, source), instant_of(envelope)
    if name is None or instant is None:
        return None
    return {
        "schedule": name,
        "for": to_text(instant),
        "late": None if started_at is None else seconds(max(0, started_at - instant)),
        "covers_from": envelope.get("coveredfrom"),
        "instants": envelope.get("coveredcount", 1),
    }
