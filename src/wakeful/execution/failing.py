"""A note on a run whose handler failed and is retried: since when it fails, and how often with an error of an unknown
kind.

It is stored as a fact with the run, by the transition that ends the attempt, and removed again by the next attempt. If
the run finished a step since then, a new row of failures begins.
"""

from __future__ import annotations

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.failures import classify
from wakeful.functions.retry import FailureStreak, signature
from wakeful.model import Claim, Step
from wakeful.stored_errors import in_one_line, words_of

FACT = "failing"


def take_note(claim: Claim) -> str | None:
    """Take the note of an earlier attempt out of the claim: it is about the run, not part of it."""
    for place, step in enumerate(claim.steps):
        if step.key == FACT and step.state == "fact":
            claim.steps = [*claim.steps[:place], *claim.steps[place + 1 :]]
            return step.result
    return None


def trouble_before(note: str | None, claim: Claim) -> FailureStreak:
    """The row of failures that this attempt continues; empty if the run made progress since the note was written."""
    told = {} if note is None else from_json(note)
    if told.get("reached", 0) < reached(claim):
        return FailureStreak(0, 0, claim.attempts)
    return FailureStreak(told.get("since", 0), told.get("failing", 0), claim.attempts, told.get("unknown", 0))


def note_of(
    trouble: FailureStreak, claim: Claim, error: BaseException, now: Microseconds, attempts: int | None
) -> Step:
    """The note in stored form, with the error for people."""
    words = signature(type(error).__name__, in_one_line(words_of(error)))
    told = {**trouble.as_json(attempts), "reached": reached(claim), "error": words, "failure": classify(error).failure}
    return Step(FACT, FACT, "fact", to_json(told).decode(), started_at=trouble.since or now, finished_at=now)


def noted(claim: Claim) -> list[str]:
    """The fact to clear when the handler reached a wait, a person or an open circuit: it no longer fails."""
    return [] if claim.failing is None else [FACT]


def reached(claim: Claim) -> int:
    """How far the run has come: the number of finished steps, including those of this attempt."""
    return claim.finished + sum(step.state == "done" for step in claim.steps)
