"""Shared by all triggers on rows: table, operations, columns and a condition.

table=        "orders", or "sales.orders"
operations=   "insert", "update", "delete", or several of them; default: all
columns=      only these are in the event, and an update that changes none of them is not an event
where=        CEL over the event: "data.new.total > 100"
data=         replaces the data that the agent gets: see mapping.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from wakeful.cel import Condition, Match, compile_condition
from wakeful.connect.rows.causes import stamp
from wakeful.connect.rows.change import OPERATIONS, Operation, RowChange, event_of, type_of
from wakeful.errors import ConfigError, did_you_mean
from wakeful.intake.route import type_matcher
from wakeful.model import Event, digest
from wakeful.triggers.mapping import Mapping, apply_mapping, name_of_mapping, read_mapping


def read_operations(given: str | Sequence[str] | None, *, where: str) -> tuple[Operation, ...]:
    """`operations=` in the order of OPERATIONS."""
    named = OPERATIONS if given is None else (given,) if isinstance(given, str) else tuple(given)
    for one in named:
        if one not in OPERATIONS:
            message = f'{where}: operations: unknown operation "{one}".{did_you_mean(str(one), OPERATIONS)}'
            raise ConfigError(message)
    if not named:
        message = f'{where}: operations is empty: name "insert", "update" or "delete", or leave it out for all'
        raise ConfigError(message)
    return tuple(one for one in OPERATIONS if one in named)


@dataclass(frozen=True, slots=True)
class Rows:
    """The changes of a table that a trigger wants. The trigger matches events with it; the reader makes events with it."""

    database: str  # "postgres", "sqlite"
    table: str
    operations: tuple[Operation, ...]
    columns: tuple[str, ...] | None
    where: str | None
    data: Mapping | None
    place: str  # where the table is, without secrets: HOST:PORT/DATABASE, or a path
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)
    _mapping: Callable[[Event], Any] | None = field(init=False, repr=False, compare=False)
    _source: str = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True
    delete: ClassVar[bool] = False  # the rows belong to the application

    def __post_init__(self) -> None:
        shown = f"{self.database}_changes(table={self.table!r})"
        if not isinstance(cast("object", self.table), str) or not self.table.strip():
            message = f'{self.database}_changes: table must be the name of a table, like "orders", not {self.table!r}'
            raise ConfigError(message)
        if self.columns is not None and (isinstance(cast("object", self.columns), str) or not self.columns):
            message = f'{shown}: columns must be names of columns, like ["status", "total"], not {self.columns!r}'
            raise ConfigError(message)
        condition = None if self.where is None else compile_condition(self.where, where=shown)
        object.__setattr__(self, "_fits", type_matcher(self.type))
        object.__setattr__(self, "_condition", condition)
        object.__setattr__(self, "_mapping", read_mapping(self.data, where=shown))
        source = f"/{self.database}/{self.place}/{self.table}"
        if self.columns is not None or self.data is not None:
            source = f"{source}#{digest(repr(self.columns), name_of_mapping(self.data), size=4)}"
        object.__setattr__(self, "_source", source)

    @property
    def type(self) -> str:
        if len(self.operations) == 1:
            return type_of(self.database, self.table, self.operations[0])
        return type_of(self.database, self.table, "*")

    @property
    def source(self) -> str:
        """The source of its events. Triggers that want the same form share events; others have events of their own."""
        return self._source

    def takes(self, change: RowChange) -> bool:
        """Whether an event is to be made of the change. Conditions are evaluated later, on the event, so that `why` can show them."""
        if change.operation not in self.operations:
            return False
        if change.operation != "update" or self.columns is None or change.changed is None:
            return True
        return not set(self.columns).isdisjoint(change.changed)

    def event(self, change: RowChange) -> Event:
        """The event, with only the wanted columns, in the wanted form. Raises InvalidEvent if it cannot be made."""
        event = event_of(
            change if self.columns is None else self._only(change), database=self.database, source=self.source
        )
        apply_mapping(self._mapping, event)
        stamp(event, change.cause)
        return event

    def matches(self, event: Event) -> Match:
        if not self._fits(event.type) or event.type.rpartition(".")[2] not in self.operations:
            return Match(matched=False, reason=f'type "{event.type}" is not one of {", ".join(self.operations)}')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)

    def describe(self) -> str:
        parts = [f'table="{self.table}"']
        if self.operations != OPERATIONS:
            parts.append(f"operations={list(self.operations)}")
        if self.columns is not None:
            parts.append(f"columns={list(self.columns)}")
        if self.where is not None:
            parts.append(f'where="{self.where}"')
        return f"{self.database}_changes({', '.join(parts)})"

    def _only(self, change: RowChange) -> RowChange:
        told = set(self.columns or ())

        def cut(row: dict[str, Any] | None) -> dict[str, Any] | None:
            return None if row is None else {name: value for name, value in row.items() if name in told}

        changed = None if change.changed is None else [name for name in change.changed if name in told]
        return RowChange(
            change.table,
            change.operation,
            change.position,
            change.key,
            cut(change.new),
            cut(change.old),
            changed,
            change.committed_at,
            change.cause,
            change.forms,
        )
