"""What to do after a failure: pure decisions, carried out by others.

transient       again, after a random time up to an exponential ceiling (full jitter), or as Retry-After says
rate limited    again after the time that was told; uses up no attempt
persistent      give up at once
denied          give up at once; a policy outcome, not an error
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from wakeful.clock import SECOND, Microseconds
from wakeful.errors import classify
from wakeful.execution.options import Backoff

# A step that has to wait longer than this puts its run away instead of holding a place in memory.
WAITS_IN_PLACE: Microseconds = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `delay`. `counts`: whether this failure uses up an attempt."""

    delay: Microseconds
    counts: bool
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further try."""

    reason: str
    denied: bool = False


def decide(
    error: BaseException, *, failures: int, attempts: int, backoff: Backoff, chance: random.Random
) -> Again | GiveUp:
    """After `failures` failures, this one included, of at most `attempts`: again or not?"""
    verdict = classify(error)
    if verdict.failure == "denied":
        return GiveUp("denied", denied=True)
    if verdict.failure == "persistent":
        return GiveUp("will fail the same way again")
    if verdict.failure == "rate_limited":
        return Again(verdict.retry_after or SECOND, counts=False, reason="rate limited")
    if failures >= attempts:
        return GiveUp(f"failed {failures} times, {attempts} allowed" if attempts > 1 else "failed, one attempt allowed")
    if verdict.retry_after is not None:
        return Again(verdict.retry_after, counts=True, reason=f"failed {failures} of {attempts}, told when to retry")
    delay = round(chance.uniform(0, backoff.ceiling(failures)))
    return Again(delay, counts=True, reason=f"failed {failures} of {attempts}")


_VARIABLE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def signature(kind: str, message: str) -> str:
    """The error without what differs from case to case, so that equal failures are one alarm."""
    first = message.splitlines()[0] if message else ""
    return f"{kind}: {_VARIABLE.sub('…', first)[:120]}"
