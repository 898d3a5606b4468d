"""A store whose answers, or whose requests, pass through a test."""

from collections.abc import Awaitable, Callable
from typing import Any

from wakeful.stores.request import Request
from wakeful.stores.store import DatabaseStore

Rows = list[Any]


class Answering:
    """A store whose answers to one query pass through `then`."""

    def __init__(self, store: DatabaseStore, query: str, then: Callable[[Rows], Awaitable[Rows]]) -> None:
        self._store = store
        self.database = _Database(store.database, query, then)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Database:
    def __init__(self, database: Any, query: str, then: Callable[[Rows], Awaitable[Rows]]) -> None:
        self._database = database
        self._query = query
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch(self, name: str, *parameters: Any) -> Rows:
        rows = await self._database.fetch(name, *parameters)
        return await self._then(rows) if name == self._query else rows


def instead(
    store: DatabaseStore, kind: type[Request[Any]], act: Callable[[Any], Awaitable[Any]]
) -> Callable[[Any], Awaitable[Any]]:
    """A `do` for this store that hands requests of one class to `act`."""
    do = store.do

    async def doing(request: Any) -> Any:
        return await (act(request) if isinstance(request, kind) else do(request))

    return doing
