"""Schedules: what wakes which agent when, what became of each occurrence, and what people change of it."""

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
    return (await app_for(desk.reads, agent, app))[0]


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
        await refuse_removal(desk.reads, one, written_at=written_at(desk, one))
        await kept_by(desk, one["app"]).remove(one["name"], by=desk.by, note=desk.note)
    return await find(desk, one["name"], app=one["app"])


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


# what a shell adds


async def unloaded(desk: Desk, one: ScheduleDetail) -> list[str]:
    app, reads = one["app"], desk.reads
    if await loaded_last(reads, app) or (await known_apps(reads)).get(app):
        return []
    return [
        f"nobody has loaded app {plain(app)} here yet: it fires once a worker runs that has agent {plain(one['agent'])}"
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
        find=find,
        summary="one schedule, with what became of its occurrences, who changed it, and its alarms",
        lines=shown,
    ),
    readings=(
        Reading(
            name="next",
            read=upcoming,
            summary="its next occurrences, by its rule",
            lines=occurrences,
            operation="next_of_schedule",
            found="The occurrences",
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
            across=True,
            apps=apps_given,
            http="POST ",
            statuses=("404", "422"),
        ),
        Verb(
            name="edit",
            run=edit,
            summary="change what is given of a schedule that was made at run time; null takes an option away",
            says=changed,
            across=True,
            http="PATCH /{key}",
            statuses=("422",),
        ),
        Verb(
            name="pause",
            run=pause,
            summary="fire nothing until it is resumed; what would be due is skipped",
            says=paused,
            across=True,
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
            across=True,
            http="DELETE /{key}",
        ),
        Verb(
            name="fire",
            run=fire,
            summary="fire it now, beside its occurrences",
            says=fired,
            asides=unworked,
            needs_app="yes",
            without_app="fire needs the app's code, which says what becomes of an event: wakeful schedules fire NAME app.py. "
            "Without APP, WAKEFUL_APP or an app.py in this folder is used",
        ),
        backfill.VERB,
    ),
    more='The word "none" takes an option (but --catch-up) away again: wakeful schedules edit NAME --expires none.\n'
    "wakeful why NAME tells the story of one of them.",
    takes=lambda word: backfill.TAKES if word == "backfill" else TAKES,
)
ALIASES = {"backfill": Alias("schedules", "backfill")}
