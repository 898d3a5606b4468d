"""The view of a stored error: the fields kept for the next attempt are left out or made readable."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text

# Of a series of failures: when it began, and when the run will be given up.
TIMES = ("since", "until")
KEPT_FOR_THE_NEXT_TRY = ("failing", "unknown", "looks")


def shown_error(stored: str | None) -> dict[str, Any] | None:
    """The view of a stored error; None stays None."""
    if stored is None:
        return None
    error: dict[str, Any] = from_json(stored)
    for name in KEPT_FOR_THE_NEXT_TRY:
        error.pop(name, None)
    for name in TIMES:
        if name in error:
            error[name] = to_text(error[name] or None)
    return error
