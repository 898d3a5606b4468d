"""Replaying and discarding dead or pending deliveries. The command line and the HTTP API share this.

No rate is needed: replayed deliveries go out in their channel's lane, batch by batch, as fast as the channel takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.operations.pace import Pace, Progress, carry_out, unseen
from wakeful.operations.redo import Choice, Group, Letter, grouped, how_it_died
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk, Doer
from wakeful.stores.verbs.outbox import RedoDelivery

REDOABLE = frozenset({"dead", "unknown", "pending"})


@dataclass(slots=True)
class DeliveryPlan:
    """Dead deliveries, newest first."""

    letters: list[Letter]

    @property
    def groups(self) -> list[Group]:
        return grouped(self.letters, "channel")

    def to_json(self) -> dict[str, Any]:
        return {"count": len(self.letters), "groups": [group.to_json() for group in self.groups]}


async def plan_redelivery(reads: ReadsDatabase, choice: Choice, channel: str | None = None) -> DeliveryPlan:
    """The matching dead deliveries, newest first."""
    rows = await reads.fetch("list_dead_deliveries", channel, choice.agent)
    letters = [
        {"id": identifier, "channel": name, "agent": agent, "run": run, **how_it_died(*died)}
        for identifier, name, agent, run, *died in rows
    ]
    return DeliveryPlan([letter for letter in letters if choice.takes(letter)])


async def redo_deliveries(
    store: Doer,
    letters: Sequence[Letter],
    *,
    by: Actor,
    note: str | None = None,
    discard: bool = False,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> int:
    """Replay or discard many, oldest first, as they were sent. Returns how many; deliveries taken by another process are skipped."""
    channels = ", ".join(sorted({letter["channel"] for letter in letters}))[:200]
    verb = f"deliveries {'discard' if discard else 'replay'}"
    bulk = Bulk(verb, None, channels, str(len(letters)))

    async def redo(batch: Sequence[Letter]) -> int:
        requests = [RedoDelivery(letter["id"], discard=discard, by=by, note=note, bulk=bulk) for letter in batch]
        return sum(one == "dead" for one in await asyncio.gather(*map(store.do, requests)))

    return await carry_out(letters[::-1], redo, pace=pace, progress=progress)


def why_not(identifier: str, state: str, *, discard: bool) -> str:
    """The message for a delivery that is neither dead, unknown nor pending, and what to do instead."""
    can = "discarded" if discard else "replayed"
    words = f"delivery {identifier} is {state}: only a dead, unknown or pending delivery can be {can}"
    if state == "held":
        words += "; `wakeful release RUN` sends it with its run's output, `wakeful dead discard RUN` ends both"
    return words
