"""After the commit: the run's staged effects are performed one after the other, in the order in which they were staged.

The run stays claimed meanwhile, so everything about effects holds here too: fence, retries, settlement after a crash,
and a person's decision. If the process dies in between, the next one finds the run committed and continues with the
rest; the handler does not run again.
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
    """Perform all staged effects, after the commit. The handler can make no more calls, but this may still be
    interrupted. Ends the attempt by `hold` if a person is needed.
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
            effect.state, effect.reason = "held", f"the action {effect.reference} no longer exists"
            await save_effect(attempt, effect)
            await attempt.hold(f"{effect.action}: {effect.reason}")
            return
        if effect.once is None and action.options.once is not None and effect.state == "staged":
            effect.once = key_of(action, effect.arguments)  # the commit that staged it stores only the arguments
        if effect.state == "staged":
            effect = await open_staged(attempt, action, effect)
            if effect.state in OVER:
                continue
        await (EffectCall if effect.once is None else OnceCall)(attempt, action, effect).reach()
