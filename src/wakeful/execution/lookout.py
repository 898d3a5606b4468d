"""The lookout: one slow look at everything, as a safety net under all words of other processes.

    NOTIFY, a timer, a commit of our own ──► the part that is concerned, at once
    the lookout, every few seconds       ──► the parts for which there is something to do, and no others

Without it each part would have to look for itself: with 60 agents that was 27 queries a second in a process that did nothing.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from wakeful.clock import SECOND
from wakeful.service import Service
from wakeful.stores.glance import Glance

EVERY = 5.0


class Lookout(Service):
    """Looks, and hands what it saw to those who are to act on it."""

    name = "lookout"

    def __init__(
        self,
        look: Callable[[], Awaitable[Glance]],
        acts: Sequence[Callable[[Glance], None]],
        *,
        then: Callable[[], Awaitable[None]] | None = None,
        every: float | None = None,
    ) -> None:
        """`then` is what else is done at every look, such as words that several parts say in one transaction."""
        super().__init__()
        self._look = look
        self._acts = acts
        self._then = then
        self._every = EVERY if every is None else every
        self._rested = False

    async def run_once(self) -> float | None:
        """One look. Processes that were started together do not look together; and at the start all parts look for themselves."""
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
    """Is it due before the next look?"""
    return wait is not None and wait <= EVERY * SECOND
