"""What the store says: every event and every run, read again and again as the API reads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from wakeful.demo.app import ACT, STEPS
from wakeful.demo.counter import Counter, Key
from wakeful.model import FINAL_RUN_STATES
from wakeful.resources.declare import Page
from wakeful.resources.desk import Reads, looking
from wakeful.resources.events import events
from wakeful.resources.run_reading import whole_runs
from wakeful.resources.runs import runs

Identity = tuple[str, str]  # CloudEvents': source and id
Mark = Literal["done", "working", "again", "held", "failed", "cut", "open"]

PAGE = 100


@dataclass(frozen=True, slots=True)
class SeenEffect:
    """An effect of a run as it was last seen."""

    id: str
    action: str
    safety: str
    state: str
    tries: int
    settled_by: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What an operator did about a dead letter."""

    verb: str
    operator: str
    note: str | None
    error: str | None  # what it was dead of


@dataclass(slots=True)
class Seen:
    """A run as it was last seen."""

    id: str
    agent: str
    type: str
    identity: Identity
    created_at: float
    subject: str = ""
    state: str = "ready"
    tries: int = 0
    crashes: int = 0
    error: str | None = None
    due_at: float | None = None
    finished_at: float | None = None
    recorded: list[str] = field(default_factory=list)
    effects: list[SeenEffect] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    kept: int | None = None  # steps that were recorded when its worker was killed

    def update(self, run: Mapping[str, Any]) -> None:
        self.state = run["state"]
        self.crashes = run["crashes"]
        self.tries = max(run["attempts"] + run["crashes"], int(run["started_at"] is not None))
        self.due_at = moment(run["due_at"])
        self.finished_at = moment(run["finished_at"])
        self.error = run["error"]["message"] if run["error"] else None
        steps = [(step["started_at"], step["name"]) for step in run["steps"] if step["state"] == "done"]
        acts = [(effect["opened_at"], ACT) for effect in run["effects"] if effect["state"] == "confirmed"]
        self.recorded = [name for _, name in sorted(steps + acts, key=lambda one: moment(one[0]) or 0.0)]
        self.effects = [SeenEffect(**{name: one[name] for name in SeenEffect.__slots__}) for one in run["effects"]]
        self.remedies = [
            Remedy(one["verb"], one["operator"], one["note"], (one["error"] or {}).get("message"))
            for one in run["remedies"]
        ]

    @property
    def is_open(self) -> bool:
        return self.state not in FINAL_RUN_STATES

    @property
    def in_the_middle(self) -> bool:
        """Started, with something recorded, and something left to do."""
        return self.state == "running" and 0 < len(self.recorded) < len(STEPS[self.agent])

    @property
    def was_resumed(self) -> bool:
        """Its worker was killed, and another one has taken it over."""
        return self.kept is not None and self.crashes > 0

    @property
    def was_cut_off_while_acting(self) -> bool:
        """Its worker was killed while an action was under way."""
        return self.kept is not None and STEPS[self.agent][self.kept : self.kept + 1] == (ACT,)

    def keys(self) -> list[Key]:
        """Its recorded steps as the counter names them: it counts neither emitted events nor what is done outside."""
        return [(name, self.subject) for name in self.recorded if name != ACT and not name.startswith("emit ")]

    def marks(self, counter: Counter, worker: int | None) -> list[Mark]:
        """Its steps as a bar; `worker` is the one at work."""
        steps, now = STEPS[self.agent], len(self.recorded)
        marks: list[Mark] = ["done" if place < now else "open" for place in range(len(steps))]
        if now < len(steps):
            marks[now] = self._mark_of(steps[now], counter, worker)
        return marks

    def _mark_of(self, step: str, counter: Counter, worker: int | None) -> Mark:
        """How far the next step is."""
        if self.state in {"dead", "held"}:
            return "failed" if self.state == "dead" else "held"
        if self.state == "running" and worker is None:
            return "cut"
        if step == ACT and self.effects and self.state == "running":
            return "working" if self.effects[-1].state == "intent" and self.effects[-1].tries == 1 else "again"
        executions = counter.executions.get((step, self.subject))
        if not executions or self.state in {"ready", "done"}:
            return "open"
        if executions[-1].ended == "failed":
            return "again"
        return "working" if executions[-1].worker == worker else "open"


class Board:
    """Everything that was accepted and what became of it."""

    def __init__(self, reads: Reads) -> None:
        self.desk = looking(reads)
        self.events: dict[Identity, dict[str, Any]] = {}
        self.runs: dict[str, Seen] = {}

    async def read(self) -> None:
        """New events, new runs, and what changed in those that are not at their end, or that a person may replay."""
        made = await self._new(runs, lambda run: run["id"] not in self.runs)
        # After the runs, so that the event of each is known.
        came = await self._new(events, lambda event: (event["source"], event["id"]) not in self.events)
        self.events |= {(event["source"], event["id"]): event for event in came}
        for run in made:
            identity = (run["event"]["source"], run["event"]["id"])
            subject = (self.events[identity]["subject"] or "").rpartition("/")[2]  # of a file, its name
            created_at = moment(run["created_at"]) or 0.0
            self.runs[run["id"]] = Seen(run["id"], run["agent"], run["event"]["type"], identity, created_at, subject)
        changing = [seen for seen in self.runs.values() if seen.is_open or seen.state == "dead"]
        for seen, found in zip(changing, await whole_runs(self.desk, [seen.id for seen in changing]), strict=True):
            if found is not None:
                seen.update(found)

    async def _new(self, read: Callable[..., Awaitable[Page[Any]]], is_new: Callable[[Any], bool]) -> list[Any]:
        """What a listing has that was not seen yet, the oldest first. Listings begin with the newest."""
        page = await read(self.desk, limit=PAGE)
        found = page.items
        while page.next is not None and is_new(found[-1]):
            page = await read(self.desk, limit=PAGE, after=page.next)
            found += page.items
        return [one for one in reversed(found) if is_new(one)]

    def accepted(self) -> set[Identity]:
        """Every event but those in quarantine: these were not let in, and wake no agent."""
        return {identity for identity, event in self.events.items() if event["state"] != "quarantined"}

    def open_runs(self) -> list[Seen]:
        return [seen for seen in self.runs.values() if seen.is_open]

    def effects(self) -> list[tuple[Seen, SeenEffect]]:
        """Everything that was done outside, or begun."""
        return [(seen, one) for seen in self.runs.values() for one in seen.effects]

    def held(self) -> list[tuple[Seen, SeenEffect]]:
        """What waits for a person."""
        return [(seen, one) for seen, one in self.effects() if seen.is_open and one.state == "held"]

    def recorded(self) -> Iterator[Key]:
        """Every step that the store holds as done."""
        return (key for seen in self.runs.values() for key in seen.keys())  # noqa: SIM118 not a mapping

    def count(self, state: str) -> int:
        return sum(seen.state == state for seen in self.runs.values())


def moment(text: str | None) -> float | None:
    """A time of the store in seconds since 1970."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
