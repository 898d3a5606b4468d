"""Instead of the handler, in a run that is to stop: what it did outside is undone, the latest first.

    open ──► settled, as its action declared ──► certainly not done: nothing to undo
                                             └─► confirmed ──┬─► its action has undo= ──► undone by an effect of its own
                                                             ├─► it has none ───────────► stays, and the end says so
                                                             └─► another run has its result by its business key ──► the same

Undoing is an effect like any other: its intent is stored before the call, policy is asked, its operation id is always the
same, and after a crash it is found again. Only one thing is different: where an undo fails for good, the run does not, but
is held. Whether what was done stays done is for a person to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.errors import ClaimLost, CountedOn
from wakeful.execution.actions import Action, ActionOptions, find_action, takes_result
from wakeful.execution.aftermath import Fail, Hold, Next
from wakeful.execution.attempt import Attempt
from wakeful.execution.effects import OPEN_STATES, EffectCall, save_effect, settle_open
from wakeful.execution.intents import store_held, store_intent
from wakeful.model import Decision, Effect, Safety, undo_of


class UndoCall(EffectCall):
    """Carries one undo through. What would fail is held."""

    async def _carry_out(self, step: Next, error: Exception | None, why: str) -> None:
        if isinstance(step, Fail):
            step = Hold(f"{why}. So what it undoes is still there")
        await super()._carry_out(step, error, why)


async def compensate(attempt: Attempt, effects: Sequence[Effect]) -> str:
    """Settle, then undo, the latest first. `effects` are all that the run has to answer for, in that order. What became of
    them, in words; ends the attempt by `hold` where a person is needed.
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
            left.append(f"{effect.action} ({undo.settled_by} said so)")
    return told(undone, left, without)


def was_called(effect: Effect) -> bool:
    """Not one that was held before it was ever called: that is simply given up."""
    return effect.state in OPEN_STATES or (effect.state == "held" and (effect.tries > 0 or effect.doubtful))


async def undo_effect(attempt: Attempt, effect: Effect, undos: Mapping[str, Effect], position: int) -> Effect | None:
    """Undo one effect, or go on where an earlier attempt was. The undo, confirmed or abandoned by a person; None if its action
    declares no way back.
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
    """Its id is always the same: it is found again, whoever goes on with it."""
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
    """Whether it can be undone, this process cannot know."""
    reason = f"the action {effect.reference} is not there any more to undo it"
    if undo is None:
        name = f"undo {effect.action}"
        undo = new_undo(attempt, name, effect.reference, "at_most_once", effect.arguments, effect, position)
        undo.state, undo.reason = "held", reason
        await store_held(attempt, undo, effect)
    else:
        undo.state, undo.reason = "held", reason
        await save_effect(attempt, undo)
    await attempt.hold(f"{undo.action}: {reason}")


async def opened(attempt: Attempt, way: Action[..., Any], undo: Effect, undone: Effect) -> Effect:
    """Policy is asked here too. What it does not allow waits for a person: the run cannot go on without an answer."""
    answer = await store_intent(attempt, way, undo, undoes=undone)
    if isinstance(answer, Decision):
        undo.state, undo.reason = "held", f"{answer.rule}: {answer.reason}"
        answer = await store_intent(attempt, way, undo, judged=True, undoes=undone)
    return answer if isinstance(answer, Effect) else undo


def way_back(action: Action[..., Any], undo: Callable[..., Any]) -> Action[..., Any]:
    """How an action is undone: by its `undo=`, which is an action itself or is treated as the one that it undoes would be.
    There is no `find` for a plain function: whether it was done, nobody can look up.
    """
    options, name = action.options, f"undo {action.name}"
    if isinstance(undo, Action):
        return Undo(undo.function, replace(undo.options, name=name, undo=None), undo)
    safety = "at_most_once" if options.safety == "reconcile" else options.safety
    plain = replace(options, name=name, safety=safety, find=None, checks=(), undo=None)
    return Undo(undo, plain, undo)


class Undo(Action[..., Any]):
    """The action that undoes another one. `declared` is what the user wrote."""

    def __init__(self, function: Any, options: ActionOptions, declared: Any) -> None:
        super().__init__(function, options)
        self.declared = declared


def arguments_to_undo(action: Action[..., Any], way: Action[..., Any], effect: Effect) -> str:
    """Those of what is undone; and its result, if the undo takes it."""
    if not takes_result(way.signature, action.signature):
        return effect.arguments
    stored = from_json(effect.arguments)
    keywords = stored.pop()["**"] if stored and isinstance(stored[-1], dict) and "**" in stored[-1] else {}
    result = None if effect.result is None else from_json(effect.result)
    return to_json([*stored, {"**": {**keywords, "result": result}}]).decode()


def told(undone: Sequence[str], left: Sequence[str], without: Sequence[str]) -> str:
    """What became of the effects: "; undone: charge; not undone (no undo declared): email"."""
    parts = [("undone", undone), ("not undone", left), ("not undone (no undo declared)", without)]
    return "".join(f"; {words}: {', '.join(names)}" for words, names in parts if names)
