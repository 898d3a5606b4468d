"""How fast the demonstration goes: 1 as it should be watched, less to fit into a short time."""

from __future__ import annotations

import os

VARIABLE = "WAKEFUL_DEMO_PACE"
WHOLE_STORY = 20.0
FASTEST = 0.3


def pace() -> float:
    """The pace that the director set for its worker."""
    return float(os.environ.get(VARIABLE, "1"))


def pace_for(seconds: float | None) -> float:
    """The pace at which the whole story fits into so many seconds."""
    return 1.0 if seconds is None else min(1.0, max(FASTEST, seconds / WHOLE_STORY))
