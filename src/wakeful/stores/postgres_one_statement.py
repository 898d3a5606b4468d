"""Transactions that are one statement on PostgreSQL: one round trip instead of four or six.

The generator is told in advance that all goes well: the fence holds, every row is written, every event is new. If that turns out
wrong, the whole transaction is done again, the long way. Nothing is lost by that: rows that were written are written again the same,
and rows that must not be written were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from wakeful.stores.payloads import Codec
from wakeful.stores.postgres_arrays import array, arrays
from wakeful.stores.transaction import Call, Count, Row, Transaction

R = TypeVar("R")

# How many new events go into one statement: it joins them by their place, each with each.
MOST_AT_ONCE = 128
# Queries that exist together with the fence as one statement.
FENCED = {"save_step": "save_step_fenced", "finish_well": "finish_well_fenced"}


@dataclass(slots=True)
class OneStatement:
    """A whole transaction in one statement. If it wrote `count` rows, all went well, and `result` is the result."""

    statement: tuple[Any, ...]
    count: int
    result: Any


class OneStatements:
    """Makes one statement of a transaction, if it can be one. `bulk`: the bulk queries, and whether each takes the time first."""

    def __init__(self, queries: Mapping[str, str], codec: Codec, bulk: Mapping[str, bool]) -> None:
        self._queries = queries
        self._codec = codec
        self._bulk = bulk

    def columns(self, name: str, rows: Sequence[Row]) -> list[Any]:
        """The parameters of a bulk query."""
        columns = list(zip(*rows, strict=True))
        if self._bulk[name]:  # `now` comes first, and is the same for all
            return [columns[0][0], *map(array, columns[1:])]
        return list(map(array, columns))

    def of(self, now: int | None, transaction: Callable[[int | None], Transaction[R]]) -> OneStatement | None:
        """The transaction as one statement; None if it cannot be one."""
        generator = transaction(now)
        try:
            first: Any = next(generator)
            if isinstance(first, Count | Call):
                return None
            if first[0] == "fence" and len(first[1]) == 1:
                return self._fenced(now, generator, process=first[1][0][1])
            if first[0] == "insert_event":
                return self._accepted(now, generator, first[1])
        except StopIteration:
            return None
        finally:
            generator.close()
        return None

    def _fenced(self, now: int | None, generator: Transaction[Any], *, process: str) -> OneStatement | None:
        """A fence and one query after it."""
        operation: Any = generator.send([(process, True)])
        if not isinstance(operation, Count) or operation.name not in FENCED or not operation.rows:
            return None
        rows, blobs = self._codec.encode(operation.name, operation.rows)
        if blobs:  # blobs are a statement of their own
            return None
        try:
            generator.send(len(operation.rows))
        except StopIteration as stop:
            columns = self.columns(operation.name, rows)
            if self._bulk[operation.name]:
                columns = columns[1:]
            statement = (self._queries[FENCED[operation.name]], now, array((process,)), *columns)
            return OneStatement(statement, len(operation.rows), stop.value)
        return None

    def _accepted(self, now: int | None, generator: Transaction[Any], events: Sequence[Row]) -> OneStatement | None:
        """New events, with their admissions and runs. Until an event has a number, its place is used instead."""
        keys = [row[1] for row in events]
        if not 0 < len(keys) <= MOST_AT_ONCE or len(set(keys)) < len(keys):
            return None
        given: dict[str, Sequence[Row]] = {
            "insert_admission": (),
            "insert_run": (),
            "any_wait": (),  # none, or the statement fails
            "notify": ((None,),),
        }
        try:
            operation: Any = generator.send([(key, place) for place, key in enumerate(keys, start=1)])
            while not isinstance(operation, Count | Call) and operation[0] in given:
                given[operation[0]] = operation[1]
                operation = generator.send([])
        except StopIteration as stop:
            runs = [(row[5], row[1], row[2], row[3], row[4], row[6]) for row in given["insert_run"]]
            events, blobs = self._codec.encode("insert_event", events)
            if self._codec.binds and any(row[4] is not None for row in given["insert_admission"]):
                return None  # a reason is bound to the event's number, which is not known yet
            admissions, _ = self._codec.encode("insert_admission", given["insert_admission"])
            if blobs:
                return None
            statement = (
                self._queries["accept_new"],
                now,
                len(keys),
                given["notify"][0][0],
                *arrays([row[1:] for row in events], 10),
                *arrays(admissions, 5),
                *arrays(runs, 6),
            )
            return OneStatement(statement, 1, stop.value)
        return None
