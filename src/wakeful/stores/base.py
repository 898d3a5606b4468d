"""What a store can be asked: one request per transition, and the protocol that takes them.

A request is a value. The journal puts whatever requests are waiting into one transaction; the generator in `verbs/`
that belongs to a request's class says which queries carry it out. A request that names a `process` is fenced: it is
refused with `ClaimLost` once that process's lease is over, and the rows it writes check the run's token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from wakeful.cel import Match
from wakeful.clock import Microseconds
from wakeful.errors import CancelAsked
from wakeful.model import (
    AdmissionState,
    ApprovalState,
    Arrival,
    AttemptOutcome,
    CircuitState,
    Claim,
    Decision,
    Delivery,
    Effect,
    Flow,
    Outcome,
    Receipt,
    RunState,
    Step,
)
from wakeful.rate import Rate
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import ANYTHING, Audit, ByPerson, Heard, OfRun, Others, Ready, Request, Way

if TYPE_CHECKING:
    from wakeful.stores.alarms import AlarmChanged, ChangeAlarm, ResolveAlarms, StoredAlarm, TellAlarms

Row = Sequence[Any]
R = TypeVar("R")


# Does an event fit a condition with its variables? (CEL, JSON or None, the event's envelope)
Matches = Callable[[str, str | None, str], Match]
DATA_OF_MISFIT = "; its data is "  # in the reason why it cannot be told: what follows is the beginning of the data


@dataclass(slots=True)
class Call:
    """Instead of a query: run the user's function on the database inside this transaction, under a savepoint."""

    function: Callable[[Any], Any]
    cause: str | None = None  # the mark to leave beside what it writes


@dataclass(slots=True)
class Count:
    """A query of which only the number of rows that it wrote is asked. Cheaper where rows come back one by one."""

    name: str
    rows: Sequence[Row]


# What a verb is: it yields (query name, rows of parameters), is sent the rows that came back, and returns its results.
# Written so, the same code serves a database that is called from a thread and one that is awaited.
Transaction = Generator[tuple[str, Sequence[Row]] | Count | Call, Any, R]


@dataclass(slots=True)
class Alarm:
    """Something that a person should hear of. Raising it again refreshes it."""

    app: str
    key: str
    text: str
    agent: str | None = None  # which it is about
    owner: str | None = None  # who hears of it
    loud: bool = False  # it cannot be muted
    addressee: str | None = None  # the channel that it goes to, before the owner's
    remind_at: Microseconds | None = None  # it is told once more then, and not again and again


@dataclass(frozen=True, slots=True)
class Streak:
    """What becomes of an agent whose runs end dead one after the other (None: nothing), and what this one died of."""

    alarm_after: int | None
    pause_after: int | None
    words: str
    owner: str | None = None


def condition_alarm(app: str, agent: str) -> str:
    """The key of the alarm about conditions of an agent that ran out of their budget."""
    return f"condition/{app}/{agent}"


def held_alarm(app: str, agent: str, what: str) -> str:
    """The key of the alarm about runs of an agent that wait for a person because of one thing: an action, an output."""
    return f"held/{app}/{agent}/{what}"


def ask_alarm(app: str, agent: str, approval: str) -> str:
    """The key of the alarm about a question that waits for its answer."""
    return f"ask/{app}/{agent}/{approval}"


# Before the name of a channel: the name of its circuit.
CHANNEL = "channel:"


def circuit_alarm(app: str, name: str) -> str:
    """The key of the alarm about a dependency that is down."""
    return f"circuit/{app}/{name}"


def stuck_alarm(app: str, agent: str, run: str) -> str:
    """The key of the alarm about a run that makes no progress."""
    return f"stuck/{app}/{agent}/{run}"


def late_alarm(app: str, channel: str) -> str:
    """The key of the alarm about a channel whose next message does not get through."""
    return f"delivery/{app}/{channel}/late"


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock as its holder knows it: what is committed inside it checks that it still has this token."""

    app: str
    name: str
    token: int


@dataclass(slots=True)
class AcceptEvents(Request[list[Receipt]]):
    """Store events with what becomes of them. All of them or, on an error, none.

    `idempotency` is (key, digest of the request): the same key again gets the first answer, or IdempotencyConflict.
    With `claim` and `step` the events come from inside a run: they are stored together with its checkpoint.
    """

    app: str
    arrivals: list[Arrival]
    idempotency: tuple[str, str] | None = None
    claim: Claim | None = None
    step: Step | None = None
    written: Callable[[Receipt], str] | None = None  # what the checkpoint says; else the receipt
    adopts: bool = False  # the run that was made is a child: its end is told to the step
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)  # runs that waited for this: (app, agent)
    locks: tuple[HeldLock, ...] = ()
    alarmed: bool = False  # a loop was stopped, or a condition ran out of its budget: there is an alarm to tell

    @property
    def process(self) -> str | None:
        return None if self.claim is None else self.claim.process

    fenced = True
    plain = True
    may_wake = True

    @property
    def patient(self) -> bool:
        return self.claim is not None

    def size(self) -> tuple[int, int]:
        return len(self.arrivals) - 1, sum([len(arrival.envelope) for arrival in self.arrivals])

    def lock_keys(self, lanes: Lanes) -> None:
        for arrival in self.arrivals:
            for admission in arrival.admissions:
                if admission.flow is not None:
                    lanes.add(self.app, admission.agent, admission.flow)

    def readies(self) -> Ready | None:
        agents = frozenset(
            [one.agent for arrival in self.arrivals for one in arrival.admissions if one.run_id is not None]
        )
        return Ready(self.app, agents) if agents else None

    def alarming(self) -> bool:
        return self.alarmed

    def tell(self, result: list[Receipt], others: Others) -> None:
        for arrival, receipt in zip(self.arrivals, result or [], strict=False):
            if receipt.status != "duplicate":
                for one in arrival.admissions:
                    if one.run_id is not None and one.run_id not in others.taken:
                        others.hear(self.app, one.agent)


class HasReceipts(Protocol):
    """What came of events that came in with something else."""

    @property
    def receipts(self) -> list[Receipt]: ...


E = TypeVar("E", bound=HasReceipts | None)


class WithEvents(Request[E]):
    """A request that brings events along: `accept` has them, and is carried out with it."""

    __slots__ = ()

    accept: AcceptEvents | None

    may_wake = True

    @property
    def woken(self) -> list[tuple[str, str]]:
        return [] if self.accept is None else self.accept.woken

    def size(self) -> tuple[int, int]:
        return (0, 0) if self.accept is None else self.accept.size()

    def lock_keys(self, lanes: Lanes) -> None:
        if self.accept is not None:
            self.accept.lock_keys(lanes)

    def readies(self) -> Ready | None:
        return None if self.accept is None else self.accept.readies()

    def tell(self, result: E, others: Others) -> None:
        if self.accept is not None and result is not None:
            self.accept.tell(result.receipts, others)


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of an agent at a time, in all processes together: runs at once, and first starts within some time."""

    concurrency: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Of how many processes that have an agent this is one, and how many runs of it this one has already."""

    processes: int
    own: int


@dataclass(slots=True)
class Claimed:
    """What a claim brought."""

    claims: list[Claim]
    asked: list[tuple[str, int]]
    next_due: Microseconds | None
    solo_waiting: bool
    alone: bool = False  # it looked only for a run that must go alone
    left: frozenset[str] = frozenset()  # agents of which some were left to other processes
    failing: frozenset[str] = frozenset()  # agents whose last runs ended dead


@dataclass(slots=True)
class ClaimRuns(Request[Claimed]):
    """Take due runs. `wants` is asked when the transaction is put together: (agent, most) for each agent with room."""

    app: str
    process: str
    wants: Callable[[], list[tuple[str, int]]]
    solo: Callable[[], bool]
    wanted: list[tuple[str, int]] = field(default_factory=list)
    serial: frozenset[str] = frozenset()  # agents with a state: one run at a time, wherever it runs
    keeps_by_key: frozenset[str] = frozenset()  # agents with a state for each key: the key has one run at a time
    versions: Mapping[str, str] = field(default_factory=dict)  # of the agents' code, noted with a run's first start
    drains: Mapping[str, Microseconds] = field(
        default_factory=dict
    )  # how long runs are left to the code that they belong to
    limits: Mapping[str, Limit] = field(default_factory=dict)  # for all processes together
    shares: Mapping[str, Share] = field(default_factory=dict)  # where other processes want to have some too
    room: int | None = None  # for all wanted together, where that is less; then the longest due of all agents go first

    fenced = True
    claims = True


@dataclass(slots=True)
class SaveSteps(OfRun[None]):
    """Store checkpoints of a run. Refused with LockLost once one of the `locks` has another holder."""

    steps: list[Step]
    locks: tuple[HeldLock, ...] = ()

    plain = True
    worth_storing = True

    def size(self) -> tuple[int, int]:
        return 0, sum([len(step.result) for step in self.steps if step.result is not None])


@dataclass(slots=True)
class FinishRun(OfRun[None]):
    """End a run for good."""

    state: Literal["done", "dead", "denied", "cancelled"]
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    outcome: Outcome = field(default_factory=Outcome)
    failed: bool = False
    expired: bool = False
    alarm: Alarm | None = None
    decision: Decision | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    streak: Streak | None = None  # of a dead one
    undo: CancelAsked | None = (
        None  # of a dead one: raised instead, if it did anything outside that is to be undone first
    )
    undone: bool = False  # of a dead one: that was done, and nothing that it had prepared leaves any more
    well_again: bool = False  # of one that is done: its agent was known to fail

    plain = True
    may_wake = True
    ends_a_run = True

    def size(self) -> tuple[int, int]:
        return 0, 0 if self.output is None else len(self.output)

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=self.state != "done")

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.alarm is not None or self.well_again


@dataclass(slots=True)
class StateChange:
    """What a run would save of its agent's state, if that is still the version that it read."""

    app: str
    agent: str
    key: str
    version: int
    value: str


@dataclass(slots=True)
class CommitRun(OfRun[None]):
    """Let out what a run returned, sent and staged, in one transition. `then`: it is done, or it stays running to release
    what it staged; or nothing leaves and it is held, with all of it stored for a person to see.

    StateChanged when the state of its agent has another version by now: then nothing was stored.
    """

    app: str
    output: str
    outcome: Outcome
    then: Literal["done", "running", "held"] = "done"
    deliveries: list[Delivery] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    state: StateChange | None = None
    reason: str | None = None
    alarm: Alarm | None = None
    dropped: list[str] = field(default_factory=list)  # staged by an earlier commit of this run, and not asked for again
    resolves: str | None = None  # the key of an alarm that is over with this
    woken: list[tuple[str, str]] = field(default_factory=list)
    well_again: bool = False  # as in FinishRun

    may_wake = True

    @property
    def ends_a_run(self) -> bool:  # type: ignore[override]  # one that goes on to release what it staged does not
        return self.then != "running"

    def size(self) -> tuple[int, int]:
        characters = len(self.output) + sum([len(one.message) for one in self.deliveries])
        return len(self.deliveries) + len(self.effects), characters

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=self.then != "done")

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.alarm is not None or self.well_again


@dataclass(slots=True)
class CloseRun(OfRun[None]):
    """A run that was committed has released all that it staged: it is done."""

    outcome: Outcome
    output: str | None = None  # for whoever called it
    woken: list[tuple[str, str]] = field(default_factory=list)
    well_again: bool = False  # as in FinishRun

    may_wake = True
    ends_a_run = True

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=False)

    def readies(self) -> Ready | None:
        claim = self.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))

    def alarming(self) -> bool:
        return self.well_again


@dataclass(slots=True)
class Redone:
    """What became of it: `run` goes on (a new one, if it was done again). `refused` says why nothing was changed."""

    run: str
    was: RunState
    refused: str | None = None


@dataclass(slots=True)
class ReleaseRun(ByPerson[Redone | None]):
    """A person lets a held output out as it is."""

    id: str

    def follow(self, _: Redone | None, heard: Heard) -> None:
        heard.deliveries()

    def audit(self, result: Redone | None) -> Audit | None:
        return None if result is None or result.refused is not None else Audit("release", None, self.id, self.note)


# An action: its app, its reference, its name, and the JSON schema of its result, if that is declared.
ActionResult = tuple[str, str, str, str | None]


@dataclass(slots=True)
class OpenEffect(OfRun[Effect | Decision]):
    """Write down what is about to happen, before it does. `decide` is policy, asked in the same transaction.
    One that was staged is known already, and opened now.

    Comes back with the effect as it is stored (an earlier attempt, or a replay of the run, may have settled it already),
    or with a decision that is not "allow": then nothing was opened.
    """

    app: str
    effect: Effect
    decide: Callable[[], Decision]
    locks: tuple[HeldLock, ...] = ()
    declares: ActionResult | None = None  # at its first use by a process: what its action returns
    undoes_key: tuple[str, str] | None = None  # what it undoes has a business key: the action and the key


@dataclass(slots=True)
class SaveEffect(OfRun[None]):
    """What became of an effect."""

    effect: Effect
    woken: Sequence[tuple[str, str]] = ()  # runs that waited for the end of an undo: (app, agent)

    worth_storing = True
    may_wake = True


@dataclass(slots=True)
class Settled:
    """What a settlement found: `first` says whether this answer is the one that stands, `refused` why a result was not taken."""

    effect: Effect
    run: str
    first: bool
    refused: str | None = None
    unfit: bool = False  # it was refused because it is not what the action returns
    corrected: bool = False


# What a person said of a held effect, by what it is then.
SAYS = {"confirmed": "confirm", "retrying": "repeat", "abandoned": "abandon"}


@dataclass(slots=True)
class SettleEffect(ByPerson[Settled | None]):
    """A person says what became of a held effect: the first answer stands. Its run goes on once none is held any more. The result
    of a confirmed one can be corrected until its run has stored anything more.

    `refuse` is asked in the same transaction whether a result fits the JSON schema of what the action returns: why not, or None.
    """

    id: str
    state: Literal["confirmed", "retrying", "abandoned"]
    result: str | None = None
    refuse: Callable[[str, str | None], str | None] | None = None

    def audit(self, result: Settled | None) -> Audit | None:
        if result is None or not result.first:
            return None
        word = "correct the result" if result.corrected else SAYS[self.state]
        return Audit("effects", None, self.id, f"{word}: {self.note}" if self.note else word)


@dataclass(frozen=True, slots=True)
class HeldEffect:
    """As much of a held effect as it takes to settle many of them."""

    id: str
    agent: str
    action: str
    run: str
    called: bool
    opened_at: Microseconds
    reason: str | None
    staged: bool
    returns: str | None  # the JSON schema of what its action returns, if that is known and is read


@dataclass(slots=True)
class Delivered:
    """What became of a delivery. Pending again: after `delay`."""

    seq: int
    state: Literal["pending", "delivered", "dead"]
    tries: int
    delay: Microseconds = 0
    error: str | None = None
    reason: str | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that is over with this


@dataclass(slots=True)
class Lane:
    """What a lane holds now. Without deliveries it is given back; `next_due` says when to look again."""

    token: int | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    next_due: Microseconds | None = None
    busy: bool = False  # another process has it
    lost: bool = False  # it is not ours any more: take it anew


@dataclass(slots=True)
class WorkLane(Request[Lane]):
    """Store what became of a channel's deliveries, and take the next ones. One process at a time has a channel's lane:
    the first request takes it (`token` is None), and the one that finds nothing more to do gives it back.
    """

    app: str
    channel: str
    process: str
    most: int
    token: int | None = None
    results: list[Delivered] = field(default_factory=list)

    fenced = True

    def alarming(self) -> bool:
        return any(one.alarm is not None or one.resolves is not None for one in self.results)


@dataclass(slots=True)
class RedoDelivery(ByPerson[str | None]):
    """A person lets a dead delivery be tried again, or discards it. With `waiting` also one that is pending: it is tried now,
    or those behind it need not wait for it any longer.
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


@dataclass(slots=True)
class ChangeState(ByPerson[int]):
    """A person sets or clears (None) what an agent keeps. A run that has read it goes again with the new one."""

    app: str
    agent: str
    key: str
    value: str | None

    def audit(self, _: int) -> Audit | None:
        return Audit("state clear" if self.value is None else "state set", self.app, self.agent, self.note)


@dataclass(frozen=True, slots=True)
class Wait:
    """An event that a run waits for. `key` is its step; subject '' is any; `variables` is what the condition names, as JSON."""

    key: str
    type: str
    subject: str = ""
    condition: str | None = None
    variables: str | None = None


@dataclass(slots=True)
class LeaveRun(OfRun[None]):
    """Give a run back: `ready` at once, `waiting` until `delay` has passed (None: until what it waits for comes), `held`
    until a person says something (about an effect, unless it is `by_itself`), or `parked` until a circuit lets it come
    back. `clear` names failed steps to forget; `waits` are the events that it waits for.
    """

    state: Literal["ready", "waiting", "held", "parked"]
    outcome: AttemptOutcome
    delay: Microseconds | None = 0
    reason: str | None = None
    error: str | None = None
    failed: bool = False
    steps: list[Step] = field(default_factory=list)
    clear: list[str] = field(default_factory=list)
    alarm: Alarm | None = None
    waits: list[Wait] = field(default_factory=list)
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    alarmed: bool = False  # a condition ran out of its budget: there is an alarm to tell
    by_itself: bool = False
    parked_for: tuple[str, str] | None = None  # the app and the dependency
    follows: list[str] = field(default_factory=list)  # effects of other runs whose end it waits for

    may_wake = True
    ends_a_run = True

    @property
    def _at_once(self) -> bool:
        return self.delay == 0 and self.state != "held"

    def readies(self) -> Ready | None:
        return Ready(None, frozenset({self.claim.agent})) if self._at_once else None

    def alarming(self) -> bool:
        return self.alarmed or self.alarm is not None

    def gives_back(self) -> bool:
        return self.outcome == "released"

    def tell(self, _: None, others: Others) -> None:
        others.all = others.all or (self._at_once and self.claim.id not in others.taken)

    def follow(self, _: None, heard: Heard) -> None:
        if self.waits:
            heard.waits(self.claim.seq)


@dataclass(slots=True)
class EndWait(OfRun[Step]):
    """The time of a wait is over: the step failed with `error`, unless what it waited for is there after all."""

    step: Step
    error: str
    wait: Wait | None = None
    matches: Matches | None = None
    alarmed: bool = False  # as LeaveRun's

    def alarming(self) -> bool:
        return self.alarmed


@dataclass(slots=True)
class LookAgain(Request[None]):
    """Waits of these runs were registered while events were being accepted. For those that are `settled` all of these are
    stored by now.
    """

    runs: list[int]
    settled: frozenset[int] = frozenset()
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)
    alarmed: bool = False  # as LeaveRun's

    may_wake = True

    def alarming(self) -> bool:
        return self.alarmed


@dataclass(frozen=True, slots=True)
class Approval:
    """A question to a person."""

    id: str
    question: str
    asked_of: str | None = None
    schema: str | None = None  # JSON schema of the answer
    due_at: Microseconds | None = None


@dataclass(slots=True)
class AskPerson(OfRun[None]):
    """A question, and the step that waits for its answer. `again`: why the answer that came did not do."""

    app: str
    step: Step
    approval: Approval
    again: str | None = None
    alarm: Alarm | None = None  # by which somebody hears of it, until it is answered or given up

    def alarming(self) -> bool:
        return self.alarm is not None


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer found: `first` says whether it is the one that stands."""

    id: str
    run: str
    first: bool
    state: ApprovalState
    answered_by: str | None


@dataclass(slots=True)
class AnswerApproval(ByPerson[Answered | None]):
    """A person's answer (JSON). The first stands."""

    id: str
    answer: str
    woken: list[tuple[str, str]] = field(default_factory=list)

    may_wake = True

    def audit(self, result: Answered | None) -> Audit | None:
        return None if result is None or not result.first else Audit("answer", None, self.id, self.note)


@dataclass(slots=True)
class TransactStep(OfRun[Step]):
    """Run the user's function on the store's own connection and save its result as a checkpoint, in one transaction."""

    function: Callable[[Any], Any]
    to_step: Callable[[Any], Step]
    locks: tuple[HeldLock, ...] = ()
    cause: str | None = None


@dataclass(slots=True)
class SaveTransacted(OfRun[Step]):
    """The checkpoint of a transaction that the user's function has just done on this very connection (PostgreSQL).

    Comes back with the step, or with the one that an earlier try of the same transaction recorded: then the caller
    rolls its own back.
    """

    step: Step
    locks: tuple[HeldLock, ...] = ()


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has a lock that was asked for, and since when."""

    run: str
    agent: str
    since: Microseconds


@dataclass(slots=True)
class TakeLock(OfRun[HeldLock | LockHolder]):
    """Take a lock for a run, if it is free: nobody has it, or its holder does not run any more under the token that it had
    then. `gives_up`: it is the last time that the run asks.
    """

    app: str
    name: str
    gives_up: bool = False


@dataclass(slots=True)
class FreeLock(OfRun[None]):
    """Let a lock go that a run has. One that it does not have any more stays as it is."""

    app: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredCircuit:
    """The row of a dependency that is, or was, down; and what its next state depends on."""

    name: str
    state: CircuitState
    failures: int
    error: str | None
    rest: Microseconds
    next_at: Microseconds | None
    released: int
    probe_seq: int | None
    changed_at: Microseconds
    now: Microseconds  # the store's own time
    probe_state: RunState | None = None
    parked: bool = False  # does anybody wait for it?
    opened_at: Microseconds | None = None  # since when it is not closed


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """What is to become of a circuit: its next state, and how many parked runs come back with it, the oldest first.
    `probes`: the one that comes back is to try; without one the circuit stays as it was.
    """

    circuit: StoredCircuit
    come_back: int = 0
    probes: bool = False
    reason: str | None = None
    alarm: str | None = None


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """How a circuit stands now, and how many runs came back."""

    circuit: StoredCircuit
    came_back: int
    changed: bool


@dataclass(slots=True)
class ChangeCircuit(Request[CircuitChanged]):
    """Whatever happens to a circuit, as one transition: `change` is asked while its row is locked, as it is then. `rest` is
    for one that is made now.
    """

    app: str
    name: str
    rest: Microseconds
    change: Callable[[StoredCircuit], CircuitChange]

    @property
    def patient(self) -> bool:
        return True

    def readies(self) -> Ready | None:
        return ANYTHING

    def alarming(self) -> bool:
        return True

    def tell(self, result: CircuitChanged, others: Others) -> None:
        others.all = others.all or result.changed


@dataclass(slots=True)
class RedoRun(ByPerson[Redone | None]):
    """A person lets a run that was over go on, or one that went well be done `again` as a new one of its family; or
    `discard`s it. `data` is handed to the handler instead of the event's own.
    """

    id: str
    data: str | None = None
    again: bool = False
    discard: bool = False

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def audit(self, result: Redone | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        return Audit("discard" if self.discard else "replay", None, result.run, self.note)


@dataclass(slots=True)
class Cancelled:
    """What became of it. `now`: `cancelled` at once; or `ready`, for a worker to undo what it did; or still `running`, until
    its next step. `refused` says why nothing was changed.
    """

    run: str
    was: RunState
    now: RunState
    refused: str | None = None


@dataclass(slots=True)
class CancelRun(ByPerson[Cancelled | None]):
    """A person, or the run that called it, wants a run to stop. One that never did anything outside is over at once; of any
    other a worker undoes what it did. The runs that it called and that are not over are cancelled with it.

    With `claim` only this attempt of it is meant, by whoever has it: ClaimLost if that is over.
    """

    id: str
    claim: Claim | None = None
    undo: bool = True  # False: it is over at once, and what it did stays: no worker has its code any more

    @property
    def process(self) -> str | None:
        return None if self.claim is None else self.claim.process

    fenced = True

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def follow(self, result: Cancelled | None, heard: Heard) -> None:
        if result is not None and result.refused is None:
            heard.stops(CancelAsked(result.run, self.by.name, self.note))

    def audit(self, result: Cancelled | None) -> Audit | None:
        """Who asked a run to stop was written down then: the worker that obeys writes nothing more."""
        if result is None or result.refused is not None or self.claim is not None:
            return None
        return Audit("cancel", None, result.run, self.note)


@dataclass(slots=True)
class FinishCancelled(OfRun[None]):
    """A run that was to stop has undone what it did: it is over. Nothing that it had prepared leaves any more."""

    app: str
    reason: str
    outcome: Outcome

    ends_a_run = True

    def lock_keys(self, lanes: Lanes) -> None:
        if self.claim.key is not None:
            lanes.leave(self.claim, ends=True)

    def readies(self) -> Ready | None:
        return ANYTHING

    def alarming(self) -> bool:
        return True

    def tell(self, _: None, others: Others) -> None:
        others.all = True  # runs that it called may have been asked to stop

    def follow(self, _: None, heard: Heard) -> None:
        heard.stops(None)  # the runs that it called may run here


@dataclass(slots=True)
class NoteChange(OfRun[None]):
    """A run meets other code than it began with: a fact about that. With `version` it has gone over to that one; with
    `restart` what it had recorded is dropped, in the same transition.
    """

    fact: Step
    version: str | None = None
    restart: bool = False
    alarm: Alarm | None = None

    def alarming(self) -> bool:
        return self.alarm is not None


@dataclass(slots=True)
class ForkRun(ByPerson[Redone | None]):
    """A further run of a family that is over, which keeps what was finished before the step of this `key` (for people:
    `step`). `results` are kept instead of those of the steps with these keys; `edited` are the same by name, for the record.
    """

    id: str
    key: str
    step: str
    data: str | None = None
    results: dict[str, str] = field(default_factory=dict)
    edited: dict[str, Any] = field(default_factory=dict)

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def audit(self, result: Redone | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        words = f"{result.run} from {self.step}" + (f": {self.note}" if self.note else "")
        return Audit("fork", None, self.id, words)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event that may be handed to an agent later, and what became of it for that agent before, if anything did."""

    seq: int
    app: str
    source: str
    id: str
    type: str
    admission: AdmissionState | None = None
    run_id: str | None = None
    envelope: str | None = None


@dataclass(slots=True)
class FeedEvents(ByPerson[int]):
    """Hand stored events to an agent that did not get them. `runs` is (the event's seq, the run's id); `denied` are those
    that policy does not allow; `flows` says of an event's run which key and priority it has, where the agent has any.
    """

    app: str
    agent: str
    reason: str
    runs: list[tuple[int, str]]
    denied: list[tuple[int, Decision]] = field(default_factory=list)
    flows: dict[int, Flow] = field(default_factory=dict)
    overrules: bool = False  # also what policy denied to it

    def size(self) -> tuple[int, int]:
        return len(self.runs) + len(self.denied) - 1, 0

    def lock_keys(self, lanes: Lanes) -> None:
        for flow in self.flows.values():
            lanes.add(self.app, self.agent, flow)

    def readies(self) -> Ready | None:
        return Ready(self.app, frozenset({self.agent})) if self.runs else None

    def tell(self, result: int, others: Others) -> None:
        others.all = others.all or bool(result)

    def audit(self, result: int) -> Audit | None:
        return Audit("replay", self.app, self.agent, f"{result} events" + (f": {self.note}" if self.note else ""))

    def counted(self, result: int) -> int:
        return result


@dataclass(slots=True)
class RaiseAlarm(Request[None]):
    """Open or refresh an alarm."""

    alarm: Alarm

    def alarming(self) -> bool:
        return True


@dataclass(slots=True)
class RegisterProcess(Request[None]):
    """Enter a process with its first lease, what it has loaded, and the limits that its code gives to that."""

    id: str
    host: str
    pid: int
    lease: Microseconds
    app: str | None = None
    agents: Sequence[str] = ()
    limits: Mapping[str, Limit] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)  # of the code of these agents
    again: bool = False  # it was declared dead, and comes back under this identity: nothing new was put to work

    def shuts(self) -> str | None:
        """Other code may come with a process: no claim is to be under way that has not heard of it."""
        return self.app if self.app and self.versions else None

    def tell(self, _: None, others: Others) -> None:
        others.joined = self.app


class LeftBehind(int):
    """How many runs a process that died or left still had; `lanes`: how many channels, which others may take now; `gone`: it
    went just now, and what it held, such as sources or runs of the code that it alone served, is free.
    """

    lanes: int
    gone: bool

    def __new__(cls, runs: int = 0, lanes: int = 0, *, gone: bool = False) -> Self:
        made = super().__new__(cls, runs)
        made.lanes = lanes
        made.gone = gone
        return made


@dataclass(slots=True)
class RetireProcess(Request[LeftBehind]):
    """A process says goodbye."""

    id: str

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone


@dataclass(slots=True)
class BuryProcess(Request[LeftBehind]):
    """Declare a process dead and put its runs back. `certain`: it is known to be gone, whatever its lease says."""

    id: str
    certain: bool

    def readies(self) -> Ready | None:
        return ANYTHING

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone

    def follow(self, _: LeftBehind, heard: Heard) -> None:
        heard.deliveries()  # it may have had a lane


@dataclass(slots=True)
class TakeOver(Request[LeftBehind]):
    """A process is not connected any more, by the lock that it had: declare it dead before its lease is over, and put back those of its
    runs that have no call under way.
    """

    id: str
    guard: int

    def readies(self) -> Ready | None:
        return ANYTHING

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone


@dataclass(slots=True)
class ForgetRuns(Request[int]):
    """Give back what this process owns without knowing it: claims whose answer was lost with the connection."""

    process: str
    known: frozenset[str]

    fenced = True

    def readies(self) -> Ready | None:
        return ANYTHING

    def gives_back(self) -> bool:
        return True

    def tell(self, result: int, others: Others) -> None:
        others.all = others.all or bool(result)


@dataclass(slots=True)
class RecordOperation(Request[None]):
    """What a person did."""

    operator: str
    verb: str
    app: str | None = None
    target: str | None = None
    detail: str | None = None
    way: Way | None = None


# keeping


@dataclass(frozen=True, slots=True)
class Family:
    """A run and its replays and forks, as they were seen: (id, token) of each. It goes if all were over before then."""

    root: str
    runs: frozenset[tuple[str, int]]
    before: Microseconds


@dataclass(frozen=True, slots=True)
class OldEvent:
    """An event that has no run any more: had it any, and is its payload gone already?"""

    seq: int
    accepted_at: Microseconds
    had_runs: bool
    gone: bool


@dataclass(slots=True)
class RemoveFamilies(Request[list[str]]):
    """Remove families of runs with all that belongs to them. One that is not any more what was seen stays."""

    families: list[Family]


@dataclass(slots=True)
class RemoveTraces(Request[int]):
    """Remove what else is old: payloads of events (by seq), events, idempotency keys, processes, keys (agent, key) that no
    run has, blobs that nothing points to, what became of instants of an agent's schedules, chains of events. Whatever is needed
    again by now stays.
    """

    app: str
    before: Microseconds = 0  # events and idempotency keys
    payloads: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    idempotency: list[str] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    processes_before: Microseconds | None = None
    blobs: list[str] = field(default_factory=list)
    blobs_before: Microseconds = 0
    occurrences: list[tuple[str, Microseconds]] = field(default_factory=list)  # (agent, before)
    most: int = 100  # of occurrences and chains
    chains_before: Microseconds | None = None
    once: bool = False  # keys of `once=` whose time is over


@dataclass(slots=True)
class ResealPayloads(Request[None]):
    """Store payloads as they are under another key: (query, row), and the blobs (id, content) that rows now point to. A payload
    that was changed since it was read stays.
    """

    payloads: list[tuple[str, Row]]
    blobs: list[tuple[str, str]] = field(default_factory=list)
    alarms: Sequence[Alarm] = ()  # about payloads beside them that were tampered with


@dataclass(slots=True)
class LeaveCiphers(Request[None]):
    """No payload is encrypted any more with the keys of these ids."""

    ids: list[str]


@dataclass(slots=True)
class EnterCipher(Request[None]):
    """Payloads are about to be encrypted with the key of this id; or one of the marks of sealing.py."""

    id: str


@dataclass(slots=True)
class NoteBinding(Request[None]):
    """From now on this process binds every payload that it writes to its place."""

    process: str

    fenced = True


@dataclass(frozen=True, slots=True)
class Paused:
    """What it was before."""

    paused: bool
    rate: str | None


@dataclass(slots=True)
class ChangePause(ByPerson[Paused]):
    """A person pauses an agent ('': all of the app), or lets it go on, at first no faster than `rate`. Once this is committed
    nothing of a paused agent is claimed any more.
    """

    app: str
    agent: str
    paused: bool
    rate: str | None = None

    def shuts(self) -> str | None:
        return self.app

    def audit(self, _: Paused) -> Audit | None:
        words = [*([f"at {self.rate}"] if self.rate else []), *([self.note] if self.note else [])]
        verb = "pause" if self.paused else "resume"
        return Audit(verb, self.app, self.agent or "all", ": ".join(words) if words else None)


@dataclass(frozen=True, slots=True)
class TokenState:
    """Where a run stands, for finding out what became of a write whose answer was lost."""

    token: int
    state: RunState


class Store(Protocol):
    """The verbs. Each is one atomic transition, committed together with whatever else is waiting.

    Every verb may raise StoreUnavailable. Those that carry a claim try again by themselves until the database is back
    or the claim is lost: a run in flight waits for its store, and only ever continues on what is on disk.
    """

    # events
    async def accept(self, request: AcceptEvents) -> list[Receipt]:
        """Store events, admissions and new ready runs. A known identity is counted and mapped onto its runs."""
        ...

    # runs
    async def claim(self, request: ClaimRuns, *, now: bool) -> Claimed:
        """Take due runs, oldest first, at most as many as wanted. Unless `now`, rests until something may be due:
        until a transaction of this process makes runs ready, or `poke`.
        """
        ...

    async def save_steps(self, request: SaveSteps) -> None:
        """Store checkpoints. Refused with ClaimLost once somebody else owns the run."""
        ...

    async def transact_step(
        self,
        claim: Claim,
        key: str,
        function: Callable[[Any], Any],
        to_step: Callable[[Any], Step],
        *,
        locks: tuple[HeldLock, ...] = (),
        cause: str | None = None,
    ) -> Step:
        """The user's rows, written by `function(db)`, and the step's record in one transaction. `cause` is the mark by which
        changes that come back are known.
        """
        ...

    # locks
    async def take_lock(self, request: TakeLock) -> HeldLock | LockHolder:
        """The lock, or who has it. Refused with ClaimLost once somebody else owns the run."""
        ...

    async def free_lock(self, request: FreeLock) -> None:
        """Let a lock go."""
        ...

    async def finish(self, request: FinishRun) -> None:
        """End a run. Refused with ClaimLost once somebody else owns it."""
        ...

    async def commit(self, request: CommitRun) -> None:
        """Let out what a run returned, sent and staged. Refused with ClaimLost, or StateChanged."""
        ...

    async def close_run(self, request: CloseRun) -> None:
        """A committed run is done. Refused with ClaimLost once somebody else owns it."""
        ...

    async def release(self, request: ReleaseRun) -> Redone | None:
        """Let a held output out; None when there is no such run."""
        ...

    async def leave(self, request: LeaveRun) -> None:
        """Give a run back. Refused with ClaimLost once somebody else owns it."""
        ...

    async def forget(self, request: ForgetRuns) -> int:
        """Give back what is owned without being known; returns how many."""
        ...

    # circuits
    async def change_circuit(self, request: ChangeCircuit) -> CircuitChanged:
        """One transition of a circuit."""
        ...

    async def circuits(self, app: str) -> list[StoredCircuit]:
        """Those of an app that are not as if nothing had ever happened. A read, and nothing more."""
        ...

    # waiting
    async def end_wait(self, request: EndWait) -> Step:
        """The step of a wait whose time is over, as it ended. Refused with ClaimLost once somebody else owns the run."""
        ...

    async def ask(self, request: AskPerson) -> None:
        """Store a question. Refused with ClaimLost once somebody else owns the run."""
        ...

    async def answer(self, request: AnswerApproval) -> Answered | None:
        """A person's answer; None when there is no such question."""
        ...

    # effects
    async def open_effect(self, request: OpenEffect) -> Effect | Decision:
        """Store an intent, unless it is known already or policy does not allow it."""
        ...

    async def save_effect(self, request: SaveEffect) -> None:
        """Store what became of an effect. Refused with ClaimLost once somebody else owns the run."""
        ...

    async def settle_effect(self, request: SettleEffect) -> Settled | None:
        """A person's answer about a held effect; None when there is no such effect."""
        ...

    # deliveries
    async def first_delivery(self, app: str, channel: str) -> Microseconds | None:
        """How long the next delivery to a channel must still wait; None when there is none. A read, and nothing more."""
        ...

    async def work_lane(self, request: WorkLane) -> Lane:
        """Store what became of deliveries, and take the next."""
        ...

    async def redo_delivery(self, request: RedoDelivery) -> str | None:
        """Try a dead or waiting delivery again, or discard it: what it was before; None when there is no such delivery."""
        ...

    # state
    async def change_state(self, request: ChangeState) -> int:
        """A person's change of an agent's state; the new version."""
        ...

    # cancelling
    async def cancel(self, request: CancelRun) -> Cancelled | None:
        """Let a run stop; None when there is no such run."""
        ...

    async def finish_cancelled(self, request: FinishCancelled) -> None:
        """End a run that was to stop. Refused with ClaimLost once somebody else owns it."""
        ...

    async def effects_to_undo(self, claim: Claim) -> list[Effect]:
        """What a run that is to stop has to answer for, the latest first. A read, and nothing more."""
        ...

    async def cancelled_runs(self, app: str, process: str) -> list[tuple[str, str, str | None]]:
        """Runs of this process that are to stop: the id, who wants it, and why. A read, and nothing more."""
        ...

    async def note_change(self, request: NoteChange) -> None:
        """Write down that a run meets other code. Refused with ClaimLost once somebody else owns it."""
        ...

    # redoing
    async def redo(self, request: RedoRun) -> Redone | None:
        """Let a run that was over go on; None when there is no such run."""
        ...

    async def redo_all(self, requests: Sequence[RedoRun]) -> list[Redone | None]:
        """Many at once: they share transactions, and each is refused by itself."""
        ...

    async def fork(self, request: ForkRun) -> Redone | None:
        """A further run of a family, from a step on; None when there is no such run."""
        ...

    async def feed(self, request: FeedEvents) -> int:
        """Admissions and ready runs for stored events; returns how many are new. One that the agent has stays as it is."""
        ...

    # processes
    async def register(self, request: RegisterProcess) -> None:
        """Enter a process with its first lease."""
        ...

    async def retire(self, request: RetireProcess) -> None:
        """A process leaves. Runs that it could not give back before are given back now."""
        ...

    async def bury(self, request: BuryProcess) -> int:
        """Declare a process dead and re-enqueue its runs; returns how many. Zero when somebody else was first."""
        ...

    async def end_sessions(self, process: str) -> int:
        """End what a process whose lease is over has open, where it is in the way of burying it; returns how many."""
        ...

    async def peers(self, app: str, own: str) -> dict[str, int]:
        """How many other living processes have loaded each agent of an app."""
        ...

    async def others(self, own: str) -> list[tuple[str, Microseconds, bool]]:
        """Other processes that count as alive: what is left of their lease, and whether they are certainly dead."""
        ...

    # people
    async def raise_alarm(self, request: RaiseAlarm) -> None:
        """Open an alarm, or refresh the open one of that key."""
        ...

    async def resolve_alarms(self, request: ResolveAlarms) -> None:
        """What alarms were raised for is over."""
        ...

    async def change_alarm(self, request: ChangeAlarm) -> AlarmChanged | None:
        """A person acknowledges, mutes or resolves an alarm; None when there is no such alarm."""
        ...

    async def tell_alarms(self, request: TellAlarms) -> list[StoredAlarm]:
        """Mark the alarms that are to be told, and accept their events, in one transition. Two who ask get different ones."""
        ...

    async def first_to_tell(self, app: str) -> Microseconds | None:
        """How long until there is an alarm to tell; None when there is none. A read, and nothing more."""
        ...

    async def open_alarms(self, app: str) -> list[tuple[str, Microseconds]]:
        """The keys of those that are not resolved, and when each was last raised. A read, and nothing more."""
        ...

    async def record_operation(self, request: RecordOperation) -> None:
        """Write down what a person did."""
        ...

    async def change_pause(self, request: ChangePause) -> Paused:
        """Pause an agent, or let it go on; what it was before."""
        ...

    # waking
    def poke(self) -> None:
        """Something may be due: let a resting claim look."""
        ...
