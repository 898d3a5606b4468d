"""Errors that the functions of a noun raise; each surface makes its own status, exit code and sentence of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.errors import WakefulError


class Refused(WakefulError):
    """This cannot be done to it now: HTTP answers 409 (or `status`), a shell prints the reason. 422: what was given does not fit,
    which a shell counts as a wrong call, unless `wrong_call` is False; so it does where `typed` says it with the names of
    options. `said` are lines that a shell prints before the reason.
    `answer` is what is answered about it, where it is one of several.
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
    """Several things have this name; `parameter` says which of them is meant."""

    def __init__(self, detail: str, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


class Unfit(WakefulError):
    """What was given cannot be read, or does not go together. `typed` says it with the names of options, to a shell."""

    def __init__(self, detail: str, parameter: str, *, typed: str) -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.typed = typed


class NotAllowed(WakefulError):
    """The actor has no permission for this verb."""
