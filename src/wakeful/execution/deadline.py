"""The deadline of a run: it counts from the first start over all attempts, and stands still while people are asked about an effect."""

from __future__ import annotations

import re
from collections.abc import Callable

from wakeful.clock import Microseconds, seconds
from wakeful.execution.surroundings import Cancellable
from wakeful.model import Claim

ASKED = "approve "  # begins the keys of steps that wait for the approval of an effect
# An effect, a rule, and the claim: a user's step may be called "approve order".
_ASKED = re.compile(rf"{ASKED}[0-9a-f]{{26}}:.+:\d+\.\d+")


def time_left(claim: Claim, limit: Microseconds, now: Microseconds) -> Microseconds:
    """How long the run may still take; not more than 0 if its deadline has passed."""
    return claim.started_at + limit + (stood_still(claim, now) if claim.steps else 0) - now


def is_about_approval(key: str) -> bool:
    """Whether the step with this key waits, or waited, for the approval of an effect."""
    return key.startswith(ASKED) and _ASKED.fullmatch(key) is not None


def stands_still(claim: Claim) -> bool:
    """Whether an approval of an effect is open now."""
    return any(step.state == "waiting" and is_about_approval(step.key) for step in claim.steps)


def stood_still(claim: Claim, now: Microseconds) -> Microseconds:
    """How long approvals of effects were open since the run started. A fork has steps of an earlier run."""
    spans = sorted(
        (step.started_at, now if step.state == "waiting" else step.finished_at)
        for step in claim.steps
        if is_about_approval(step.key)
    )
    total, end = 0, claim.started_at
    for begin, finish in spans:
        total += max(0, finish - max(begin, end))
        end = max(end, finish)
    return total


class DeadlineTimer:
    """Rings once the deadline has passed. An approval that is opened meanwhile moves it."""

    def __init__(
        self,
        claim: Claim,
        limit: Microseconds,
        ring: Callable[[], None],
        now: Callable[[], Microseconds],
        later: Callable[[float, Callable[[], None]], Cancellable],
    ) -> None:
        self._claim = claim
        self._limit = limit
        self._ring = ring
        self._now = now
        self._later = later
        self._timer = self._start(claim.claimed_at)

    def _start(self, now: Microseconds) -> Cancellable:
        return self._later(max(0.0, seconds(time_left(self._claim, self._limit, now))), self._over)

    def _over(self) -> None:
        if any(is_about_approval(step.key) for step in self._claim.steps):
            now = self._now()
            if stands_still(self._claim) or time_left(self._claim, self._limit, now) > 0:
                self._timer = self._later(max(1.0, seconds(time_left(self._claim, self._limit, now))), self._over)
                return
        self._ring()

    def cancel(self) -> None:
        self._timer.cancel()
