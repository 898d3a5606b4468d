"""What there is to see at one moment, without a word about how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wakeful.demo.board import Mark, Seen
from wakeful.demo.counter import Counter


@dataclass(frozen=True, slots=True)
class Message:
    """Something that happened, in words."""

    at: float
    text: str
    style: str = ""


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

    @property
    def is_open(self) -> bool:
        return self.ended_for is None


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


def row_of(seen: Seen, counter: Counter, worker: int | None, now: float) -> Row:
    """A run as a line of the table."""
    marks = seen.marks(counter, worker)
    return Row(
        seen.id,
        seen.agent,
        f"{seen.type} {seen.subject}",
        seen.state,
        marks,
        seen.tries,
        max(0.0, (seen.finished_at or now) - seen.created_at),
        note_of(seen, marks, worker, now),
        None if seen.is_open else now - (seen.finished_at or now),
    )


def note_of(seen: Seen, marks: list[Mark], worker: int | None, now: float) -> str:
    """The one thing to know about a run."""
    step = len(seen.recorded) + 1
    if seen.state == "dead":
        return reason_of(seen)
    if seen.state == "waiting" and seen.due_at is not None:
        return f"retry in {max(0.0, seen.due_at - now):.1f} s"
    if "cut" in marks:
        return f"killed in step {step}"
    if "again" in marks:
        return "last try failed"
    if seen.kept is not None and seen.was_resumed:
        return f"resumed at step {seen.kept + 1}" if seen.kept else "began again"
    if seen.state == "ready" and worker is None:
        return "no worker yet"
    return ""


def reason_of(seen: Seen) -> str:
    """Why a run is dead, as short as it can be said."""
    error = seen.error or "unknown"
    return error.partition(f"does not fit agent {seen.agent}: ")[2] or error


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
