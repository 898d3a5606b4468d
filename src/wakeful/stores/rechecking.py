"""Waits that were registered while events were being accepted, on PostgreSQL.

Neither sees the other then: an event that is being accepted does not find the wait, and whoever registers the wait does not
find the event. So each registration is looked at once more, when every transaction that was under way at the time has
ended. Until that is done the wait is marked, and if this process dies another one does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wakeful.clock import SECOND, Microseconds
from wakeful.service import Service
from wakeful.stores.transaction import Row
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.waits import LookAgain

LOOK_FOR_OTHERS_EVERY = 300.0  # beside the lookout, which looks every few seconds
LEFT_BEHIND_AFTER: Microseconds = 10 * SECOND
FIRST_REST = 0.002
LONGEST_REST = 5.0


class Snapshots(Protocol):
    """What is needed of the database."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...

    def read_clock(self) -> Microseconds | None: ...


class WaitRechecker(Service):
    """Looks again."""

    name = "waits"

    def __init__(self, app: str, database: Snapshots, submit: Callable[[LookAgain], Any], matches: Matches) -> None:
        super().__init__()
        self._app = app
        self._database = database
        self._submit = submit
        self._matches = matches
        self._new: set[int] = set()  # registered since the last look
        self._pending: dict[int, int] = {}  # until every transaction below this number has ended
        self._rest = FIRST_REST

    def registered(self, run: int) -> None:
        """A run of this process has just registered waits."""
        self._new.add(run)
        self.wake()

    async def run_once(self) -> float | None:
        """Look for all of them, and mark those for which this was the last look."""
        if not self._new and not self._pending:
            await self._adopt()
        if self._new:
            end = int((await self._database.fetch("snapshot_end"))[0][0])
            self._pending |= dict.fromkeys(self._new, end)
            self._new.clear()
        if not self._pending:
            return LOOK_FOR_OTHERS_EVERY
        begin = int((await self._database.fetch("snapshot_begin"))[0][0])
        rechecked = frozenset(run for run, end in self._pending.items() if begin >= end)
        await self._submit(LookAgain(sorted(self._pending), rechecked, self._matches))
        for run in rechecked:
            self._pending.pop(run, None)
        if self._new:
            self._rest = FIRST_REST
            return 0.0
        if not self._pending:
            self._rest = FIRST_REST
            return LOOK_FOR_OTHERS_EVERY
        self._rest = min(self._rest * 2, LONGEST_REST)  # somebody's transaction takes long
        return self._rest

    async def _adopt(self) -> None:
        """What a process left that died right after it had registered."""
        rows = await self._database.fetch("waits_to_recheck", self._database.read_clock(), self._app, LEFT_BEHIND_AFTER)
        self._new |= {row[0] for row in rows}
