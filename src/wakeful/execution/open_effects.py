"""Effects that an earlier attempt left open: settled before the handler runs again."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.execution.actions import find_action
from wakeful.execution.approving import no_longer_wanted
from wakeful.execution.attempt import Attempt
from wakeful.execution.effects import OPEN_STATES, EffectCall, save_effect
from wakeful.model import Effect
from wakeful.stored_errors import words_of


async def settle_open(attempt: Attempt, effects: Sequence[Effect], *, only: bool = False) -> None:
    """Settle the effects that earlier attempts left open, one after the other, in the order in which they began."""
    for effect in effects:
        if effect.state == "held":
            await attempt.hold(f"{effect.action}: {effect.reason}")
        if effect.state == "waiting" and effect.id in attempt.ledger.asked:
            await no_longer_wanted(attempt, effect, "the handler stopped waiting for it")
        if effect.state not in OPEN_STATES:
            continue
        action = find_action(effect.reference, attempt.app)
        if action is None:
            effect.state, effect.reason = (
                "held",
                f"the action {effect.reference}, which would settle it, no longer exists",
            )
            await save_effect(attempt, effect)
            await attempt.hold(f"{effect.action}: {effect.reason}")
            return
        try:
            await EffectCall(attempt, action, effect).settle(only=only)
        except Exception as error:
            if effect.state != "failed":
                raise
            # stored as failed: the handler gets the error when it asks for the effect
            attempt.log.warning("an open effect failed", action=effect.action, error=words_of(error))
