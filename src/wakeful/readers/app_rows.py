"""The apps that have to do with a store, and what waits in each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from wakeful.clock import to_text
from wakeful.stores.transaction import Fetcher

PAGE = 200


class AppReader:
    """Answers questions about apps."""

    def __init__(self, database: Fetcher) -> None:
        self._database = database

    async def retired(self) -> dict[str, dict[str, Any]]:
        """Who retired which app, when and why."""
        return {
            app: {"at": to_text(at), "by": by, "note": note}
            for app, at, by, note in await self._database.fetch("list_retired")
        }

    async def workers(self, app: str) -> int:
        """How many live processes serve it."""
        rows = await self._database.fetch("workers_of_apps", self._database.read_clock())
        return next((count for name, count in rows if name == app), 0)

    async def unfinished(self, app: str) -> dict[str, int]:
        """How many of its runs are not over, or need a person, by state."""
        return {state: count for state, count in await self._database.fetch("unfinished_of_app", app) if count}

    async def schedules_to_close(self, app: str) -> list[str]:
        """The names of its schedules that fire, or would if they were resumed."""
        return [row[0] for row in await self._database.fetch("schedules_to_close", app)]

    async def runs_to_close(self, app: str) -> AsyncIterator[list[str]]:
        """The ids of runs that are not over, page by page."""
        async for page in self._pages("runs_to_close", app):
            yield page

    async def deliveries_to_close(self, app: str) -> AsyncIterator[list[str]]:
        """The ids of messages that wait for their channel, page by page."""
        async for page in self._pages("deliveries_to_close", app):
            yield page

    async def alarms_to_close(self, app: str) -> list[str]:
        return [row[0] for row in await self._database.fetch("alarms_to_close", app)]

    async def _pages(self, query: str, app: str) -> AsyncIterator[list[str]]:
        after = 0
        while rows := await self._database.fetch(query, app, after, PAGE):
            after = rows[-1][0]
            yield [row[1] for row in rows]
