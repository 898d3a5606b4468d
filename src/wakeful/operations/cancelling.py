"""Cancelling: what to say of a run that was cancelled. The command line and the HTTP API share this."""

from __future__ import annotations

# By what it is now.
MEANS = {
    "cancelled": "cancelled",
    "ready": "to be cancelled: a worker undoes what it did first",
    "running": "to be cancelled: it stops at its next step, and what it did is undone",
}
