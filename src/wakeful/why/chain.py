"""why, for an event that another run caused: that run, and the position of the event in its chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.stores.chains import chain_summary

Shown = Mapping[str, Any]


def tell_chain(app: str, envelope: Shown) -> list[str]:
    """Sentences about the chain; empty for an event from outside."""
    chain = chain_summary(app, envelope)
    if chain is None:
        return []
    depth = chain["depth"]
    if chain["written_by"] is not None:
        whose = f" of agent {chain['path'][-1]}" if chain["path"] else ""
        told = f"It is a change that run {chain['written_by']}{whose} wrote"
        return [f"{told} (number {depth:,} of its chain: {chain['shown']})." if depth else f"{told}."]
    if not depth:
        return []
    return [f"It is number {depth:,} of the chain that began with event {chain['began_with']}: {chain['shown']}."]
