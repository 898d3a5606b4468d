"""Turns changes of rows into events: each change becomes one event for each form in which triggers want it.

A change for which an event cannot be made (a `data=` that fails, a payload that is not JSON) is kept in quarantine, so that it can be
released after a fix; the other changes go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from wakeful.cel import Match
from wakeful.connect.rows.change import Operation, RowChange
from wakeful.errors import InvalidEvent
from wakeful.model import Event
from wakeful.triggers.source import Batch, SourceTrouble, Unreadable


class RowSelection(Protocol):
    """The changes of a table that a trigger wants, and how they become events: see rows.py and outbox.py."""

    @property
    def table(self) -> str: ...

    @property
    def operations(self) -> tuple[Operation, ...]: ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it needs; None: any."""
        ...

    @property
    def delete(self) -> bool:
        """Whether rows of the table itself are to be deleted once they are stored."""
        ...

    @property
    def type(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def where(self) -> str | None: ...

    @property
    def place(self) -> str: ...

    def takes(self, change: RowChange) -> bool: ...

    def event(self, change: RowChange) -> Event: ...

    def matches(self, event: Event) -> Match: ...

    def describe(self) -> str: ...


class RowEvents:
    """Makes the events for all tables of one database."""

    def __init__(self, parts: Sequence[RowSelection]) -> None:
        self.parts = list(parts)
        # Selections with one source want the same form: one event for all of them.
        self._alike: dict[str, dict[str, list[RowSelection]]] = {}
        for part in parts:
            self._alike.setdefault(part.table, {}).setdefault(part.source, []).append(part)

    @property
    def tables(self) -> list[str]:
        return list(self._alike)

    def operations(self, table: str) -> tuple[Operation, ...]:
        """The operations of a table that have to be watched."""
        wanted = {one for alike in self._alike[table].values() for part in alike for one in part.operations}
        return tuple(sorted(wanted, key=("insert", "update", "delete").index))

    def needed(self, table: str) -> list[str]:
        """The columns that some trigger names."""
        parts = (part for alike in self._alike[table].values() for part in alike)
        return sorted({column for part in parts for column in part.columns or ()})

    def deletes(self, change: RowChange) -> bool:
        """Whether the row itself is to be deleted once it is stored."""
        return any(
            part.delete and part.takes(change) for alike in self._alike.get(change.table, {}).values() for part in alike
        )

    def tell(self, change: RowChange, batch: Batch) -> None:
        for source, alike in self._alike.get(change.table, {}).items():
            part = next((one for one in alike if one.takes(change)), None)
            if part is None:
                continue
            try:
                batch.events.append(part.event(change))
            except InvalidEvent as error:
                headers = {"source": source, "table": change.table, "change": change.position}
                batch.unreadable.append(Unreadable(to_json(asdict(change)), str(error), headers))

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        """The events of a change for which no event could be made before."""
        try:
            change = RowChange(**from_json(raw))
        except (ValueError, TypeError) as error:
            message = f"the input in quarantine is not a change of a row: {error}: discard it"
            raise SourceTrouble(message) from error
        told = self._alike.get(change.table, {})
        named = headers.get("source")
        alike = [told[named]] if named in told else list(told.values())
        parts = [part for one in alike if (part := next((part for part in one if part.takes(change)), None))]
        if not parts:
            message = f"no agent wants changes of table {change.table} any more: discard it"
            raise SourceTrouble(message)
        return [part.event(change) for part in parts]


def changed_columns(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The columns that an update changed. Columns that only one of the rows has were added or dropped since."""
    return [name for name, value in new.items() if name in old and not _same(old[name], value)]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def one_each(parts: Iterable[RowSelection]) -> list[RowSelection]:
    """The parts without duplicates."""
    found: list[RowSelection] = []
    for part in parts:
        if part not in found:
            found.append(part)
    return found
