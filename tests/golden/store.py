"""The frozen store: its moment, its rows, and the copies that tests work on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, ClassVar

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


class Trail:
    """What is recorded in a store about who changed what, from a moment on."""

    QUERIES: ClassVar[dict[str, str]] = {
        "operation": "select seq, app, operator, verb, target, detail from wakeful_operation where seq > ? order by seq",
        "remedy": """select m.seq, r.id, m.verb, m.operator, m.note, m.data from wakeful_remedy m
                       join wakeful_run r on r.seq = m.run_seq where m.seq > ? order by m.seq""",
        "change of schedule": """select c.seq, s.name, c.verb, c.operator, c.note, c.revision from wakeful_schedule_change c
                       join wakeful_schedule s on s.seq = c.schedule_seq where c.seq > ? order by c.seq""",
    }

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = {name: max((row[0] for row in self._ask(name, 0)), default=0) for name in self.QUERIES}

    def _ask(self, name: str, after: int) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            return list(connection.execute(self.QUERIES[name], (after,)))

    def rows(self) -> list[list[object]]:
        """Each with the kind of record that it is, without its number."""
        return [[name, *row[1:]] for name in self.QUERIES for row in self._ask(name, self._last[name])]
