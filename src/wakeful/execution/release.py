"""After the commit: what a run staged is done, one after the other, in the order in which it was staged.

The run stays claimed meanwhile, so everything that holds for an effect holds here too: its fence, its retries, its
settlement after a crash, a person's word. A process that dies in between is followed by one that finds the run committed
and goes on with what is left; the handler does not run again.
"""

from __future__ import annotations

from wakeful.errors import ClaimLost
from wakeful.execution.actions import find_action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import key_of
from wakeful.execution.effects import EffectCall, save_effect
from wakeful.execution.intents import open_staged
from wakeful.execution.once import OnceCall

OVER = frozenset({"confirmed", "abandoned", "undone"})


async def release(attempt: Attempt) -> None:
    """After the commit: everything that was staged. No call of the handler's is let in any more, but this may be
    interrupted. Ends the attempt by `hold` where a person is needed.
    """
    attempt.releasing = True
    attempt.active += 1
    try:
        await _release_all(attempt)
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    finally:
        attempt.releasing = False
        attempt.active -= 1


async def _release_all(attempt: Attempt) -> None:
    staged = attempt.outgoing.effects or attempt.ledger.staged()
    for effect in sorted(staged, key=lambda one: one.position):
        if effect.state in OVER:
            continue
        if attempt.to_stop is not None:
            raise attempt.to_stop
        action = attempt.outgoing.actions.get(effect.id) or find_action(effect.reference, attempt.app)
        if action is None:
            effect.state, effect.reason = "held", f"the action {effect.reference} is not there any more"
            await save_effect(attempt, effect)
            await attempt.hold(f"{effect.action}: {effect.reason}")
            return
        if effect.once is None and action.options.once is not None and effect.state == "staged":
            effect.once = key_of(action, effect.arguments)  # the commit that staged it stores the arguments only
        if effect.state == "staged":
            effect = await open_staged(attempt, action, effect)
            if effect.state in OVER:
                continue
        await (EffectCall if effect.once is None else OnceCall)(attempt, action, effect).reach()
