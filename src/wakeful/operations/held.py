"""Settling held effects by an operator's decision: the first decision stands. Many at once: select, plan, then settle at a pace.
The command line and the HTTP API share this. A settled effect is no longer held, so a command that was stopped is continued by the
same command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.operations.pace import Pace, Progress, carry_out, unseen
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
    """Settle a held effect, or correct the result of one that was confirmed by hand. None if there is no such effect."""
    return await store.do(SettleEffect(effect, ANSWERS[verb], result=result, refuse=unfit_result, by=by, note=note))


def which_stands(settled: Settled, verb: str) -> str:
    """The message for a decision that was refused or came second."""
    effect = settled.effect
    if settled.refused is not None:
        words = settled.refused
    elif effect.settled_by is not None:
        words = f"{effect.settled_by} settled it before: {effect.state}" + (f" ({effect.note})" if effect.note else "")
    else:
        words = f"it is {effect.state} and does not wait for a person"
    return f"{effect.action} {effect.id}: {words}. This {verb} changed nothing"


# many


@dataclass(slots=True)
class Group:
    """Held effects of one agent and one action, oldest first."""

    agent: str
    action: str
    effects: list[HeldEffect]

    @property
    def called(self) -> int:
        """How many were called, so that only a person can know whether they were done."""
        return sum(one.called for one in self.effects)

    def unfit(self, result: str | None) -> str | None:
        """Why this result does not fit one of the effects; None if it fits all."""
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
    """Held effects, oldest first, grouped for a plan."""

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
        """Why the effects cannot all be confirmed with this result; None if they can."""
        for group in self.groups if verb == "confirm" else ():
            wrong = group.unfit(result)
            if wrong is not None:
                return f"{group.action} of agent {group.agent}: {wrong}"
        return None

    def to_json(self) -> dict[str, Any]:
        groups = [group.to_json() for group in self.groups]
        return {"count": len(self.effects), "runs": self.runs, "groups": groups}


async def plan_settling(reads: ReadsDatabase, *, agent: str | None = None, action: str | None = None) -> HeldPlan:
    """The plan for the held effects of an agent or an action."""
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
    progress: Progress = unseen,
) -> int:
    """Settle the effects, oldest first. Returns how many; an effect that was settled meanwhile is skipped."""
    actions = ", ".join(sorted({f"{one.agent} {one.action}" for one in effects}))[:200]
    bulk = Bulk("effects", None, actions, str(len(effects)), begins=f"{verb} ")

    async def do(batch: Sequence[HeldEffect]) -> int:
        requests = [
            SettleEffect(one.id, ANSWERS[verb], result=result, refuse=unfit_result, by=by, note=note, bulk=bulk)
            for one in batch
        ]
        return sum(one is not None and one.first for one in await asyncio.gather(*map(store.do, requests)))

    return await carry_out(effects, do, pace=pace, progress=progress)
