"""Once per business key: `@action(once="arguments.invoice")`. An operation is identified by action and key, across
runs.

The first run that asks for it performs it. A second run gets its result. While the first is in flight the second waits:
a moment in place, then durably, and the end of the first wakes it. If the first was certainly not done, the next one in
line performs it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from wakeful.clock import SECOND, Microseconds, seconds
from wakeful.errors import KeyTaken
from wakeful.execution.effects import EffectCall
from wakeful.execution.intents import opened
from wakeful.execution.lock_news import wake
from wakeful.functions.retry import WAITS_IN_PLACE

# The end of the other run wakes the waiting one. It looks by itself only in case nothing ends: for example, when the
# run that had the key died before its call. The longer it waits, the less often it looks.
FIRST_LOOK: Microseconds = 5 * SECOND
LAST_LOOK: Microseconds = 300 * SECOND


class OnceCall(EffectCall):
    """An effect whose action has a business key: performs it, or follows the run that does."""

    async def reach(self) -> Any:
        while True:
            await self._follow()
            try:
                return await super().reach()
            except KeyTaken:  # not called so far, and another run has the key now
                self.effect.tries = 0
                await self._ask_again()

    async def _follow(self) -> None:
        """Wait until this effect has a result, or the key."""
        if not self._follows():
            return
        attempt = self._attempt
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = WAITS_IN_PLACE - (attempt.clock.now() - self.effect.opened_at)
        timer = attempt.surroundings.later(max(0.0, seconds(left)), partial(wake, over))
        try:
            while self._follows():
                heard = attempt.surroundings.once_news.listen()
                try:
                    await self._ask_again()  # after listen(), so that an end that comes now is noticed
                    if not self._follows():
                        return
                    if over.done():
                        await self._wait_durably()
                    else:
                        with attempt.resting():
                            await asyncio.wait({heard, over}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    heard.cancel()
        finally:
            timer.cancel()

    def _follows(self) -> bool:
        return self.effect.follows is not None and self.effect.state == "retrying"

    async def _wait_durably(self) -> None:
        attempt, effect = self._attempt, self.effect
        now = attempt.clock.now()
        attempt.ledger.follows[effect.id] = (effect.follows or "", effect.reason or "")
        await attempt.wait_for_effect(effect.id, now + min(max(FIRST_LOOK, (now - effect.opened_at) // 2), LAST_LOOK))
        attempt.ledger.follows.pop(effect.id, None)

    async def _ask_again(self) -> None:
        """Ask who has the key now. The answer is stored: this effect has it, or follows the effect that does."""
        self.effect.state, self.effect.reason, self.effect.attempt = "intent", None, self._attempt.number
        self.effect = self._attempt.ledger.enter(await opened(self._attempt, self._action, self.effect))
