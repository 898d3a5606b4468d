"""What a store can be told about agents: what a watcher that has none of the code must know of them."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.stores.request import Request


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
