"""The change table of a SQLite file, and the triggers that fill it.

    insert, update, delete of a row ──(trigger, in the application's own transaction)──► wakeful_change ──► read, stored, deleted

A trigger is plain SQL that any SQLite understands, so the application that writes needs nothing of Wakeful. Each app has triggers and
rows of its own: rows that one app has read and deleted are still there for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_core import to_json

from wakeful.connect.rows.change import OPERATIONS, Operation
from wakeful.errors import did_you_mean
from wakeful.triggers.source import SourceTrouble

if TYPE_CHECKING:
    from wakeful.connect.rows.telling import RowEvents
    from wakeful.connect.sqlite.file import File

# mark: identifies a change wherever and however often it is read. key, old, new: SQL literals in the order of `shape`.
CHANGE_TABLE = [
    """
    create table if not exists wakeful_change (
      id integer primary key autoincrement, mark text not null, app text not null, table_name text not null,
      operation text not null, shape text not null, key text not null, old text, new text,
      changed_at integer not null, cause text)
    """,
    "create index if not exists wakeful_change_app on wakeful_change (app, id)",
    "create table if not exists wakeful_cause (cause text)",
]
ROW_NAMES = ("rowid", "_rowid_", "oid")
NOW = "cast((julianday('now') - 2440587.5) * 86400000000 as integer)"


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as its triggers see it: all columns, and those (or the name of the rowid) that identify a row."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def trigger(self, app: str, operation: Operation) -> str:
        """The whole statement: comparing its text shows whether it must be recreated. SQLite stores it with these first words."""
        row = "old" if operation == "delete" else "new"
        shape = to_json({"key": self.shown_key, "columns": self.columns}).decode()
        old = "null" if operation == "insert" else literals("old", self.columns)
        new = "null" if operation == "delete" else literals("new", self.columns)
        return (
            f"CREATE TRIGGER {name_of(app, self.table, operation)} after {operation} on {quoted(self.table)} begin "
            "insert into wakeful_change (mark, app, table_name, operation, shape, key, old, new, changed_at, cause) values ("
            f"lower(hex(randomblob(16))), {text(app)}, {text(self.table)}, {text(operation)}, {text(shape)}, "
            f"{literals(row, self.key)}, {old}, {new}, {NOW}, (select cause from wakeful_cause limit 1)); end"
        )

    @property
    def shown_key(self) -> tuple[str, ...]:
        """The key with its public name: the rowid is called rowid, also if it must be accessed by another name."""
        return self.key if set(self.key) <= set(self.columns) else ("rowid",)


def name_of(app: str, table: str, operation: str) -> str:
    return quoted(f"wakeful_{app}_{table}_{operation}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def literals(row: str, columns: Sequence[str]) -> str:
    """The values of a row as literals, joined by commas. Split in halves, because SQLite limits the depth of an expression."""
    if len(columns) == 1:
        return f"quote({row}.{quoted(columns[0])})"
    middle = len(columns) // 2
    return f"({literals(row, columns[:middle])}||','||{literals(row, columns[middle:])})"


def look(file: File, table: str, *, where: str, needed: Sequence[str] = ()) -> Shape:
    """The table as it is now. Raises SourceTrouble if it cannot be watched."""
    found = file.execute("select type, sql from sqlite_master where name = ? and type in ('table', 'view')", (table,))
    if not found:
        names = file.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
        known = [name for (name,) in names if not name.startswith("wakeful_")]
        message = f"{where}: there is no table {table}.{did_you_mean(table, known)} Retrying"
        raise SourceTrouble(message)
    ((kind, written),) = found
    if kind == "view" or (written or "").lower().startswith("create virtual"):
        what = "a view" if kind == "view" else "a virtual table"
        message = f"{where}: {table} is {what}, which triggers cannot watch: name the table that is written to"
        raise SourceTrouble(message)
    rows = list(
        file.execute("select name, pk, hidden from pragma_table_xinfo(?) where hidden <> 1 order by cid", (table,))
    )
    columns = tuple(name for name, _, _ in rows)
    for name in needed:
        if name not in columns:
            message = f'{where}: table {table} has no column "{name}".{did_you_mean(name, columns)}'
            raise SourceTrouble(message)
    key = tuple(name for name, place, _ in sorted(rows, key=lambda row: int(row[1])) if place)
    if not key:
        lower = {name.lower() for name in columns}
        key = tuple(name for name in ROW_NAMES if name not in lower)[:1]
    if not key:
        message = f"{where}: table {table} has no primary key, and columns hide its rowid: give it a primary key"
        raise SourceTrouble(message)
    return Shape(table, columns, key)


def wanted(file: File, app: str, row_events: RowEvents, *, where: str) -> tuple[dict[str, str], dict[str, str]]:
    """The triggers that should exist, by name; and the problems of tables that cannot have one."""
    found: dict[str, str] = {}
    faults: dict[str, str] = {}
    for table in row_events.tables:
        try:
            shape = look(file, table, where=where, needed=row_events.needed(table))
        except SourceTrouble as trouble:
            faults[table] = str(trouble)
            continue
        for operation in row_events.operations(table):
            found[f"wakeful_{app}_{table}_{operation}"] = shape.trigger(app, operation)
    return found, faults


def present(file: File, app: str) -> dict[str, str]:
    """The existing triggers of an app. The app is read from the statement, not from the name: names are ambiguous."""
    mine = f"values (lower(hex(randomblob(16))), {text(app)}, "
    rows = file.execute(
        "select name, sql from sqlite_master where type = 'trigger' and name like 'wakeful\\_%' escape '\\'"
    )
    return {name: sql for name, sql in rows if mine in (sql or "")}


def steps(file: File, app: str, row_events: RowEvents, *, where: str) -> tuple[list[str], dict[str, str]]:
    """The statements that bring the triggers up to date; and the problems by table. Raises SourceTrouble if no table can be
    watched.
    """
    should, faults = wanted(file, app, row_events, where=where)
    if not should:
        raise SourceTrouble("; ".join(faults.values()))
    are = present(file, app)
    # A column that a trigger needs may be missing for now: the SQL trigger stays, and its rows wait until the problem is fixed.
    spared = {f"wakeful_{app}_{table}_{operation}" for table in faults for operation in OPERATIONS}
    tables = {name for (name,) in file.execute("select name from sqlite_master where type = 'table'")}
    doing = [] if {"wakeful_change", "wakeful_cause"} <= tables else list(CHANGE_TABLE)
    doing += [
        f"drop trigger {quoted(name)}" for name, sql in are.items() if should.get(name) != sql and name not in spared
    ]
    doing += [sql for name, sql in should.items() if are.get(name) != sql]
    return doing, faults


def removal(file: File, app: str) -> list[str]:
    """The statements that remove everything of an app; also the tables, if no other app fills them."""
    mine = present(file, app)
    doing = [f"drop trigger {quoted(name)}" for name in mine]
    fills = "select name from sqlite_master where type = 'trigger' and sql like '%insert into wakeful_change %'"
    others = [name for (name,) in file.execute(fills) if name not in mine]
    tables = {name for (name,) in file.execute("select name from sqlite_master where type = 'table'")}
    if "wakeful_change" not in tables:
        return doing
    if others:
        return [*doing, f"delete from wakeful_change where app = {text(app)}"]
    return [*doing, "drop table wakeful_change", "drop table if exists wakeful_cause"]
