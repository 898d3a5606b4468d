"""What the store says: every event and every run, read again and again through the same reader that the API uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from wakeful.demo.app import ACT, STEPS
from wakeful.demo.counter import Counter, Key
from wakeful.model import FINAL_RUN_STATES
from wakeful.readers.reader import Reader

Identity = tuple[str, str]  # CloudEvents': source and id
Mark = Literal["done", "working", "again", "held", "failed", "cut", "open"]

PAGE = 100
FROM_WITHIN = "emit "
KEPT_APART = "quarantined"


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
    """What somebody did about a dead letter."""

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

    def effect(self, identifier: str) -> SeenEffect | None:
        return next((one for one in self.effects if one.id == identifier), None)

    def keys(self) -> Iterator[Key]:
        """Its recorded steps as the counter names them. What the run emits has no body to count, and what it does outside
        is counted there.
        """
        return ((name, self.subject) for name in self.recorded if name != ACT and not name.startswith(FROM_WITHIN))

    def next_key(self) -> Key | None:
        """The step that comes next, or that is being executed."""
        steps = STEPS[self.agent]
        return (steps[len(self.recorded)], self.subject) if len(self.recorded) < len(steps) else None

    def marks(self, counter: Counter, worker: int | None) -> list[Mark]:
        """Its steps as a bar; `worker` is the one at work."""
        steps = STEPS[self.agent]
        marks: list[Mark] = ["done"] * len(self.recorded)
        if len(marks) < len(steps) and self.state != "done":
            marks.append(self._mark_of_next(counter, worker))
        return marks + ["open"] * (len(steps) - len(marks))

    def _mark_of_next(self, counter: Counter, worker: int | None) -> Mark:
        if self.state in {"dead", "held"}:
            return "failed" if self.state == "dead" else "held"
        if self.state == "running" and worker is None:
            return "cut"
        key = self.next_key()
        if key == (ACT, self.subject):
            return self._mark_of_effect()
        last = counter.last(key) if key is not None else None
        if last is None or self.state == "ready":
            return "open"
        if last.ended == "failed":
            return "again"
        return "working" if last.worker == worker else "open"

    def _mark_of_effect(self) -> Mark:
        if self.state != "running" or not self.effects:
            return "open"
        return "working" if self.effects[-1].state == "intent" and self.effects[-1].tries == 1 else "again"


class Board:
    """Everything that was accepted and what became of it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.events: dict[Identity, dict[str, Any]] = {}
        self.runs: dict[str, Seen] = {}

    async def read(self) -> None:
        """New events, new runs, and what changed in those that are not at their end, or that somebody may replay."""
        runs = await self._new("runs", lambda run: run["id"] not in self.runs)
        # After the runs, so that the event of each is known.
        events = await self._new("events", lambda event: (event["source"], event["id"]) not in self.events)
        self.events |= {(event["source"], event["id"]): event for event in events}
        self.runs |= {run["id"]: self._first_sight(run) for run in runs}
        for seen in self.runs.values():
            if seen.is_open or seen.state == "dead":
                await self._look_at(seen)

    def accepted(self) -> set[Identity]:
        """Every event but what is in quarantine: that was not let in, and wakes nobody."""
        return {identity for identity, event in self.events.items() if event["state"] != KEPT_APART}

    def open_runs(self) -> list[Seen]:
        return [seen for seen in self.runs.values() if seen.is_open]

    def held(self) -> list[tuple[Seen, SeenEffect]]:
        """What waits for a person."""
        return [(seen, one) for seen, one in self.effects() if seen.is_open and one.state == "held"]

    def effects(self) -> list[tuple[Seen, SeenEffect]]:
        """Everything that was done outside, or begun."""
        return [(seen, one) for seen in self.runs.values() for one in seen.effects]

    def recorded(self) -> Iterator[Key]:
        """Every step that the store holds as done."""
        return (key for seen in self.runs.values() for key in seen.keys())  # noqa: SIM118 not a mapping

    def count(self, state: str) -> int:
        return sum(seen.state == state for seen in self.runs.values())

    async def _new(
        self, noun: Literal["runs", "events"], is_new: Callable[[dict[str, Any]], bool]
    ) -> list[dict[str, Any]]:
        """What a listing has that was not seen yet, the oldest first. Listings begin with the newest."""
        read = self._reader.runs if noun == "runs" else self._reader.events
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = await read(limit=PAGE, after=after)
            fresh = [one for one in page[noun] if is_new(one)]
            found += fresh
            after = page["next"]
            if after is None or len(fresh) < len(page[noun]):
                return found[::-1]

    def _first_sight(self, run: dict[str, Any]) -> Seen:
        identity = (run["event"]["source"], run["event"]["id"])
        subject = (self.events[identity]["subject"] or "").rpartition("/")[2]  # of a file, its name
        created_at = moment(run["created_at"]) or 0.0
        return Seen(run["id"], run["agent"], run["event"]["type"], identity, created_at, subject)

    async def _look_at(self, seen: Seen) -> None:
        run = await self._reader.run(seen.id)
        if run is None:
            return
        seen.crashes = run["crashes"]
        seen.tries = max(run["attempts"] + run["crashes"], int(run["started_at"] is not None))
        seen.due_at = moment(run["due_at"])
        seen.finished_at = moment(run["finished_at"])
        seen.error = run["error"]["message"] if run["error"] else None
        seen.recorded = recorded_in(run)
        seen.effects = [SeenEffect(**{name: one[name] for name in SeenEffect.__slots__}) for one in run["effects"]]
        seen.remedies = [
            Remedy(one["verb"], one["operator"], one["note"], (one["error"] or {}).get("message"))
            for one in run["remedies"]
        ]
        seen.state = run["state"]


def recorded_in(run: dict[str, Any]) -> list[str]:
    """What a run has finished, steps and effects, in the order in which it was begun."""
    steps = [(step["started_at"], step["name"]) for step in run["steps"] if step["state"] == "done"]
    effects = [(effect["opened_at"], ACT) for effect in run["effects"] if effect["state"] == "confirmed"]
    return [name for _, name in sorted(steps + effects, key=lambda one: moment(one[0]) or 0.0)]


def moment(text: str | None) -> float | None:
    """A time of the store in seconds since 1970."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
