"""Replaying, discarding and releasing: select, plan, then act at a pace. The command line and the HTTP API share this.

dead letters    replayed or discarded. A replayed run is no longer a dead letter, so a command that was stopped is continued
                by the same command
held outputs    released by an operator
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wakeful.clock import Microseconds, to_text
from wakeful.functions.retry import signature
from wakeful.operations.pace import Pace, Progress, carry_out, unseen
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk, Doer
from wakeful.stores.verbs.redo import RedoRun

MANY = 10_000
SHOWN_LETTERS = 20

Letter = dict[str, Any]


# dead letters


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter of dead letters: by agent, by a text in the error, given up before some time; without any, all of them."""

    agent: str | None = None
    error: str | None = None
    until: Microseconds | None = None

    def takes(self, letter: Letter) -> bool:
        error = letter["error"]
        words = f"{error['type']}: {error['message']}".lower()
        return (self.error is None or self.error.lower() in words) and (
            self.until is None or letter["finished"] < self.until
        )


@dataclass(slots=True)
class Group:
    """Dead letters of one agent, or dead deliveries to one channel, with the same error, newest first."""

    by: Literal["agent", "channel"]
    name: str
    signature: str
    letters: list[Letter]

    def to_json(self) -> dict[str, Any]:
        ids = [letter["id"] for letter in self.letters[:SHOWN_LETTERS]]
        own: Letter = {"deliveries": ids}
        if self.by == "agent":
            own = {"confirmed_effects": sum(confirmed_of(self.letters).values()), "runs": ids}
        return {
            "kind": "run" if self.by == "agent" else "delivery",
            self.by: self.name,
            "error": self.signature,
            "newest_error": self.letters[0]["error"]["message"],
            "count": len(self.letters),
            "last_at": self.letters[0]["finished_at"],
            **own,
        }


@dataclass(slots=True)
class Plan:
    """Dead letters, newest first, and what a replay would reuse."""

    letters: list[Letter]
    groups: list[Group] = field(init=False)
    confirmed: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.groups = grouped(self.letters, "agent")
        self.confirmed = confirmed_of(self.letters)

    def to_json(self) -> dict[str, Any]:
        return {
            "count": len(self.letters),
            "confirmed_effects": sum(self.confirmed.values()),
            "confirmed_actions": self.confirmed,
            "groups": [group.to_json() for group in self.groups],
        }


def confirmed_of(letters: Sequence[Letter]) -> dict[str, int]:
    """Confirmed effects that a replay would reuse, counted by action, most frequent first."""
    counts: Counter[str] = Counter()
    for letter in letters:
        counts.update(letter["confirmed"])
    return dict(counts.most_common())


def grouped(letters: Sequence[Letter], by: Literal["agent", "channel"]) -> list[Group]:
    """The groups, largest first."""
    found: dict[tuple[str, str], Group] = {}
    for letter in letters:
        kind = signature(letter["error"]["type"], letter["error"]["message"])
        found.setdefault((letter[by], kind), Group(by, letter[by], kind, [])).letters.append(letter)
    return sorted(found.values(), key=lambda group: -len(group.letters))


async def plan_redo(reads: ReadsDatabase, choice: Choice) -> Plan:
    """The matching dead letters, newest first, each with its confirmed effects counted by action."""
    rows = await reads.fetch("list_dead", choice.agent)
    confirmed: dict[str, Counter[str]] = {}
    for run, action in await reads.fetch("confirmed_of_dead", choice.agent):
        confirmed.setdefault(run, Counter())[action] += 1
    letters = [
        {"id": identifier, "agent": agent, **how_it_died(*died), "confirmed": confirmed.get(identifier, {})}
        for identifier, agent, *died in rows
    ]
    return Plan([letter for letter in letters if choice.takes(letter)])


def how_it_died(kind: str | None, message: str | None, reason: str | None, finished: Microseconds) -> Letter:
    """The fields that dead runs and dead deliveries share."""
    error = {"type": kind or "", "message": message or ""}
    return {"error": error, "reason": reason, "finished": finished, "finished_at": to_text(finished)}


async def redo_letters(
    store: Doer,
    letters: Sequence[Letter],
    *,
    by: Actor,
    note: str | None = None,
    discard: bool = False,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> int:
    """Replay or discard, oldest first. Returns how many; a run taken by another process meanwhile is skipped."""
    agents = ", ".join(sorted({letter["agent"] for letter in letters}))[:200]
    bulk = Bulk("discard" if discard else "replay", None, agents, str(len(letters)))

    async def redo(batch: Sequence[Letter]) -> int:
        requests = [RedoRun(letter["id"], discard=discard, by=by, note=note, bulk=bulk) for letter in batch]
        answers = await asyncio.gather(*map(store.do, requests))
        return sum(one is not None and one.refused is None for one in answers)

    return await carry_out(letters[::-1], redo, pace=pace, progress=progress)


# held outputs


def what_leaves(run: Letter) -> dict[str, int]:
    """The number of deliveries and staged effects that a release would send."""
    return {
        "deliveries": sum(one["state"] == "held" for one in run["deliveries"]),
        "effects": sum(one["state"] == "staged" for one in run["effects"]),
    }
