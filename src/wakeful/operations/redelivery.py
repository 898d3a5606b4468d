"""Deliveries that are dead or do not get through, and what a person does about them. The command line and the HTTP API share this.

They need no rate: what is replayed goes out in its channel's lane, one batch after the other, as fast as the channel takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.operations.pace import Pace, Progress, carry_out, nobody_looks
from wakeful.operations.redo import Choice, Group, Letter, grouped, how_it_died
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk, Doer
from wakeful.stores.verbs.outbox import RedoDelivery

REDOABLE = frozenset({"dead", "pending"})


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
    """The dead deliveries of a choice, newest first."""
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
    progress: Progress = nobody_looks,
) -> int:
    """Many, the oldest first: the order in which they were sent. Returns how many; what somebody else took is passed over."""
    channels = ", ".join(sorted({letter["channel"] for letter in letters}))[:200]
    verb = f"deliveries {'discard' if discard else 'replay'}"
    bulk = Bulk(verb, None, channels, str(len(letters)))

    async def redo(batch: Sequence[Letter]) -> int:
        requests = [RedoDelivery(letter["id"], discard=discard, by=by, note=note, bulk=bulk) for letter in batch]
        return sum(one == "dead" for one in await asyncio.gather(*map(store.do, requests)))

    return await carry_out(letters[::-1], redo, pace=pace, progress=progress)


def why_not(identifier: str, state: str, *, discard: bool) -> str:
    """What somebody is told whose delivery is neither dead nor waiting, and what can be done instead."""
    can = "discarded" if discard else "replayed"
    words = f"delivery {identifier} is {state}: only one that is dead or waits can be {can}"
    if state == "held":
        words += "; `wakeful release RUN` lets it out with its run, `wakeful dead discard RUN` ends both"
    return words
