"""Views of runs: a run in a listing, everything about one, and the answers of its verbs, with every key and its type."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.model import RunState
from wakeful.resources.deliveries import Delivery
from wakeful.resources.effects import Effect
from wakeful.resources.events import Decision
from wakeful.resources.fields import About, AsError, AsJson, Count, Flag, Moment, MomentOrNone

Failure = Annotated[dict[str, Any] | None, AsError(), About("type, message, failure, traceback, …")]


class EventOfRun(TypedDict):
    """The event that a run is about."""

    source: str
    id: str
    type: str


class Run(TypedDict):
    """A run, as every listing shows it."""

    id: Annotated[str, About("Its id", example="22290ae6d7fc693079e167a06b")]
    agent: str
    state: RunState
    attempts: Annotated[int, About("Tries of the handler")]
    crashes: Annotated[Count, About("How often the process died that worked on it")]
    reason: Annotated[str | None, About("Why it is in this state")]
    event: EventOfRun
    created_at: Moment
    started_at: MomentOrNone
    finished_at: MomentOrNone
    due_at: Annotated[MomentOrNone, About("Ready or waiting: when it goes on at the latest")]
    app: str


class WholeEventOfRun(EventOfRun):
    """The event that a run is about, with its data."""

    key: str
    data: Any


class Member(EventOfRun, total=False):
    """One of the events that a run is over. Of a run over one event, its data is in `event`."""

    key: str
    data: Any


class Chain(TypedDict):
    """Where the run's event stands in a chain of events that runs caused."""

    depth: Count
    path: Annotated[list[str], About("Agents, the first one first")]
    shown: str
    began_with: Annotated[str | None, About("The id of the first event")]
    written_by: Annotated[str | None, About("The run that wrote what the event tells of")]


# `for` is a word of Python: this class cannot be written as the others are.
Scheduled = TypedDict(
    "Scheduled",
    {
        "schedule": str,
        "for": Annotated[MomentOrNone, About("The time that it was due at")],
        "late": Annotated[float | None, About("Seconds; null before it starts")],
        "covers_from": MomentOrNone,
        "instants": Annotated[int, About("How many it covers")],
    },
)


class Called(TypedDict):
    """A run that this one called."""

    id: str
    agent: str
    state: RunState


class Ahead(TypedDict):
    """The runs of its key that a run waits for."""

    count: int
    run: str | None
    state: str | None


class Edited(TypedDict):
    """The data that a person gave it instead of the event's."""

    data: Any


class Cancel(TypedDict):
    """A person's wish that it stops."""

    by: str | None
    note: str | None
    asked_at: Moment


class CodeChange(TypedDict):
    """One change of code under a run."""

    was: str | None
    now: str | None
    restarted: bool
    agreed: bool
    at: MomentOrNone


class Change(TypedDict):
    """What is noted of a run that met other code than it began with."""

    was: str | None
    now: str | None
    restarted: bool
    not_asked_for: Annotated[list[Any], About("Steps with a record that the new code did not ask for")]
    changes: list[CodeChange]


class OtherCode(TypedDict):
    """Code that living processes have."""

    version: str
    since: MomentOrNone
    newer: bool


class AwaitedCode(TypedDict):
    """The code that a run belongs to, while not all living processes have it."""

    version: str
    live: Annotated[bool, About("A living process has it")]
    others: list[OtherCode]


class StepOfRun(TypedDict):
    """A step."""

    name: str
    state: Literal["done", "failed", "retrying", "waiting"]
    tries: Count
    attempt: int
    arguments: Annotated[Any, About("JSON; a text with … at its end, where it was cut")]
    result: Any
    error: Failure
    failures: Annotated[list[dict[str, Any]], About("Earlier tries that failed")]
    started_at: MomentOrNone
    finished_at: MomentOrNone
    duration: Annotated[float, About("Seconds")]
    due_at: Annotated[MomentOrNone, About("Retrying or waiting: when it goes on")]
    waits_for: Annotated[Any, About("Waiting: for what")]
    key: str


class AttemptOfRun(TypedDict):
    """A claim of the run by a process."""

    claim: int
    process: str | None
    outcome: str | None
    error: Failure
    started_at: MomentOrNone
    ended_at: MomentOrNone


class Remedy(TypedDict):
    """What a person did to the run."""

    verb: str
    operator: str | None
    note: str | None
    data: Annotated[Any, AsJson()]
    error: Failure
    done_at: MomentOrNone


class OutcomeOfRun(TypedDict):
    """How a run ended."""

    execution: Literal["ok", "failed", "denied", "cancelled"] | None
    verification: Literal["passed", "failed", "none"]
    commit: Literal["committed", "held", "none"]
    delivery: Literal["delivered", "failed", "pending", "none"]
    silent_by_choice: Annotated[bool, About("It had nothing to say, and said so")]


class RunDetail(Run):
    """Everything about one run."""

    root: Annotated[str, About("The first run of its family")]
    chain: Chain | None
    scheduled: Annotated[Scheduled | None, About("Of a run that a schedule started")]
    parent: Annotated[str | None, About("The run that called it with run.call")]
    children: Annotated[list[Called], About("Runs that it called")]
    event: WholeEventOfRun  # type: ignore[misc]  # the same with its data
    events: Annotated[list[Member], About("All that it is over; one, unless batch=")]
    key: Annotated[str | None, About("Runs of one key go in order")]
    priority: int | None
    gathers_until: Annotated[MomentOrNone, About("Until then it waits for more events, or for a newer one")]
    ahead: Annotated[Ahead | None, About("Runs of its key that it waits for")]
    behind: Annotated[int | None, About("Of a dead letter: how many runs of its key wait for a person")]
    edited: Edited | None
    owner: Annotated[str | None, About("The process that works on it")]
    parked_for: Annotated[str | None, About("Parked: the dependency that is down")]
    token: Annotated[Count, About("Rises with each claim")]
    expires_at: MomentOrNone
    version: Annotated[str | None, About("Of the code that it began with")]
    cancel: Cancel | None
    change: Change | None
    awaits_code: AwaitedCode | None
    steps: list[StepOfRun]
    history: Annotated[list[AttemptOfRun], About("Every claim of it")]
    remedies: Annotated[list[Remedy], About("What people did to it")]
    effects: list[Effect]
    decisions: list[Decision]
    deliveries: list[Delivery]
    output: Any
    error: Failure
    outdated: Annotated[
        bool, About("A held output that cannot be released: it would save a state that was changed since")
    ]
    outcome: Annotated[OutcomeOfRun | None, About("How it ended")]


class LaterRun(TypedDict):
    """Another run of the same family: it was done again, or forked."""

    id: str
    state: RunState
    created_at: Moment
    forked: Flag


# what verbs answer


class RedoneRun(TypedDict):
    """A run that goes on, or was given up."""

    run: Annotated[str, About("Another one than was named, where it is done again")]
    was: str
    confirmed_effects: Annotated[Count, About("How many are found, and not repeated")]


class Released(TypedDict):
    """What a release let out."""

    run: str
    was: str
    deliveries: Count
    effects: Count


class CancelledRun(TypedDict):
    """What a run was, and what it is now that a person wants it to stop."""

    run: str
    was: str
    state: str


class ForkedRun(TypedDict):
    """A run that begins in the middle of another."""

    run: str
    was: str
    kept: Annotated[list[str], About("Steps whose results it has")]


class ForkPlan(TypedDict):
    """What a fork would keep, ready to be edited."""

    data: Any
    steps: Annotated[dict[str, Any], About("Results by the names of steps")]


class RunRedoPlan(TypedDict):
    """What would be done to one run."""

    plan: str
    count: Count
    confirmed_effects: Annotated[Count, About("How many would be found and not repeated")]
    confirmed_actions: Annotated[dict[str, Count], About("Of which actions")]


class DeadGroup(TypedDict):
    """Dead letters that failed alike: runs of one agent, deliveries to one channel, or inputs of one source."""

    kind: Literal["run", "delivery", "input"]
    error: NotRequired[Annotated[str, About("Of runs and deliveries: what they have in common")]]
    count: Count
    last_at: str | None
    newest_error: Annotated[str | None, About("What the newest of them says")]
    agent: NotRequired[Annotated[str, About("Of runs")]]
    confirmed_effects: NotRequired[Annotated[Count, About("Of runs: what a replay would not repeat")]]
    runs: NotRequired[list[str]]
    channel: NotRequired[Annotated[str, About("Of deliveries")]]
    deliveries: NotRequired[list[str]]
    app: NotRequired[Annotated[str, About("Of inputs")]]
    source: NotRequired[Annotated[str, About("Of inputs")]]
    quarantined: NotRequired[Annotated[str, About("Of inputs: unverified or unreadable")]]
    newest: NotRequired[Annotated[str, About("Of inputs: the key of the newest")]]


# `from` is a word of Python: this class cannot be written as the others are.
Redone = TypedDict(
    "Redone",
    {
        "count": Annotated[Count, About("plan of a filter: how many dead letters")],
        "groups": list[DeadGroup],
        "confirmed_effects": Annotated[Count, About("How many would be found and not repeated")],
        "confirmed_actions": Annotated[dict[str, Count], About("Of which actions")],
        "events": Annotated[Count, About("plan of events: how many are like that")],
        "new": Annotated[Count, About("How many of them the agent has not had")],
        "redone": Annotated[Count, About("How many this request did")],
        "left": Annotated[Count, About("How many are left: send the same again until it is 0")],
        "already_had": Count,
        "denied": Count,
        "until": Annotated[str, About("Give this as filter.until of the next request")],
        "from": str,
        "to": str,
    },
    total=False,
)
