"""The reaper: detects dead processes and makes their runs ready again. It never executes anything. It also reports how
many processes are left to share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from wakeful.clock import Microseconds, seconds
from wakeful.errors import StoreUnavailable
from wakeful.service import Service
from wakeful.stores.verbs.processes import BuryProcess, TakeOver, other_processes, peers_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

AFTER_AN_OUTAGE = 3.0
LOOK_AGAIN_AFTER = 0.5


class Reaper(Service):
    """Looks for processes whose lease expired, or whose file lock is free."""

    name = "reaper"

    def __init__(
        self,
        store: DatabaseStore,
        own: Callable[[], str],
        *,
        every: float = 5.0,
        app: str = "",
        on_peers: Callable[[dict[str, int]], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._app = app
        self._on_peers = on_peers
        self._store = store
        self._own = own
        self._every = every
        self._store_was_gone = False
        self._tried: set[str] = set()
        self._counted: tuple[str, frozenset[str]] | None = (
            None  # for which process the peers were counted, and who was alive
        )

    async def run_once(self) -> float | None:
        """Bury dead processes, and rest until the next lease could expire.

        After an outage of the store, leases have expired because they could not be renewed. Processes that are alive
        renew them now: wait for that before counting any of them as dead.
        """
        rest = self._every
        try:
            others = await other_processes(self._store.database, self._own())
        except StoreUnavailable:
            self._store_was_gone = True
            raise
        patient, self._store_was_gone = self._store_was_gone, False
        await self._end_sessions({process: left for process, left, _ in others})
        for process, left, certain in others:
            if not certain and left > 0:
                rest = min(rest, seconds(left) + 0.02)
                continue
            if patient and not certain:
                rest = min(rest, AFTER_AN_OUTAGE)
                continue
            self._tried.add(process)
            rest = min(rest, LOOK_AGAIN_AFTER)
            count = await self._store.do(BuryProcess(process, certain=certain))
            if count:
                self.log.warning("a process died; its runs are ready again", process=process, runs=count)
        await self._count_peers(frozenset(process for process, left, certain in others if left > 0 and not certain))
        return rest

    async def _count_peers(self, alive: frozenset[str]) -> None:
        """Count only when processes came or went: the agents of a process do not change after it joined."""
        if (self._own(), alive) != self._counted:
            self._on_peers(await peers_of(self._store.database, self._app, self._own()))
            self._counted = (self._own(), alive)

    async def take_over(self, gone: Collection[tuple[str, int]]) -> None:
        """Other processes are no longer connected, by the locks they held: take over what can be, before their leases
        expire.
        """
        for process, guard in gone:
            try:
                count = await self._store.do(TakeOver(process, guard))
            except StoreUnavailable:
                return  # the next look tries again
            if count:
                self.log.warning(
                    "a process is no longer connected; its runs are ready again, except those with calls that may be in flight",
                    process=process,
                    runs=count,
                )

    async def _end_sessions(self, alive: dict[str, Microseconds]) -> None:
        """End the sessions of processes that were to be buried at the last look. Their locks block others: on events,
        or on their own lease, which is why they were skipped. Not if a process has renewed its lease since.
        """
        tried, self._tried = self._tried, set()
        for process in tried:
            if alive.get(process, 0) <= 0:
                await self._store.database.end_sessions(process)
