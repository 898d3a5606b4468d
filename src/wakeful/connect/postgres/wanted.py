"""Which changes of which tables are wanted, by which triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic_core import to_json

from wakeful.connect.rows.change import Operation, RowChange
from wakeful.model import Event
from wakeful.secrets import Secret
from wakeful.triggers.source import Unreadable

CHANGE = "change"


class WantedRows(Protocol):
    """A selection of changes of a table, and how they become events: Rows, or something like it."""

    @property
    def table(self) -> str: ...

    @property
    def operations(self) -> tuple[Operation, ...]: ...

    @property
    def source(self) -> str: ...

    def takes(self, change: RowChange) -> bool: ...

    def event(self, change: RowChange) -> Event: ...


class ReplicatedTrigger(Protocol):
    """A trigger that is read by replication."""

    @property
    def rows(self) -> Any: ...

    @property
    def address(self) -> str: ...

    @property
    def place(self) -> str: ...

    @property
    def dsn(self) -> Secret: ...

    @property
    def slot(self) -> str | None: ...

    @property
    def publication(self) -> str | None: ...


def wanted_by_table(rows: Sequence[WantedRows]) -> dict[str, list[list[WantedRows]]]:
    """Selections by table, and there grouped by source: one event serves a whole group."""
    tables: dict[str, dict[str, list[WantedRows]]] = {}
    for one in rows:
        tables.setdefault(one.table, {}).setdefault(one.source, []).append(one)
    return {table: list(groups.values()) for table, groups in tables.items()}


def told_again(change: RowChange, by_table: Mapping[str, list[list[WantedRows]]], source: str | None) -> list[Event]:
    """The events of a change for which no event could be made before. If a corrected `data=` has a new name, the change goes to
    all triggers that want such changes.
    """
    groups = by_table.get(change.table, [])
    named = [group for group in groups if group[0].source == source]
    wanted = (next((one for one in group if one.takes(change)), None) for group in named or groups)
    return [one.event(change) for one in wanted if one is not None]


def kept(change: RowChange, wanted: WantedRows, reason: str) -> Unreadable:
    """A change for which no event could be made, kept so that it can be made after a fix."""
    fields = {**change.data(), "position": change.position, "committed_at": change.committed_at, "cause": change.cause}
    return Unreadable(to_json(fields), reason, {"what": CHANGE, "source": wanted.source})
