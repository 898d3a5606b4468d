"""retire: marks an app as no longer used, until its code is started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Transaction


@dataclass(slots=True)
class RetireApp(ByPerson[bool]):
    """Retire an app: nothing is expected of it any more. Recorded with its author. Returns False if it was already retired."""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("retire", self.app, self.app, self.note) if result else None


@dataclass(slots=True)
class BringBackApp(ByPerson[bool]):
    """End an app's retirement. Returns whether it was retired."""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("bring back", self.app, self.app, self.note) if result else None


def retire_apps(now: int | None, requests: Sequence[RetireApp]) -> Transaction[list[bool]]:
    """For each: True if it was not retired before."""
    results = []
    for one in requests:
        new = bool((yield "insert_retired", [(now, one.app, one.by.name, one.note)]))
        if new:
            yield "remove_guards", [(one.app,)]  # no server of the app is left to set a token
        results.append(new)
    return results


def bring_apps_back(_: int | None, requests: Sequence[BringBackApp]) -> Transaction[list[bool]]:
    results = []
    for one in requests:
        was = bool((yield "remove_retired", [(one.app,)]))
        results.append(was)
    return results
