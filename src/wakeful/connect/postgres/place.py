"""Where reading stands in the log of a server, and what is missing where it cannot go on from there."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.connect.postgres.pgoutput import shown_lsn
from wakeful.connect.rows.change import RowChange
from wakeful.triggers.source import Unreadable

GAP = "gap"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where reading stands."""

    system: str
    lsn: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.system}/{self.lsn:X}/{self.index}"

    @classmethod
    def read(cls, text: str) -> Cursor:
        system, lsn, index = text.split("/")
        return cls(system, int(lsn, 16), int(index))


@dataclass(slots=True)
class Transaction:
    """One that is being read."""

    commit_lsn: int
    committed_at: Microseconds
    skip: int  # changes of it that are stored already
    index: int = 0
    cause: str | None = None
    changes: list[RowChange] = field(default_factory=list)


def gap_between(before: Cursor, here: Cursor, slot: str) -> Unreadable:
    """Changes that were not read: the slot stands elsewhere than where reading ended."""
    if before.system != here.system:
        why = f"this is another server than before (its system identifier was {before.system}, and is {here.system})"
    elif before.lsn < here.lsn:
        why = f"slot {slot} was made anew, or moved by somebody else"
    else:  # no server sends what its log does not hold yet
        why = (
            "the server was put back to an earlier state (a copy was restored, or a standby took over that was behind)"
        )
    reason = (
        f"changes that committed after {shown_lsn(before.lsn)} were not read: {why}, and it is read from "
        f"{shown_lsn(here.lsn)} on. Compare the tables with what the agents have done about them"
    )
    raw = to_json({"slot": slot, "before": str(before), "after": str(here)})
    return Unreadable(raw, reason, {"what": GAP})
