"""Schedules: what wakes which agent when, what became of each instant, and what people change of it."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, cast

from wakeful.errors import ConfigError, InvalidData, NotFound, did_you_mean
from wakeful.model import ScheduleState
from wakeful.operations.scheduling import (
    HOURS,
    OPTIONS,
    RULES,
    app_for,
    edited,
    made,
    refuse_foreign,
    refuse_past,
    refuse_removal,
)
from wakeful.resources.alarms import alarms
from wakeful.resources.declare import (
    LONGEST_PAGE,
    UNSET,
    After,
    Column,
    Limit,
    Listing,
    OfApp,
    Page,
    Param,
    Reading,
    Refused,
    Resource,
    Show,
    Unfit,
    Verb,
)
from wakeful.resources.desk import NOW, Desk, Row
from wakeful.resources.schedule_options import (
    Active,
    At,
    Catching,
    Cron,
    Data,
    Days,
    EndsWithin,
    Every,
    Expires,
    Grace,
    Jitter,
    MaxAge,
    MaxCount,
    Overlap,
    StartsWithin,
    Zone,
)
from wakeful.resources.schedule_views import (
    FiredSchedule,
    Instants,
    Schedule,
    ScheduleDetail,
    change_view,
    data_of,
    instants_view,
    ledger_row,
    schedule_view,
)
from wakeful.resources.schedule_words import (
    NARROW,
    WIDE,
    coming,
    has_notes,
    instants,
    last,
    lateness,
    not_fired,
    note,
    really,
    shown,
    wall,
)
from wakeful.resources.words import ago, now, plain
from wakeful.stores.readers.base import cursor_of, next_of
from wakeful.stores.reading_schedules import instant_of, moment_summary, schedule_of_source, zone_of
from wakeful.stores.verbs.schedules import RUN_STATE, schedule_of
from wakeful.triggers.schedule import NAME_LIMIT, as_stored
from wakeful.triggers.schedule import Schedule as Declared
from wakeful.triggers.schedules import Schedules, refuse_name

# So many rows of the ledger say how well a schedule keeps its time.
LOOKED_AT = 100
SHOWN_OCCURRENCES = 50
SHOWN_CHANGES = 50
AFTER_ALL = 2**62
MOST_INSTANTS = 1_000
OfWhich = Annotated[
    str | None,
    Param(
        "the app's name, where the store has several",
        about="of which app, where it is not the one that this server runs",
        flag="--of",
        metavar="NAME",
    ),
]

# reading


async def schedules(
    desk: Desk,
    *,
    app: OfApp = None,
    agent: Annotated[str | None, Param("only those of this agent", metavar="NAME")] = None,
    state: Annotated[ScheduleState | None, Param("only those in this state")] = None,
    whole: Annotated[bool, Param("reminders and removed ones too", flag="--all", http="all")] = False,
    limit: Limit = 50,
    after: After = None,
) -> Page[Schedule]:
    """By app and name."""
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
            "how many",
            short="-n",
            metavar="N",
            least=1,
            most=MOST_INSTANTS,
            wrong=f"count is a number from 1 to {MOST_INSTANTS:,}",
        ),
    ] = 5,
) -> Instants | None:
    row = await row_of(desk, one["name"], one["app"])
    found = None if row is None else instants_view(schedule_of(row), count, now=await desk.reads.time())
    return cast("Instants | None", found)


async def row_of(desk: Desk, name: str, app: str | None) -> Row | None:
    """NotFound if several apps have one of that name, and none is named."""
    if app is not None:
        rows = await desk.reads.fetch("find_schedule", NOW, app, name)
    else:
        rows = await desk.reads.fetch("schedules_named", name)
    there = [row for row in rows if row[5] != "removed"] or rows
    if len(there) > 1:
        apps = ", ".join(plain(row[1]) for row in there)
        message = f"schedule {plain(name)} is in several apps ({apps}): say which with --of NAME"
        raise NotFound(message)
    return there[0] if there else None


async def occurrence(desk: Desk, app: str, source: str, envelope: dict[str, Any]) -> dict[str, Any] | None:
    """What the ledger says of the occurrence that an event is; None for an event that is none."""
    name, instant = schedule_of_source(app, source), instant_of(envelope)
    row = None if name is None or instant is None else await row_of(desk, name, app)
    if row is None or instant is None:
        return None
    stored = schedule_of(row)
    found = await desk.reads.fetch("ledger_from", stored.seq, instant)
    mine = [ledger_row(one) for one in found if one[3] <= instant <= one[4]]
    runs = {one["run"] for one in mine if one["run"] is not None}
    before = await desk.reads.fetch("ledger_of_schedule", stored.seq, instant, 1)
    merged = [ledger_row(one) for one in before if one[1] == "coalesced" and one[7] is not None and one[7] in runs]
    schedule = as_stored(stored.definition)
    return {
        "app": app,
        "schedule": stored.name,
        "rule": schedule.rule.describe(),
        **moment_summary(instant, zone_of(schedule)),
        "became": mine[0] if mine else None,
        "coalesced": merged[0] if merged else None,
    }


async def view(desk: Desk, row: Row) -> Any:
    stored = schedule_of(row)
    ledger = await desk.reads.fetch("ledger_of_schedule", stored.seq, AFTER_ALL, LOOKED_AT)
    return schedule_view(stored, row[RUN_STATE], ledger)


def is_about(alarm: str, app: str, schedule: str) -> bool:
    """Is this the key of an alarm about a schedule?"""
    kind, _, rest = alarm.partition("/")
    mine = f"{app}/{schedule}"
    if kind == "heartbeat":  # about the check itself, or about the file that it is written in
        return rest in {mine, mine.rpartition("/")[0]}
    return (kind in {"missed", "schedule"} and rest == mine) or (kind == "expect" and rest.startswith(f"{mine}/"))


async def missing(desk: Desk, name: str, *, app: str | None = None) -> str:
    app = app or own_app(desk)
    names = [row[0] for row in await desk.reads.fetch("names_of_schedules", app)]
    where = f"app {plain(app)} has" if app is not None else "there is"
    return f'{where} no schedule "{plain(name[:NAME_LIMIT])}".{did_you_mean(name, names)}'


async def none(desk: Desk, **_: Any) -> str:
    if (await schedules(desk, limit=1)).items:
        return "no schedules like that"
    remedy = 'An agent wakes by @app.agent(cron("0 8 * * *")) in its code, or by `wakeful schedules add NAME AGENT --every 30m`.'
    return f"no schedules yet. {remedy}"


# making and editing


async def add(
    desk: Desk,
    *,
    name: Annotated[
        str, Param("its name", about="printable, without /", positional=True, metavar="NAME", most=NAME_LIMIT)
    ],
    agent: Annotated[str, Param("the agent that it wakes", positional=True, metavar="AGENT")],
    app: OfWhich = None,
    cron: Cron = UNSET,
    every: Every = UNSET,
    active: Active = UNSET,
    days: Days = UNSET,
    at: At = UNSET,
    tz: Zone = UNSET,
    data: Data = None,
    overlap: Overlap = UNSET,
    catch_up: Catching = UNSET,
    grace: Grace = UNSET,
    max_age: MaxAge = UNSET,
    max_count: MaxCount = UNSET,
    jitter: Jitter = UNSET,
    expires: Expires = UNSET,
    starts_within: StartsWithin = UNSET,
    ends_within: EndsWithin = UNSET,
) -> ScheduleDetail | None:
    given = given_of(locals())
    with unfit("name"):
        refuse_name(name)
    with unfit(guilty(given)):
        schedule = made(given)
    of = await app_of(desk, agent, app)
    refuse_misfit(desk, of, agent, data)
    with refusing():
        refuse_past(schedule, await desk.reads.time())
        await kept_by(desk, of).add(name, schedule, agent, data=data, by=desk.by, note=desk.note)
    return await find(desk, name, app=of)


async def edit(
    desk: Desk,
    one: ScheduleDetail,
    *,
    cron: Cron = UNSET,
    every: Every = UNSET,
    active: Active = UNSET,
    days: Days = UNSET,
    at: At = UNSET,
    tz: Zone = UNSET,
    data: Data = UNSET,
    overlap: Overlap = UNSET,
    catch_up: Catching = UNSET,
    grace: Grace = UNSET,
    max_age: MaxAge = UNSET,
    max_count: MaxCount = UNSET,
    jitter: Jitter = UNSET,
    expires: Expires = UNSET,
    starts_within: StartsWithin = UNSET,
    ends_within: EndsWithin = UNSET,
    agent: Annotated[str | None, Param("wake this agent", metavar="NAME")] = None,
) -> ScheduleDetail | None:
    given = given_of(locals())
    name, app = one["name"], one["app"]
    kept, stored = kept_by(desk, app), await kept_by(desk, app).find(name)
    if stored is None:
        return None
    await refuse_removed(desk, one)
    with refusing():
        refuse_foreign(one, "edit", written_at=written_at(desk, one))
    with unfit(guilty(given)):
        wanted: Declared | None = edited(as_stored(stored.definition), given)
    if wanted is None and data is UNSET and agent is None:
        detail = "nothing is given that would change"
        raise Unfit(detail, "body", typed=f"edit {plain(name)}: {detail}; see wakeful schedules --help")
    if agent is not None:
        await app_of(desk, agent, app)
    refuse_misfit(desk, app, agent or one["agent"], one["data"] if data is UNSET else data)
    # The definition that there is when it is changed: of two who change different parts at once, neither undoes the other's.
    change = None if wanted is None else lambda before: edited(before, given)
    carried = ... if data is UNSET else data
    with refusing():
        if wanted is not None:
            refuse_past(wanted, await desk.reads.time())
        await kept.edit(name, change, agent=agent, data=carried, by=desk.by, note=desk.note)
    return await find(desk, name, app=app)


def given_of(passed: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of a schedule; None where it is to be taken away."""
    given = {one: passed[one] for one in OPTIONS if passed[one] is not UNSET}
    for one in (*RULES, "tz"):
        if one in given and given[one] is None:
            detail = f"{one} cannot be taken away: give another one, or leave it out"
            raise Unfit(detail, one, typed=f"--{one} none: a schedule cannot be without")
    return given


def guilty(given: Mapping[str, Any]) -> str:
    """The field that is most likely meant by what is wrong."""
    return next((one for one in (*RULES, *HOURS, "tz") if one in given), next(iter(given), "cron"))


async def app_of(desk: Desk, agent: str, app: str | None) -> str:
    """The app whose agent is meant. NotFound for an agent that it does not have, as far as that is known."""
    if desk.code is not None and app in {None, own_app(desk)}:
        desk.code.agents.refuse_unknown(agent)
        return str(desk.code.agents.name)
    return (await app_for(desk.reader, agent, app))[0]


def refuse_misfit(desk: Desk, app: str, agent: str, data: Any) -> None:
    """Only the code of the app can tell."""
    if desk.code is None or own_app(desk) != app:
        return
    try:
        desk.code.agents.refuse_misfit(agent, data)
    except InvalidData as error:
        title = "The data does not fit"
        raise Refused(str(error), kind="data-does-not-fit", title=title, status=422, field="data") from None


# what else is done


async def fire(desk: Desk, one: ScheduleDetail) -> FiredSchedule | None:
    await refuse_removed(desk, one)
    with refusing():
        receipt = await kept_by(desk, one["app"]).fire(one["name"], by=desk.by, note=desk.note)
    return FiredSchedule(app=one["app"], name=one["name"], event=receipt.id, status=receipt.status, runs=receipt.runs)


async def pause(desk: Desk, one: ScheduleDetail) -> ScheduleDetail | None:
    return await change(desk, one, "pause", lambda kept: kept.pause)


async def resume(desk: Desk, one: ScheduleDetail) -> ScheduleDetail | None:
    return await change(desk, one, "resume", lambda kept: kept.resume)


async def change(
    desk: Desk, one: ScheduleDetail, verb: str, act: Callable[[Schedules], Callable[..., Awaitable[Any]]]
) -> ScheduleDetail | None:
    await refuse_removed(desk, one)
    with refusing():
        if one["origin"] == "reminder":
            refuse_foreign(one, verb)
        await act(kept_by(desk, one["app"]))(one["name"], by=desk.by, note=desk.note)
    return await find(desk, one["name"], app=one["app"])


async def remove(desk: Desk, one: ScheduleDetail) -> ScheduleDetail | None:
    await refuse_removed(desk, one)
    with refusing():
        await refuse_removal(desk.reader, one, written_at=written_at(desk, one))
        await kept_by(desk, one["app"]).remove(one["name"], by=desk.by, note=desk.note)
    return await find(desk, one["name"], app=one["app"])


def own_app(desk: Desk) -> str | None:
    """The app whose code is here, if any is."""
    return None if desk.code is None else desk.code.agents.name


def kept_by(desk: Desk, app: str) -> Schedules:
    """What changes the schedules of an app: its own code, which can fire them, or anything that has the store."""
    if desk.code is not None and own_app(desk) == app:
        return cast("Schedules", desk.code.schedules)
    return Schedules(app, cast("Any", desk.store))


def written_at(desk: Desk, one: Schedule) -> str | None:
    here = desk.code is not None and own_app(desk) == one["app"]
    return desk.app.agents.written_at(one["agent"]) if here else None


async def refuse_removed(desk: Desk, one: Schedule) -> None:
    """A schedule that was removed can be looked at, and no more."""
    if one["state"] == "removed":
        raise NotFound(await missing(desk, one["name"]))


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        title = "The schedule cannot be changed like that"
        raise Refused(str(error), kind="schedule-refused", title=title) from None


@contextlib.contextmanager
def unfit(field: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error), kind="bad-body", title="The body is wrong", status=400, field=field) from None


# what is said


def added(one: ScheduleDetail) -> list[str]:
    woken = f"agent {plain(one['agent'])} of app {plain(one['app'])}"
    return [f"schedule {plain(one['name'])}: {plain(one['rule'])} wakes {woken}", comes(one)]


async def unloaded(desk: Desk, one: ScheduleDetail) -> list[str]:
    app, reader = one["app"], desk.reader
    if await reader.loaded_last(app) or (await reader.apps()).get(app):
        return []
    return [
        f"nobody has loaded app {plain(app)} here yet: it fires once a worker runs that has agent {plain(one['agent'])}"
    ]


def changed(one: ScheduleDetail, before: ScheduleDetail) -> list[str]:
    was = "" if before["rule"] == one["rule"] else f", was {plain(before['rule'])}"
    return [f"schedule {plain(one['name'])} (revision {one['revision']}): {plain(one['rule'])}{was}", comes(one)]


def paused(one: ScheduleDetail) -> str:
    name = plain(one["name"])
    return f"schedule {name} is paused: what would be due is skipped. `wakeful schedules resume {name}` ends that"


def comes(one: ScheduleDetail) -> str:
    """When it fires next, or why it does not."""
    if one["next"] is None:
        past = ": its time has passed" if one["state"] == "done" else ""
        return f"it does not fire any more{past}"
    return f"next: {wall(one['next'])}, {ago(one['next']['at'], now())}"


def fired(one: FiredSchedule) -> str:
    run = f"run {one['runs'][0]}" if one["runs"] else f"no run: `wakeful why {one['event']}` tells why"
    return f"fired {plain(one['name'])} → {run}"


async def unworked(desk: Desk, one: FiredSchedule) -> list[str]:
    processes = await desk.reader.processes()
    if not one["runs"] or any(process["state"] == "alive" and process["lease_left"] > 0 for process in processes):
        return []
    return [f"no worker is alive on this store: start `wakeful serve {plain(desk.app.named)}`"]


RESOURCE = Resource(
    noun="schedule",
    plural="schedules",
    view=Schedule,
    key="name",
    deep=True,  # those of heartbeats have a slash in them
    example="morning",
    missing=missing,
    guesses=True,
    listing=Listing(
        read=schedules,
        summary="list schedules, by app and name",
        none=none,
        columns=(
            Column("app", when=lambda items, _: len({one["app"] for one in items}) > 1),
            Column("schedule", "name"),
            Column("agent", least=NARROW),
            Column("rule", flexible=True),
            Column("state"),
            Column("last", show=last),
            Column("next", show=coming),
            Column("late", show=lambda one, _: lateness(one["cadence"]), least=WIDE),
            Column("really", show=lambda one, _: really(one["cadence"]), least=WIDE),
            Column("not fired", show=lambda one, _: not_fired(one), least=NARROW),
            Column("note", show=note, style="dim", least=NARROW, when=has_notes, flexible=True),
        ),
    ),
    show=Show(
        find=find, summary="one schedule, with what became of its instants, who changed it, and its alarms", lines=shown
    ),
    readings=(
        Reading(
            name="next",
            read=upcoming,
            summary="its next instants, by its rule",
            lines=instants,
            operation="next_of_schedule",
            found="The instants",
        ),
    ),
    verbs=(
        Verb(
            name="add",
            run=add,
            summary="make a schedule for an agent",
            says=added,
            asides=unloaded,
            of_one=False,
            http="POST ",
            statuses=("404", "422"),
        ),
        Verb(
            name="edit",
            run=edit,
            summary="change what is given of a schedule that was made at run time; null takes an option away",
            says=changed,
            http="PATCH /{key}",
            statuses=("422",),
        ),
        Verb(
            name="pause",
            run=pause,
            summary="fire nothing until it is resumed; what would be due is skipped",
            says=paused,
        ),
        Verb(
            name="resume",
            run=resume,
            summary="fire again, from now on",
            says=lambda one: [f"schedule {plain(one['name'])} goes on", comes(one)],
            guarded="resume a schedule",
        ),
        Verb(
            name="remove",
            run=remove,
            summary="remove a schedule that was made at run time; its history stays",
            says=lambda one: f"schedule {plain(one['name'])} is removed: it fires no more, and its history stays",
            http="DELETE /{key}",
        ),
        Verb(
            name="fire",
            run=fire,
            summary="fire it now, beside its instants",
            says=fired,
            asides=unworked,
            needs_app="yes",
            without_app="fire needs the app's code, which says what becomes of an event: wakeful schedules fire NAME app.py. "
            "Without APP, WAKEFUL_APP or an app.py in this folder is used",
        ),
    ),
    more='The word "none" takes an option (but --catch-up) away again: wakeful schedules edit NAME --expires none.\n'
    "wakeful why NAME tells the story of one of them.",
    takes="schedules takes list, or show, next, edit, pause, resume or remove and a NAME, add NAME AGENT, or fire NAME [APP], "
    'like: wakeful schedules add morning digest --cron "0 8 * * 1-5" --tz Europe/London',
)
