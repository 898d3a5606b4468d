"""Held effects, settled by a person's word: the first one stands. Many at once: which ones, what settling them would mean, and then doing it at a pace. The command line and the
HTTP API share this. An effect that was settled is not held any more, so a command that was stopped goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.operations.pace import Pace, Progress, carry_out, nobody_looks
from wakeful.operations.results import unfit_result
from wakeful.operations.shape import expected
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk, Doer
from wakeful.stores.stored import HeldEffect
from wakeful.stores.verbs.settling import Settled, SettleEffect

SHOWN_EFFECTS = 20

ANSWERS: dict[str, Literal["confirmed", "retrying", "abandoned"]] = {
    "confirm": "confirmed",
    "repeat": "retrying",
    "abandon": "abandoned",
}


async def settle(
    store: Doer, effect: str, verb: str, *, by: Actor, note: str | None = None, result: str | None = None
) -> Settled | None:
    """A person's word about a held effect, or another result of one that was confirmed so. None when there is no such effect."""
    return await store.do(SettleEffect(effect, ANSWERS[verb], result=result, refuse=unfit_result, by=by, note=note))


def which_stands(settled: Settled, verb: str) -> str:
    """What an operator is told whose answer was refused, or came second."""
    effect = settled.effect
    if settled.refused is not None:
        words = settled.refused
    elif effect.settled_by is not None:
        words = f"{effect.settled_by} settled it before: {effect.state}" + (f" ({effect.note})" if effect.note else "")
    else:
        words = f"it is {effect.state} and waits for nobody"
    return f"{effect.action} {effect.id}: {words}. Nothing was changed by this {verb}"


# many


@dataclass(slots=True)
class Group:
    """Held effects of one agent and one action, the oldest first."""

    agent: str
    action: str
    effects: list[HeldEffect]

    @property
    def called(self) -> int:
        """How many of them were called, so that only a person can know whether they were done."""
        return sum(one.called for one in self.effects)

    def unfit(self, result: str | None) -> str | None:
        """Why this result does not fit one of them, if they are confirmed with it."""
        for one in self.effects:
            if one.returns is not None and not (one.staged and result is None):
                wrong = unfit_result(one.returns, result)
                if wrong is not None:
                    return wrong
        return None

    def to_json(self) -> dict[str, Any]:
        returns = next((one.returns for one in self.effects if one.returns is not None), None)
        return {
            "agent": self.agent,
            "action": self.action,
            "count": len(self.effects),
            "called": self.called,
            "since": to_text(self.effects[0].opened_at),
            "reason": self.effects[-1].reason,
            "returns": None if returns is None else expected(from_json(returns)),
            "effects": [one.id for one in self.effects[:SHOWN_EFFECTS]],
        }


@dataclass(slots=True)
class HeldPlan:
    """Held effects, the oldest first, and what settling them would mean."""

    effects: list[HeldEffect]
    groups: list[Group] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, str], Group] = {}
        for one in self.effects:
            found.setdefault((one.agent, one.action), Group(one.agent, one.action, [])).effects.append(one)
        self.groups = sorted(found.values(), key=lambda group: -len(group.effects))

    @property
    def runs(self) -> int:
        return len({one.run for one in self.effects})

    def unfit(self, verb: str, result: str | None) -> str | None:
        """Why they cannot all be confirmed with this result."""
        for group in self.groups if verb == "confirm" else ():
            wrong = group.unfit(result)
            if wrong is not None:
                return f"{group.action} of agent {group.agent}: {wrong}"
        return None

    def to_json(self) -> dict[str, Any]:
        groups = [group.to_json() for group in self.groups]
        return {"count": len(self.effects), "runs": self.runs, "groups": groups}


async def plan_settling(reads: ReadsDatabase, *, agent: str | None = None, action: str | None = None) -> HeldPlan:
    """The held effects of a choice, and what settling them would mean."""
    rows = await reads.fetch("held_effects", agent, action)
    return HeldPlan(
        [
            HeldEffect(identifier, of, name, run, bool(called), opened, reason, bool(staged), returns)
            for identifier, of, name, run, called, opened, reason, staged, returns in rows
        ]
    )


async def settle_held(
    store: Doer,
    effects: Sequence[HeldEffect],
    verb: str,
    *,
    by: Actor,
    note: str | None = None,
    result: str | None = None,
    pace: Pace | None = None,
    progress: Progress = nobody_looks,
) -> int:
    """Settle them, the oldest first; returns how many. One that another person settled meanwhile is passed over."""
    actions = ", ".join(sorted({f"{one.agent} {one.action}" for one in effects}))[:200]
    bulk = Bulk("effects", None, actions, str(len(effects)), begins=f"{verb} ")

    async def do(batch: Sequence[HeldEffect]) -> int:
        requests = [
            SettleEffect(one.id, ANSWERS[verb], result=result, refuse=unfit_result, by=by, note=note, bulk=bulk)
            for one in batch
        ]
        return sum(one is not None and one.first for one in await asyncio.gather(*map(store.do, requests)))

    return await carry_out(effects, do, pace=pace, progress=progress)
