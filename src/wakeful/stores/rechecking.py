"""Rechecks waits that were registered while events were being accepted, on PostgreSQL.

The two transactions do not see each other: the accepting one does not find the wait, and the registering one does not find the event.
So each registration is checked once more after every transaction that was in flight at the time has ended. Until then the wait is
marked, and if this process dies, another process does the check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wakeful.clock import SECOND, Microseconds
from wakeful.service import Service
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.waits import LookAgain

LOOK_FOR_OTHERS_EVERY = 300.0  # in addition to the lookout, which looks every few seconds
LEFT_BEHIND_AFTER: Microseconds = 10 * SECOND
FIRST_REST = 0.002
LONGEST_REST = 5.0


class WaitRechecker(Service):
    """Rechecks new waits until no transaction from before their registration is in flight."""

    name = "waits"

    def __init__(self, app: str, database: Fetcher, submit: Callable[[LookAgain], Any], matches: Matches) -> None:
        super().__init__()
        self._app = app
        self._database = database
        self._submit = submit
        self._matches = matches
        self._new: set[int] = set()  # runs registered since the last check
        self._pending: dict[int, int] = {}  # by run: wait until every transaction below this number has ended
        self._rest = FIRST_REST

    def registered(self, run: int) -> None:
        """A run of this process has just registered waits."""
        self._new.add(run)
        self.wake()

    async def run_once(self) -> float | None:
        """Check all pending waits, and unmark those for which this was the last check."""
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
        self._rest = min(self._rest * 2, LONGEST_REST)  # back off: a transaction takes long
        return self._rest

    async def _adopt(self) -> None:
        """Take over the waits of a process that died right after it had registered them."""
        rows = await self._database.fetch("waits_to_recheck", self._database.read_clock(), self._app, LEFT_BEHIND_AFTER)
        self._new |= {row[0] for row in rows}
