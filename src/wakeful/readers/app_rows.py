"""The apps that have to do with a store, and what waits in each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from wakeful.clock import Microseconds, to_text
from wakeful.model import OWN_AGENTS
from wakeful.stores.transaction import Row

PAGE = 200


class Database(Protocol):
    """What reading needs of a database."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...
    def read_clock(self) -> Microseconds | None: ...


def counted(rows: list[Row]) -> dict[str, int]:
    return {row[0]: row[1] for row in rows}


class AppReader:
    """Answers questions about apps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, known: Mapping[str, set[str]]) -> list[dict[str, Any]]:
        """Each app, with what it waits for. `known`: their names, and the agents that they loaded or that have run."""
        fetch = self._database.fetch
        workers = counted(await fetch("workers_of_apps", self._database.read_clock()))
        schedules, alarms = counted(await fetch("schedules_of_apps")), counted(await fetch("alarms_of_apps"))
        retired = await self.retired()
        listed = []
        for app in sorted(known.keys() | retired.keys()):
            runs = {state: count for state, count in await fetch("unfinished_of_app", app) if count}
            gone = retired.get(app)
            listed.append(
                {
                    "app": app,
                    "state": "retired" if gone is not None else "alive" if workers.get(app) else "down",
                    "workers": workers.get(app, 0),
                    "agents": sorted(one for one in known.get(app, ()) if not one.startswith(OWN_AGENTS)),
                    "schedules": schedules.get(app, 0),
                    "runs": runs,
                    "alarms": alarms.get(app, 0),
                    "retired": gone,
                }
            )
        return listed

    async def retired(self) -> dict[str, dict[str, Any]]:
        """Who retired which app, when and why."""
        return {
            app: {"at": to_text(at), "by": by, "note": note}
            for app, at, by, note in await self._database.fetch("list_retired")
        }

    async def workers(self, app: str) -> int:
        """How many live processes serve it."""
        return counted(await self._database.fetch("workers_of_apps", self._database.read_clock())).get(app, 0)

    async def unfinished(self, app: str) -> dict[str, int]:
        """How many of its runs are not over, or need a person, by state."""
        return {state: count for state, count in await self._database.fetch("unfinished_of_app", app) if count}

    async def runs_to_close(self, app: str) -> AsyncIterator[list[str]]:
        """The ids of runs that are not over, page by page."""
        async for page in self._pages("runs_to_close", app):
            yield page

    async def messages_to_close(self, app: str) -> AsyncIterator[list[str]]:
        """The ids of messages that wait for their channel, page by page."""
        async for page in self._pages("messages_to_close", app):
            yield page

    async def alarms_to_close(self, app: str) -> list[str]:
        return [row[0] for row in await self._database.fetch("alarms_to_close", app)]

    async def _pages(self, query: str, app: str) -> AsyncIterator[list[str]]:
        after = 0
        while rows := await self._database.fetch(query, app, after, PAGE):
            after = rows[-1][0]
            yield [row[1] for row in rows]
