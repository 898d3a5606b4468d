"""Views that several nouns share: the receipt of an event, and a stored error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.errors import FailureClass
from wakeful.model import EventState
from wakeful.resources.fields import About, AsError, InPlace, MomentOrNone

# Values that users and their code choose.
AnyJson = Annotated[Any, About("Any JSON")]


class EventReceipt(TypedDict):
    """The result of accepting one event."""

    source: str
    id: str
    status: EventState
    runs: Annotated[list[str], About("Ids of the runs that handle it")]
    conflict: NotRequired[
        Annotated[Literal[True], About("Present if the same event was seen before with different content")]
    ]
    skipped: NotRequired[
        Annotated[
            dict[str, str], About("Agents that started no run because an earlier one had not finished, with the reason")
        ]
    ]


class FailedTry(TypedDict):
    """The error of an earlier try."""

    type: str
    message: str


class CommandOutput(TypedDict):
    """What a command wrote before it failed."""

    exit_code: int | None
    stdout: str
    stderr: str


class StoredError(TypedDict, total=False):
    """An exception as it is stored."""

    type: Annotated[str, About("Class of the exception", example="TimeoutError")]
    kind: Annotated[str, About("Module and class of the exception", example="builtins:TimeoutError")]
    message: str
    failure: Annotated[FailureClass, About("Decides whether it is retried")]
    lasting: Annotated[bool, About("false: the kind of the failure is unknown, and it is retried only a few times")]
    by_wakeful: Annotated[bool, About("Of classes that both raise: Wakeful raised it, and not the code of the app")]
    traceback: str
    since: Annotated[MomentOrNone, About("When this series of failures began")]
    until: Annotated[MomentOrNone, About("When the run is given up, unless it succeeds")]
    tries: Annotated[list[Annotated[FailedTry, InPlace()]], About("Step: the errors of its tries")]
    output: Annotated[Annotated[CommandOutput, InPlace()], About("Command: its output")]
    delivery: Annotated[str, About("Operator's action on a delivery: its id")]


Failure = Annotated[Annotated[StoredError, InPlace()] | None, AsError(), About("type, message, failure, traceback, …")]
