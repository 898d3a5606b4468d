"""What a transaction is made of: a verb yields queries, and the database answers each with its rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from wakeful.clock import Microseconds

Row = Sequence[Any]
R = TypeVar("R")


class Fetcher(Protocol):
    """Reads the rows of named queries: a database, as all functions that read take it."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...

    def read_clock(self) -> Microseconds | None:
        """The time for a query's `:now`; None if the database uses its own clock."""
        ...


@dataclass(slots=True)
class Call:
    """Instead of a query: run the user's function on the database inside this transaction, under a savepoint."""

    function: Callable[[Any], Any]
    cause: str | None = None  # the mark to leave beside what it writes


@dataclass(slots=True)
class Count:
    """A query of which only the number of rows that it wrote is asked. Cheaper where rows come back one by one."""

    name: str
    rows: Sequence[Row]


# What a verb is: it yields (query name, rows of parameters), is sent the rows that came back, and returns its results.
# Written so, the same code serves a database that is called from a thread and one that is awaited.
Transaction = Generator[tuple[str, Sequence[Row]] | Count | Call, Any, R]
