"""Errors that a noun's functions raise; each surface maps them to a status, an exit code and a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.errors import WakefulError


class Refused(WakefulError):
    """The verb is not possible now: HTTP answers 409 (or `status`), the command line prints the reason.

    422 means that a given value does not fit; the command line exits as for a usage error, unless `wrong_call` is False. `typed`
    is the message with option names, also a usage error. `said` are lines printed before the reason. `answer` is the JSON for
    this item if several are handled.
    """

    def __init__(
        self,
        detail: str,
        *,
        kind: str,
        title: str,
        status: int = 409,
        field: str | None = None,
        said: Sequence[str] = (),
        wrong_call: bool = True,
        answer: Mapping[str, Any] | None = None,
        typed: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.answer = answer
        self.typed = typed
        self.wrong_call = wrong_call
        self.said = said
        self.kind = kind
        self.title = title
        self.status = status
        self.field = field


class Ambiguous(WakefulError):
    """Several items have this name; `parameter` is the parameter that selects one."""

    def __init__(self, detail: str, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


class Unfit(WakefulError):
    """A given value cannot be parsed, or values conflict. `typed` is the message with option names, for the command line."""

    def __init__(self, detail: str, parameter: str, *, typed: str) -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.typed = typed


class NotAllowed(WakefulError):
    """The actor lacks the permission for this verb."""
