"""The archive of one app: runs are written to it in full before housekeeping removes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wakeful.archive import append_to_day
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Doer
from wakeful.stores.verbs.alarms import ResolveAlarms
from wakeful.stores.verbs.keeping import Family

WholeRuns = Callable[[Sequence[str]], Awaitable[Sequence[Mapping[str, Any] | None]]]  # by their ids, many at once


class Archive:
    """Files in a folder, one for each day."""

    def __init__(
        self,
        app: str,
        folder: Path,
        reads: ReadsDatabase,
        whole_runs: WholeRuns,
        store: Doer,
        alarm: Callable[[str, str], None],
    ) -> None:
        self._key = f"archive/{app}"
        self._folder = folder
        self._reads = reads
        self._whole_runs = whole_runs
        self._store = store
        self._alarm = alarm
        self._alarmed = True  # an earlier process may have raised the alarm

    async def write(self, families: Sequence[Family]) -> None:
        """Append runs; they are on disk when this returns."""
        found = await self._whole_runs([run for family in families for run, _ in sorted(family.runs)])
        runs = [run for run in found if run is not None]
        if runs:
            await asyncio.to_thread(append_to_day, self._folder, runs, await self._reads.time())
            if self._alarmed:
                await self._store.do(ResolveAlarms([self._key]))
                self._alarmed = False

    def note_trouble(self, text: str) -> None:
        """Raise the alarm that the archive cannot be written."""
        self._alarmed = True
        self._alarm(self._key, text)
