"""Alarms about heartbeats, opened and resolved by the process that reads the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms


@dataclass(slots=True)
class ReportHeartbeat(Request[None]):
    """Open alarms about a heartbeat file and its checks, and resolve those that are over."""

    alarms: list[Alarm] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)  # keys of alarms to resolve

    def alarming(self) -> bool:
        return True


def report_heartbeats(now: int | None, requests: Sequence[ReportHeartbeat]) -> Transaction[list[None]]:
    """In order of arrival: a later request may undo an earlier one."""
    for request in requests:
        if request.alarms:
            yield from open_alarms(now, request.alarms)
        if request.resolved:
            yield from resolve_alarms(now, request.resolved)
    return [None] * len(requests)
