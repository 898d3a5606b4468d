"""One effect: the intent is stored, then the call is made, then what became of it is stored.

    known confirmed ──► its result, from the ledger
    known failed ─────► its error, raised again
    else open ─► call ─┬─ worked ────────────────────► confirmed
          ▲            ├─ certainly not done ────────► again, after a wait
          │            ├─ refused for good (4xx) ────► failed: the run dies
          │            └─ nobody knows ─┬─ idempotent ───► again, with the same id, while it is young enough
          │                             ├─ reconcile ────► look: found ► confirmed, not there ► again, cannot tell ► held
          └────── not there ────────────┘
                                        └─ at_most_once ─► held: a person says what became of it

What a process left open when it died is something that nobody knows either, and is settled the same way, with the stored
arguments, before the handler runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable
from wakeful.errors import (
    TOO_MANY_REQUESTS,
    ClaimLost,
    Denied,
    EffectAbandoned,
    NotSent,
    Persistent,
    RateLimited,
    Transient,
    classify,
    describe,
    http_status,
    restore,
    words_of,
)
from wakeful.execution.actions import Action, Operation, find_action
from wakeful.execution.call import call, within_lease
from wakeful.execution.checkpoint import ARGUMENTS_SHOWN, marked
from wakeful.model import Decision, Effect
from wakeful.values import from_text, read_back, returns_of, to_text

if TYPE_CHECKING:
    from wakeful.execution.run import Run

# Branches of a handler may ask for their effects one after the other, a turn of the event loop for each.
TURNS_TO_ASK = 25
OPEN_STATES = frozenset({"intent", "unknown"})


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


def after(
    action: Action[..., Any],
    error: BaseException,
    *,
    tries: int,
    age: Microseconds,
    chance: Callable[[float, float], float],
) -> Next:
    """The table of what to do after a call that did not return. Pure: `age` is how long ago the effect was opened."""
    options = action.options
    verdict = classify(error)
    wait = verdict.retry_after
    pause = round(chance(0, options.backoff.ceiling(tries))) if wait is None else wait
    if certainly_not_done(error):
        counts = verdict.failure != "rate_limited"
        return Again(pause, certain=True, counts=counts) if not counts or tries < options.attempts else Fail(error)
    if verdict.failure in {"persistent", "denied"}:
        return Fail(error)
    return settle(action, tries=tries, age=age, pause=pause, why=f"{type(error).__name__}: {words_of(error)}")


def settle(action: Action[..., Any], *, tries: int, age: Microseconds, pause: Microseconds, why: str) -> Next:
    """Nobody knows whether it was done: what its action declared for that."""
    options = action.options
    if options.find is not None:
        return Look(max(0, options.settle - age), options.find)
    if options.safety == "idempotent":
        if age >= options.idempotent_for:
            limit = readable(options.idempotent_for)
            return Hold(f"{why}. It is known again by its id for {limit} only, and is older than that")
        if tries >= options.attempts:
            return Hold(f"{why}. Tried {tries} times, {options.attempts} allowed")
        return Again(pause, certain=False)
    return Hold(f"{why}. Whether {action.name} was done is not known, and it may be done at most once")


class EffectCall:
    """Carries one effect through, from its intent to its end."""

    def __init__(self, run: Run, action: Action[..., Any], effect: Effect) -> None:
        self._run = run
        self._action = action
        self.effect = effect

    async def reach(self) -> Any:
        """The result, from the ledger or from doing it. Ends the attempt by `run.hold` where a person is needed."""
        effect, action = self.effect, self._action
        returns = returns_of(action.function)
        await self._stop_if_over()
        while not self._is_confirmed():
            try:
                value = await self._call()
            except ClaimLost:
                raise  # nothing went wrong with the action: the run is somebody else's now
            except Exception as error:
                await self._go_on_after(error)
                continue
            return await self._confirm(value)
        return from_text(effect.result or "null", returns, step=action.name)

    def _is_confirmed(self) -> bool:
        return self.effect.state == "confirmed"

    async def _stop_if_over(self) -> None:
        effect = self.effect
        if effect.state == "held":  # stored as that by a process that died before it could put the run away
            await self._run.hold(f"{effect.action}: {effect.reason}")
        if effect.state == "failed":
            raise marked(restore(from_json(effect.error or "{}")), effect.id)
        if effect.state == "abandoned":
            note = f": {effect.note}" if effect.note else ""
            message = f"{effect.action} was abandoned by {effect.settled_by}{note}"
            raise EffectAbandoned(message)

    async def _confirm(self, value: Any) -> Any:
        """It was done. Should its result be of a kind that cannot be stored, it was done all the same."""
        name = self._action.name
        try:
            text = to_text(value, what=f"the result of action {name}")
            value = read_back(value, text, returns_of(self._action.function), step=name)
        except Persistent as error:
            await self._save(
                "confirmed", reason=f"done, but {words_of(error)}", error=to_json(describe(error)).decode()
            )
            raise
        await self._save("confirmed", result=text)
        return value

    async def settle(self) -> None:
        """Before the handler: an earlier attempt left this open. Afterwards it is confirmed, or tried again, or held."""
        run, effect = self._run, self.effect
        why = "the process died while it was under way" if effect.state == "intent" else effect.reason or "unknown"
        age = run.clock.now() - effect.opened_at
        await self._carry_out(settle(self._action, tries=effect.tries, age=age, pause=0, why=why), None, why)
        if effect.state not in {"confirmed", "failed"}:
            await self.reach()

    async def _call(self) -> Any:
        effect, action, run = self.effect, self._action, self._run
        effect.tries += 1
        if effect.state != "intent" or effect.tries > 1:  # it has just been opened as an intent otherwise
            await self._save("intent")
        arguments, keywords = action.read(effect.arguments)
        operation = Operation(effect.id, action.name, run.id, effect.tries)
        function = run.stand_in(action, action.function)
        token = run.inside(action.name)
        try:
            made = call(function, (operation, *arguments), keywords, what=f"action {action.name}")
            return await within_lease(made, action.options.timeout, run.time_for_calls, what=f"action {action.name}")
        finally:
            run.outside(token)

    async def _go_on_after(self, error: Exception) -> None:
        effect, run = self.effect, self._run
        age = run.clock.now() - effect.opened_at
        step = after(self._action, error, tries=effect.tries, age=age, chance=run.chance.uniform)
        await self._carry_out(step, error, f"{type(error).__name__}: {words_of(error)}")

    async def _carry_out(self, step: Next, error: Exception | None, why: str) -> None:
        effect, run = self.effect, self._run
        described = None if error is None else to_json(describe(error)).decode()
        match step:
            case Again(delay=delay, certain=certain, counts=counts):
                if not counts:
                    effect.tries -= 1
                run.log.warning(
                    "an action failed; trying again", action=self._action.name, error=why, again_in=readable(delay)
                )
                await self._save("retrying" if certain else "unknown", reason=why, error=described)
                await run.wait_for_effect(effect.id, run.clock.now() + delay)
            case Look(delay=delay, find=find):
                await self._save("unknown", reason=why, error=described)
                await run.wait_for_effect(effect.id, run.clock.now() + delay)
                await self._look(find, why)
            case Hold(reason=reason):
                await self._save("held", reason=reason, error=described)
                await run.hold(f"{self._action.name}: {reason}")
            case Fail(error=failure):
                await self._save("failed", reason=why, error=described)
                if isinstance(failure, Transient):  # certainly not done, as often as allowed
                    message = f"{self._action.name}: {why}, {effect.tries} times"
                    raise Persistent(message) from failure
                raise failure

    async def _look(self, find: Callable[..., Any], why: str) -> None:
        """Ask the action's own `find`, with the same arguments: what it found is the result, None means not done."""
        action, effect = self._action, self.effect
        arguments, keywords = action.read(effect.arguments)
        operation = Operation(effect.id, action.name, self._run.id, effect.tries)
        try:
            made = call(
                self._run.stand_in(find, find), (operation, *arguments), keywords, what=f"find of action {action.name}"
            )
            found = await within_lease(
                made, action.options.timeout, self._run.time_for_calls, what=f"find of action {action.name}"
            )
            text = None if found is None else to_text(found, what=f"what find of action {action.name} found")
        except Exception as error:
            reason = f"{why}. find could not tell: {type(error).__name__}: {words_of(error)}"
            await self._save("held", reason=reason)
            await self._run.hold(f"{action.name}: {reason}")
            return
        if text is not None:
            await self._save("confirmed", result=text, reason="found by find")
        elif effect.tries >= action.options.attempts:
            reason = f"{why}. Not found, and tried {effect.tries} times, {action.options.attempts} allowed"
            await self._save("held", reason=reason)
            await self._run.hold(f"{action.name}: {reason}")
        else:
            await self._save("retrying", reason="find found nothing")

    async def _save(
        self, state: Any, *, reason: str | None = None, result: str | None = None, error: str | None = None
    ) -> None:
        effect = self.effect
        effect.state, effect.reason, effect.error = state, reason, error
        if result is not None:
            effect.result = result
        await self._run.save_effect(effect)


async def open_effect(run: Run, action: Action[..., Any], identifier: str, text: str) -> Effect:
    """Write the intent down, if policy allows it and nothing about it needs a person."""
    await run.save_facts()
    arguments, keywords = action.read(text)
    reason = await changed_arguments(run, action, text) or failed_check(action, arguments, keywords)
    effect = run.new_effect(action, identifier, text)
    effect.state, effect.reason = ("intent", None) if reason is None else ("held", reason)
    return await opened(run, action, effect)


async def open_staged(run: Run, action: Action[..., Any], effect: Effect) -> Effect:
    """Its turn has come: what was checked when it was staged is written down as an intent, if policy allows it now."""
    effect.state, effect.attempt = "intent", run.attempt
    return await opened(run, action, effect)


async def opened(run: Run, action: Action[..., Any], effect: Effect) -> Effect:
    """Policy is asked in the transaction that stores the intent. What it does not allow is refused, or held."""
    answer = await run.open_effect(action, effect)
    if isinstance(answer, Decision):
        if answer.answer == "deny":
            raise refuse(answer, action)
        effect.state, effect.reason = "held", f"{answer.rule}: {answer.reason}"
        answer = await run.open_effect(action, effect, judged=True)
    effect = answer if isinstance(answer, Effect) else effect
    if effect.state == "held":
        await run.hold(f"{action.name}: {effect.reason}")
    return effect


async def changed_arguments(run: Run, action: Action[..., Any], text: str) -> str | None:
    """Did an earlier attempt do this with other arguments? Branches that ask for theirs in a moment get a few turns."""
    for _ in range(TURNS_TO_ASK - 1):
        if not run.ledger.not_asked_for(action.name):
            return None
        await asyncio.sleep(0)
    return other_arguments(run.ledger.not_asked_for(action.name), text)


def other_arguments(before: Sequence[Effect], text: str) -> str | None:
    """In words, what an earlier attempt did and this one does not ask for again."""
    if not before:
        return None
    return f"arguments changed: was {before[0].arguments[:ARGUMENTS_SHOWN]}, now {text[:ARGUMENTS_SHOWN]}"


async def settle_open(run: Run, effects: Sequence[Effect]) -> None:
    """Settle what earlier attempts left open, one after the other, in the order in which it was begun."""
    for effect in effects:
        if effect.state == "held":
            await run.hold(f"{effect.action}: {effect.reason}")
        if effect.state not in OPEN_STATES:
            continue
        action = find_action(effect.reference)
        if action is None:
            effect.state, effect.reason = "held", f"the action {effect.reference} is not there any more to settle it"
            await run.save_effect(effect)
            await run.hold(f"{effect.action}: {effect.reason}")
            return
        try:
            await EffectCall(run, action, effect).settle()
        except Exception as error:
            if effect.state != "failed":
                raise
            # stored as that: the handler is told when it asks for it
            run.log.warning("an open effect failed", action=effect.action, error=words_of(error))


def refuse(decision: Decision, action: Action[..., Any]) -> Denied:
    """What a handler is told when policy does not allow an effect."""
    return Denied(f"action {action.name}: {decision.rule}: {decision.reason}")


def failed_check(action: Action[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> str | None:
    """The first check of an action's arguments that does not pass, in words."""
    for check in action.options.checks:
        name = getattr(check, "__name__", repr(check))
        try:
            answer = check(*arguments, **keywords)
        except Exception as error:
            return f"check {name}: {type(error).__name__}: {words_of(error)}"
        if answer is False or isinstance(answer, str):
            return f"check {name}: {answer or 'did not pass'}"
    return None
