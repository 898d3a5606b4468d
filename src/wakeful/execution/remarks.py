"""`run.remarks`: what people said when they returned the output of a run. Each remark begins a new round of the handler.

A step, and `run.now()`, belong to a round: they are done again after a return, so that a rejected answer can change. Everything else
keeps its record: effects, transactions, events, other runs, sleeps, waits, and people's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic_core import from_json

from wakeful.clock import to_datetime
from wakeful.stores.verbs.returning import REMARK

if TYPE_CHECKING:
    from wakeful.model import Step

FIRST = f"{REMARK} 1"


@dataclass(frozen=True, slots=True)
class Remark:
    """A person's words about an output that was not good enough."""

    text: str
    by: str
    at: datetime


def take_remarks(recorded: dict[str, Step]) -> tuple[Remark, ...]:
    """Take the remarks out of the record, oldest first: they are about the run, not part of it."""
    found: list[Remark] = []
    while (step := recorded.pop(f"{REMARK} {len(found) + 1}", None)) is not None:
        told = from_json(step.result or "{}")
        found.append(Remark(told["text"], told["by"], to_datetime(step.started_at)))
    return tuple(found)


def is_remark(step: Step) -> bool:
    return step.state == "fact" and step.key.startswith(f"{REMARK} ")
