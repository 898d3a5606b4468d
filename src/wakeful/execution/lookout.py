"""The lookout: one slow look at everything, as a safety net under the notifications of other processes.

    NOTIFY, a timer, a commit of our own ──► the part concerned, at once
    the lookout, every few seconds       ──► only the parts that have something to do

Without it each part would have to look for itself: with 60 agents that was 27 queries a second in an idle process.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from wakeful.clock import SECOND
from wakeful.service import Service
from wakeful.stores.glance import Glance

EVERY = 5.0


class Lookout(Service):
    """Looks, and passes what it saw to the parts that act on it."""

    name = "lookout"

    def __init__(
        self,
        look: Callable[[], Awaitable[Glance]],
        acts: Sequence[Callable[[Glance], None]],
        *,
        then: Callable[[], Awaitable[None]] | None = None,
        every: float | None = None,
    ) -> None:
        """`then` runs at every look, such as reports of several parts in one transaction."""
        super().__init__()
        self._look = look
        self._acts = acts
        self._then = then
        self._every = EVERY if every is None else every
        self._rested = False

    async def run_once(self) -> float | None:
        """One look. The first comes after a random rest, so that processes started together do not look together."""
        if not self._rested:
            self._rested = True
            return self._every * random.uniform(0.5, 1.0)
        seen = await self._look()
        for act in self._acts:
            act(seen)
        if self._then is not None:
            await self._then()
        return self._every


def is_soon(wait: int | None) -> bool:
    """Whether it is due before the next look."""
    return wait is not None and wait <= EVERY * SECOND
