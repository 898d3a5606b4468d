"""Views of the answers that are not resources: receipts of events, health, problems, and the document itself. The OpenAPI
document describes these answers by their views.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.resources.fields import About, InPlace
from wakeful.resources.shown import EventReceipt, FailedTry


class RunWithoutOutput(TypedDict):
    """A run that ended without an output."""

    state: Literal["dead", "denied", "cancelled"]
    reason: str | None
    error: Annotated[Annotated[FailedTry, InPlace()] | None, About("type and message")]


Failed = Annotated[
    dict[str, Annotated[RunWithoutOutput, InPlace()]],
    About("Runs that are dead, denied or cancelled, by their ids; absent if there are none"),
]


class Accepted(EventReceipt):
    """A receipt, with the outputs that were there when the time of `wait` was over."""

    outputs: NotRequired[
        Annotated[dict[str, Any], About("With wait: the output of each run that was done in time, by its id")]
    ]
    failed: NotRequired[Failed]


class Finished(EventReceipt):
    """A receipt with the output of each run."""

    outputs: Annotated[dict[str, Any], About("The output of each run that is done, by its id")]
    failed: NotRequired[Failed]


class Receipts(TypedDict):
    """The result for each event, in the order of the request."""

    events: list[Annotated[Accepted, InPlace()]]


class Results(TypedDict):
    """The result for each event, after all runs have finished."""

    events: list[Annotated[Finished, InPlace()]]


# health


class Part(TypedDict):
    """One part of the process."""

    ok: bool
    detail: NotRequired[str]


class SourcesPart(TypedDict):
    """The sources that this process reads, counted by state."""

    ok: bool
    idle: NotRequired[int]
    reading: NotRequired[int]
    paused: NotRequired[int]
    failing: NotRequired[int]


class TokensPart(TypedDict):
    """Requests with a wrong token."""

    ok: bool
    wrong: int
    slowed: int


Silent = Annotated[Annotated[Part, InPlace()], About("Present if it has not reported for long")]


class Parts(TypedDict, total=False):
    """The parts of the process that were checked."""

    store: Annotated[
        str | Annotated[Part, InPlace()], About("The kind of database, or what is wrong with it", example="sqlite")
    ]
    schema: Annotated[
        int | Annotated[Part, InPlace()],
        About("The number of the last migration, or what is wrong with it", example=20),
    ]
    webhooks: Annotated[Annotated[Part, InPlace()], About("Present if no living server answers some webhooks")]
    sources: Annotated[SourcesPart, InPlace()]
    tokens: Annotated[TokensPart, InPlace()]
    worker: Silent
    lookout: Silent
    scheduler: Silent
    teller: Silent
    reaper: Silent
    watcher: Silent
    heartbeats: Silent


class Health(TypedDict):
    """Whether the process is alive or ready."""

    status: Literal["alive", "ready", "not ready"]
    note: NotRequired[
        Annotated[str, About("A remark while ready, for example that the schema is newer but compatible")]
    ]
    parts: NotRequired[Annotated[Annotated[Parts, InPlace()], About("Only for callers with the token")]]


# problems and the document


class Problem(TypedDict):
    """A refused request (RFC 9457)."""

    type: Annotated[str, About("Kind of the problem, as a URN")]
    title: str
    status: int
    detail: str
    field: NotRequired[Annotated[str, About("The attribute, header or parameter that is wrong")]]
    index: NotRequired[Annotated[int, About("Position of the event in the batch")]]


class OpenApi(TypedDict):
    """The OpenAPI document."""

    openapi: Annotated[str, About("Version of the standard")]
    info: Annotated[dict[str, Any], About("Title, version and description of the API")]
    servers: list[dict[str, str]]
    security: list[dict[str, list[str]]]
    paths: Annotated[dict[str, Any], About("Operations, by path and method")]
    components: Annotated[dict[str, Any], About("Schemas, answers and security schemes that operations refer to")]
