"""Open alarms: people are notified by an event, change them, and they resolve when their cause is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from wakeful.clock import Microseconds, readable
from wakeful.model import AlarmState, Arrival
from wakeful.stores.judging import Judge
from wakeful.stores.request import Audit, ByPerson, Others, Ready, Request
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.people import resolve_alarms

AlarmVerb = Literal["acknowledge", "mute", "resolve"]


@dataclass(frozen=True, slots=True)
class StoredAlarm:
    """An alarm as the notifier reads it."""

    key: str
    state: AlarmState
    text: str
    count: int
    opened_at: Microseconds
    last_at: Microseconds
    resolved_at: Microseconds | None
    agent: str | None
    owner: str | None
    incident: int
    loud: bool
    told: int  # how often people were notified before
    acknowledged_by: str | None
    addressee: str | None = None  # the channel to use instead of the owner's
    remind_at: Microseconds | None = None  # when to remind, once
    ending: str | None = None  # how it ended, if that is known


@dataclass(slots=True)
class TellAlarms(Request[list[StoredAlarm]]):
    """Notify people of an app's due alarms, and return these. `arrive` makes the event for each; if it returns None, the alarm is only
    returned. The events are accepted and the alarms marked in one transaction, so that only one of several processes notifies
    people of each alarm.
    """

    app: str
    agent: str  # that receives the events
    most: int
    repeat: Microseconds | None
    arrive: Judge[[StoredAlarm], Arrival | None]
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)

    def readies(self) -> Ready | None:
        return Ready(self.app, frozenset({self.agent}))

    def tell(self, result: list[StoredAlarm], others: Others) -> None:
        if result:
            others.hear(self.app, self.agent)


@dataclass(slots=True)
class ResolveAlarms(Request[None]):
    """Resolve alarms whose cause is over. An alarm that is not open stays as it is."""

    keys: Sequence[str]

    def alarming(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AlarmChanged:
    """The state before and after. `refused` says why nothing was changed."""

    app: str
    was: AlarmState
    state: AlarmState
    refused: str | None = None


@dataclass(slots=True)
class ChangeAlarm(ByPerson[AlarmChanged | None]):
    """A person acknowledges, mutes or resolves an alarm. None if it does not exist; refused if its state does not allow the change."""

    key: str
    verb: AlarmVerb
    span: Microseconds = 0  # how long to mute

    def audit(self, result: AlarmChanged | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        words = [f"for {readable(self.span)}"] if self.verb == "mute" else []
        words += [self.note] if self.note else []
        return Audit(f"alarm {self.verb}", result.app, self.key, ": ".join(words) if words else None)


def tell_alarms(now: int | None, requests: Sequence[TellAlarms]) -> Transaction[list[list[StoredAlarm]]]:
    """1. Lock the due alarms until the commit; other processes skip them. 2. Accept their events as any event. 3. Store when to notify
    again. An acknowledgement or resolution at the same time happens before or after this, because the rows are locked.
    """
    results = []
    for request in requests:
        due = [alarm_of(row) for row in (yield "alarms_to_tell", [(now, request.app, request.most)])]
        arrivals: list[Arrival] = [made for one in due if (made := request.arrive(one)) is not None]
        if arrivals:
            accepted = AcceptEvents(request.app, arrivals, matches=request.matches)
            yield from accept_events(now, [accepted])
            request.woken = accepted.woken
        if due:
            yield "note_told", [(now, one.key, request.repeat) for one in sorted(due, key=lambda one: one.key)]
        results.append(due)
    return results


def resolve_named(now: int | None, requests: Sequence[ResolveAlarms]) -> Transaction[list[None]]:
    keys = sorted({key for request in requests for key in request.keys})
    if keys:
        yield from resolve_alarms(now, keys)
    return [None] * len(requests)


def change_alarms(now: int | None, requests: Sequence[ChangeAlarm]) -> Transaction[list[AlarmChanged | None]]:
    """In order of key, because the rows are locked."""
    results: dict[int, AlarmChanged | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: requests[one].key):
        results[number] = yield from _change(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _change(now: int | None, request: ChangeAlarm) -> Transaction[AlarmChanged | None]:
    found = yield "find_alarm_to_change", [(now, request.key)]
    if not found:
        return None
    state, loud, by, app, _ = found[0]
    refused = _refusal(request, state, by, loud=bool(loud))
    if refused is not None:
        return AlarmChanged(app, state, state, refused)
    after: AlarmState = state
    if request.verb == "acknowledge":
        yield "acknowledge_alarm", [(now, request.key, request.by.name, request.note)]
        after = "acknowledged"
    elif request.verb == "mute":
        yield "mute_alarm", [(now, request.key, request.span)]
    else:
        noted = f": {request.note}" if request.note else ""
        yield from resolve_alarms(now, [request.key], f"resolved by {request.by.name}{noted}")
        after = "resolved"
    return AlarmChanged(app, state, after)


def _refusal(request: ChangeAlarm, state: AlarmState, by: str | None, *, loud: bool) -> str | None:
    if state == "resolved":
        return "is already resolved: there is nothing to " + request.verb
    if request.verb == "acknowledge" and state == "acknowledged":
        return f"is already acknowledged, by {by}"
    if request.verb == "mute" and loud:
        return "cannot be muted: notifications continue until a person acknowledges it or does what it asks for"
    return None


def alarm_of(row: Row) -> StoredAlarm:
    key, state, text, count, opened, last, resolved, agent, owner, incident, loud, told, by, to, remind_at, ending = row
    return StoredAlarm(
        key,
        state,
        text,
        count,
        opened,
        last,
        resolved,
        agent,
        owner,
        incident,
        bool(loud),
        told,
        by,
        to,
        remind_at,
        ending,
    )


async def first_to_tell(database: Fetcher, app: str) -> Microseconds | None:
    """The time until the next notification about an alarm of an app; None if there is none."""
    rows = await database.fetch("first_to_tell", database.read_clock(), app)
    return rows[0][0] if rows else None


async def open_alarms(database: Fetcher, app: str) -> list[tuple[str, Microseconds]]:
    """The keys of the open alarms of an app, and when each was raised last."""
    return [(row[0], row[1]) for row in await database.fetch("open_alarms_of_app", app)]
