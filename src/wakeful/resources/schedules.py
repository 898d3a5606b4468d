"""Schedules: when agents are woken, the result of each occurrence, and the verbs that change a schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, cast

from wakeful.errors import ConfigError, InvalidData, NotFound
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
from wakeful.resources import backfill
from wakeful.resources.declare import Alias, Column, Listing, Reading, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.parameters import UNSET, Param
from wakeful.resources.processes import living
from wakeful.resources.refusals import Refused, Unfit
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
from wakeful.resources.schedule_reading import OfWhich, find, missing, none, own_app, schedules, upcoming
from wakeful.resources.schedule_views import FiredSchedule, Schedule, ScheduleDetail
from wakeful.resources.schedule_words import (
    NARROW,
    WIDE,
    added,
    changed,
    comes,
    coming,
    fired,
    has_notes,
    last,
    lateness,
    not_fired,
    note,
    occurrences,
    paused,
    really,
    shown,
)
from wakeful.resources.words import plain
from wakeful.stores.known import known_apps, loaded_last
from wakeful.triggers.schedule import NAME_LIMIT, as_stored
from wakeful.triggers.schedule import Schedule as Declared
from wakeful.triggers.schedules import Schedules, refuse_name

# making and editing


async def add(
    desk: Desk,
    *,
    name: Annotated[
        str,
        Param("name of the schedule", about="printable, without /", positional=True, metavar="NAME", most=NAME_LIMIT),
    ],
    agent: Annotated[str, Param("agent to wake", positional=True, metavar="AGENT")],
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


async def apps_given(desk: Desk, *, app: str | None = None, **_: Any) -> list[str]:
    own = app or own_app(desk)
    return [] if own is None else [own]


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
        detail = "no change is given"
        raise Unfit(detail, "body", typed=f"edit {plain(name)}: {detail}; see wakeful schedules --help")
    if agent is not None:
        await app_of(desk, agent, app)
    refuse_misfit(desk, app, agent or one["agent"], one["data"] if data is UNSET else data)
    # Applied to the definition at the time of the change, so that two concurrent edits of different parts are both kept.
    change = None if wanted is None else lambda before: edited(before, given)
    carried = ... if data is UNSET else data
    with refusing():
        if wanted is not None:
            refuse_past(wanted, await desk.reads.time())
        await kept.edit(name, change, agent=agent, data=carried, by=desk.by, note=desk.note)
    return await find(desk, name, app=app)


def given_of(passed: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of a schedule; None removes an option. Raises Unfit for an option that cannot be removed."""
    given = {one: passed[one] for one in OPTIONS if passed[one] is not UNSET}
    for one in (*RULES, "tz"):
        if one in given and given[one] is None:
            detail = f"{one} cannot be removed: give another value, or leave it out"
            raise Unfit(detail, one, typed=f"--{one} none: a schedule needs one")
    return given


def guilty(given: Mapping[str, Any]) -> str:
    """The field that an error is most likely about."""
    return next((one for one in (*RULES, *HOURS, "tz") if one in given), next(iter(given), "cron"))


async def app_of(desk: Desk, agent: str, app: str | None) -> str:
    """The app of the agent. Raises NotFound if no app is known to have the agent."""
    if desk.code is not None and app in {None, own_app(desk)}:
        desk.code.agents.refuse_unknown(agent)
        return str(desk.code.agents.name)
    return (await app_for(desk.reads, agent, app))[0]


def refuse_misfit(desk: Desk, app: str, agent: str, data: Any) -> None:
    """Check the data against the agent, if the app's code is here."""
    if desk.code is None or own_app(desk) != app:
        return
    try:
        desk.code.agents.refuse_misfit(agent, data)
    except InvalidData as error:
        title = "The data does not fit"
        raise Refused(str(error), kind="data-does-not-fit", title=title, status=422, field="data") from None


# other verbs


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
        await refuse_removal(desk.reads, one, written_at=written_at(desk, one))
        await kept_by(desk, one["app"]).remove(one["name"], by=desk.by, note=desk.note)
    return await find(desk, one["name"], app=one["app"])


def kept_by(desk: Desk, app: str) -> Schedules:
    """The schedules of an app: through its code if that is here (only code can fire them), else through the store alone."""
    if desk.code is not None and own_app(desk) == app:
        return cast("Schedules", desk.code.schedules)
    return Schedules(app, desk.database_store)


def written_at(desk: Desk, one: Schedule) -> str | None:
    here = desk.code is not None and own_app(desk) == one["app"]
    return desk.app.agents.written_at(one["agent"]) if here else None


async def refuse_removed(desk: Desk, one: Schedule) -> None:
    """Raise NotFound for a removed schedule: it can be shown, not changed."""
    if one["state"] == "removed":
        raise NotFound(await missing(desk, one["name"]))


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        title = "This change of the schedule is not possible"
        raise Refused(str(error), kind="schedule-refused", title=title) from None


@contextlib.contextmanager
def unfit(field: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error), kind="bad-body", title="The body is wrong", status=400, field=field) from None


# notes on standard error


async def unloaded(desk: Desk, one: ScheduleDetail) -> list[str]:
    app, reads = one["app"], desk.reads
    if await loaded_last(reads, app) or (await known_apps(reads)).get(app):
        return []
    return [
        f"no process has loaded app {plain(app)} here yet: the schedule fires once a worker with agent {plain(one['agent'])} runs"
    ]


async def unworked(desk: Desk, one: FiredSchedule) -> list[str]:
    if not one["runs"] or await living(desk):
        return []
    return [f"no worker is alive on this store: start `wakeful serve {plain(desk.app.named)}`"]


TAKES = (
    "schedules takes list, or show, next, edit, pause, resume or remove and a NAME, add NAME AGENT, or fire NAME [APP], "
    'like: wakeful schedules add morning digest --cron "0 8 * * 1-5" --tz Europe/London'
)

RESOURCE = Resource(
    noun="schedule",
    plural="schedules",
    view=Schedule,
    key="name",
    deep=True,  # names of heartbeat schedules contain a slash
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
        find=find,
        summary="show one schedule with the results of its occurrences, its changes and its alarms",
        lines=shown,
    ),
    readings=(
        Reading(
            name="next",
            read=upcoming,
            summary="show its next occurrences",
            lines=occurrences,
            operation="next_of_schedule",
            found="The occurrences",
        ),
    ),
    verbs=(
        Verb(
            name="add",
            run=add,
            summary="add a schedule for an agent",
            says=added,
            asides=unloaded,
            of_one=False,
            across=True,
            apps=apps_given,
            http="POST ",
            statuses=("404", "422"),
            example={"name": "morning", "agent": "report", "cron": "0 9 * * 1-5", "tz": "Europe/London"},
        ),
        Verb(
            name="edit",
            run=edit,
            summary="change the given options of a schedule that was added at run time",
            says=changed,
            across=True,
            http="PATCH /{key}",
            statuses=("422",),
            example={"cron": "30 9 * * 1-5", "max_age": "2h"},
        ),
        Verb(
            name="pause",
            run=pause,
            summary="stop firing until resumed; occurrences due meanwhile are skipped",
            says=paused,
            across=True,
        ),
        Verb(
            name="resume",
            run=resume,
            summary="fire again from now on",
            says=lambda one: [f"schedule {plain(one['name'])} is resumed", comes(one)],
            guarded="resume a schedule",
        ),
        Verb(
            name="remove",
            run=remove,
            summary="remove a schedule that was added at run time; its history is kept",
            says=lambda one: f"schedule {plain(one['name'])} is removed: it no longer fires; its history is kept",
            across=True,
            http="DELETE /{key}",
        ),
        Verb(
            name="fire",
            run=fire,
            summary="fire now, in addition to its occurrences",
            says=fired,
            asides=unworked,
            needs_app="yes",
            without_app="fire needs the app's code, which decides what happens to an event: wakeful schedules fire NAME app.py. "
            "Without APP, WAKEFUL_APP or an app.py in this folder is used",
        ),
        backfill.VERB,
    ),
    more='The value "none" removes an option (except --catch-up): wakeful schedules edit NAME --expires none.\n'
    "`wakeful why NAME` explains one schedule.",
    takes=lambda word: backfill.TAKES if word == "backfill" else TAKES,
)
ALIASES = {"backfill": Alias("schedules", "backfill")}
