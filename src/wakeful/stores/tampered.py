"""Substitutes for payloads that were tampered with: texts that say so, in the shape of their column.

A payload that does not open in its place, or is plain text where none may be, must not fail the code that reads the row: a listing
shows the other rows, and a claim takes the other runs. So the payload is replaced, and code that would act on it asks
`isinstance(text, Tampered)`. A substitute can never be stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic_core import to_json

from wakeful.errors import PayloadTampered

WHAT_TO_DO = "Restore the row from a backup, then `wakeful replay` the run; see Tampering on the page on housekeeping"

BEGINNING = "tampered with: "


@dataclass(frozen=True, slots=True)
class Tampering:
    """A payload that was tampered with, and how that was noticed."""

    table: str
    column: str
    row: str
    why: str

    def __str__(self) -> str:
        return f"{BEGINNING}{self.table}.{self.column} of {self.row}: {self.why}"

    def alarm_key(self, app: str) -> str:
        """The key of the alarm: one for each column."""
        return f"tampering/{app}/{self.table}.{self.column}"


class Tampered(str):
    """The text that replaces a payload."""

    __slots__ = ("finding",)
    finding: Tampering

    def __new__(cls, finding: Tampering) -> Self:
        made = super().__new__(cls, _shape(finding))
        made.finding = finding
        return made


def _shape(finding: Tampering) -> str:
    """The text in the shape of its column, so that a listing reads it like any other."""
    words = str(finding)
    told = {"@tampered": words}
    shapes: dict[str, object] = {
        "envelope": {"specversion": "1.0", "id": "?", "source": "?", "type": "?", "data": told},
        "error": {"type": "PayloadTampered", "message": words},
        "arguments": [words],
    }
    if finding.column in TEXTS_OF_PEOPLE or (finding.column == "error" and finding.table in ONE_LINE_ERRORS):
        return words
    return to_json(shapes.get(finding.column, told)).decode()


# Columns that hold plain text, not JSON.
TEXTS_OF_PEOPLE = frozenset(
    {"reason", "note", "text", "question", "detail", "cancel_note", "ending", "settlement", "error.message"}
)
ONLY_READ = TEXTS_OF_PEOPLE | {"error", "failed_with"}
ONE_LINE_ERRORS = frozenset({"wakeful_circuit", "wakeful_source"})


# Queries whose callers check the result themselves. Any other transition that reads a tampered payload is refused and changes nothing.
LOOKED_AT_BY_CALLERS = frozenset(
    {
        *(
            f"{claim}{apart}"
            for claim in ("claim_runs", "claim_resumed", "claim_solo", "claim_one")
            for apart in ("", "_apart")
        ),
        "load_steps",
        "load_effects",
        "load_members",
        "take_state",
        "state_of_key",
        "next_deliveries",
        "find_waits",
        "waits_of_run",
        "awaited",
        "awaited_about",
        "end_of_run",
        "answer_of_approval",
        "envelope_of_event",
    }
)


def refuse_to_act_on(rows: Iterable[Sequence[object]]) -> None:
    """Raise PayloadTampered if a row has a tampered value. Texts that people read are exempt: they say so themselves."""
    for row in rows:
        for text in row:
            if isinstance(text, Tampered) and text.finding.column not in ONLY_READ:
                refuse_tampered(text)


def refuse_tampered(text: str) -> None:
    """Raise PayloadTampered for a substitute: if it were stored, it would look genuine."""
    if isinstance(text, Tampered):
        raise PayloadTampered(f"{text.finding}. {WHAT_TO_DO}")


def held_for_tampering(reason: str | None) -> bool:
    """Whether this is the reason of a run that is held because a payload was tampered with."""
    return reason is not None and reason.startswith(BEGINNING)


def how_to_go_on(run: str, effect: str | None = None) -> str:
    """What a person can do about a run that is held for tampering, by the run's id, and the id of the effect that it is held for."""
    ways = (
        f"Restore the row from a backup, then resume the run: `wakeful replay {run}`. Or end it: `wakeful cancel {run}` undoes "
        f"its effects, `wakeful dead discard {run}` keeps them"
    )
    if effect is None:
        return ways
    return (
        "If a person settled the effect with an older version of Wakeful, which stores no decision, settle it again with this version, "
        f"and the run resumes: `wakeful effects confirm {effect}`, `wakeful effects repeat {effect}` or `wakeful effects abandon {effect}`. "
        f"If no person settled it, its state was changed in the database: find out who can write there. {ways}"
    )


_STATE_OF_EFFECT = re.compile(rf"{BEGINNING}wakeful_effect\.state of id (\S+): ")


def effect_to_settle(reason: str | None) -> str | None:
    """The effect that a run is held for because no person's decision explains its state; None if it is held for another reason."""
    found = _STATE_OF_EFFECT.match(reason or "")
    return None if found is None else found[1]


def plain(text: str | None) -> str | None:
    """The text of a substitute, to be stored with a person's decision about it; any other text unchanged."""
    return str(text) if isinstance(text, Tampered) else text
