"""Several branches at once: all their values, or an outcome for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wakeful.errors import Persistent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """One item of `run.map(..., partial=True)`: its value, or the error it ended with."""

    value: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


async def each(
    step: Callable[..., Awaitable[Any]],
    function: Callable[..., Any],
    items: Iterable[Any],
    *,
    limit: int,
    partial: bool,
) -> list[Any]:
    """Run a step for each item, at most `limit` at a time."""
    if limit < 1:
        message = f"run.map: limit must be at least 1, not {limit}"
        raise Persistent(message)
    room = asyncio.Semaphore(limit)
    failed = False

    async def one(item: Any) -> Any:
        nonlocal failed
        async with room:
            if failed and not partial:
                raise asyncio.CancelledError  # the error is on its way to the caller: start no further item
            try:
                return await step(function, item)
            except Exception:
                failed = True
                raise

    return await gather_all([asyncio.ensure_future(one(item)) for item in items], partial=partial)


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
