"""Cancelling: a run stops, and who wanted that is kept. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Protocol

from wakeful.stores.base import Cancelled, CancelRun, RecordOperation

# What to say of a run that was cancelled, by what it is now.
MEANS = {
    "cancelled": "cancelled",
    "ready": "to be cancelled: a worker undoes what it did first",
    "running": "to be cancelled: it stops at its next step, and what it did is undone",
}


class Cancelling(Protocol):
    """Where it is done."""

    async def cancel(self, request: CancelRun, /) -> Cancelled | None: ...

    async def record_operation(self, request: RecordOperation, /) -> None: ...


async def cancel_run(store: Cancelling, request: CancelRun) -> Cancelled | None:
    """Let one run stop, and note who wanted it. None when there is no such run."""
    cancelled = await store.cancel(request)
    if cancelled is not None and cancelled.refused is None:
        await store.record_operation(RecordOperation(request.operator, "cancel", None, cancelled.run, request.note))
    return cancelled
