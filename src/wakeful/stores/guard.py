"""Refuses transaction control in a user's function inside `run.transaction`."""

from __future__ import annotations

import re
from typing import Any

from wakeful.errors import Persistent

NOT_YOURS = "Wakeful controls the transaction and commits it when the function returns"
# Quoted parts and comments do not count as statements: strings, identifiers, PostgreSQL's $tag$…$tag$.
_QUOTED = re.compile(
    r"(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|/\*.*?\*/|--[^\n]*",
    re.DOTALL,
)
_CONTROL = re.compile(
    r"(begin|commit|end|rollback|abort|start\s+transaction|prepare\s+transaction)(\s+(work|transaction|immediate|exclusive|and)\b.*)?"
    r"|(savepoint|release|rollback\s+to|attach|detach|pragma|vacuum)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_ASKING = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval", "fetchmany", "cursor", "prepare"})


def refuse_transaction_control(sql: str, *, trigger_bodies: bool = False) -> None:
    """Raise Persistent if one of the text's statements is COMMIT, ROLLBACK or similar.

    `trigger_bodies`: CREATE TRIGGER contains statements of its own up to an END, as on SQLite.
    """
    statements = _QUOTED.sub(" ", sql).split(";")
    if trigger_bodies and statements[0].lower().split()[:1] == ["create"]:
        return
    for statement in statements:
        if _CONTROL.fullmatch(statement.strip()):
            message = f"{statement.split()[0].upper()} inside run.transaction: {NOT_YOURS}"
            raise Persistent(message)


class GuardedPostgres:
    """An asyncpg connection that runs statements but cannot control the transaction around them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def unguarded(self) -> Any:
        """For Wakeful's own statements inside the transaction."""
        return self._connection

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _ASKING:
            return found

        def ask(sql: str, *arguments: Any, **keywords: Any) -> Any:
            refuse_transaction_control(sql)
            return found(sql, *arguments, **keywords)

        return ask
