"""retire: an app is done with, until its code is started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Transaction


@dataclass(slots=True)
class RetireApp(ByPerson[bool]):
    """Nothing is expected of an app any more. Recorded with who said so; a second time changes nothing."""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("retire", self.app, self.app, self.note) if result else None


@dataclass(slots=True)
class BringBackApp(ByPerson[bool]):
    """The app is not retired any more. The answer: was it?"""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("bring back", self.app, self.app, self.note) if result else None


def retire_apps(now: int | None, requests: Sequence[RetireApp]) -> Transaction[list[bool]]:
    """For each: was it not retired before?"""
    results = []
    for one in requests:
        new = bool((yield "insert_retired", [(now, one.app, one.by.name, one.note)]))
        if new:
            yield "remove_guards", [(one.app,)]  # no server of it is left to say which token counts
        results.append(new)
    return results


def bring_apps_back(_: int | None, requests: Sequence[BringBackApp]) -> Transaction[list[bool]]:
    results = []
    for one in requests:
        was = bool((yield "remove_retired", [(one.app,)]))
        results.append(was)
    return results
