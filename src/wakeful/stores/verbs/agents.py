"""Agents: what a watcher must know of them."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.agents import KeepAgents
from wakeful.stores.transaction import Transaction


def keep_agents(now: int | None, requests: Sequence[KeepAgents]) -> Transaction[list[None]]:  # noqa: ARG001 a verb's shape
    """In the order of their names, so that two processes never wait for each other in a circle."""
    rows = {(one.app, each.name): (each.owner, each.starts_within) for one in requests for each in one.declared}
    if rows:
        yield "keep_agent", [(*key, *rows[key]) for key in sorted(rows)]
    return [None] * len(requests)
