"""Alarms, after they were raised: told by an event, changed by people, resolved when what they were raised for is over."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.model import AlarmState, Arrival
from wakeful.stores.alarms import AlarmChanged, ChangeAlarm, ResolveAlarms, StoredAlarm, TellAlarms
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.people import resolve_alarms


def tell_alarms(now: int | None, requests: Sequence[TellAlarms]) -> Transaction[list[list[StoredAlarm]]]:
    """1. Those that are due; the rows are ours until the commit, and others pass over them. 2. Their events, by the door's own
    way. 3. When to tell them again. One that is acknowledged or resolved meanwhile was so before, or will be after this.
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
    """In the order of their keys: the rows are locked."""
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
        return "is resolved already: there is nothing to " + request.verb
    if request.verb == "acknowledge" and state == "acknowledged":
        return f"is acknowledged already, by {by}"
    if request.verb == "mute" and loud:
        return "cannot be muted: it is heard until somebody acknowledges it, or does what it asks for"
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
