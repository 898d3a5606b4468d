"""Cancelling: the message about a cancelled run. The command line and the HTTP API share this."""

from __future__ import annotations

# By the run's state now.
MEANS = {
    "cancelled": "cancelled",
    "ready": "to be cancelled: a worker undoes its effects first",
    "running": "to be cancelled: it stops at its next step, and its effects are undone",
}
