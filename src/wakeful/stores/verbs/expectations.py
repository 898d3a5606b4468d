"""Expectations: what an app expects, and what a look at it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wakeful.clock import Microseconds
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms


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
class FinishLook(Request[None]):
    """What one look at an app found: alarms to open or to refresh, alarms that are over, and what was met when."""

    app: str
    alarms: list[Alarm] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    met: list[tuple[str, Microseconds]] = field(default_factory=list)

    def alarming(self) -> bool:
        return True


def keep_expectations(now: int | None, requests: Sequence[KeepExpectations]) -> Transaction[list[None]]:
    """In the order of their names, so that two processes never wait for each other in a circle."""
    for one in requests:
        declared = sorted(one.declared, key=lambda expectation: expectation.name)
        if declared:
            yield (
                "keep_expectation",
                [(now, one.app, each.name, each.kind, each.definition, each.agent, each.owner) for each in declared],
            )
        names = {each.name for each in declared}
        known = yield "names_of_expectations", [(one.app,)]
        gone = sorted(row[0] for row in known if row[0] not in names)
        if gone:
            yield "remove_expectation", [(one.app, name) for name in gone]
    return [None] * len(requests)


def finish_looks(now: int | None, requests: Sequence[FinishLook]) -> Transaction[list[None]]:
    met = sorted((one.app, name, at) for one in requests for name, at in one.met)
    if met:
        yield "note_met", [(now, *each) for each in met]
    # Each alarm in the order of its key, whether it opens or is over: two that look at once never wait for each other.
    found: dict[str, Alarm | None] = {key: None for one in requests for key in one.over}
    found |= {alarm.key: alarm for one in requests for alarm in one.alarms}
    for key, alarm in sorted(found.items()):
        yield from resolve_alarms(now, [key]) if alarm is None else open_alarms(now, [alarm])
    return [None] * len(requests)
