"""Alarms: problems that people are notified of, and the verbs that acknowledge, mute and resolve them."""

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

TEXT = "agent review: run 22290ae6d7fc693079e167a06b is a dead letter (TimeoutError: no answer within 30 s); 5 attempts failed"


class Alarm(TypedDict):
    """A failure, or something expected that did not happen."""

    key: Annotated[str, About("Name of the alarm", example="dead/ops/review/3f2a91")]
    # NotRequired: an older server behind the same address does not send it.
    subject: NotRequired[Annotated[str, Made(), About("The alarm in one short sentence")]]
    app: str
    state: AlarmState
    text: Annotated[str, About("The alarm in full", example=TEXT)]
    count: Annotated[Count, About("How often it was raised in this incident")]
    opened_at: Moment
    last_at: Moment
    agent: str | None
    owner: str | None
    incident: Annotated[Count, About("How often it has opened")]
    loud: Annotated[Flag, About("Whether it cannot be muted")]
    told: Annotated[Count, About("Notifications sent for this incident")]
    told_at: MomentOrNone
    tell_at: Annotated[MomentOrNone, About("When the next notification is sent")]
    acknowledged_at: MomentOrNone
    acknowledged_by: str | None
    note: str | None
    muted_until: MomentOrNone
    resolved_at: MomentOrNone
    do: NotRequired[Annotated[str | None, Made(), About("What to do about it")]]
    to: NotRequired[Annotated[str | None, About("Channel named by the alarm; it takes precedence over the owner's")]]
    remind_at: NotRequired[Annotated[MomentOrNone, About("When a reminder is sent, if notifications have no rate")]]
    ending: NotRequired[Annotated[str | None, About("How it ended, if known")]]


class AlarmChange(TypedDict):
    """An operator's action on an alarm."""

    verb: Annotated[str, About("acknowledge, mute or resolve", example="acknowledge")]
    by: str
    note: str | None
    at: Moment


class AlarmWithChanges(Alarm):
    """An alarm with the operators' actions on it."""

    changes: Annotated[list[Annotated[AlarmChange, InPlace()]], Made()]


async def alarms(
    desk: Desk,
    *,
    state: Annotated[AlarmState | None, Param("only alarms in this state")] = None,
    limit: Annotated[int, Param("show at most N", metavar="N", least=1, most=LONGEST_PAGE, in_shell=50)] = LONGEST_PAGE,
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
    """Ids of the dead and held runs that an alarm is about, newest first."""
    return [row[0] for row in await desk.reads.fetch("runs_of_alarm", key)]


def tell(alarm: Alarm) -> None:
    """Fill in the fields that are not stored: the subject and what to do, which follow from the key."""
    alarm["subject"] = title_of(alarm["key"], alarm["text"], agent=alarm["agent"], count=alarm["count"])
    alarm["do"] = todo_of(alarm["key"], agent=alarm["agent"])


async def known(desk: Desk) -> list[str]:
    return [one["key"] for one in await alarms(desk) if one["state"] != "resolved"]


async def missing(desk: Desk, key: str) -> str:
    hint = did_you_mean(key, await known(desk))
    return f'there is no alarm "{plain(key)}".{hint if "Did" in hint else ""} See `wakeful alarms`'


# verbs


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
        raise Refused(message, kind="alarm-refuses", title="This alarm cannot be changed in this way")
    return await find(desk, key)


async def acknowledge(desk: Desk, alarm: AlarmWithChanges) -> AlarmWithChanges | None:
    return await change(desk, alarm, "acknowledge")


Muted = Annotated[
    int,
    Param(
        "duration",
        about="duration, such as 2h",
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


# on the command line


async def none(_: Desk, *, state: AlarmState | None = None, limit: int = LONGEST_PAGE) -> str:
    del limit
    return "no alarms" + (f" in state {state}" if state else "")


def lines(alarm: Alarm, look: Look) -> list[Line]:
    when = f"  {alarm['count']}×, last {look.ago(alarm['last_at'])}, first {look.ago(alarm['opened_at'])}"
    head = line((alarm["state"], "state"), "  ", (plain(alarm["key"]), "bold"), when)
    more = said(alarm)
    return [head, line(plain(alarm["text"]), indent=2), *([line(more, indent=2, style="dim")] if more else [])]


def said(alarm: Alarm) -> str:
    """Its owner, and who acknowledged or muted it."""
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
        yield f"  notified {number(alarm['told'], 'time')}, last {look.ago(alarm['told_at'])}{again}"
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
    listing=Listing(read=alarms, summary="list alarms, latest first", none=none, lines=lines),
    show=Show(find=find, summary="show one alarm with the operators' actions on it", lines=shown),
    verbs=(
        Verb(
            name="acknowledge",
            word="ack",
            run=acknowledge,
            summary="acknowledge: send no more notifications until it resolves",
            says=lambda one: f"{plain(one['key'])} is acknowledged: no more notifications until it resolves",
        ),
        Verb(
            name="mute",
            run=mute,
            summary="send no notifications for some time",
            says=lambda one: f"{plain(one['key'])} is muted until {one['muted_until']}",
        ),
        Verb(
            name="resolve",
            run=resolve,
            summary="close an alarm whose cause is gone",
            says=lambda one: f"{plain(one['key'])} is resolved. It opens again if it is raised again",
        ),
    ),
    more="An acknowledged or muted alarm is still listed until it resolves.",
    takes="alarms takes list, or show, ack, mute or resolve and a KEY, like: wakeful alarms ack dead/ops/review/3f2a91",
)
