"""How fast the demonstration goes: 1 as it should be watched, less to fit into a short time."""

from __future__ import annotations

import os

VARIABLE = "WAKEFUL_DEMO_PACE"


def pace() -> float:
    """The pace that the director set for its worker."""
    return float(os.environ.get(VARIABLE, "1"))


def pace_for(seconds: float | None) -> float:
    """The pace at which the whole story, of 20 seconds, fits into so many."""
    return 1.0 if seconds is None else min(1.0, max(0.3, seconds / 20))
