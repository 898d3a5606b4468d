"""In a cancelled run, instead of the handler: its effects are undone, the latest first.

    open ──► settled, as its action declared ──► certainly not done: nothing to undo
                                             └─► confirmed ─┬─► its action has undo= ──► undone by an effect of its own
                                                            ├─► no undo= ──────────────► stays; the run's end says so
                                                            └─► another run shares its result by key ──► stays too

An undo is an effect like any other: its intent is stored before the call, policy is asked, its operation id is always
the same, and it is found again after a crash. One thing differs: if an undo fails for good, the run does not fail but
is held, and a person decides whether the effect stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.errors import ClaimLost, CountedOn
from wakeful.execution.actions import Action, ActionOptions, find_action, takes_result
from wakeful.execution.aftermath import CallFailed, HoldForPerson, Next
from wakeful.execution.attempt import Attempt
from wakeful.execution.effects import OPEN_STATES, EffectCall, save_effect
from wakeful.execution.intents import store_held, store_intent
from wakeful.execution.open_effects import settle_open
from wakeful.model import Effect, Safety, undo_of


class UndoCall(EffectCall):
    """Performs one undo. A failure for good is held for a person."""

    async def _carry_out(self, step: Next, error: Exception | None, why: str) -> None:
        if isinstance(step, CallFailed):
            step = HoldForPerson(f"{why}. So the effect is not undone")
        await super()._carry_out(step, error, why)


async def compensate(attempt: Attempt, effects: Sequence[Effect]) -> str:
    """Settle open effects, then undo, the latest first. `effects` are all effects of the run, in that order. Returns
    the results in words. Ends the attempt by `hold` if a person is needed.
    """
    attempt.enter()
    try:
        return await _undo_all(attempt, effects)
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    finally:
        attempt.exit()


async def _undo_all(attempt: Attempt, effects: Sequence[Effect]) -> str:
    undos = {effect.id: effect for effect in effects if effect.undoes is not None}
    done = [effect for effect in effects if effect.undoes is None]
    await settle_open(attempt, [effect for effect in reversed(done) if was_called(effect)], only=True)
    position = max((effect.position for effect in effects), default=0) + 1
    undone: list[str] = []
    left: list[str] = []
    without: list[str] = []
    for effect in done:
        if effect.state == "undone":
            undone.append(effect.action)
        if effect.state != "confirmed":
            continue
        try:
            undo = await undo_effect(attempt, effect, undos, position)
        except CountedOn as why:
            left.append(f"{effect.action} ({why})")
            continue
        position += 1
        if undo is None:
            without.append(effect.action)
        elif undo.state == "confirmed":
            undone.append(effect.action)
        else:
            left.append(f"{effect.action} (decided by {undo.settled_by})")
    return told(undone, left, without)


def was_called(effect: Effect) -> bool:
    """Whether the effect was called. One that was held before its first call is simply given up."""
    return effect.state in OPEN_STATES or (effect.state == "held" and (effect.tries > 0 or effect.doubtful))


async def undo_effect(attempt: Attempt, effect: Effect, undos: Mapping[str, Effect], position: int) -> Effect | None:
    """Undo one effect, or continue where an earlier attempt stopped. Returns the undo, confirmed or abandoned by a
    person; None if its action declares no undo.
    """
    action = find_action(effect.reference, attempt.app)
    undo = undos.get(undo_of(effect.id))
    if undo is not None and undo.state == "abandoned":
        return undo
    if action is None:
        await hold_without_action(attempt, effect, undo, position)
        return undo
    if action.options.undo is None:
        return None
    way = way_back(action, action.options.undo)
    if undo is None:
        arguments = arguments_to_undo(action, way, effect)
        undo = await opened(
            attempt,
            way,
            new_undo(attempt, way.name, way.reference, way.options.safety, arguments, effect, position),
            effect,
        )
    elif undo.state in OPEN_STATES:
        await UndoCall(attempt, way, undo).settle()
        return undo
    await UndoCall(attempt, way, undo).reach()
    return undo


def new_undo(
    attempt: Attempt, name: str, reference: str, safety: Safety, arguments: str, effect: Effect, position: int
) -> Effect:
    """The effect that undoes another one. Its id is deterministic, so any later attempt finds it again."""
    return Effect(
        undo_of(effect.id),
        name,
        reference,
        safety,
        "intent",
        arguments,
        attempt=attempt.number,
        position=position,
        undoes=effect.id,
    )


async def hold_without_action(attempt: Attempt, effect: Effect, undo: Effect | None, position: int) -> None:
    """Hold the undo of an effect whose action is gone: this process cannot know whether it can be undone."""
    reason = f"the action {effect.reference}, which would undo it, no longer exists"
    if undo is None:
        name = f"undo {effect.action}"
        undo = new_undo(attempt, name, effect.reference, "at_most_once", effect.called_with, effect, position)
        undo.state, undo.reason = "held", reason
        await store_held(attempt, undo, effect)
    else:
        undo.state, undo.reason = "held", reason
        await save_effect(attempt, undo)
    await attempt.hold(f"{undo.action}: {reason}")


async def opened(attempt: Attempt, way: Action[..., Any], undo: Effect, undone: Effect) -> Effect:
    """Ask policy, then store the intent. An undo that policy does not allow is held: the run cannot end without an
    answer.
    """
    answer = await store_intent(attempt, way, undo, undoes=undone)
    return answer if isinstance(answer, Effect) else undo


def way_back(action: Action[..., Any], undo: Callable[..., Any]) -> Action[..., Any]:
    """The action that undoes another one: its `undo=`, which is an action itself or gets the same options. A plain
    function gets no `find`: no function can look up whether the undo was done.
    """
    options, name = action.options, f"undo {action.name}"
    if isinstance(undo, Action):
        return Undo(undo.function, replace(undo.options, name=name, undo=None), undo)
    safety = "at_most_once" if options.safety == "reconcile" else options.safety
    plain = replace(options, name=name, safety=safety, find=None, checks=(), undo=None)
    return Undo(undo, plain, undo)


class Undo(Action[..., Any]):
    """An action that undoes another one. `declared` is what the user wrote."""

    def __init__(self, function: Any, options: ActionOptions, declared: Any) -> None:
        super().__init__(function, options)
        self.declared = declared


def arguments_to_undo(action: Action[..., Any], way: Action[..., Any], effect: Effect) -> str:
    """The arguments of the undone effect; with its result, if the undo takes it."""
    if not takes_result(way.signature, action.signature):
        return effect.called_with
    stored = from_json(effect.called_with)
    keywords = stored.pop()["**"] if stored and isinstance(stored[-1], dict) and "**" in stored[-1] else {}
    result = None if effect.result is None else from_json(effect.result)
    return to_json([*stored, {"**": {**keywords, "result": result}}]).decode()


def told(undone: Sequence[str], left: Sequence[str], without: Sequence[str]) -> str:
    """The results in words: "; undone: charge; not undone (no undo declared): email"."""
    parts = [("undone", undone), ("not undone", left), ("not undone (no undo declared)", without)]
    return "".join(f"; {words}: {', '.join(names)}" for words, names in parts if names)
