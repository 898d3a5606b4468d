"""Reading schedules: a listing, one schedule with its ledger, its next occurrences, and the occurrence behind an event."""

from __future__ import annotations

from typing import Annotated, Any, cast

from wakeful.errors import NotFound, did_you_mean
from wakeful.model import ScheduleState
from wakeful.resources.alarms import alarms
from wakeful.resources.declare import Page
from wakeful.resources.desk import NOW, Desk, Row
from wakeful.resources.parameters import LONGEST_PAGE, After, Limit, OfApp, Param
from wakeful.resources.schedule_views import (
    Occurrences,
    Schedule,
    ScheduleDetail,
    change_view,
    data_of,
    ledger_row,
    occurrences_view,
    schedule_view,
)
from wakeful.resources.words import plain
from wakeful.stores.reads import cursor_of, next_of
from wakeful.stores.verbs.schedules import RUN_STATE, schedule_of
from wakeful.triggers.occurrences import moment_summary, occurrence_of, schedule_of_source, zone_of
from wakeful.triggers.schedule import NAME_LIMIT, as_stored

# Rows of the ledger that the cadence and the counts are computed from.
LOOKED_AT = 100
SHOWN_OCCURRENCES = 50
SHOWN_CHANGES = 50
AFTER_ALL = 2**62
MOST_OCCURRENCES = 1_000

OfWhich = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app (default: the app of this server)",
        flag="--of",
        metavar="NAME",
    ),
]


async def schedules(
    desk: Desk,
    *,
    app: OfApp = None,
    agent: Annotated[str | None, Param("only schedules of this agent", metavar="NAME")] = None,
    state: Annotated[ScheduleState | None, Param("only schedules in this state")] = None,
    whole: Annotated[bool, Param("include reminders and removed schedules", flag="--all", http="all")] = False,
    limit: Limit = 50,
    after: After = None,
) -> Page[Schedule]:
    """All schedules, sorted by app and name."""
    most = min(limit, LONGEST_PAGE)
    rows = await desk.reads.fetch("page_of_schedules", app, agent, state, int(whole), cursor_of(after), most + 1)
    return Page([await view(desk, row) for row in rows[:most]], next_of(rows, most))


async def find(desk: Desk, name: str, *, app: OfWhich = None) -> ScheduleDetail | None:
    row = await row_of(desk, name, app or own_app(desk))
    if row is None:
        return None
    stored = schedule_of(row)
    ledger = await desk.reads.fetch("ledger_of_schedule", stored.seq, AFTER_ALL, SHOWN_OCCURRENCES)
    changes = await desk.reads.fetch("changes_of_schedule", stored.seq, SHOWN_CHANGES)
    found = {
        **await view(desk, row),
        "data": data_of(stored),
        "occurrences": [ledger_row(one) for one in ledger],
        "changes": [change_view(one) for one in changes],
        "alarms": [one for one in await alarms(desk) if is_about(one["key"], stored.app, name)],
    }
    return cast("ScheduleDetail", found)


async def upcoming(
    desk: Desk,
    one: ScheduleDetail,
    *,
    count: Annotated[
        int,
        Param(
            "how many to show",
            short="-n",
            metavar="N",
            least=1,
            most=MOST_OCCURRENCES,
            wrong=f"count must be from 1 to {MOST_OCCURRENCES:,}",
        ),
    ] = 5,
) -> Occurrences | None:
    row = await row_of(desk, one["name"], one["app"])
    found = None if row is None else occurrences_view(schedule_of(row), count, now=await desk.reads.time())
    return cast("Occurrences | None", found)


async def row_of(desk: Desk, name: str, app: str | None) -> Row | None:
    """The stored schedule. Raises NotFound if several apps have this name and no app is given."""
    if app is not None:
        rows = await desk.reads.fetch("find_schedule", NOW, app, name)
    else:
        rows = await desk.reads.fetch("schedules_named", name)
    there = [row for row in rows if row[5] != "removed"] or rows
    if len(there) > 1:
        apps = ", ".join(plain(row[1]) for row in there)
        message = f"schedule {plain(name)} is in several apps ({apps}): choose one with --of NAME"
        raise NotFound(message)
    return there[0] if there else None


async def occurrence(desk: Desk, app: str, source: str, envelope: dict[str, Any]) -> dict[str, Any] | None:
    """The ledger's entry for the occurrence that an event stands for; None for any other event."""
    name, occurrence = schedule_of_source(app, source), occurrence_of(envelope)
    row = None if name is None or occurrence is None else await row_of(desk, name, app)
    if row is None or occurrence is None:
        return None
    stored = schedule_of(row)
    found = await desk.reads.fetch("ledger_from", stored.seq, occurrence)
    mine = [ledger_row(one) for one in found if one[3] <= occurrence <= one[4]]
    runs = {one["run"] for one in mine if one["run"] is not None}
    before = await desk.reads.fetch("ledger_of_schedule", stored.seq, occurrence, 1)
    merged = [ledger_row(one) for one in before if one[1] == "coalesced" and one[7] is not None and one[7] in runs]
    schedule = as_stored(stored.definition)
    return {
        "app": app,
        "schedule": stored.name,
        "rule": schedule.rule.describe(),
        **moment_summary(occurrence, zone_of(schedule)),
        "became": mine[0] if mine else None,
        "coalesced": merged[0] if merged else None,
    }


async def view(desk: Desk, row: Row) -> Any:
    stored = schedule_of(row)
    ledger = await desk.reads.fetch("ledger_of_schedule", stored.seq, AFTER_ALL, LOOKED_AT)
    return schedule_view(stored, row[RUN_STATE], ledger)


def is_about(alarm: str, app: str, schedule: str) -> bool:
    """Whether this is the key of an alarm about a schedule."""
    kind, _, rest = alarm.partition("/")
    mine = f"{app}/{schedule}"
    if kind == "heartbeat":  # about the check itself, or about its file
        return rest in {mine, mine.rpartition("/")[0]}
    return (kind in {"missed", "schedule"} and rest == mine) or (kind == "expect" and rest.startswith(f"{mine}/"))


async def missing(desk: Desk, name: str, *, app: str | None = None) -> str:
    app = app or own_app(desk)
    names = [row[0] for row in await desk.reads.fetch("names_of_schedules", app)]
    where = f"app {plain(app)} has" if app is not None else "there is"
    return f'{where} no schedule "{plain(name[:NAME_LIMIT])}".{did_you_mean(name, names)}'


async def none(desk: Desk, **_: Any) -> str:
    if (await schedules(desk, limit=1)).items:
        return "no matching schedules"
    remedy = 'An agent wakes by @app.agent(cron("0 8 * * *")) in its code, or by `wakeful schedules add NAME AGENT --every 30m`.'
    return f"no schedules yet. {remedy}"


def own_app(desk: Desk) -> str | None:
    """The name of the app whose code is loaded here; None if none is."""
    return None if desk.code is None else desk.code.agents.name
