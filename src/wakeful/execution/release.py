"""After the commit: what a run staged is done, one after the other, in the order in which it was staged.

The run stays claimed meanwhile, so everything that holds for an effect holds here too: its fence, its retries, its
settlement after a crash, a person's word. A process that dies in between is followed by one that finds the run committed
and goes on with what is left; the handler does not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeful.execution.actions import find_action
from wakeful.execution.business_key import key_of
from wakeful.execution.effects import EffectCall, open_staged
from wakeful.execution.once import OnceCall

if TYPE_CHECKING:
    from wakeful.execution.run import Run

OVER = frozenset({"confirmed", "abandoned", "undone"})


async def release(run: Run) -> None:
    """Everything that is left. Ends the attempt by `run.hold` where a person is needed."""
    for effect in run.staged_effects():
        if effect.state in OVER:
            continue
        if run.to_stop is not None:
            raise run.to_stop
        action = run.outgoing.actions.get(effect.id) or find_action(effect.reference, run.app)
        if action is None:
            effect.state, effect.reason = "held", f"the action {effect.reference} is not there any more"
            await run.save_effect(effect)
            await run.hold(f"{effect.action}: {effect.reason}")
            return
        if effect.once is None and action.options.once is not None and effect.state == "staged":
            effect.once = key_of(action, effect.arguments)  # the commit that staged it stores the arguments only
        if effect.state == "staged":
            effect = await open_staged(run, action, effect)
            if effect.state in OVER:
                continue
        await (EffectCall if effect.once is None else OnceCall)(run, action, effect).reach()
