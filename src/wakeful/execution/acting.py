"""`run.act` and `run.stage`: the identity of each use of an action, and what happens to it, now or with the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wakeful.errors import CancelAsked, ClaimLost, NotAnAction, Persistent
from wakeful.execution.actions import Action, uses
from wakeful.execution.approving import no_longer_wanted, was_refused
from wakeful.execution.attempt import Attempt
from wakeful.execution.effects import EffectCall, abandoned, save_effect
from wakeful.execution.intents import new_effect, open_effect, other_arguments
from wakeful.execution.once import OnceCall
from wakeful.execution.open_effects import settle_open
from wakeful.functions.options import location
from wakeful.model import Effect, digest
from wakeful.values import digest_of_arguments


async def act(attempt: Attempt, action: Action[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of an effect: from the ledger, or from performing it now."""
    identifier, text = _operation(attempt, "run.act", action, arguments, keywords)
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    attempt.enter()
    try:
        effect = attempt.ledger.find(identifier)
        if effect is None or never_begun(effect):
            effect = await _opened(attempt, action, identifier, text)
        return await (EffectCall if effect.once is None else OnceCall)(attempt, action, effect).reach()
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    except CancelAsked as asked:
        attempt.stop(asked)
        raise asyncio.CancelledError from None
    except asyncio.CancelledError:
        if attempt.interrupted is None:  # the handler stopped waiting: it may ask again, or the run's end settles it
            attempt.ledger.cut_off(identifier)
        raise
    finally:
        attempt.exit()


async def _opened(attempt: Attempt, action: Action[..., Any], identifier: str, text: str) -> Effect:
    """Store the intent. If the handler stops waiting meanwhile, no intent is left behind that the ledger does not know."""
    opening = asyncio.ensure_future(open_effect(attempt, action, identifier, text))
    try:
        return attempt.ledger.enter(await asyncio.shield(opening))
    except asyncio.CancelledError:
        if attempt.interrupted is None:
            effect = attempt.ledger.enter(await opening)
            if effect.state == "intent":  # not an effect that was stored before and is over
                effect.state, effect.reason = "retrying", "not begun"
                await save_effect(attempt, effect)
        else:
            opening.cancel()
        raise


def stage(attempt: Attempt, action: Action[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Keep an effect until the run commits."""
    attempt.refuse_inside("run.stage")
    attempt.refuse_when_over()
    identifier, text = _operation(attempt, "run.stage", action, arguments, keywords)
    action.read(text)  # refuses unfit arguments now
    known = attempt.ledger.find(identifier)
    if known is not None and known.state == "confirmed":
        return  # an earlier run with the same root did it
    if known is not None and not never_begun(known):
        if known.state == "abandoned":
            raise abandoned(known)
        effect = known  # begun before and not over: it continues from there
    else:
        effect = new_effect(attempt, action, identifier, text)
        effect.state = "staged"
    effect.staged = True
    attempt.outgoing.effects.append(effect)
    attempt.outgoing.actions[identifier] = action


def object_to_changes(attempt: Attempt) -> None:
    """At the end of the handler: object to staged effects whose arguments differ from those of an earlier run of this
    root.
    """
    for effect in attempt.outgoing.effects:
        action = attempt.outgoing.actions[effect.id]
        words = other_arguments(attempt, action, attempt.ledger.not_asked_for(effect.action), effect.arguments)
        if words is not None:
            attempt.outgoing.objections.append(f"{effect.action}: {words}")


async def settle_effects(attempt: Attempt, effects: Sequence[Effect]) -> None:
    """Settle open effects: before the handler those of earlier attempts, after it those that the handler stopped
    waiting for.
    """
    with _fenced(attempt):
        await settle_open(attempt, effects)


async def abandon_effects(attempt: Attempt, effects: Sequence[Effect]) -> None:
    """Abandon effects that wait for an approval and that the handler did not ask for again: nothing waits for the answer."""
    with _fenced(attempt):
        for effect in effects:
            await no_longer_wanted(attempt, effect, "its run ended without asking for it")


@contextmanager
def _fenced(attempt: Attempt) -> Iterator[None]:
    attempt.enter()
    try:
        yield
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    finally:
        attempt.exit()


def never_begun(effect: Effect) -> bool:
    """Whether the effect was staged and dropped before it was called."""
    return effect.state == "staged" or (effect.state == "abandoned" and effect.settled_by is None)


def is_closed(attempt: Attempt, effect: Effect | None) -> bool:
    """Whether the effect was undone, given up uncalled when its run was cancelled, or refused by people when another run
    of the family asked. A handler that asks for it again means a new effect.
    """
    if effect is None or effect.state not in {"undone", "abandoned"}:
        return False
    if effect.state == "undone":
        return True
    if effect.approval is not None and effect.settled_by is not None:
        return not was_refused(attempt, effect)
    return effect.settled_by is None and not effect.staged


def _operation(
    attempt: Attempt, call: str, action: Action[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[str, str]:
    """The identity of the next use of an action, and its arguments in stored form."""
    if not isinstance(action, Action):
        raise _no_action(call, action)
    attempt.refuse_inside(call)
    record, ledger = attempt.record, attempt.ledger
    record.refuse_another_action(action.name, action.function, action.written_at)
    try:
        action.signature.bind(None, *arguments, **keywords)
    except TypeError as error:
        message = f"{call}({action.name}, …): {error} ({action.written_at})"
        raise Persistent(message) from None
    uses(attempt.app, action)
    digested, text = digest_of_arguments(arguments, keywords, of=f"action {action.name}")
    base = f"act {action.name}:{digested}"
    if ledger.cut.get(base):
        return ledger.cut[base].pop(0), text  # the handler had stopped waiting for it and asks for it again
    key, _ = record.next_key(f"act {action.name}", digested)
    identifier = digest(attempt.root, key)
    while is_closed(attempt, ledger.find(identifier)):
        identifier = digest(
            identifier, "again"
        )  # a new operation: the service has already seen the old one and its undo
    ledger.ask(identifier, base)
    return identifier, text


def _no_action(call: str, given: object) -> NotAnAction:
    name = getattr(given, "__name__", repr(given))
    return NotAnAction(
        f"{call} takes an action, but {name} is not one ({location(given) if callable(given) else type(given).__name__}). "
        f"Did you mean to write @action above it? A function that only reads or computes is a step: run.step({name}, …)"
    )
