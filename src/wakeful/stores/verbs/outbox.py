"""The outbox: one process at a time holds a channel's lane. Storing the results of a batch and taking the next one are one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

# States in which only a person can do something about a delivery: an alarm is open for it.
GIVEN_UP = frozenset({"dead", "unknown"})
# What does not go out any more once a message has arrived: "earlier" messages of its thread, or the whole "thread".
Closes = Literal["earlier", "thread"]
CLOSES: dict[Closes | None, int] = {None: 0, "earlier": 1, "thread": 2}


@dataclass(slots=True)
class Delivered:
    """The result of one attempt to deliver. `pending`: retry after `delay`."""

    seq: int
    state: Literal["pending", "delivered", "unknown", "dead", "discarded"]
    tries: int
    delay: Microseconds = 0
    error: str | None = None
    reason: str | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that this result resolves
    doubtful: bool = False  # a call may have delivered it: its time stays
    evidence: str | None = None  # JSON: what the other side answered
    closes: int = 0  # its thread: CLOSES


def lane_of(channel: str, *, urgent: bool) -> str:
    """The name of a channel's lane. No channel has a "!" in its name."""
    return f"{channel}!" if urgent else channel


def lanes_of(deliveries: Iterable[Delivery]) -> set[str]:
    """The lanes that these deliveries may be in. One of a thread joins the lane of those before it."""
    lanes = {lane_of(one.channel, urgent=one.urgent) for one in deliveries}
    return lanes | {lane_of(one.channel, urgent=not one.urgent) for one in deliveries if one.thread is not None}


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
    urgent: bool = False
    # Which of those that it takes are stored as begun: a call that follows may arrive although its answer is lost.
    begins: Literal["none", "new", "all"] = "none"

    fenced_by = stands_for("process")
    gate = stands_for("app")  # once an agent is halted, none of its deliveries is taken

    @property
    def lane(self) -> str:
        return lane_of(self.channel, urgent=self.urgent)

    def alarming(self) -> bool:
        return any(one.alarm is not None or one.resolves is not None for one in self.results)


@dataclass(slots=True)
class BeginDelivery(Request[bool]):
    """Store that a call begins, for a delivery of a lane that this process holds: it was in doubt, and the other side does not have it.
    False if the lane is lost, or if the delivery may not go out any more.
    """

    app: str
    lane: str
    process: str
    token: int
    seq: int

    fenced_by = stands_for("process")
    gate = stands_for("app")


@dataclass(slots=True)
class ConfirmDelivery(ByPerson[str | None]):
    """A person found that an unknown delivery has arrived. Returns the state before; None if there is no such delivery."""

    id: str
    evidence: str | None = None

    def audit(self, result: str | None) -> Audit | None:
        return Audit("deliveries confirm", None, self.id, self.note) if result == "unknown" else None


@dataclass(slots=True)
class RedoDelivery(ByPerson[str | None]):
    """A person retries or discards a dead or unknown delivery. With `waiting`, also a pending one: it is retried now, or no longer delays
    those behind it. Returns the state before; None if there is no such delivery.
    """

    id: str
    discard: bool = False
    waiting: bool = False

    def follow(self, _: str | None, heard: Heard) -> None:
        heard.deliveries()

    def audit(self, result: str | None) -> Audit | None:
        if result not in GIVEN_UP and not (self.waiting and result == "pending"):
            return None
        return Audit(f"deliveries {'discard' if self.discard else 'replay'}", None, self.id, self.note)


def work_lanes(now: int | None, requests: Sequence[WorkLane]) -> Transaction[list[Lane]]:
    lanes: dict[int, Lane] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].lane)):
        lanes[number] = yield from _work(now, requests[number])
    return [lanes[number] for number in range(len(requests))]


def _work(now: int | None, request: WorkLane) -> Transaction[Lane]:
    """1. Take or keep the lane. Its row stays locked, so no other process can take it while results are not stored that only we know.
    2. Store the results. 3. Read the next due deliveries; the first one that must wait also delays those behind it; one whose thread was
    closed is discarded. 4. If there are none, free the lane.
    """
    app, lane = request.app, request.lane
    if request.token is None:
        rows = yield "take_lane", [(app, lane, request.process)]
    else:
        rows = yield "keep_lane", [(app, lane, request.process, request.token)]
    if not rows:
        return Lane(busy=request.token is None, lost=request.token is not None)
    token = rows[0][0]
    if request.results:
        yield "save_delivery", [_saved(now, one) for one in request.results]
        raising = [(one, one.alarm) for one in request.results if one.alarm is not None]
        over = {one.resolves for one in request.results if one.resolves is not None}
        if over:
            yield from resolve_alarms(now, sorted(over))
        alarms = (yield from under_open_keys([alarm for _, alarm in raising])) if raising else []
        if alarms:
            yield from open_alarms(now, alarms)
        dead = [(one.seq, alarm.key) for (one, _), alarm in zip(raising, alarms, strict=True) if one.state in GIVEN_UP]
        if dead:
            yield "note_alarm_of_delivery", dead
    waiting = yield from _waiting(now, request)
    due = _due(waiting, request)
    if due:
        begun = [
            (now, one.seq)
            for one in due
            if request.begins == "all" or (request.begins == "new" and one.doubt_at is None)
        ]
        if begun:
            yield "begin_delivery", begun
        return Lane(token, due)
    yield "leave_lane", [(app, lane, token)]
    return Lane(next_due=min((row[8] for row in _heads(waiting)), default=None))


def _waiting(now: int | None, request: WorkLane) -> Transaction[list[Row]]:
    """The next deliveries. One that another message of its thread has overtaken and closed is discarded instead: it was replayed after
    that, or committed late.
    """
    while True:
        rows: list[Row] = yield (
            "next_deliveries",
            [(now, request.app, request.channel, int(request.urgent), request.most)],
        )
        closed = [row for row in rows if row[14] is not None]
        if not closed:
            return rows
        yield "save_delivery", [_saved(now, _overtaken(row)) for row in closed]


def _overtaken(row: Row) -> Delivered:
    seq, _, _, _, _, tries, _, _, _, _, _, error, _, doubt_at, closing = row
    reason = f"not sent: delivery {closing} has arrived before it, and closed their thread"
    return Delivered(seq, "discarded", tries, error=error, reason=reason, doubtful=doubt_at is not None)


def begin_deliveries(now: int | None, requests: Sequence[BeginDelivery]) -> Transaction[list[bool]]:
    results: dict[int, bool] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].lane)):
        one = requests[number]
        kept = yield "keep_lane", [(one.app, one.lane, one.process, one.token)]
        results[number] = bool(kept and (yield "begin_delivery", [(now, one.seq)]))
    return [results[number] for number in range(len(requests))]


def confirm_deliveries(now: int | None, requests: Sequence[ConfirmDelivery]) -> Transaction[list[str | None]]:
    results: list[str | None] = []
    for request in requests:
        found = yield "find_deliveries", [(request.id.partition("-")[0], request.id)]
        results.append(found[0][1] if found else None)
        if found and found[0][1] == "unknown":
            seq, run, error = found[0][0], found[0][2], found[0][3]
            reason = f"confirmed by {request.by.name}" + (f": {request.note}" if request.note else "")
            raised = yield "alarms_of_deliveries", [(seq,)]
            yield "confirm_delivery", [(now, seq, reason, request.evidence)]
            yield from resolve_if_last(now, [row[0] for row in raised])
            yield "insert_remedy", [_remedy(now, run, "confirm", request, error)]
    return results


def redo_deliveries(now: int | None, requests: Sequence[RedoDelivery]) -> Transaction[list[str | None]]:
    """Return the state of each before. Only a dead delivery is changed, or a pending one with `waiting`; the operator and the previous
    error are recorded with its run.
    """
    results: list[str | None] = []
    for request in requests:
        root = request.id.partition("-")[0]
        found = yield "find_deliveries", [(root, request.id)]
        results.append(found[0][1] if found else None)
        if found and (found[0][1] in GIVEN_UP or (found[0][1] == "pending" and request.waiting)):
            word = "discarded" if request.discard else "replayed"
            reason = f"{word} by {request.by.name}" + (f": {request.note}" if request.note else "")
            seq, _, run, error, app, channel = found[0]
            yield "redo_delivery", [(now, seq, "discarded" if request.discard else "pending", reason)]
            if found[0][1] == "pending":  # if it fails again, the alarm opens again
                yield from resolve_alarms(now, [late_alarm(app, channel)])
            else:
                raised = yield "alarms_of_deliveries", [(seq,)]
                yield from resolve_if_last(now, [row[0] for row in raised])
            verb = "drop" if request.discard else "redeliver"
            yield "insert_remedy", [_remedy(now, run, verb, request, error)]
    return results


def _remedy(
    now: int | None, run: int, verb: str, request: RedoDelivery | ConfirmDelivery, error: str | None
) -> tuple[object, ...]:
    ended = to_json({**from_json(error or "{}"), "delivery": request.id}).decode()
    return (now, run, verb, request.by.name, request.note, None, ended)


def _saved(now: int | None, one: Delivered) -> tuple[object, ...]:
    return (
        now,
        one.seq,
        one.state,
        one.tries,
        one.delay,
        one.error,
        one.reason,
        int(one.doubtful),
        one.evidence,
        one.closes,
    )


def _heads(waiting: Sequence[Row]) -> list[Row]:
    """The first delivery of each order: the lane's own, and each thread's."""
    in_order = next((row for row in waiting if row[12] is None), None)
    return [row for row in waiting if row is in_order or row[12] is not None]


def _due(waiting: Sequence[Row], request: WorkLane) -> list[Delivery]:
    """Those that may go now. Without a thread, one that must wait delays those behind it."""
    due: list[Delivery] = []
    delayed = False
    for row in waiting:
        delayed = delayed or (row[12] is None and row[8] > 0)
        if row[8] <= 0 and not (delayed and row[12] is None):
            due.append(_delivery_of(row, request))
    return due[: request.most]


def _delivery_of(row: Row, request: WorkLane) -> Delivery:
    (
        seq,
        identifier,
        message,
        subject,
        created_at,
        tries,
        agent,
        run,
        wait,
        envelope,
        age,
        error,
        thread,
        doubt_at,
        _,
    ) = row
    return Delivery(
        identifier,
        request.channel,
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
        urgent=request.urgent,
        thread=thread,
        doubt_at=doubt_at,
    )


async def first_delivery(database: Fetcher, app: str, channel: str, *, urgent: bool = False) -> Microseconds | None:
    """The time until the next delivery of a channel's lane is due; None if there is none."""
    rows = await database.fetch("first_delivery", database.read_clock(), app, channel, int(urgent))
    return rows[0][0] if rows else None
