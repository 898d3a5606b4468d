"""Pauses: agents that people paused, and the rate at which they resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.failing import resumed


@dataclass(frozen=True, slots=True)
class Paused:
    """The pause before the change."""

    paused: bool
    rate: str | None


@dataclass(slots=True)
class ChangePause(ByPerson[Paused]):
    """A person pauses an agent ('': the whole app) or resumes it, at first no faster than `rate`. After the commit, no run of a paused
    agent is claimed any more. Returns the pause before.
    """

    app: str
    agent: str
    paused: bool
    rate: str | None = None

    def shuts(self) -> str | None:
        return self.app

    def audit(self, _: Paused) -> Audit | None:
        words = [*([f"at {self.rate}"] if self.rate else []), *([self.note] if self.note else [])]
        verb = "pause" if self.paused else "resume"
        return Audit(verb, self.app, self.agent or "all", ": ".join(words) if words else None)


ALL = ""  # in place of an agent: the whole app


def change_pauses(now: int | None, requests: Sequence[ChangePause]) -> Transaction[list[Paused]]:
    """On PostgreSQL the gate of the app is shut at this point: no claim is in flight, and later claims see the pause."""
    results = []
    for one in requests:
        rows = yield "find_pause", [(one.app, one.agent)]
        was = Paused(bool(rows[0][0]), rows[0][1]) if rows else Paused(paused=False, rate=None)
        results.append(was)
        if not one.paused and one.agent != ALL:
            yield from resumed(now, one.app, one.agent)
        if (one.paused, one.rate) != (was.paused, was.rate):
            yield "set_pause", [(now, one.app, one.agent, int(one.paused), one.rate, one.by.name, one.note)]
    return results
