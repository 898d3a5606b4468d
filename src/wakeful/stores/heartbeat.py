"""What a store can be asked about heartbeats, beside their schedules and their state."""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Request


@dataclass(slots=True)
class ReportHeartbeat(Request[None]):
    """Say what is wrong with a file and its checks, and what is not any more."""

    alarms: list[Alarm] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)  # keys of alarms that are over

    def alarming(self) -> bool:
        return True


def heartbeat_alarm(app: str, name: str) -> str:
    """The key of the alarm about a check, by the name of its schedule, or about a file, by the name of its heartbeat."""
    return f"heartbeat/{app}/{name}"
