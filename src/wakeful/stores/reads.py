"""Reading by the names of queries: rows, the store's time, pages, ids and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.errors import NotFound
from wakeful.stores.database import Database
from wakeful.stores.transaction import Row

LONGEST_PAGE = 500
LONGEST_CURSOR = 18
LAST_CHARACTER = "\U0010ffff"
SHORTEST_PREFIX = 6
MANY_ALIKE = 6


class _Now:
    """Placeholder for the current time among the parameters of a query."""


NOW = _Now()


class ReadsDatabase:
    """Reads a database by the names of queries. Every method may raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def fetch(self, name: str, *parameters: Any) -> list[Row]:
        """The rows of a query. `NOW` among the parameters is the time that the database works with."""
        clock = self.database.read_clock
        return await self.database.fetch(name, *(clock() if one is NOW else one for one in parameters))

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]:
        """The rows of a query for each of some parameters, in one statement where the database can."""
        return await self.database.fetch_each(name, given)

    async def time(self) -> Microseconds:
        """The store's own time."""
        return int((await self.fetch("read_time", NOW))[0][0])


def several(identifier: str, kind: str, candidates: list[str]) -> NotFound:
    """The error for a prefix that several ids begin with."""
    more = ", …" if len(candidates) >= MANY_ALIKE else ""
    shown = ", ".join(candidates[: MANY_ALIKE - 1])
    return NotFound(f"{identifier} is the beginning of more than one {kind}'s id: {shown}{more}")


def json_of(text: str | None) -> Any:
    return from_json(text) if text else None


def shown(text: str | None) -> Any:
    """Stored arguments as JSON. Arguments are stored up to a length; if they were cut, the text is returned."""
    if text is None:
        return None
    try:
        return from_json(text)
    except ValueError:
        return text + "…"


def cursor_of(after: str | None) -> int | None:
    """The position that a page's cursor means. Raises ValueError for a text that is not a cursor."""
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= LONGEST_CURSOR):
        message = f"{after!r} is not a cursor: use `next` of the previous page"
        raise ValueError(message)
    return int(after)


def next_of(rows: list[Row], most: int) -> str | None:
    return str(rows[most - 1][0]) if len(rows) > most else None
