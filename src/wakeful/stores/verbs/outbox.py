"""The outbox: one process at a time holds a channel's lane. Storing the results of a batch and taking the next one are one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.model import Delivery
from wakeful.stores.alarm import Alarm, late_alarm
from wakeful.stores.request import Audit, ByPerson, Heard, Request, stands_for
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.dead import resolve_if_last, under_open_keys
from wakeful.stores.verbs.people import open_alarms, resolve_alarms


@dataclass(slots=True)
class Delivered:
    """The result of one attempt to deliver. `pending`: retry after `delay`."""

    seq: int
    state: Literal["pending", "delivered", "dead"]
    tries: int
    delay: Microseconds = 0
    error: str | None = None
    reason: str | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that this result resolves


@dataclass(slots=True)
class Lane:
    """The content of a lane. Without deliveries the lane is given back, and `next_due` says when to look again."""

    token: int | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    next_due: Microseconds | None = None
    busy: bool = False  # another process holds it
    lost: bool = False  # no longer ours: take it again


@dataclass(slots=True)
class WorkLane(Request[Lane]):
    """Store the results of a channel's deliveries and take the next ones, in one transaction. One process at a time holds a channel's
    lane: the first request takes it (`token` is None), and the request that finds no more work gives it back.
    """

    app: str
    channel: str
    process: str
    most: int
    token: int | None = None
    results: list[Delivered] = field(default_factory=list)

    fenced_by = stands_for("process")
    gate = stands_for("app")  # once an agent is halted, none of its deliveries is taken

    def alarming(self) -> bool:
        return any(one.alarm is not None or one.resolves is not None for one in self.results)


@dataclass(slots=True)
class RedoDelivery(ByPerson[str | None]):
    """A person retries or discards a dead delivery. With `waiting`, also a pending one: it is retried now, or no longer delays those
    behind it. Returns the state before; None if there is no such delivery.
    """

    id: str
    discard: bool = False
    waiting: bool = False

    def follow(self, _: str | None, heard: Heard) -> None:
        heard.deliveries()

    def audit(self, result: str | None) -> Audit | None:
        if result != "dead" and not (self.waiting and result == "pending"):
            return None
        return Audit(f"deliveries {'discard' if self.discard else 'replay'}", None, self.id, self.note)


def work_lanes(now: int | None, requests: Sequence[WorkLane]) -> Transaction[list[Lane]]:
    lanes: dict[int, Lane] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].channel)):
        lanes[number] = yield from _work(now, requests[number])
    return [lanes[number] for number in range(len(requests))]


def _work(now: int | None, request: WorkLane) -> Transaction[Lane]:
    """1. Take or keep the lane. Its row stays locked, so no other process can take it while results are not stored that only we know.
    2. Store the results. 3. Read the next due deliveries; the first one that must wait also delays those behind it. 4. If there are
    none, free the lane.
    """
    app, channel = request.app, request.channel
    if request.token is None:
        rows = yield "take_lane", [(app, channel, request.process)]
    else:
        rows = yield "keep_lane", [(app, channel, request.process, request.token)]
    if not rows:
        return Lane(busy=request.token is None, lost=request.token is not None)
    token = rows[0][0]
    if request.results:
        saved = [(now, one.seq, one.state, one.tries, one.delay, one.error, one.reason) for one in request.results]
        yield "save_delivery", saved
        raising = [(one, one.alarm) for one in request.results if one.alarm is not None]
        over = {one.resolves for one in request.results if one.resolves is not None}
        if over:
            yield from resolve_alarms(now, sorted(over))
        alarms = (yield from under_open_keys([alarm for _, alarm in raising])) if raising else []
        if alarms:
            yield from open_alarms(now, alarms)
        dead = [(one.seq, alarm.key) for (one, _), alarm in zip(raising, alarms, strict=True) if one.state == "dead"]
        if dead:
            yield "note_alarm_of_delivery", dead
    waiting = yield "next_deliveries", [(now, app, channel, request.most)]
    due: list[Delivery] = []
    for row in waiting:
        if row[8] > 0:
            break
        due.append(_delivery_of(row, channel))
    if due:
        return Lane(token, due)
    yield "leave_lane", [(app, channel, token)]
    return Lane(next_due=waiting[0][8] if waiting else None)


def redo_deliveries(now: int | None, requests: Sequence[RedoDelivery]) -> Transaction[list[str | None]]:
    """Return the state of each before. Only a dead delivery is changed, or a pending one with `waiting`; the operator and the previous
    error are recorded with its run.
    """
    results: list[str | None] = []
    for request in requests:
        root = request.id.partition("-")[0]
        found = yield "find_deliveries", [(root, request.id)]
        results.append(found[0][1] if found else None)
        if found and (found[0][1] == "dead" or (found[0][1] == "pending" and request.waiting)):
            word = "discarded" if request.discard else "replayed"
            reason = f"{word} by {request.by.name}" + (f": {request.note}" if request.note else "")
            seq, _, run, error, app, channel = found[0]
            yield "redo_delivery", [(now, seq, "discarded" if request.discard else "pending", reason)]
            ended = to_json({**from_json(error or "{}"), "delivery": request.id}).decode()
            if found[0][1] == "pending":  # if it fails again, the alarm opens again
                yield from resolve_alarms(now, [late_alarm(app, channel)])
            else:
                raised = yield "alarms_of_deliveries", [(seq,)]
                yield from resolve_if_last(now, [row[0] for row in raised])
            verb = "drop" if request.discard else "redeliver"
            yield "insert_remedy", [(now, run, verb, request.by.name, request.note, None, ended)]
    return results


def _delivery_of(row: Row, channel: str) -> Delivery:
    seq, identifier, message, subject, created_at, tries, agent, run, wait, envelope, age, error = row
    return Delivery(
        identifier,
        channel,
        message,
        subject,
        seq=seq,
        agent=agent,
        run=run,
        committed_at=created_at,
        tries=tries,
        envelope=envelope,
        age=age,
        error=error,
        due_at=created_at + age + wait,
    )


async def first_delivery(database: Fetcher, app: str, channel: str) -> Microseconds | None:
    """The time until the next delivery of a channel is due; None if there is none."""
    rows = await database.fetch("first_delivery", database.read_clock(), app, channel)
    return rows[0][0] if rows else None
