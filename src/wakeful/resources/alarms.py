"""Alarms: what a person should hear of, and their word that they have."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from wakeful.alarm_words import title_of, todo_of
from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import did_you_mean
from wakeful.model import AlarmState
from wakeful.resources.declare import Listing, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Flag, InPlace, Made, Moment, MomentOrNone
from wakeful.resources.parameters import LONGEST_PAGE, Param
from wakeful.resources.refusals import Refused
from wakeful.resources.words import Line, Look, Table, clock_time, line, number, plain
from wakeful.stores.verbs.alarms import AlarmVerb, ChangeAlarm


class Alarm(TypedDict):
    """Something that should have happened and did not, or that broke."""

    key: Annotated[str, About("Its name", example="dead/ops/review/3f2a91")]
    # NotRequired: a server of an older version, behind the same address, does not know it.
    subject: NotRequired[Annotated[str, Made(), About("The alarm in one short sentence")]]
    app: str
    state: AlarmState
    text: str
    count: Annotated[Count, About("How often it was raised in this incident")]
    opened_at: Moment
    last_at: Moment
    agent: str | None
    owner: str | None
    incident: Annotated[Count, About("How often it has opened")]
    loud: Annotated[Flag, About("It cannot be muted")]
    told: Annotated[Count, About("How often somebody was told of this incident")]
    told_at: MomentOrNone
    tell_at: Annotated[MomentOrNone, About("When somebody is told next")]
    acknowledged_at: MomentOrNone
    acknowledged_by: str | None
    note: str | None
    muted_until: MomentOrNone
    resolved_at: MomentOrNone
    do: NotRequired[Annotated[str | None, Made(), About("What a person can do about it")]]
    to: NotRequired[Annotated[str | None, About("The channel that it names, which goes before the owner's")]]
    remind_at: NotRequired[Annotated[MomentOrNone, About("When it is told once more, where it is not told at a rate")]]
    ending: NotRequired[Annotated[str | None, About("How it ended, where that is known")]]


class AlarmChange(TypedDict):
    """What a person did about an alarm."""

    verb: str
    by: str
    note: str | None
    at: Moment


class AlarmWithChanges(Alarm):
    """An alarm, and what people did about it."""

    changes: Annotated[list[Annotated[AlarmChange, InPlace()]], Made()]


async def alarms(
    desk: Desk,
    *,
    state: Annotated[AlarmState | None, Param("only alarms in this state")] = None,
    limit: Annotated[
        int, Param("how many at most", metavar="N", least=1, most=LONGEST_PAGE, in_shell=50)
    ] = LONGEST_PAGE,
) -> list[Alarm]:
    found = await desk.reads.rows(Alarm, "list_alarms", state, limit)
    for one in found:
        tell(one)
    return found


async def find(desk: Desk, key: str) -> AlarmWithChanges | None:
    for one in await desk.reads.rows(AlarmWithChanges, "find_alarm", key):
        tell(one)
        one["changes"] = await desk.reads.rows(AlarmChange, "operations_on_alarm", key)
        return one
    return None


async def runs_of(desk: Desk, key: str) -> list[str]:
    """The dead and held runs that an alarm is about, the newest first."""
    return [row[0] for row in await desk.reads.fetch("runs_of_alarm", key)]


def tell(alarm: Alarm) -> None:
    """Fill in what is in no row: the sentences that its key stands for."""
    alarm["subject"] = title_of(alarm["key"], alarm["text"], agent=alarm["agent"], count=alarm["count"])
    alarm["do"] = todo_of(alarm["key"], agent=alarm["agent"])


async def known(desk: Desk) -> list[str]:
    return [one["key"] for one in await alarms(desk) if one["state"] != "resolved"]


async def missing(desk: Desk, key: str) -> str:
    hint = did_you_mean(key, await known(desk))
    return f'there is no alarm "{plain(key)}".{hint if "Did" in hint else ""} See `wakeful alarms`'


# what people do


def span(text: str) -> Microseconds:
    given = duration(text)
    if given < SECOND:
        message = f"at least 1s, not {text}"
        raise ValueError(message)
    return given


async def change(desk: Desk, alarm: Alarm, verb: AlarmVerb, span: Microseconds = 0) -> AlarmWithChanges | None:
    key = alarm["key"]
    changed = await desk.store.do(ChangeAlarm(key, verb, span=span, by=desk.by, note=desk.note))
    if changed is not None and changed.refused is not None:
        message = f"alarm {plain(key)} {changed.refused}"
        raise Refused(message, kind="alarm-refuses", title="That cannot be done to this alarm")
    return await find(desk, key)


async def acknowledge(desk: Desk, alarm: AlarmWithChanges) -> AlarmWithChanges | None:
    return await change(desk, alarm, "acknowledge")


Muted = Annotated[
    int,
    Param(
        "how long",
        about="how long, like 2h",
        flag="--for",
        http="for",
        metavar="TIME",
        example="2h",
        read=span,
        elsewhere="--for is for mute, not for {word}",
    ),
]


async def mute(desk: Desk, alarm: AlarmWithChanges, *, span: Muted) -> AlarmWithChanges | None:
    return await change(desk, alarm, "mute", span)


async def resolve(desk: Desk, alarm: AlarmWithChanges) -> AlarmWithChanges | None:
    return await change(desk, alarm, "resolve")


# how a shell prints them


async def none(_: Desk, *, state: AlarmState | None = None, limit: int = LONGEST_PAGE) -> str:
    del limit
    return "no alarms" + (f" in state {state}" if state else "")


def lines(alarm: Alarm, look: Look) -> list[Line]:
    when = f"  {alarm['count']}×, last {look.ago(alarm['last_at'])}, first {look.ago(alarm['opened_at'])}"
    head = line((alarm["state"], "state"), "  ", (plain(alarm["key"]), "bold"), when)
    more = said(alarm)
    return [head, line(plain(alarm["text"]), indent=2), *([line(more, indent=2, style="dim")] if more else [])]


def said(alarm: Alarm) -> str:
    """Who hears of it, and what people said."""
    words = []
    if alarm["owner"]:
        words.append(f"owner {plain(alarm['owner'])}")
    if alarm["state"] == "acknowledged":
        note = f": {plain(alarm['note'])}" if alarm["note"] else ""
        words.append(f"acknowledged by {plain(alarm['acknowledged_by'])}{note}")
    if alarm["state"] == "open" and alarm["muted_until"] is not None and alarm["muted_until"] == alarm["tell_at"]:
        words.append(f"muted until {alarm['muted_until']}")
    return ", ".join(words)


def shown(alarm: AlarmWithChanges, look: Look) -> Printed:
    yield from lines(alarm, look)
    if alarm["do"] is not None and alarm["state"] != "resolved":
        yield line(f"what to do: {plain(alarm['do'])}", indent=2)
    if alarm["told_at"] is not None:
        again = f", again {look.ago(alarm['tell_at'])}" if alarm["tell_at"] and alarm["state"] == "open" else ""
        yield f"  told {number(alarm['told'], 'time')}, last {look.ago(alarm['told_at'])}{again}"
    if alarm["resolved_at"] is not None:
        how = f": {plain(alarm['ending'])}" if alarm["ending"] else ""
        yield f"  resolved {look.ago(alarm['resolved_at'])}{how}"
    rows = [
        [clock_time(one["at"]), one["verb"], plain(one["by"]), plain(one["note"] or "–")] for one in alarm["changes"]
    ]
    if rows:
        yield Table(["changed", "how", "by", "note"], rows, flexible="note")


RESOURCE = Resource(
    noun="alarm",
    plural="alarms",
    view=Alarm,
    key="key",
    deep=True,
    example="dead/ops/review/3f2a91",
    missing=missing,
    known=known,
    listing=Listing(read=alarms, summary="list alarms, the latest first", none=none, lines=lines),
    show=Show(find=find, summary="one alarm, and what people did about it", lines=shown),
    verbs=(
        Verb(
            name="acknowledge",
            word="ack",
            run=acknowledge,
            summary="somebody knows: it is told no more until it resolves",
            says=lambda one: f"{plain(one['key'])} is acknowledged: nobody is told of it again until it resolves",
        ),
        Verb(
            name="mute",
            run=mute,
            summary="it is not told for some time",
            says=lambda one: f"{plain(one['key'])} is muted until {one['muted_until']}",
        ),
        Verb(
            name="resolve",
            run=resolve,
            summary="it is over",
            says=lambda one: f"{plain(one['key'])} is resolved. Should it be raised again, it opens anew",
        ),
    ),
    more="An alarm that is acknowledged or muted is still listed, until it resolves.",
    takes="alarms takes list, or show, ack, mute or resolve and a KEY, like: wakeful alarms ack dead/ops/review/3f2a91",
)
