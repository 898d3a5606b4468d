"""Expectations that an app declares, and the findings of the watcher."""

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
    """An expectation declared in code. `definition` is JSON."""

    name: str
    kind: str
    definition: str
    agent: str | None = None
    owner: str | None = None


@dataclass(slots=True)
class KeepExpectations(Request[None]):
    """Store the expectations that an app declares now. A new or changed one counts from this moment; expectations that are no longer
    declared are removed.
    """

    app: str
    declared: list[DeclaredExpectation]


@dataclass(slots=True)
class FinishLook(Request[None]):
    """The findings of one look at an app: alarms to open or refresh, alarms to resolve, and when expectations were met. `causes`:
    (key, cause) of open alarms that an older version raised, without their causes.
    """

    app: str
    alarms: list[Alarm] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    met: list[tuple[str, Microseconds]] = field(default_factory=list)
    causes: list[tuple[str, str]] = field(default_factory=list)

    def alarming(self) -> bool:
        return True


def keep_expectations(now: int | None, requests: Sequence[KeepExpectations]) -> Transaction[list[None]]:
    """In order of name, so that two processes cannot deadlock."""
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
    # Alarms open and resolve in order of key, so that two watchers cannot deadlock.
    found: dict[str, Alarm | str | None] = {key: cause for one in requests for key, cause in one.causes}
    found |= {key: None for one in requests for key in one.over}
    found |= {alarm.key: alarm for one in requests for alarm in one.alarms}
    for key, alarm in sorted(found.items(), key=lambda item: item[0]):
        if alarm is None:
            yield from resolve_alarms(now, [key])
        elif isinstance(alarm, Alarm):
            yield from open_alarms(now, [alarm])
        else:
            yield "note_cause", [(key, alarm)]
    return [None] * len(requests)
