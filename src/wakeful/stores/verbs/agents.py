"""Agents: the declarations that a watcher needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DeclaredAgent:
    """An agent as declared in code: its owner, and how long its runs may be ready before an alarm is raised."""

    name: str
    owner: str | None = None
    starts_within: Microseconds = 0  # 0: no limit


@dataclass(slots=True)
class KeepAgents(Request[None]):
    """Store an app's declared agents. Agents missing here are kept: another process may declare them."""

    app: str
    declared: list[DeclaredAgent]

    @property
    def patient(self) -> bool:
        """Each process does this at its start, and repeating it changes nothing."""
        return True


def keep_agents(now: int | None, requests: Sequence[KeepAgents]) -> Transaction[list[None]]:  # noqa: ARG001 a verb's shape
    """Rows are written in order of name, so that two processes cannot deadlock."""
    rows = {(one.app, each.name): (each.owner, each.starts_within) for one in requests for each in one.declared}
    if rows:
        yield "keep_agent", [(*key, *rows[key]) for key in sorted(rows)]
    return [None] * len(requests)
