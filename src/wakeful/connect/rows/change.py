"""One change of one row, from any database, and the event that it becomes.

type      postgres.orders.insert · sqlite.orders.update · postgres.sales.orders.delete (a schema other than public)
source    where the table is, and which selection of its changes: /postgres/HOST:PORT/DATABASE/orders
id        the position in the database's own log: the same however often it is read
data      {"operation", "table", "key": {…}, "new": {…} | null, "old": {…} | null, "changed": [columns] | null}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from wakeful.clock import Microseconds, to_datetime
from wakeful.model import Event

Operation = Literal["insert", "update", "delete"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
# json: an already parsed document, so a text in it is a text. bytes: base64.
Form = Literal["json", "bytes"]


@dataclass(slots=True)
class RowChange:
    """A row before and after. `old` contains as much as the database reports, often only the key or nothing."""

    table: str  # "orders", "sales.orders"
    operation: Operation
    position: str
    key: dict[str, Any]
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    changed: list[str] | None = None  # columns that an update changed; None: unknown
    committed_at: Microseconds | None = None
    cause: str | None = None  # the mark that the writing run left: see policy/loops.py
    forms: dict[str, Form] = field(default_factory=dict)  # of columns whose JSON value stands for another type

    def data(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "table": self.table,
            "key": self.key,
            "new": self.new,
            "old": self.old,
            "changed": self.changed,
        }


def type_of(database: str, table: str, operation: str) -> str:
    return f"{database}.{table}.{operation}"


def event_of(change: RowChange, *, database: str, source: str) -> Event:
    """The event of a change. Its subject is the row: table and key."""
    subject = "/".join([change.table, *(str(value) for value in change.key.values())])
    return Event(
        source,
        change.position,
        type_of(database, change.table, change.operation),
        change.data(),
        subject=subject[:1_000],
        time=None if change.committed_at is None else to_datetime(change.committed_at),
    )
