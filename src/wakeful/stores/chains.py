"""The view of the chain that an event belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.policy.loops import CAUSED_BY, read_chain

Shown = dict[str, Any]


def chain_summary(app: str, envelope: Mapping[str, Any]) -> Shown | None:
    """Where an event stands in its chain, and which run wrote it if it tells of a change; None if no run of ours caused it."""
    began = str(envelope.get("correlationid") or "")
    chain, run = read_chain(envelope, began), envelope.get(CAUSED_BY)
    if chain is None and run is None:
        return None
    return {
        "depth": 0 if chain is None else chain.depth,
        "path": [] if chain is None else [name.removeprefix(f"{app}/") for name in chain.path],
        "shown": "" if chain is None else chain.shown(app),
        "began_with": began or (None if chain is None else chain.root),
        "written_by": run,
    }
