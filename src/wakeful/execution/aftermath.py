"""What to do after a failed call of an action, by its declared safety. Pure: facts in, answer out."""

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
class CallAgain:
    """Certainly not done, or harmless to repeat: call again after `delay`."""

    delay: Microseconds
    certain: bool
    counts: bool = True


@dataclass(frozen=True, slots=True)
class AskFind:
    """Ask `find` after `delay` whether the call was done."""

    delay: Microseconds
    find: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class HoldForPerson:
    """Only a person can decide."""

    reason: str


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The other side refused the call for good."""

    error: BaseException


Next = CallAgain | AskFind | HoldForPerson | CallFailed


def certainly_not_done(error: BaseException) -> bool:
    """Whether the call certainly did nothing: its author says so, or the service turned it away for now."""
    return isinstance(error, NotSent | RateLimited) or http_status(error) == TOO_MANY_REQUESTS


def refused_for_good(error: BaseException) -> bool:
    """Whether the other side, or the action's author, refused. Any other error may have come after the work was done."""
    status = http_status(error)
    if status is not None:
        return CLIENT_ERROR <= status < SERVER_ERROR and status not in {REQUEST_TIMEOUT, TOO_MANY_REQUESTS}
    return isinstance(error, Persistent | Denied)


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of an effect that decide: how old it is, and how long ago it was last called."""

    tries: int
    age: Microseconds
    since_call: Microseconds
    doubtful: bool = False  # an earlier call may have succeeded
    trouble: FailureStreak = NONE_YET  # the failures so far, this one included
    now: Microseconds = 0


def after(
    action: Action[..., Any], error: BaseException, facts: CallFacts, *, chance: Callable[[float, float], float]
) -> Next:
    """The next step after a call that raised. Pure."""
    options = action.options
    verdict = classify(error)
    pause = round(chance(0, options.backoff.ceiling(facts.tries)))
    if verdict.retry_after is not None:
        pause = told_to_wait(verdict, pause, options.attempts)
    why = f"{type(error).__name__}: {words_of(error)}"
    if certainly_not_done(error):
        counts = verdict.failure != "rate_limited"
        if facts.doubtful:  # this call did nothing, but an earlier one may have succeeded
            return settle(action, facts, pause=pause, why=why, verdict=verdict, counts=counts)
        ended = over_for_good(options, facts, verdict) if counts else None
        return CallAgain(pause, certain=True, counts=counts) if ended is None else CallFailed(error)
    if refused_for_good(error):
        return HoldForPerson(f"{why}. But an earlier call may have succeeded") if facts.doubtful else CallFailed(error)
    return settle(action, facts, pause=pause, why=why, verdict=verdict)


def over_for_good(options: ActionOptions, facts: CallFacts, verdict: Classified | None) -> str | None:
    """Why the action is not called again, in words; None if it is. `verdict` is that of the failed call. It is None if
    the process died: then, without `attempts=`, only the crashes of the run are counted.
    """
    if options.attempts is not None:
        return None if facts.tries < options.attempts else f"Tried {facts.tries} times, {options.attempts} allowed"
    if verdict is None:
        return None
    ended = given_up(verdict, facts.tries, None, UNKNOWN_ATTEMPTS, facts.trouble, facts.now)
    return None if ended is None else ended[0].upper() + ended[1:]


def settle(
    action: Action[..., Any],
    facts: CallFacts,
    *,
    pause: Microseconds,
    why: str,
    verdict: Classified | None = None,
    counts: bool = True,
) -> Next:
    """It is unknown whether the call was done: act by the action's declared safety."""
    options = action.options
    if options.find is not None:
        return AskFind(max(0, options.settle - facts.since_call), options.find)
    if options.safety == "idempotent":
        if facts.age + pause >= options.idempotent_for:
            limit = readable(options.idempotent_for)
            return HoldForPerson(
                f"{why}. The service recognises its id for {limit} only, and a retry would come later than that"
            )
        ended = over_for_good(options, facts, verdict) if counts else None
        if ended is not None:
            return HoldForPerson(f"{why}. {ended}")
        return CallAgain(pause, certain=False, counts=counts)
    return HoldForPerson(f"{why}. It is unknown whether {action.name} was done, and it may be done at most once")
