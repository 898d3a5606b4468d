"""Decides what to do after a failure: pure decisions, carried out by others.

transient       retry after a random time up to an exponential ceiling (full jitter), or as Retry-After says
rate limited    retry after the time that was given; does not use up an attempt
persistent      give up at once
denied          give up at once; a policy outcome, not an error

How long a transient failure is retried: with `attempts=`, that many times, for any error. Without it, an outage (a timeout, a
lost connection, HTTP 408, 429, 5xx, `raise Transient`) is retried for a day, because it may happen at night; an exception of an
unknown kind, which is more often a bug, has a bounded number of attempts.
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
from wakeful.model import digest
from wakeful.stored_errors import by_wakeful

# A step that has to wait longer than this suspends its run instead of staying in memory.
WAITS_IN_PLACE: Microseconds = 2 * SECOND
# An outage is retried this long, unless `attempts=` is given.
LASTS: Microseconds = 86400 * SECOND
# Attribute of an exception that leaves its step: when the streak of failures began.
SINCE = "__wakeful_since__"


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry after `delay`. `counts`: whether this failure uses up an attempt."""

    delay: Microseconds
    counts: bool
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not retry."""

    reason: str
    denied: bool = False


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """A streak of failures without a success in between.

    `since`: the first failure of any kind, to show. `failing`: the first failure after the last rate limit answer; the time limit
    counts from it. `unknown`: the number of failures of an unknown kind. Zeros: no failure yet.
    """

    since: Microseconds = 0
    failing: Microseconds = 0
    failures: int = 0
    unknown: int = 0

    def more(self, error: BaseException, now: Microseconds) -> FailureStreak:
        """The streak with one more failure."""
        verdict = classify(error)
        began = int(getattr(error, SINCE, 0)) or now
        if verdict.failure == "rate_limited":
            return FailureStreak(self.since or began, 0, self.failures, self.unknown)
        unknown = self.unknown + (not verdict.lasting)
        return FailureStreak(self.since or began, self.failing or began, self.failures + 1, unknown)

    def as_json(self, attempts: int | None = None) -> dict[str, Any]:
        """As stored beside the error, with the time at which an outage would be given up."""
        until = {"until": self.failing + LASTS} if attempts is None and self.failing and not self.unknown else {}
        return {"since": self.since, "failing": self.failing, "unknown": self.unknown, **until}


def streak_of(stored: Mapping[str, Any], failures: int) -> FailureStreak:
    """From the data stored beside an error, also by a version that did not store it."""
    return FailureStreak(
        int(stored.get("since", 0)), int(stored.get("failing", 0)), failures, int(stored.get("unknown", 0))
    )


def decide(
    error: BaseException,
    *,
    failures: int,
    attempts: int | None,
    backoff: Backoff,
    chance: random.Random,
    unknown_attempts: int = 5,
    trouble: FailureStreak | None = None,
    now: Microseconds = 0,
) -> Retry | GiveUp:
    """Whether to retry after `failures` failures, this one included. `attempts`: the limit; None: for a day, or up to
    `unknown_attempts` if the kind of the error is unknown. `trouble` includes this failure too.
    """
    verdict = classify(error)
    if verdict.failure == "denied":
        return GiveUp("denied", denied=True)
    if verdict.failure == "persistent":
        return GiveUp("will fail the same way again")
    if verdict.failure == "rate_limited":
        return Retry(told_to_wait(verdict, 0, attempts), counts=False, reason="rate limited")
    trouble = trouble or FailureStreak(now, now, failures, 0 if verdict.lasting else failures)
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
        return Retry(own, counts=True, reason=reason)
    delay = told_to_wait(verdict, own, attempts)
    return Retry(delay, counts=True, reason=f"{reason}, told when to retry")


def told_to_wait(verdict: Classified, own: Microseconds, attempts: int | None) -> Microseconds:
    """How long to wait if the other side said it. "At once" is not followed if nothing else limits the retries: a server that is down
    for a night and sends `Retry-After: 0` would be called as fast as it answers. `own`: our own backoff.
    """
    told = verdict.retry_after or 0
    if verdict.failure == "rate_limited":
        return told or SECOND
    return told if attempts is not None or told >= SECOND else max(told, own)


def given_up(
    verdict: Classified,
    failures: int,
    attempts: int | None,
    unknown_attempts: int,
    trouble: FailureStreak,
    now: Microseconds,
) -> str | None:
    """Why a transient failure is no longer retried; None: it is retried."""
    most = attempts if attempts is not None else None if verdict.lasting else unknown_attempts
    if most is not None:
        count = failures if attempts is not None else trouble.unknown
        if count >= most:
            return f"failed {count} times, {most} allowed" if most > 1 else "failed, one attempt allowed"
        return None
    if now - trouble.failing >= LASTS:
        return f"failing for {readable(now - trouble.failing)}, since {time_text(trouble.failing)}"
    return None


_NOT_IN_A_KEY = re.compile(r"[^A-Za-z0-9_.]+")
LONGEST_PLACE = 60
_VARIABLE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def signature(kind: str, message: str) -> str:
    """The error without its variable parts, so that equal failures are one alarm."""
    first = message.splitlines()[0] if message else ""
    return f"{kind}: {_VARIABLE.sub('…', first)[:120]}"


def cause_of_dead(error: Mapping[str, Any], place: str | None = None) -> str:
    """The last part of the key of a dead letter's alarm: equal failures have equal ones. `error` is in stored form.

    An error that Wakeful raised is known by its class and its place, a step or an action: its words differ between versions. An error of
    the app's code is known by its words without their variable parts, because its class (ValueError, Persistent) often says nothing.
    """
    if not by_wakeful(error):
        return digest(signature(error["type"], error["message"]), size=5)
    where = _NOT_IN_A_KEY.sub("-", place or "").strip("-")[:LONGEST_PLACE]
    return f"{error['type']}-{where}" if where else str(error["type"])
