"""What is in quarantine, as the outside sees it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.resources.fields import About, Count, InBase64, Moment, MomentOrNone
from wakeful.resources.words import number, plain
from wakeful.size import in_bytes
from wakeful.stores.verbs.quarantine_room import WhyCut
from wakeful.stores.verbs.take_in import QuarantineKind

State = Literal["kept", "released", "discarded"]
BECAUSE = {"bytes": "the unverified took too much room", "days": "they were too old"}


class Became(TypedDict):
    """The event that was made of an input, and how many there were."""

    key: str
    events: int


class EventName(TypedDict):
    """The event by which an input is known."""

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
    size: Annotated[Count, About("Bytes")]
    came: Annotated[Count, About("How often")]
    first_at: Moment
    became: Annotated[Became | None, About("The first event made of it")]
    settled_by: str | None
    settled_at: MomentOrNone
    note: str | None
    event: EventName


class QuarantinedDetail(Quarantined):
    """An input with what came along, and its bytes: both null once they were removed."""

    headers: Annotated[dict[str, Any] | None, About("What came along, without credentials")]
    raw: Annotated[str | None, InBase64(), About("The bytes as they came")]
    form: NotRequired[
        Annotated[str | None, About("raw, event (read by its source, and written down by Wakeful), or null: not known")]
    ]


class Cut(TypedDict):
    """What was removed of the unverified of a source."""

    app: str
    source: str
    why: WhyCut
    count: Count
    bytes: Count
    since: Annotated[Moment, About("When the first was removed")]
    last_at: Moment


class Room(TypedDict):
    """The room that the unverified take."""

    held: Annotated[Count, About("Bytes that the unverified take now")]
    cut: Annotated[list[Cut], About("What was removed of them, so that they stay below their ceiling")]


class WithRoom(TypedDict):
    """What a page tells beside its inputs."""

    unverified: Room


class EndedInput(TypedDict):
    """What became of an input."""

    key: str
    state: State
    events: list[dict[str, Any]]


class StillWrong(TypedDict):
    """Why inputs still cannot be taken in, and how many."""

    reason: str
    count: Count


class EndedInputs(TypedDict, total=False):
    """What releasing or discarding many would do, or did."""

    count: Annotated[Count, About("plan: how many wait for a person")]
    done: Annotated[Count, About("How many this request released or discarded")]
    left: Annotated[Count, About("How many are left: send the same again with this `after` until it is 0")]
    after: Annotated[str, About("Where the next request goes on")]
    known: Annotated[Count, About("Events that had come again meanwhile")]
    still_wrong: Annotated[Count, About("How many still cannot be taken in, and stay")]
    reasons: Annotated[list[StillWrong], About("The most frequent reasons why")]


def removed(one: Cut) -> str:
    """What was removed of a source, so that the unverified stay below their ceiling."""
    what = f"{number(one['count'], 'unverified input')} ({in_bytes(one['bytes'])})"
    return f"{plain(one['source'])}: {what} removed since {one['since']}, because {BECAUSE[one['why']]}"
