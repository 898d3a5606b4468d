"""Several branches at once: all of their values, or each one's own outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """One item of `run.map(..., partial=True)`: its value, or the error it ended with."""

    value: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


async def gather_all(tasks: list[asyncio.Future[Any]], *, partial: bool) -> list[Any]:
    try:
        if partial:
            done = await asyncio.gather(*tasks, return_exceptions=True)
            for value in done:
                if isinstance(value, BaseException) and not isinstance(value, Exception):
                    raise value
            return [Outcome(error=value) if isinstance(value, Exception) else Outcome(value=value) for value in done]
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
