"""Alarms about heartbeats, opened and resolved by whoever reads the file."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.heartbeat import ReportHeartbeat
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms


def report_heartbeats(now: int | None, requests: Sequence[ReportHeartbeat]) -> Transaction[list[None]]:
    """In the order in which they came: what one of them says, a later one may take back."""
    for request in requests:
        if request.alarms:
            yield from open_alarms(now, request.alarms)
        if request.resolved:
            yield from resolve_alarms(now, request.resolved)
    return [None] * len(requests)
