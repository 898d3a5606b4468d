"""The position of a reader in a server's log, and the gap if it cannot continue from there."""

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
    """The position up to which everything is stored."""

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
    """A transaction that is being read."""

    commit_lsn: int
    committed_at: Microseconds
    skip: int  # changes of it that are already stored
    index: int = 0
    cause: str | None = None
    changes: list[RowChange] = field(default_factory=list)


def gap_between(before: Cursor, here: Cursor, slot: str) -> Unreadable:
    """The record of changes that were not read, because the slot is not where reading ended."""
    if before.system != here.system:
        why = f"this is a different server (its system identifier was {before.system} and is now {here.system})"
    elif before.lsn < here.lsn:
        why = f"slot {slot} was recreated, or moved by another program"
    else:  # a server cannot send what its log does not contain yet
        why = "the server was reset to an earlier state (a backup was restored, or a standby that was behind took over)"
    reason = (
        f"changes committed after {shown_lsn(before.lsn)} were not read: {why}; reading continues from "
        f"{shown_lsn(here.lsn)}. Compare the tables with what the agents have done"
    )
    raw = to_json({"slot": slot, "before": str(before), "after": str(here)})
    return Unreadable(raw, reason, {"what": GAP})
