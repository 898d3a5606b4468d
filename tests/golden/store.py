"""The frozen store: its moment, its rows, and the copies that tests work on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from golden.freezing import frozen
from wakeful.cli import main

HERE = Path(__file__).parent
STORE_SQL = HERE / "store.sql"
PROJECT = HERE / "project"
NOW = 1_772_712_842_000_000  # 2026-03-05T12:14:02Z


def make_store(path: Path) -> None:
    """The frozen rows as a SQLite file, brought to the newest schema as a user does it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(STORE_SQL.read_text())
    settle_in(path)
    with frozen(NOW):
        assert main(["migrate", "--json", "--store", f"sqlite:///{path}"]) == 0


def settle_in(path: Path) -> None:
    """Let a file count as the original that it is a copy of: a copy is a story of its own, and is told."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("update wakeful_origin set identity = ?", (str(path.stat().st_ino),))
        connection.commit()


def audit(path: Path, after: int) -> list[tuple[object, ...]]:
    """Who changed what since a row of the audit, in the order in which it was done."""
    query = "select app, operator, verb, target, detail from wakeful_operation where seq > ? order by seq"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.execute(query, (after,)))


def last_operation(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("select coalesce(max(seq), 0) from wakeful_operation").fetchone()
        return int(found)


def value(path: Path, query: str, *parameters: object) -> str:
    """One value of the frozen store, like the id of a run."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        row = connection.execute(query, parameters).fetchone()
        assert row is not None, query
        return str(row[0])
