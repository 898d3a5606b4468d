"""The elements of a transaction: a verb yields queries, and the database sends back the rows of each."""

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
    """Instead of a query: call the user's function with the database inside this transaction, under a savepoint."""

    function: Callable[[Any], Any]
    cause: str | None = None  # the mark to store with the rows that it writes


@dataclass(slots=True)
class Count:
    """A query of which only the number of written rows is needed. Cheaper where rows come back one by one."""

    name: str
    rows: Sequence[Row]


# A verb yields (query name, rows of parameters), is sent the rows that came back, and returns its results.
# As a generator, the same code serves a database that is called from a thread and one that is awaited.
Transaction = Generator[tuple[str, Sequence[Row]] | Count | Call, Any, R]
