"""A word among the runs of one process: a lock may be free now. Those of other processes look again by themselves."""

from __future__ import annotations

import asyncio


class LockNews:
    """Who in this process waits for a lock to be let go."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def listen(self) -> asyncio.Future[None]:
        """Done with the next word. To be asked for before one looks, so that no word is missed in between."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(heard)
        heard.add_done_callback(self._waiting.discard)
        return heard

    def tell(self) -> None:
        """Some lock was let go."""
        for heard in list(self._waiting):
            wake(heard)


def wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
