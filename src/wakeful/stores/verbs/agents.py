"""Agents: what a watcher must know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DeclaredAgent:
    """An agent as the code declares it: who hears of it, and how long its runs may be ready before that is an alarm."""

    name: str
    owner: str | None = None
    starts_within: Microseconds = 0  # 0: as long as it takes


@dataclass(slots=True)
class KeepAgents(Request[None]):
    """Store what an app's code declares of its agents. Those that it does not have stay: another process may have them."""

    app: str
    declared: list[DeclaredAgent]

    @property
    def patient(self) -> bool:
        """Each process does this at its start, and done twice it is the same."""
        return True


def keep_agents(now: int | None, requests: Sequence[KeepAgents]) -> Transaction[list[None]]:  # noqa: ARG001 a verb's shape
    """In the order of their names, so that two processes never wait for each other in a circle."""
    rows = {(one.app, each.name): (each.owner, each.starts_within) for one in requests for each in one.declared}
    if rows:
        yield "keep_agent", [(*key, *rows[key]) for key in sorted(rows)]
    return [None] * len(requests)
