"""Which changes of which tables are wanted, and by which triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic_core import to_json

from wakeful.connect.rows.change import Operation, RowChange
from wakeful.model import Event
from wakeful.secrets import Secret
from wakeful.triggers.source import Unreadable

CHANGE = "change"


class Telling(Protocol):
    """What is to be told of a table, and how: Rows, or something like it."""

    @property
    def table(self) -> str: ...

    @property
    def operations(self) -> tuple[Operation, ...]: ...

    @property
    def source(self) -> str: ...

    def takes(self, change: RowChange) -> bool: ...

    def event(self, change: RowChange) -> Event: ...


class ReplicatedTrigger(Protocol):
    """A trigger that is read here."""

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


def tellings_of(rows: Sequence[Telling]) -> dict[str, list[list[Telling]]]:
    """By table, and there those together that tell the same: one event serves them all."""
    tables: dict[str, dict[str, list[Telling]]] = {}
    for one in rows:
        tables.setdefault(one.table, {}).setdefault(one.source, []).append(one)
    return {table: list(groups.values()) for table, groups in tables.items()}


def told_again(change: RowChange, tellings: Mapping[str, list[list[Telling]]], source: str | None) -> list[Event]:
    """The events of a change whose event could not be made before. A `data=` that was mended may go by another name: then it is
    for all that want such changes.
    """
    groups = tellings.get(change.table, [])
    named = [group for group in groups if group[0].source == source]
    wanted = (next((one for one in group if one.takes(change)), None) for group in named or groups)
    return [one.event(change) for one in wanted if one is not None]


def kept(change: RowChange, telling: Telling, reason: str) -> Unreadable:
    """A change whose event could not be made, so that it can be made after a fix."""
    fields = {**change.data(), "position": change.position, "committed_at": change.committed_at, "cause": change.cause}
    return Unreadable(to_json(fields), reason, {"what": CHANGE, "source": telling.source})
