"""The stage: the current data of the store, the steps and the bank, the messages shown, and the time of the story.

Runs, events and effects are objects of the reader, as the HTTP API shows them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wakeful.clock import SECOND
from wakeful.demo.app import ACT, STEPS
from wakeful.demo.outside import Book, Counter, Key
from wakeful.demo.processes import Child
from wakeful.model import FINAL_RUN_STATES
from wakeful.reader import Reader
from wakeful.resources.desk import looking
from wakeful.resources.run_reading import whole_runs
from wakeful.resources.words import moment
from wakeful.testing.waiting import until

PAGE = 100
HEADLINE_STAYS = 2.0
TOLD_EFFECTS = {"held": "bold magenta", "confirmed": "bold green", "abandoned": "bold yellow"}


class Message(NamedTuple):
    """A message about something that happened."""

    at: float
    text: str
    style: str = ""


@dataclass(slots=True)
class Stage:
    """All data and messages of the demonstration."""

    reader: Reader
    folder: Path
    store: str
    seconds: float | None
    keep: bool
    counter: Counter
    book: Book
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)  # by run: its steps on disk when its worker was killed
    worker: Child | None = None
    joined_at: float | None = None  # when the worker was registered
    messages: list[Message] = field(default_factory=list)
    headline: Message | None = None
    _begun: float = field(default_factory=time.monotonic)
    _news: set[str] = field(default_factory=set)

    # time, and words

    @property
    def pace(self) -> float:
        """1 is the normal pace; less if the whole story of 20 seconds must fit into a shorter time."""
        return 1.0 if self.seconds is None else min(1.0, max(0.3, self.seconds / 20))

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed)

    @property
    def at_work(self) -> int | None:
        """The pid of the registered worker."""
        return None if self.worker is None or self.joined_at is None else self.worker.process.pid

    def say(self, text: str, style: str = "", *, minor: bool = False) -> None:
        """Add a message. An important one replaces the headline at once, another one only after the headline was shown long enough."""
        self.messages.append(Message(self.elapsed, text, style))
        if self.headline is None or not minor or self.elapsed - self.headline.at > HEADLINE_STAYS:
            self.headline = self.messages[-1]

    async def until(self, condition: Callable[[], bool], *, at_most: float) -> bool:
        """Wait until a condition holds, at most `seconds`. The director keeps reading meanwhile."""
        with suppress(TimeoutError):
            await until(condition, within=at_most)
        return condition()

    # reading

    async def look(self) -> None:
        """Read new events and runs, and runs that are open or may be replayed; then the files, because a step is counted before it is
        stored. Then add messages about what is new.
        """
        new = await self._new("runs", "id", self.runs)
        events = await self._new("events", "key", self.events)  # after the runs, so that the event of each is known
        changing = [run["id"] for run in self.runs.values() if is_open(run) or run["state"] == "dead"]
        whole: Any = await whole_runs(looking(self.reader), [*changing, *new])
        self.events |= events
        self.runs |= {run["id"]: run for run in whole if run is not None}
        self.counter.read()
        self.book.read()
        self._tell_news()

    async def _new(self, noun: str, key: str, known: dict[str, Any]) -> dict[str, Any]:
        """The unseen part of a listing, oldest first. Listings begin with the newest."""
        read = self.reader.runs if noun == "runs" else self.reader.events
        page = await read(limit=PAGE)
        found = page[noun]
        while page["next"] is not None and found[-1][key] not in known:
            page = await read(limit=PAGE, after=page["next"])
            found += page[noun]
        return {one[key]: one for one in reversed(found) if one[key] not in known}

    def _tell_news(self) -> None:
        for run in self.in_state("dead"):
            text = f"Dead letter: {run['agent']}, {subject_of(run)}: {reason_of(run, run['error'])}"
            self._tell(text, "red", minor=True)
        for step, subject in self.counter.retried:
            text = f"Step {step} failed for {subject} with a transient error: it is retried."
            self._tell(text, "yellow", minor=True)
        for run, effect in self.effects():
            if effect["state"] in TOLD_EFFECTS:
                self._tell(self.story_of(run, effect), TOLD_EFFECTS[effect["state"]])
        for run in [run for run in self.in_state("done") if run["remedies"]]:
            person = run["remedies"][-1]["operator"]
            self._tell(f"{subject_of(run)} is done: repaired and replayed by {person}.", "bold green")

    def _tell(self, text: str, style: str, *, minor: bool = False) -> None:
        """Add a message the first time only."""
        if text not in self._news:
            self._news.add(text)
            self.say(text, style, minor=minor)

    # queries

    def accepted(self) -> list[dict[str, Any]]:
        """Every event except quarantined ones, which wake no agent."""
        return [event for event in self.events.values() if event["state"] != "quarantined"]

    def in_state(self, *states: str) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run["state"] in states]

    def open_runs(self) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if is_open(run)]

    def going(self) -> list[dict[str, Any]]:
        """The open runs that do not need a person."""
        return [run for run in self.open_runs() if run["state"] != "held"]

    def effects(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """All effects, finished or in flight, each with its run."""
        return [(run, effect) for run in self.runs.values() for effect in run["effects"]]

    def held(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The effects that wait for a person."""
        return [(run, effect) for run, effect in self.effects() if is_open(run) and effect["state"] == "held"]

    def recorded(self) -> Iterator[Key]:
        """Every step that the store has recorded as done."""
        return (key for run in self.runs.values() for key in keys_of(run))

    def counts(self) -> dict[str, int]:
        """The counters that are always shown, in order."""
        return {
            "events accepted": len(self.accepted()),
            "steps finished": self.counter.finished,
            "runs done": len(self.in_state("done")),
            "retries": len(self.counter.retried),
            "runs open": len(self.open_runs()),
            "dead letters": len(self.in_state("dead")),
            "steps executed twice": len(self.counter.repeated),
            "runs resumed": sum(self.runs[run]["crashes"] > 0 for run in self.kept),
            "effects done": sum(effect["state"] == "confirmed" for _, effect in self.effects()),
            "effects done twice": sum(page["booked"] > 1 for page in self.book.pages.values()),
            "held for a person": len(self.held()),
        }

    def story_of(self, run: dict[str, Any], effect: dict[str, Any]) -> str:
        """An effect in words: what went wrong, how it was settled, and how often the bank paid."""
        subject, state, tries = subject_of(run), effect["state"], effect["tries"]
        kept = self.kept.get(run["id"], len(STEPS[run["agent"]]))
        trouble = "the kill cut off the answer" if ACT in STEPS[run["agent"]][kept : kept + 1] else "answered too late"
        if state == "held":
            return f"{effect['action']} {subject}: {trouble}; done or not? Held for a person."
        story = f"{trouble}; looked for and found: " if self.book.count("looked", subject) else ""
        if effect["settled_by"] is not None:
            verb = "abandoned" if state == "abandoned" else "repeated" if tries > 1 else "confirmed"
            story = f"{trouble}; held, {verb} by {effect['settled_by']}: "
        elif tries > 1:
            reason = " under the same id" if effect["safety"] == "idempotent" else ", as it was not there"
            story = f"{trouble}; asked again{reason}: "
        return f"{effect['action']} {subject}: {story}done {times(self.book.count('booked', subject))}."


def is_open(run: dict[str, Any]) -> bool:
    return run["state"] not in FINAL_RUN_STATES


def subject_of(run: dict[str, Any]) -> str:
    """The payment, ticket, host, refund, file or pull request that a run handles."""
    return str(run["event"]["data"]["id"])


def recorded_of(run: dict[str, Any]) -> list[str]:
    """The steps of a run that are recorded as done, in order, confirmed effects included."""
    done = {step["name"] for step in run["steps"] if step["state"] == "done"}
    done |= {ACT for effect in run["effects"] if effect["state"] == "confirmed"}
    return [name for name in STEPS[run["agent"]] if name in done]


def keys_of(run: dict[str, Any]) -> list[Key]:
    """A run's recorded steps as the counter names them, without emitted events and effects."""
    return [(name, subject_of(run)) for name in recorded_of(run) if name != ACT and not name.startswith("emit ")]


def reason_of(run: dict[str, Any], error: dict[str, Any] | None) -> str:
    """A short reason why a run is dead, or was before it was replayed."""
    words = str(error["message"]) if error else "unknown"
    return words.partition(f"does not fit agent {run['agent']}: ")[2] or words


def seconds_of(text: str) -> float:
    """A time of the API in seconds since 1970."""
    return (moment(text) or 0) / SECOND


def times(count: int) -> str:
    """Once, twice, 3 times."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
