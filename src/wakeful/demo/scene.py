"""What there is to see at one moment, without a word about how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wakeful.demo.bank import Page
from wakeful.demo.board import Mark, Seen, SeenEffect
from wakeful.demo.command import Command
from wakeful.demo.counter import Counter


@dataclass(frozen=True, slots=True)
class Message:
    """Something that happened, in words."""

    at: float
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that can be typed in another terminal."""

    text: str
    command: Command


@dataclass(slots=True)
class Row:
    """One run in the table."""

    id: str
    agent: str
    event: str
    state: str
    marks: list[Mark]
    tries: int
    seconds: float
    note: str
    ended_for: float | None  # seconds since its end; None while it is open


@dataclass(slots=True)
class Scene:
    """The whole picture."""

    elapsed: float
    seconds: float | None
    folder: Path
    keep: bool
    now: Message
    messages: list[Message]
    worker: str
    counts: dict[str, int]
    rows: list[Row] = field(default_factory=list)
    advice: Advice | None = None


def row_of(seen: Seen, counter: Counter, worker: int | None, now: float) -> Row:
    """A run as a line of the table."""
    event, marks = f"{seen.type} {seen.subject}", seen.marks(counter, worker)
    end = seen.finished_at or now
    ended_for = None if seen.is_open else now - end
    note, lasted = note_of(seen, marks, worker, now), max(0.0, end - seen.created_at)
    return Row(seen.id, seen.agent, event, seen.state, marks, seen.tries, lasted, note, ended_for)


def note_of(seen: Seen, marks: list[Mark], worker: int | None, now: float) -> str:
    """The one thing to know about a run."""
    if seen.state == "dead":
        return reason_of(seen)
    if seen.state == "waiting" and seen.due_at is not None:
        return f"retry in {max(0.0, seen.due_at - now):.1f} s"
    if seen.state == "held":
        return "a person must say"
    if "cut" in marks:
        return f"killed in step {len(seen.recorded) + 1}"
    if "again" in marks:
        return "last try failed"
    if seen.kept is not None and seen.was_resumed:
        return f"resumed at step {seen.kept + 1}" if seen.kept else "began again"
    return "no worker yet" if seen.state == "ready" and worker is None else ""


def reason_of(seen: Seen, error: str | None = None) -> str:
    """Why a run is dead, or was before its remedy, as short as it can be said."""
    error = error or seen.error or "unknown"
    return error.partition(f"does not fit agent {seen.agent}: ")[2] or error


def what_became_of(seen: Seen, effect: SeenEffect, page: Page) -> str:
    """An effect in words: what went wrong, what was done about it, and how often it happened outside."""
    trouble = "the kill cut off the answer" if seen.was_cut_off_while_acting else "answered too late"
    if effect.state == "held":
        return f"{effect.action} {seen.subject}: {trouble}; done or not? Held for a person."
    if effect.settled_by is not None:
        verb = "abandoned" if effect.state == "abandoned" else "repeated" if effect.tries > 1 else "confirmed"
        story = f"{trouble}; held, {verb} by {effect.settled_by}: "
    elif effect.tries > 1:
        reason = " under the same id" if effect.safety == "idempotent" else ", as it was not there"
        story = f"{trouble}; asked again{reason}: "
    else:
        story = f"{trouble}; looked for and found: " if page.looked else ""
    return f"{effect.action} {seen.subject}: {story}done {times(page.booked)}."


def times(count: int) -> str:
    """Once, twice, 3 times."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
