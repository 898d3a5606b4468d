"""Views of runs: a run in a listing, a run in detail, and the answers of verbs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.model import RunState
from wakeful.resources.deliveries import Delivery
from wakeful.resources.effects import Effect
from wakeful.resources.events import Decision
from wakeful.resources.fields import About, AsJson, Count, Flag, InPlace, Moment, MomentOrNone, shown_as
from wakeful.resources.shown import AnyJson, FailedTry, Failure


class EventOfRun(TypedDict):
    """The event that a run handles."""

    source: str
    id: str
    type: str


class Run(TypedDict):
    """A run, as listings show it."""

    id: Annotated[str, About("Id of the run", example="22290ae6d7fc693079e167a06b")]
    agent: str
    state: RunState
    attempts: Annotated[int, About("How often the handler was tried")]
    crashes: Annotated[Count, About("How often a process died while running it")]
    reason: Annotated[str | None, About("Why the run is in this state")]
    event: EventOfRun
    created_at: Moment
    started_at: MomentOrNone
    finished_at: MomentOrNone
    due_at: Annotated[MomentOrNone, About("Ready or waiting: the latest time at which it resumes")]
    app: str


class WholeEventOfRun(EventOfRun):
    """The event that a run handles, with its data."""

    key: str
    data: AnyJson


class Member(EventOfRun, total=False):
    """One of the events of a batch. If a run handles one event, its data is in `event`."""

    key: str
    data: AnyJson


class Chain(TypedDict):
    """The position of the run's event in a chain of events caused by runs."""

    depth: Count
    path: Annotated[list[str], About("Agents, in order")]
    shown: str
    began_with: Annotated[str | None, About("Id of the first event")]
    written_by: Annotated[str | None, About("The run that wrote the file or record that the event reports")]


# `for` is a Python keyword, so this class needs the functional syntax.
Scheduled = TypedDict(
    "Scheduled",
    {
        "schedule": str,
        "for": Annotated[MomentOrNone, About("The occurrence that it was started for")],
        "late": Annotated[float | None, About("Seconds late; null before it starts")],
        "covers_from": MomentOrNone,
        "instants": Annotated[int, About("Number of occurrences it covers")],
    },
)


class Called(TypedDict):
    """A run that this one called."""

    id: str
    agent: str
    state: RunState


class Ahead(TypedDict):
    """Runs of the same key that a run waits for."""

    count: int
    run: str | None
    state: str | None


class Edited(TypedDict):
    """Data that an operator gave instead of the event's."""

    data: AnyJson


class Cancel(TypedDict):
    """An operator's request to cancel."""

    by: str | None
    note: str | None
    asked_at: Moment


class CodeChange(TypedDict):
    """A change of code during a run."""

    was: str | None
    now: str | None
    restarted: bool
    agreed: bool
    at: MomentOrNone


class Change(TypedDict):
    """The record of a run that resumed on other code than it started with."""

    was: str | None
    now: str | None
    restarted: bool
    not_asked_for: Annotated[list[str], About("Recorded steps that the new code did not call")]
    changes: list[CodeChange]


class OtherCode(TypedDict):
    """A code version that live processes have."""

    version: str
    since: MomentOrNone
    newer: bool


class AwaitedCode(TypedDict):
    """The code version that a run needs, while not all live processes have it."""

    version: str
    live: Annotated[bool, About("Whether a live process has it")]
    others: list[OtherCode]


class AwaitedEvent(TypedDict):
    """The event that a step waits for."""

    type: str
    subject: str | None
    where: Annotated[str | None, About("Condition in CEL")]
    values: NotRequired[Annotated[dict[str, Any] | None, About("Values that the condition names")]]
    source: NotRequired[str]


class MisfitEvent(TypedDict):
    """An event for which the condition of a wait could not be evaluated."""

    event: str
    reason: str


class AwaitedByStep(TypedDict, total=False):
    """What a step waits for: a time, an event, a run that it called, or an answer."""

    until: Annotated[int, About("The latest time, in microseconds since 1970")]
    limited: Annotated[bool, About("Whether the code gave a timeout")]
    event: Annotated[AwaitedEvent, InPlace()]
    misfit: Annotated[MisfitEvent, InPlace()]
    child: Annotated[str, About("Id of the run that it called")]
    agent: Annotated[str, About("Agent of that run")]
    question: str
    to: Annotated[str | None, About("Who is asked")]
    approval: Annotated[str, About("Id of the approval")]


class StepOfRun(TypedDict):
    """A step of a run."""

    name: Annotated[str, About("Name of its function", example="fetch")]
    state: Literal["done", "failed", "retrying", "waiting"]
    tries: Count
    attempt: int
    arguments: Annotated[Any, About("JSON; if it was cut, a text that ends with …")]
    result: AnyJson
    error: Failure
    failures: Annotated[list[Annotated[FailedTry, InPlace()]], About("Earlier failed tries")]
    started_at: MomentOrNone
    finished_at: MomentOrNone
    duration: Annotated[float, About("Seconds")]
    due_at: Annotated[MomentOrNone, About("Retrying or waiting: when it resumes")]
    waits_for: Annotated[Annotated[AwaitedByStep, InPlace()] | None, About("Waiting: what it waits for")]
    key: str


class AttemptOfRun(TypedDict):
    """A claim of the run by a process."""

    claim: int
    process: str | None
    outcome: Annotated[str | None, About("How it ended", example="done")]
    error: Failure
    started_at: MomentOrNone
    ended_at: MomentOrNone


class Remedy(TypedDict):
    """An operator's action on the run."""

    verb: str
    operator: str | None
    note: str | None
    data: Annotated[
        AnyJson,
        AsJson(),
        About("The data that was given; of `return` and of an edited `release`: the output as it was"),
    ]
    error: Failure
    done_at: MomentOrNone


class OutcomeOfRun(TypedDict):
    """How a run ended."""

    execution: Literal["ok", "failed", "denied", "cancelled"] | None
    verification: Literal["passed", "failed", "none"]
    commit: Literal["committed", "held", "none"]
    delivery: Literal["delivered", "failed", "pending", "none"]
    silent_by_choice: Annotated[bool, About("The handler chose to send nothing")]


class RunDetail(Run):
    """One run in detail."""

    root: Annotated[str, About("The first run of its family")]
    chain: Chain | None
    scheduled: Annotated[Scheduled | None, About("Set if a schedule started the run")]
    parent: Annotated[str | None, About("The run that called it with run.call")]
    children: Annotated[list[Called], About("Runs that it called")]
    event: WholeEventOfRun  # type: ignore[misc]  # the same with its data
    events: Annotated[list[Member], About("All events that it handles; one, unless batch= is used")]
    key: Annotated[str | None, About("Runs of the same key run in order", example="8841")]
    priority: int | None
    gathers_until: Annotated[MomentOrNone, About("It waits until then for more events, or for a newer one")]
    ahead: Annotated[Ahead | None, About("Runs of the same key that it waits for")]
    behind: Annotated[int | None, About("Dead letter: how many runs of its key are blocked behind it")]
    edited: Edited | None
    owner: Annotated[str | None, About("The process that runs it")]
    parked_for: Annotated[str | None, About("Parked: the dependency that is down")]
    token: Annotated[Count, About("Increases with each claim")]
    expires_at: MomentOrNone
    version: Annotated[str | None, About("Code version that it started with")]
    cancel: Cancel | None
    change: Change | None
    awaits_code: AwaitedCode | None
    steps: list[StepOfRun]
    history: Annotated[list[AttemptOfRun], About("Every claim of the run")]
    remedies: Annotated[list[Remedy], About("Operators' actions on the run")]
    effects: list[Effect]
    decisions: list[Decision]
    deliveries: list[Delivery]
    output: AnyJson
    error: Failure
    outdated: Annotated[
        bool, About("The held output cannot be released: it would overwrite a state that has changed since")
    ]
    outcome: Annotated[OutcomeOfRun | None, About("How the run ended")]


class LaterRun(TypedDict):
    """Another run of the same family: a repetition or a fork."""

    id: str
    state: RunState
    created_at: Moment
    forked: Flag


# answers of verbs


class RedoneRun(TypedDict):
    """A run that was replayed or discarded."""

    run: Annotated[str, About("A new run's id if a finished run is repeated")]
    was: str
    confirmed_effects: Annotated[Count, About("Confirmed effects that are reused, not repeated")]


class Released(TypedDict):
    """What a release published."""

    run: str
    was: str
    deliveries: Count
    effects: Count
    edited: NotRequired[
        Annotated[Literal[True], About("The edited output was published; `remedies` keeps the held one")]
    ]


class ReturnedRun(TypedDict):
    """A run whose output was returned."""

    run: str
    was: str
    returns: Annotated[Count, About("How often its output was returned, this time included")]


class CancelledRun(TypedDict):
    """The state of a run before and after a request to cancel."""

    run: str
    was: str
    state: str


class ForkedRun(TypedDict):
    """A run forked from another."""

    run: str
    was: str
    kept: Annotated[list[str], About("Steps whose results it keeps")]


class ForkPlan(TypedDict):
    """What a fork would keep, ready to edit."""

    data: AnyJson
    steps: Annotated[dict[str, Any], About("Results by step name")]


class RunRedoPlan(TypedDict):
    """The plan of replaying or discarding one run."""

    plan: str
    count: Count
    confirmed_effects: Annotated[Count, About("Confirmed effects that would be reused, not repeated")]
    confirmed_actions: Annotated[dict[str, Count], About("The same, by action")]


@shown_as(
    {
        "kind": "run",
        "error": "TimeoutError: no answer within N s",
        "count": 2,
        "last_at": "2026-08-01T08:00:00Z",
        "newest_error": "TimeoutError: no answer within 30 s",
        "agent": "triage",
        "confirmed_effects": 0,
        "runs": ["22290ae6d7fc693079e167a06b"],
    }
)
class DeadGroup(TypedDict):
    """Dead letters with the same failure: runs of one agent, deliveries to one channel, or inputs of one source."""

    kind: Literal["run", "delivery", "input"]
    error: NotRequired[Annotated[str, About("Runs and deliveries: the error they have in common")]]
    count: Count
    last_at: str | None
    newest_error: Annotated[str | None, About("The newest one's error")]
    agent: NotRequired[Annotated[str, About("Runs only")]]
    confirmed_effects: NotRequired[Annotated[Count, About("Runs: confirmed effects that a replay would not repeat")]]
    runs: NotRequired[list[str]]
    channel: NotRequired[Annotated[str, About("Deliveries only")]]
    deliveries: NotRequired[list[str]]
    app: NotRequired[Annotated[str, About("Inputs only")]]
    source: NotRequired[Annotated[str, About("Inputs only")]]
    quarantined: NotRequired[Annotated[str, About("Inputs: unverified or unreadable")]]
    newest: NotRequired[Annotated[str, About("Inputs: key of the newest")]]


# `from` is a Python keyword, so this class needs the functional syntax.
Redone = TypedDict(
    "Redone",
    {
        "count": Annotated[Count, About("Plan of a filter: number of dead letters")],
        "groups": list[DeadGroup],
        "confirmed_effects": Annotated[Count, About("Confirmed effects that would be reused, not repeated")],
        "confirmed_actions": Annotated[dict[str, Count], About("The same, by action")],
        "events": Annotated[Count, About("Plan of events: number of matching events")],
        "new": Annotated[Count, About("How many of them the agent has not received")],
        "redone": Annotated[Count, About("How many this request handled")],
        "left": Annotated[Count, About("How many are left: repeat the request until this is 0")],
        "already_had": Count,
        "denied": Count,
        "until": Annotated[str, About("Pass this as filter.until of the next request")],
        "from": str,
        "to": str,
    },
    total=False,
)
shown_as({"redone": 2, "left": 0, "until": "2026-08-01T08:00:00Z"})(Redone)
