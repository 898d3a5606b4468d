"""postgres_changes: rows that change in a PostgreSQL database wake an agent.

    postgres_changes(env("SHOP"), table="orders", operations="insert", where="data.new.total > 100")

    via="replication"   reads the server's own log: see reader.py
    via="triggers"      where replication is not permitted: triggers write to a table: see tables.py

The table is in schema `public`, or named as `schema.table`. Names are written as in the database, case-sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

from wakeful.connect.postgres.pgoutput import PUBLIC
from wakeful.connect.rows.on_rows import OnRows
from wakeful.connect.rows.rows import Rows, read_operations
from wakeful.errors import ConfigError, did_you_mean
from wakeful.secrets import Env, Secret, reveal
from wakeful.triggers.mapping import Mapping
from wakeful.triggers.options import refuse_unknown_options
from wakeful.triggers.source import Context, Reader

# The module of each way of reading, loaded when it is needed.
WAYS = {"replication": "wakeful.connect.postgres.reader", "triggers": "wakeful.connect.postgres.tables"}


class Way(Protocol):
    """The functions of a module in WAYS."""

    def reader(self, triggers: Sequence[PostgresChanges], context: Context) -> Reader: ...

    async def problems(self, trigger: PostgresChanges) -> list[str]: ...


@dataclass(frozen=True, slots=True, repr=False)
class PostgresChanges(OnRows):
    """Changes of one table of a PostgreSQL database."""

    dsn: Secret
    via: str
    slot: str | None
    publication: str | None

    @property
    def place(self) -> str:
        return self.rows.place

    @property
    def shared(self) -> tuple[object, ...]:
        return ("postgres", self.via, self.rows.place, self.slot, self.publication)

    @property
    def address(self) -> str:
        """With the password: use it only to connect."""
        return reveal(self.dsn, needed_by=self.describe())

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return self._way().reader(triggers, context)

    async def problems(self) -> list[str]:
        return await self._way().problems(self)

    def _way(self) -> Way:
        return cast("Way", import_module(WAYS[self.via]))

    def __repr__(self) -> str:
        return self.describe()


@refuse_unknown_options
def postgres_changes(
    dsn: Secret,
    *,
    table: str,
    operations: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    data: Mapping | None = None,
    via: str = "replication",
    slot: str | None = None,
    publication: str | None = None,
) -> PostgresChanges:
    """Wake an agent for rows that are inserted, updated or deleted. `dsn` is postgresql://user@host/database, or an env("…").

    All triggers of an app on one database are read together, through one slot. `slot` and `publication` override the names
    that Wakeful chooses.
    """
    shown = f"postgres_changes(table={table!r})"
    if via not in WAYS:
        message = f'{shown}: via="{via}": write "replication" or "triggers".{did_you_mean(str(via), WAYS)}'
        raise ConfigError(message)
    for option, name in (("slot", slot), ("publication", publication)):
        if name is not None and (not isinstance(cast("object", name), str) or not name):
            message = f"{shown}: {option} must be a name, not {name!r}"
            raise ConfigError(message)
    if slot is not None and not (slot.isascii() and slot.replace("_", "a").isalnum() and slot == slot.lower()):
        message = f"{shown}: slot={slot!r}: the name of a slot has only lower-case letters, digits and _"
        raise ConfigError(message)
    if isinstance(cast("object", table), str):
        table = table.removeprefix(f"{PUBLIC}.")
    given = columns if columns is None or isinstance(columns, str) else tuple(columns)
    rows = Rows(
        "postgres",
        table,
        read_operations(operations, where=shown),
        cast("tuple[str, ...] | None", given),
        where,
        data,
        place_of(dsn, where=shown),
    )
    return PostgresChanges(rows, dsn, via, slot, publication)


def place_of(dsn: Secret, *, where: str) -> str:
    """Where a database is, without secrets: HOST:PORT/DATABASE. For an environment variable it is the variable's name: its value is
    not read before it is needed.
    """
    if isinstance(dsn, Env):
        return dsn.name
    parts = urlsplit(dsn) if isinstance(cast("object", dsn), str) else None
    if parts is None or parts.scheme not in {"postgresql", "postgres"}:
        # The value may contain a password, so the message does not repeat it.
        message = (
            f'{where}: the address must be postgresql://user@host/database, or env("NAME") of a variable that holds one'
        )
        raise ConfigError(message)
    user, _, hosts = parts.netloc.rpartition("@")
    hosts = hosts or "localhost"
    port = "" if ":" in hosts.rpartition("]")[2] or "," in hosts else ":5432"
    database = unquote(parts.path.strip("/")) or unquote(user.partition(":")[0])
    return f"{hosts}{port}/{database}"
