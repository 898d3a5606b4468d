"""What a store can be asked about expectations: one request per transition."""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.clock import Microseconds
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Request


@dataclass(frozen=True, slots=True)
class DeclaredExpectation:
    """What an app's code expects. `definition` is JSON."""

    name: str
    kind: str
    definition: str
    agent: str | None = None
    owner: str | None = None


@dataclass(slots=True)
class KeepExpectations(Request[None]):
    """Store what an app expects now. One that is new, or expects something else than before, counts from this moment on; those
    that are not there any more are removed.
    """

    app: str
    declared: list[DeclaredExpectation]


@dataclass(slots=True)
class SettleLook(Request[None]):
    """What one look at an app found: alarms to open or to refresh, alarms that are over, and what was met when."""

    app: str
    alarms: list[Alarm] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    met: list[tuple[str, Microseconds]] = field(default_factory=list)

    def alarming(self) -> bool:
        return True


# The kind of absence of a source that nobody reads.
NOT_READ = "not-read"


def absence_alarm(app: str, name: str, kind: str) -> str:
    """The key of the alarm about an expectation that was not met."""
    return f"expect/{app}/{name}/{kind}"


def down_alarm(app: str) -> str:
    """The key of the alarm about an app that nobody works for any more."""
    return f"down/{app}"
