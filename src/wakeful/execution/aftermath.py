"""What to do after a call of an action that did not return, by what its action declared. Pure: facts in, answer out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wakeful.clock import Microseconds, readable
from wakeful.errors import Denied, NotSent, Persistent, RateLimited
from wakeful.execution.actions import Action, ActionOptions
from wakeful.failures import TOO_MANY_REQUESTS, Classified, classify, http_status
from wakeful.functions.options import UNKNOWN_ATTEMPTS
from wakeful.functions.retry import FailureStreak, given_up, told_to_wait
from wakeful.stored_errors import words_of

CLIENT_ERROR, SERVER_ERROR, REQUEST_TIMEOUT = 400, 500, 408
NONE_YET = FailureStreak()


@dataclass(frozen=True, slots=True)
class Again:
    """Certainly not done, or harmless to repeat: call again after `delay`."""

    delay: Microseconds
    certain: bool
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """Ask `find` after `delay` whether it was done."""

    delay: Microseconds
    find: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hold:
    """Only a person can tell."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The other side refused it for good."""

    error: BaseException


Next = Again | Look | Hold | Fail


def certainly_not_done(error: BaseException) -> bool:
    """Did the call do nothing at all? Its author says so, or the service turned it away for now."""
    return isinstance(error, NotSent | RateLimited) or http_status(error) == TOO_MANY_REQUESTS


def refused_for_good(error: BaseException) -> bool:
    """Did the other side, or the action's author, say no? Any other error may have come after the work was done."""
    status = http_status(error)
    if status is not None:
        return CLIENT_ERROR <= status < SERVER_ERROR and status not in {REQUEST_TIMEOUT, TOO_MANY_REQUESTS}
    return isinstance(error, Persistent | Denied)


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What the table needs to know of an effect: how old it is, and how long ago it was last called."""

    tries: int
    age: Microseconds
    since_call: Microseconds
    doubtful: bool = False  # an earlier call may have been done
    trouble: FailureStreak = NONE_YET  # the failures so far, this one included
    now: Microseconds = 0


def after(
    action: Action[..., Any], error: BaseException, facts: EffectFacts, *, chance: Callable[[float, float], float]
) -> Next:
    """The table of what to do after a call that did not return. Pure."""
    options = action.options
    verdict = classify(error)
    pause = round(chance(0, options.backoff.ceiling(facts.tries)))
    if verdict.retry_after is not None:
        pause = told_to_wait(verdict, pause, options.attempts)
    why = f"{type(error).__name__}: {words_of(error)}"
    if certainly_not_done(error):
        counts = verdict.failure != "rate_limited"
        if facts.doubtful:  # this call did nothing; but an earlier one may have
            return settle(action, facts, pause=pause, why=why, verdict=verdict, counts=counts)
        ended = over_for_good(options, facts, verdict) if counts else None
        return Again(pause, certain=True, counts=counts) if ended is None else Fail(error)
    if refused_for_good(error):
        return Hold(f"{why}. But an earlier call of it may have been done") if facts.doubtful else Fail(error)
    return settle(action, facts, pause=pause, why=why, verdict=verdict)


def over_for_good(options: ActionOptions, facts: EffectFacts, verdict: Classified | None) -> str | None:
    """Why it is not called again, in words; None: it is. `verdict` is that of a call that failed; None where none did, because
    its process died: without `attempts=` only the crashes of its run are counted then.
    """
    if options.attempts is not None:
        return None if facts.tries < options.attempts else f"Tried {facts.tries} times, {options.attempts} allowed"
    if verdict is None:
        return None
    ended = given_up(verdict, facts.tries, None, UNKNOWN_ATTEMPTS, facts.trouble, facts.now)
    return None if ended is None else ended[0].upper() + ended[1:]


def settle(
    action: Action[..., Any],
    facts: EffectFacts,
    *,
    pause: Microseconds,
    why: str,
    verdict: Classified | None = None,
    counts: bool = True,
) -> Next:
    """Nobody knows whether it was done: what its action declared for that."""
    options = action.options
    if options.find is not None:
        return Look(max(0, options.settle - facts.since_call), options.find)
    if options.safety == "idempotent":
        if facts.age + pause >= options.idempotent_for:
            limit = readable(options.idempotent_for)
            return Hold(f"{why}. It is known again by its id for {limit} only, and would be older than that")
        ended = over_for_good(options, facts, verdict) if counts else None
        if ended is not None:
            return Hold(f"{why}. {ended}")
        return Again(pause, certain=False, counts=counts)
    return Hold(f"{why}. Whether {action.name} was done is not known, and it may be done at most once")
