"""The nouns, and the tables of their legal transitions. Nothing here does anything.

    event ──► admission ──► run ──┬──► step
                             │    ├──► effect
                             │    └──► delivery
                             └───────► dead letter ──► alarm
    schedule ──► occurrence ──► event

A run's life:

                 ┌────────────── retry, release, crash ──────────────┐
                 ▼                                                   │
    accepted ─► ready ─► running ─► done | dead | denied | cancelled │
                 ▲          │                                        │
                 └─ waiting ┴────────────────────────────────────────┘
                    (for time)      held (for a person)   parked (circuit, budget, pause)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, get_args

from wakeful.clock import Microseconds

EventState = Literal["accepted", "duplicate", "expired", "unmatched", "quarantined"]
AdmissionState = Literal["started", "joined", "superseded", "skipped", "expired", "denied"]
RunState = Literal["ready", "running", "waiting", "held", "parked", "done", "dead", "denied", "cancelled"]
StepState = Literal["done", "failed", "retrying", "waiting", "fact"]
Safety = Literal["idempotent", "reconcile", "at_most_once"]
EffectState = Literal["staged", "intent", "retrying", "unknown", "held", "confirmed", "failed", "abandoned", "undone"]
DeliveryState = Literal["held", "pending", "delivered", "dead", "discarded"]
AlarmState = Literal["open", "acknowledged", "resolved"]
ProcessState = Literal["alive", "stopped", "dead"]
ApprovalState = Literal["open", "answered", "expired", "withdrawn"]
CircuitState = Literal["closed", "open", "probing", "recovering"]
Overlap = Literal["queue", "skip", "replace"]
ScheduleState = Literal["live", "paused", "done", "removed"]
ReminderState = Literal["pending", "paused", "telling", "told", "unneeded", "failed", "cancelled", "over"]
SourceState = Literal["idle", "reading", "paused", "failing"]
# As people see it: that the server of a webhook is dead is known by its lease, and stored nowhere.
ShownSourceState = Literal["idle", "reading", "paused", "failing", "unserved"]
OccurrenceState = Literal["expected", "fired", "missed", "coalesced", "skipped", "superseded"]
AttemptOutcome = Literal[
    "retried", "released", "crashed", "waited", "held", "parked", "dead", "denied", "cancelled", "done"
]
Answer = Literal["allow", "ask", "shadow", "hold", "deny"]

EVENT_STATES = frozenset(get_args(EventState))
STORED_EVENT_STATES = EVENT_STATES - {"duplicate"}  # a duplicate is counted on the event that it repeats
RUN_STATES = frozenset(get_args(RunState))
SCHEDULE_STATES = frozenset(get_args(ScheduleState))
FINAL_RUN_STATES: frozenset[RunState] = frozenset({"done", "dead", "denied", "cancelled"})
CLAIMABLE_RUN_STATES: frozenset[RunState] = frozenset({"ready", "waiting"})
# Who wants a run to stop that failed, and undoes what it did before it is a dead letter.
ON_FAILURE = 'on_failure="undo"'
# How the names of agents begin by which Wakeful does its own work. No other agent may be called so.
OWN_AGENTS = "wakeful."

# What an event may become. A duplicate is never a row of its own: it is counted on the event that it repeats.
EVENT_TRANSITIONS: dict[EventState | None, frozenset[EventState]] = {
    None: frozenset({"accepted", "duplicate", "expired", "unmatched", "quarantined"}),
    # What is released of it is an event of its own, with an identity of its own.
    "quarantined": frozenset(),
    "unmatched": frozenset({"accepted"}),
    "accepted": frozenset(),
    "expired": frozenset(),
    "duplicate": frozenset(),
}

ADMISSION_TRANSITIONS: dict[AdmissionState | None, frozenset[AdmissionState]] = {
    None: frozenset({"started", "joined", "superseded", "skipped", "expired", "denied"}),
    "started": frozenset({"superseded", "expired"}),
    "joined": frozenset({"started", "superseded", "expired"}),
    "superseded": frozenset(),
    "skipped": frozenset({"started"}),
    "expired": frozenset({"started"}),
    "denied": frozenset({"started"}),
}

# `dead`, `denied` and `cancelled` lead on only by a person: a replay makes the run ready again, and so does the cancel of a dead
# letter that did something outside, to undo it. One with on_failure="undo" is running while what it did is undone, and dead then.
RUN_TRANSITIONS: dict[RunState | None, frozenset[RunState]] = {
    None: frozenset({"ready"}),
    "ready": frozenset({"running", "parked", "held", "cancelled", "denied"}),
    "running": frozenset({"done", "dead", "denied", "cancelled", "ready", "waiting", "held", "parked"}),
    "waiting": frozenset({"running", "ready", "cancelled", "parked"}),
    "held": frozenset({"ready", "cancelled", "dead", "done"}),
    "parked": frozenset({"ready", "cancelled", "dead"}),
    "done": frozenset(),
    "dead": frozenset({"ready", "cancelled"}),
    "denied": frozenset({"ready"}),
    "cancelled": frozenset({"ready"}),
}

# staged: to be released with the run's commit. intent: about to be called, or being called. retrying: certainly not done, tried again. unknown: nobody knows whether it was
# done, and the way that its action declared finds out. held: a person must say. A confirmed one is never called again.
EFFECT_TRANSITIONS: dict[EffectState | None, frozenset[EffectState]] = {
    None: frozenset({"staged", "intent", "held"}),
    "staged": frozenset({"staged", "intent", "held", "abandoned"}),
    "intent": frozenset({"intent", "confirmed", "failed", "retrying", "unknown", "held", "abandoned"}),
    "retrying": frozenset({"intent", "confirmed", "failed", "retrying", "unknown", "held"}),
    "unknown": frozenset({"intent", "confirmed", "failed", "retrying", "unknown", "held", "abandoned"}),
    "held": frozenset({"confirmed", "retrying", "abandoned"}),
    "confirmed": frozenset({"undone", "held"}),  # held: a person confirmed it with a result that does not fit
    "failed": frozenset({"intent"}),
    "abandoned": frozenset({"staged"}),  # one that was never begun, when its run is done again
    "undone": frozenset(),
}

# held: the output of its run did not pass its checks. A dead letter leads on only by a person.
DELIVERY_TRANSITIONS: dict[DeliveryState | None, frozenset[DeliveryState]] = {
    None: frozenset({"pending", "held"}),
    "held": frozenset({"pending", "discarded"}),
    "pending": frozenset({"pending", "delivered", "dead"}),
    "delivered": frozenset(),
    "dead": frozenset({"pending", "discarded"}),
    "discarded": frozenset(),
}

# expected stands in its schedule. All others are final but for one: a run that was fired and has not started may give way to a
# newer occurrence.
OCCURRENCE_TRANSITIONS: dict[OccurrenceState | None, frozenset[OccurrenceState]] = {
    None: frozenset({"expected"}),
    "expected": frozenset({"fired", "missed", "coalesced", "skipped"}),
    "fired": frozenset({"superseded"}),
    "missed": frozenset(),
    "coalesced": frozenset(),
    "skipped": frozenset(),
    "superseded": frozenset(),
}

# One that is done (a reminder, a single time) may be moved to a later time; one that was removed may be added again.
SCHEDULE_TRANSITIONS: dict[ScheduleState | None, frozenset[ScheduleState]] = {
    None: frozenset({"live"}),
    "live": frozenset({"live", "paused", "done", "removed"}),
    "paused": frozenset({"live", "removed"}),
    "done": frozenset({"live", "removed"}),
    "removed": frozenset({"live"}),
}

# idle: nobody reads it now. paused: what came before must be worked off first. A webhook is read as long as a server runs.
SOURCE_TRANSITIONS: dict[SourceState | None, frozenset[SourceState]] = {
    None: frozenset({"idle"}),
    "idle": frozenset({"reading", "paused", "failing"}),
    "reading": frozenset({"reading", "paused", "failing", "idle"}),
    "paused": frozenset({"reading", "failing", "idle"}),
    "failing": frozenset({"reading", "paused", "failing", "idle"}),
}

ALARM_TRANSITIONS: dict[AlarmState | None, frozenset[AlarmState]] = {
    None: frozenset({"open"}),
    "open": frozenset({"open", "acknowledged", "resolved"}),
    "acknowledged": frozenset({"open", "resolved"}),
    "resolved": frozenset({"open"}),
}


def digest(*parts: str, size: int = 13) -> str:
    """A short stable name for some texts: hexadecimal BLAKE2b, 104 bits unless told otherwise.

    NUL, which no part can contain, keeps the parts from running together.
    """
    return blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()


def undo_of(effect: str) -> str:
    """The id of the effect that undoes another one. It is always the same, so an undo is found again after a crash."""
    return digest(effect, "undo")


_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_id(traceparent: str | None) -> str | None:
    """The trace id of a W3C traceparent; what is not one is shown as it is."""
    match = _TRACEPARENT.match(traceparent) if traceparent else None
    return match[1] if match else traceparent


def event_key(app: str, source: str, identifier: str) -> str:
    """The key of an event: CloudEvents' identity is (source, id), here inside one app."""
    return digest(app, source, identifier)


def run_id(app: str, agent: str, source: str, identifier: str, generation: int = 0) -> str:
    """The id of a run: the same event for the same agent is the same run, wherever and whenever it is computed."""
    root = digest(app, agent, source, identifier)
    return f"{root}.{generation}" if generation else root


@dataclass(slots=True)
class Event:
    """A fact from outside: a CloudEvents 1.0 envelope."""

    source: str
    id: str
    type: str
    data: Any = None
    subject: str | None = None
    time: datetime | None = None
    traceparent: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    expirytime: datetime | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """The order and limits under which a run is admitted, as its agent declared them for this event.

    `key` is None where its runs have nothing to do with each other, and '' where the whole agent is one key.
    """

    key: str | None = None
    per_key: int | None = 1  # runs of one key at once; None: they need not wait for each other
    blocks: bool = True  # a dead letter keeps its place in the order until a person acts
    overlap: Overlap = "queue"
    debounce: tuple[Microseconds, Microseconds] | None = None  # how long to wait for a newer event, and at most
    batch: tuple[int, Microseconds] | None = None  # how many events at most, and how long to wait for them
    priority: int | None = None  # None: nothing in its app has one
    expires: Microseconds | None = None  # it must start within this time
    once: str | None = None  # a later event of this key joins the run of the first
    once_for: Microseconds = 0  # for so long
    note: str | None = None  # what people should know of this, on the admission

    @property
    def ordered(self) -> bool:
        """Do its runs get a place in the order of their key?"""
        return self.key is not None and self.per_key is not None


@dataclass(slots=True)
class Decision:
    """A policy's answer."""

    answer: Answer
    rule: str
    reason: str
    version: str = "1"
    broken: bool = False  # the rule failed, and so denied


@dataclass(frozen=True, slots=True)
class Loop:
    """An event whose chain has been through the agent before, or has gone too far: whether a run begins is decided once it is
    known how often the chain has come back, which the store counts.
    """

    chain: str
    within: Microseconds
    judge: Callable[[int], Decision]
    owner: str | None = None  # who hears of a loop


@dataclass(slots=True)
class Admission:
    """What became of one event for one agent. `flow` is None where the agent declared neither order nor limits, `loop` where
    everything is decided already.
    """

    agent: str
    state: AdmissionState
    run_id: str | None = None
    reason: str | None = None
    flow: Flow | None = None
    loop: Loop | None = None


@dataclass(slots=True)
class Arrival:
    """An event that was verified, normalised and routed, ready to be stored with what becomes of it."""

    key: str
    source: str
    id: str
    type: str
    subject: str | None
    state: EventState
    content: str
    envelope: str
    reason: str | None = None
    expires_at: Microseconds | None = None
    admissions: list[Admission] = field(default_factory=list)
    decisions: list[tuple[str, Decision]] = field(default_factory=list)
    trace: str | None = None  # the id of the trace that it came with; None: one begins with it
    aliases: tuple[str, ...] = ()  # digests by which it is known too: one that is there already makes it a duplicate


@dataclass(slots=True)
class Receipt:
    """What intake answers for one event. `skipped` are agents that have no run of it, because an earlier one was not over, and
    the words for it.
    """

    source: str
    id: str
    status: EventState
    runs: list[str]
    conflict: bool = False
    skipped: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"source": self.source, "id": self.id, "status": self.status, "runs": self.runs}
        if self.conflict:
            shown["conflict"] = True
        if self.skipped:
            shown["skipped"] = self.skipped
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Receipt:
        """As `to_json` gave it."""
        return cls(
            shown["source"],
            shown["id"],
            shown["status"],
            shown["runs"],
            shown.get("conflict", False),
            shown.get("skipped", {}),
        )


@dataclass(slots=True)
class Step:
    """A checkpoint of a run. `key` is its identity, `name` what people see (`fetch`, `fetch#2`)."""

    key: str
    name: str
    state: StepState
    result: str | None = None
    error: str | None = None
    arguments: str | None = None
    tries: int = 1
    attempt: int = 1
    position: int = 0
    started_at: Microseconds = 0
    finished_at: Microseconds = 0


Opened = Literal["begun", "held"]


@dataclass(slots=True)
class Effect:
    """One use of an action by a run. `id` is the operation id; `arguments` are stored whole, to settle it by them."""

    id: str
    action: str
    reference: str
    safety: Safety
    state: EffectState
    arguments: str
    reason: str | None = None
    result: str | None = None
    error: str | None = None
    tries: int = 0
    attempt: int = 1
    position: int = 0
    opened_at: Microseconds = 0
    settled_by: str | None = None
    note: str | None = None
    staged: bool = False  # released with the run's commit, and not before
    called_at: Microseconds = 0  # the last call
    due_at: Microseconds = 0  # one that waits: not before this time
    doubtful: bool = False  # a call of it may have been done, whatever later calls said
    undoes: str | None = None  # the effect that this one undoes
    given: bool = False  # a person gave its result
    once: str | None = None  # the business key, where its action has one
    operation: str | None = None  # the operation id that is handed on, where it is not the effect's own id
    follows: str | None = None  # the effect of the same key whose result it has, or waits for
    settlement: EffectState | None = None  # the state that a person gave it
    opened_as: Opened | None = None  # its first state; None where an older version opened it

    @property
    def business_key(self) -> tuple[str, str] | None:
        """The action and the key by which other runs know it too, if its action has one."""
        return None if self.once is None else (self.action, self.once)


@dataclass(slots=True)
class Delivery:
    """One message on its way to one channel, out of the outbox. `id` is the operation: the same however often it is tried."""

    id: str
    channel: str
    message: str
    subject: str | None = None
    position: int = 0
    state: DeliveryState = "pending"
    seq: int = 0
    agent: str = ""
    run: str = ""
    committed_at: Microseconds = 0
    tries: int = 0
    envelope: str = ""  # of the event that its run handled
    age: Microseconds = 0  # since its commit, when it was taken
    error: str | None = None  # of its last try
    due_at: Microseconds = 0  # when it could first go: at its commit, after its last wait, or when a person replayed it


@dataclass(frozen=True, slots=True)
class StateRead:
    """An agent's state as a run found it. Saving is refused once it has another version."""

    value: str | None
    version: int


@dataclass(slots=True)
class Claim:
    """A run that this process owns now. Every write about it carries `process` and `token`."""

    seq: int
    id: str
    root: str
    agent: str
    token: int
    process: str
    attempts: int
    crashes: int
    created_at: Microseconds
    started_at: Microseconds
    claimed_at: Microseconds
    first_start: bool
    expires_at: Microseconds | None
    envelope: str
    data: str | None = None  # edited by a person, instead of the event's own
    committed: Outcome | None = None  # its output is out; only what it staged is left to do
    state: StateRead | None = None  # of an agent that has one
    sent: frozenset[str] = frozenset()  # deliveries that an earlier run of its family committed
    key: str | None = None  # runs of one key go in order
    gathered: int = 1  # events that it is over; more than one: `events` has their envelopes
    version: str | None = None  # of its agent's code, that ran it last
    parent: tuple[int, str] | None = None  # the run that called it, and the step of that run
    cancelled: tuple[str, str | None] | None = None  # who wants it to stop, and why
    app: str = ""
    limited: bool = False  # its agent has a limit: others may wait for the place that it takes
    events: list[str] = field(default_factory=list)
    output: str | None = None  # of one that is committed, and was called by another run
    failing: str | None = None  # the note of an earlier attempt whose handler failed
    finished: int = 0  # steps that this attempt has done
    once: bool = False  # its agent handles a key once: runs that called it by a later event of its key wait for its end
    went_back: bool = False  # to older code: that which ran it last was put to work later than ours
    steps: list[Step] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: four fields, because "ok" alone hides too much."""

    execution: Literal["ok", "failed", "denied", "cancelled"] | None = None
    verification: Literal["passed", "failed", "none"] = "none"
    commit: Literal["committed", "held", "none"] = "none"
    delivery: Literal["delivered", "failed", "pending", "none"] = "none"
    silent_by_choice: bool = False


WENT_WELL = Outcome("ok", commit="committed")
VERIFIED = Outcome("ok", verification="passed", commit="committed")
