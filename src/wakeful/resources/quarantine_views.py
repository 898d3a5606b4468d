"""Views of quarantined inputs."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.resources.fields import About, Count, InBase64, Moment, MomentOrNone, shown_as
from wakeful.resources.shown import EventReceipt
from wakeful.resources.words import number, plain
from wakeful.size import in_bytes
from wakeful.stores.verbs.quarantine_room import WhyCut
from wakeful.stores.verbs.take_in import QuarantineKind

State = Literal["kept", "released", "discarded"]
BECAUSE = {"bytes": "unverified inputs took too much space", "days": "they were too old"}


class Became(TypedDict):
    """The first event made of an input, and the number of events."""

    key: str
    events: int


class EventName(TypedDict):
    """The event that stands for an input."""

    source: str
    id: str


class Quarantined(TypedDict):
    """An input that could not be verified or read."""

    key: str
    app: str
    source: str
    kind: QuarantineKind
    state: State
    reason: str | None
    size: Annotated[Count, About("Size in bytes")]
    came: Annotated[Count, About("How often it arrived")]
    first_at: Moment
    became: Annotated[Became | None, About("The first event made of it")]
    settled_by: str | None
    settled_at: MomentOrNone
    note: str | None
    event: EventName


class QuarantinedDetail(Quarantined):
    """An input with its headers and bytes: both null once removed."""

    headers: Annotated[dict[str, str] | None, About("Headers, without credentials")]
    raw: Annotated[str | None, InBase64(), About("The original bytes")]
    form: NotRequired[
        Annotated[str | None, About("raw, event (read by its source and serialized by Wakeful), or null: unknown")]
    ]


class Cut(TypedDict):
    """Unverified inputs of a source that were removed."""

    app: str
    source: str
    why: WhyCut
    count: Count
    bytes: Count
    since: Annotated[Moment, About("When the first one was removed")]
    last_at: Moment


class Room(TypedDict):
    """Space used by unverified inputs."""

    held: Annotated[Count, About("Bytes used by unverified inputs now")]
    cut: Annotated[list[Cut], About("Inputs that were removed to stay below the limit")]


class WithRoom(TypedDict):
    """What a page contains besides its inputs."""

    unverified: Room


class EndedInput(TypedDict):
    """The result of releasing or discarding an input."""

    key: str
    state: State
    events: Annotated[list[EventReceipt], About("The events made of it")]


class StillWrong(TypedDict):
    """A reason why inputs still cannot be taken in, and how many."""

    reason: str
    count: Count


@shown_as({"done": 12, "left": 0, "after": "3f2a91c04d", "known": 1, "still_wrong": 0, "reasons": []})
class EndedInputs(TypedDict, total=False):
    """The plan or the result of releasing or discarding many inputs."""

    count: Annotated[Count, About("Plan: number of inputs that wait for a person")]
    done: Annotated[Count, About("How many this request released or discarded")]
    left: Annotated[Count, About("How many are left: repeat the request with this `after` until this is 0")]
    after: Annotated[str, About("Where the next request continues")]
    known: Annotated[Count, About("Events that had arrived again meanwhile")]
    still_wrong: Annotated[Count, About("How many still cannot be taken in and stay in quarantine")]
    reasons: Annotated[list[StillWrong], About("The most frequent reasons")]


def removed(one: Cut) -> str:
    """A sentence about unverified inputs of a source that were removed to stay below the limit."""
    what = f"{number(one['count'], 'unverified input')} ({in_bytes(one['bytes'])})"
    return f"{plain(one['source'])}: {what} removed since {one['since']}, because {BECAUSE[one['why']]}"
