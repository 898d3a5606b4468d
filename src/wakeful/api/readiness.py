"""The health of the store, queried at most once a second regardless of the number of callers.

/readyz is open to unauthenticated callers. Without this cache, a thousand requests would be a thousand queries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from wakeful.errors import SchemaMismatch, StoreUnavailable

READY_WITHIN = 5.0
FRESH_FOR = 1.0

# The answer of the store, or the error.
Health = dict[str, Any] | SchemaMismatch | StoreUnavailable | TimeoutError


Ask = Callable[[], Awaitable[dict[str, Any]]]


class Readiness:
    """Caches the health of a store. Callers that arrive during a query share its answer."""

    def __init__(
        self, health: Ask, ready_within: float = READY_WITHIN, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._health = health
        self._ready_within = ready_within
        self._now = now
        self._last: tuple[float, Health] | None = None
        self._asking: asyncio.Task[Health] | None = None

    async def ask(self) -> Health:
        if self._last is not None and self._now() - self._last[0] < FRESH_FOR:
            return self._last[1]
        asking = self._asking
        if asking is None or asking.done() or asking.get_loop() is not asyncio.get_running_loop():
            asking = self._asking = asyncio.create_task(self._look(), name="wakeful-readiness")
        # Shielded: a caller that disconnects must not cancel a query that others wait for.
        return await asyncio.shield(asking)

    async def _look(self) -> Health:
        health: Health
        try:
            async with asyncio.timeout(self._ready_within):
                health = await self._health()
        except (SchemaMismatch, StoreUnavailable, TimeoutError) as error:
            health = error.with_traceback(None)
        self._last = (self._now(), health)
        return health
