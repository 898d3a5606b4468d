"""What to do after a failure: pure decisions, carried out by others.

transient       again, after a random time up to an exponential ceiling (full jitter), or as Retry-After says
rate limited    again after the time that was told; uses up no attempt
persistent      give up at once
denied          give up at once; a policy outcome, not an error

How long a transient failure is put up with: with `attempts=` so many times, whatever it is. Without it an outage (a timeout, a
lost connection, HTTP 408, 429, 5xx, `raise Transient`) lasts for a day, because nobody is there at night; an exception of an
unknown kind, which is more often a mistake in the code, has a bounded number of attempts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.clock import to_second as time_text
from wakeful.failures import Classified, classify
from wakeful.functions.options import Backoff

# A step that has to wait longer than this puts its run away instead of holding a place in memory.
WAITS_IN_PLACE: Microseconds = 2 * SECOND
# An outage is put up with for so long, unless `attempts=` says otherwise.
LASTS: Microseconds = 86400 * SECOND
# When a row of failures began, on an exception that leaves the step it came from.
SINCE = "__wakeful_since__"


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


@dataclass(frozen=True, slots=True)
class Trouble:
    """A row of failures without a success in between.

    `since`: the first failure of any kind, for people. `failing`: the first one after the other side last answered with a rate
    limit, which is what the time limit counts from. `unknown`: how many were of an unknown kind. Zeros: no failure yet.
    """

    since: Microseconds = 0
    failing: Microseconds = 0
    failures: int = 0
    unknown: int = 0

    def more(self, error: BaseException, now: Microseconds) -> Trouble:
        """With one more failure."""
        verdict = classify(error)
        began = int(getattr(error, SINCE, 0)) or now
        if verdict.failure == "rate_limited":
            return Trouble(self.since or began, 0, self.failures, self.unknown)
        unknown = self.unknown + (not verdict.lasting)
        return Trouble(self.since or began, self.failing or began, self.failures + 1, unknown)

    def as_json(self, attempts: int | None = None) -> dict[str, Any]:
        """As it is stored beside the error, with the time at which an outage would be given up."""
        until = {"until": self.failing + LASTS} if attempts is None and self.failing and not self.unknown else {}
        return {"since": self.since, "failing": self.failing, "unknown": self.unknown, **until}


def trouble_of(stored: Mapping[str, Any], failures: int) -> Trouble:
    """Out of what was stored beside an error, by this version or by one that knew nothing of it."""
    return Trouble(int(stored.get("since", 0)), int(stored.get("failing", 0)), failures, int(stored.get("unknown", 0)))


def decide(
    error: BaseException,
    *,
    failures: int,
    attempts: int | None,
    backoff: Backoff,
    chance: random.Random,
    unknown_attempts: int = 5,
    trouble: Trouble | None = None,
    now: Microseconds = 0,
) -> Again | GiveUp:
    """After `failures` failures, this one included: again or not? `attempts`: at most so many; None: for a day, or up to
    `unknown_attempts` where the kind of the error is not known. `trouble` has this failure in it too.
    """
    verdict = classify(error)
    if verdict.failure == "denied":
        return GiveUp("denied", denied=True)
    if verdict.failure == "persistent":
        return GiveUp("will fail the same way again")
    if verdict.failure == "rate_limited":
        return Again(told_to_wait(verdict, 0, attempts), counts=False, reason="rate limited")
    trouble = trouble or Trouble(now, now, failures, 0 if verdict.lasting else failures)
    ended = given_up(verdict, failures, attempts, unknown_attempts, trouble, now)
    if ended is not None:
        return GiveUp(ended)
    if attempts is not None:
        reason = f"failed {failures} of {attempts}"
    elif verdict.lasting:
        reason = f"failing since {time_text(trouble.failing)}, tried until {time_text(trouble.failing + LASTS)}"
    else:
        reason = f"failed {trouble.unknown} of {unknown_attempts}"
    own = round(chance.uniform(0, backoff.ceiling(failures)))
    if verdict.retry_after is None:
        return Again(own, counts=True, reason=reason)
    delay = told_to_wait(verdict, own, attempts)
    return Again(delay, counts=True, reason=f"{reason}, told when to retry")


def told_to_wait(verdict: Classified, own: Microseconds, attempts: int | None) -> Microseconds:
    """How long, where the other side has said it. "At once" is not taken at its word where nothing else ends the tries: a server that is
    down for a night and says `Retry-After: 0` would be called as fast as it answers. `own`: by our backoff.
    """
    told = verdict.retry_after or 0
    if verdict.failure == "rate_limited":
        return told or SECOND
    return told if attempts is not None or told >= SECOND else max(told, own)


def given_up(
    verdict: Classified, failures: int, attempts: int | None, unknown_attempts: int, trouble: Trouble, now: Microseconds
) -> str | None:
    """Why a transient failure is not retried any more; None: it is."""
    most = attempts if attempts is not None else None if verdict.lasting else unknown_attempts
    if most is not None:
        count = failures if attempts is not None else trouble.unknown
        if count >= most:
            return f"failed {count} times, {most} allowed" if most > 1 else "failed, one attempt allowed"
        return None
    if now - trouble.failing >= LASTS:
        return f"failing for {readable(now - trouble.failing)}, since {time_text(trouble.failing)}"
    return None


_VARIABLE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def signature(kind: str, message: str) -> str:
    """The error without what differs from case to case, so that equal failures are one alarm."""
    first = message.splitlines()[0] if message else ""
    return f"{kind}: {_VARIABLE.sub('…', first)[:120]}"
