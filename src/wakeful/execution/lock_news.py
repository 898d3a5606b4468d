"""Notifies the runs of one process that a lock may be free now. Runs of other processes look again by themselves."""

from __future__ import annotations

import asyncio


class LockNews:
    """The runs of this process that wait for a lock."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def listen(self) -> asyncio.Future[None]:
        """A future that the next notification completes. Call it before looking at the lock, so that none is missed in
        between.
        """
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(heard)
        heard.add_done_callback(self._waiting.discard)
        return heard

    def tell(self) -> None:
        """A lock was released: wake all waiting runs."""
        for heard in list(self._waiting):
            wake(heard)


def wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
