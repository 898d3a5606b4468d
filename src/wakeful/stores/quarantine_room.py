"""What a store can be asked about the room that quarantine takes: inputs that could not be verified have a ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wakeful.clock import Microseconds
from wakeful.stores.request import Request

WhyCut = Literal["bytes", "days"]

# What the rows of one take besides its texts, with their places in indexes.
ROOM_OF_ROWS = 1024


@dataclass(slots=True)
class CutQuarantine(Request[int]):
    """Remove unverified inputs that came before then, and the oldest while all of them take more than the ceiling. How many went comes
    back; a few at a time, so ask again until it is none.
    """

    app: str
    ceiling: int | None = None  # bytes
    before: Microseconds | None = None


def quarantine_alarm(app: str) -> str:
    """The key of the alarm that unverified inputs are cut because they take too much."""
    return f"quarantine/{app}"
