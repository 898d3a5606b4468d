"""The nouns and their states. This module only declares; it has no behaviour. The legal transitions are in transitions.py.

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
EffectState = Literal[
    "staged", "waiting", "intent", "retrying", "unknown", "held", "confirmed", "failed", "abandoned", "undone"
]
DeliveryState = Literal["held", "pending", "unknown", "delivered", "dead", "discarded"]
AlarmState = Literal["open", "acknowledged", "resolved"]
ProcessState = Literal["alive", "stopped", "dead"]
ApprovalKind = Literal["question", "effect", "run"]
ApprovalState = Literal["open", "answered", "expired", "withdrawn"]
GrantState = Literal["live", "used-up", "expired", "revoked"]
CircuitState = Literal["closed", "open", "probing", "recovering"]
Overlap = Literal["queue", "skip", "replace"]
ScheduleState = Literal["live", "paused", "done", "removed"]
ReminderState = Literal["pending", "paused", "telling", "told", "unneeded", "failed", "cancelled", "over"]
SourceState = Literal["idle", "reading", "paused", "failing"]
# As shown to people: "unserved" (the webhook's server is dead) is derived from its lease and stored nowhere.
ShownSourceState = Literal["idle", "reading", "paused", "failing", "unserved"]
OccurrenceState = Literal["fired", "missed", "coalesced", "skipped", "superseded"]
AttemptOutcome = Literal[
    "retried", "released", "crashed", "waited", "held", "parked", "dead", "denied", "cancelled", "done"
]
Answer = Literal["allow", "ask", "shadow", "hold", "deny"]
PolicyMode = Literal["enforce", "watch"]
DecisionPlace = Literal["admission", "effect", "schedule"]  # where policy was asked

EVENT_STATES = frozenset(get_args(EventState))
STORED_EVENT_STATES = EVENT_STATES - {"duplicate"}  # a duplicate is only counted on the event that it repeats
RUN_STATES = frozenset(get_args(RunState))
SCHEDULE_STATES = frozenset(get_args(ScheduleState))
FINAL_RUN_STATES: frozenset[RunState] = frozenset({"done", "dead", "denied", "cancelled"})
CLAIMABLE_RUN_STATES: frozenset[RunState] = frozenset({"ready", "waiting"})
# The author of a cancel that the run itself asked for: it failed, and its effects are undone before it is a dead
# letter.
ON_FAILURE = 'on_failure="undo"'
ON_STUCK = 'on_stuck="cancel"'  # as ON_FAILURE, for a run that was stuck
ON_OVERLAP = 'overlap="replace"'  # as ON_FAILURE, for a run that another one replaces
BY_ITSELF = frozenset({ON_FAILURE, ON_STUCK, ON_OVERLAP})
# Prefix of the names of Wakeful's own agents. No other agent may have it.
OWN_AGENTS = "wakeful."


def digest(*parts: str, size: int = 13) -> str:
    """A short stable name for some texts: hexadecimal BLAKE2b, 104 bits by default.

    The parts are separated by NUL, which none of them can contain.
    """
    return blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()


def undo_of(effect: str) -> str:
    """The id of the effect that undoes another one. It is deterministic, so that an undo is found again after a crash."""
    return digest(effect, "undo")


_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_id(traceparent: str | None) -> str | None:
    """The trace id of a W3C traceparent; any other text is returned as it is."""
    match = _TRACEPARENT.match(traceparent) if traceparent else None
    return match[1] if match else traceparent


def event_key(app: str, source: str, identifier: str) -> str:
    """The key of an event: CloudEvents' identity is (source, id), here inside one app."""
    return digest(app, source, identifier)


def run_id(app: str, agent: str, source: str, identifier: str, generation: int = 0) -> str:
    """The id of a run. It is deterministic: the same event for the same agent is the same run."""
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
    """The order and limits of a run, as its agent declared them for this event.

    `key` is None if the agent's runs are independent, and '' if the whole agent is one key.
    """

    key: str | None = None
    per_key: int | None = 1  # runs of one key at once; None: they need not wait for each other
    blocks: bool = True  # a dead letter keeps its place in the order until a person acts
    overlap: Overlap = "queue"
    debounce: tuple[Microseconds, Microseconds] | None = None  # how long to wait for a newer event, and the limit
    batch: tuple[int, Microseconds] | None = None  # the most events, and how long to wait for them
    priority: int | None = None  # None: no agent of its app has one
    expires: Microseconds | None = None  # it must start within this time
    once: str | None = None  # a later event of this key joins the run of the first
    once_for: Microseconds = 0  # how long the key is remembered
    note: str | None = None  # a remark for people, on the admission

    @property
    def ordered(self) -> bool:
        """Whether its runs have a place in the order of their key."""
        return self.key is not None and self.per_key is not None


@dataclass(slots=True)
class Decision:
    """A policy's answer."""

    answer: Answer
    rule: str
    reason: str
    version: str = "1"
    broken: bool = False  # the rule failed, and so denied
    mode: PolicyMode = "enforce"  # watch: it is recorded and changes nothing
    asks: tuple[Any, ...] = ()  # if people are asked whether a run may begin: whose yes each rule wants (Ask)
    grant: str | None = None  # the grant that turned an ask into an allow


@dataclass(frozen=True, slots=True)
class Loop:
    """An event whose chain has already passed through the agent, or is too long. The store counts how often the chain
    came back; `judge` then decides whether a run begins.
    """

    chain: str
    within: Microseconds
    judge: Callable[[int], Any]  # policy's Judgement
    owner: str | None = None  # gets the alarm about a loop


@dataclass(frozen=True, slots=True)
class HeldAdmission:
    """Policy wants a person to decide whether an event becomes a run: its run is held, and an approval is open."""

    decision: Decision
    owner: str | None = None
    version: str | None = None  # of the policy that it was judged by; None: the app has none


@dataclass(slots=True)
class Admission:
    """The result of one event for one agent. `flow` is None if the agent declared neither order nor limits, `loop` is
    None if nothing is left to decide.
    """

    agent: str
    state: AdmissionState
    run_id: str | None = None
    reason: str | None = None
    flow: Flow | None = None
    loop: Loop | None = None
    held: HeldAdmission | None = None
    judgement: Any = None  # of policy (Judgement), if a rule of it must be counted before it can be decided
    owner: str | None = None  # of the agent, if it may yet be held


@dataclass(slots=True)
class Arrival:
    """An event that was verified, normalised and routed, ready to be stored with its admissions."""

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
    trace: str | None = None  # the id of the trace it belongs to; None: it begins a new one
    aliases: tuple[str, ...] = ()  # further digests of its identity: a known one makes it a duplicate


@dataclass(slots=True)
class Receipt:
    """Intake's answer for one event. `skipped` maps agents that start no run, because an earlier run is not over, to
    the reason.
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
        """Read a receipt back from `to_json`."""
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
    """One use of an action by a run. `id` is the operation id. `arguments` are stored in full, so that it can be
    settled.
    """

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
    staged: bool = False  # released with the run's commit, not before
    called_at: Microseconds = 0  # the last call
    due_at: Microseconds = 0  # a waiting effect is not called before this time
    doubtful: bool = False  # an earlier call may have succeeded, even if later calls failed
    undoes: str | None = None  # the effect that this one undoes
    given: bool = False  # a person gave its result
    once: str | None = None  # the business key, if its action has one
    operation: str | None = None  # the operation id for the other side, if it is not the effect's own id
    follows: str | None = None  # the effect of the same key whose result it has or waits for
    settlement: EffectState | None = None  # the state that a person gave it
    opened_as: Opened | None = None  # its first state; None if an older version opened it
    rule: str | None = None  # the rule that allowed it, or holds it
    policy: str | None = None  # the version of the policy that the rule stands in
    approval: str | None = None  # the approval that it waits for, or waited for last
    executed: str | None = None  # the arguments that a person edited: they are called, settled, looked for and undone

    @property
    def called_with(self) -> str:
        """The arguments of its calls. It is found by `arguments`, which its handler asked for."""
        return self.executed or self.arguments

    @property
    def business_key(self) -> tuple[str, str] | None:
        """The action and the key that other runs share, or None."""
        return None if self.once is None else (self.action, self.once)


@dataclass(slots=True)
class Delivery:
    """One message on its way to one channel, out of the outbox. `id` is the operation id: the same at every try."""

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
    age: Microseconds = 0  # from its commit until it was claimed
    error: str | None = None  # of its last try
    due_at: Microseconds = 0  # when it became due: at its commit, after its last wait, or when a person replayed it
    urgent: bool = False  # goes in the urgent lane of its channel
    thread: str | None = None  # its order holds within this thread; None: within its lane
    doubt_at: Microseconds | None = None  # when a call began that may have delivered it


@dataclass(frozen=True, slots=True)
class StateRead:
    """An agent's state as a run read it. Saving is refused if the version has changed since."""

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
    data: str | None = None  # edited by a person; replaces the event's data
    committed: RunOutcome | None = None  # its output is out; only its staged effects are left to do
    state: StateRead | None = None  # if its agent has a state
    sent: frozenset[str] = frozenset()  # deliveries that an earlier run with the same root committed
    key: str | None = None  # runs of one key go in order
    gathered: int = 1  # number of its events; if more than one, `events` has their envelopes
    version: str | None = None  # of the agent's code that last ran it
    parent: tuple[int, str] | None = None  # the run that called it, and the step of that run
    cancelled: tuple[str, str | None] | None = None  # who cancelled it, and why
    app: str = ""
    limited: bool = False  # its agent has a limit: other runs may wait for its slot
    events: list[str] = field(default_factory=list)
    output: str | None = None  # if it is committed and was called by another run
    failing: str | None = None  # the note of an earlier attempt whose handler failed
    finished: int = 0  # steps that this attempt has done
    once: bool = False  # its agent handles a key once: callers that sent a later event of its key wait for its end
    went_back: bool = False  # to older code: the code that last ran it was deployed after ours
    steps: list[Step] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: four fields, because "ok" alone hides too much."""

    execution: Literal["ok", "failed", "denied", "cancelled"] | None = None
    verification: Literal["passed", "failed", "none"] = "none"
    commit: Literal["committed", "held", "none"] = "none"
    delivery: Literal["delivered", "failed", "pending", "none"] = "none"
    silent_by_choice: bool = False


WENT_WELL = RunOutcome("ok", commit="committed")
VERIFIED = RunOutcome("ok", verification="passed", commit="committed")
