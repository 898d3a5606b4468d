"""Polling for conditions that send no notification."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 50.0
LOOK_EVERY = 0.01


async def until(holds: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Wait until a condition holds: a row, a file, the state of a process. Sync or async; returns its value."""
    async with asyncio.timeout(within):
        while True:
            value = holds()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            await asyncio.sleep(LOOK_EVERY)
