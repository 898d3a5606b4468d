"""Analyses the statements of a PostgreSQL migration: which table each one locks, how, and for how long.

Two kinds of statements are slow on a large table but need not block other sessions: an index is built `concurrently`, and a check is
added `not valid` and validated later, while others read and write. Both run after the transaction of the file. So a migration is written
as plain SQL and split here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Work = Literal["moment", "index", "scan", "rows", "unknown"]

_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1|;", re.DOTALL)
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(r"  +")
# A SQLite trigger contains statements of its own, up to its `end`.
_IN_TRIGGER = re.compile(r"\s*create trigger\b(?!.*\bend\s*$)", re.IGNORECASE | re.DOTALL)
_QUOTES = frozenset("'\"$")
_NAME = r'"?([\w.]+)"?'
_CREATE_TABLE = re.compile(rf"create table (?:if not exists )?{_NAME}", re.IGNORECASE)
_CREATE_INDEX = re.compile(rf"create (unique )?index (?:if not exists )?{_NAME} on {_NAME}", re.IGNORECASE)
_ALTER_TABLE = re.compile(rf"alter table (?:only )?(?:if exists )?{_NAME} (.*)", re.IGNORECASE | re.DOTALL)
_ADD_CHECK = re.compile(rf"add constraint {_NAME} check\b", re.IGNORECASE)
_DROP = re.compile(rf"drop (index|table|view|sequence) (?:if exists )?{_NAME}", re.IGNORECASE)
_ROWS = re.compile(rf"(?:insert into|update|delete from) {_NAME}", re.IGNORECASE)
_QUICK = re.compile(
    r"(add column (?!.*(\b(generated|references|unique|primary)\b|default \w+\())|alter column \w+ (set|drop) default|alter column \w+ drop not null|"
    r"drop column|drop constraint|rename )",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, and how it blocks others while it runs."""

    sql: str
    table: str | None = None  # the table that it locks; None: none that others use
    lock: str | None = None
    work: Work = "moment"
    later: bool = False  # runs after the transaction, outside of it
    index: str | None = None  # the index that it builds later
    makes: str | None = None  # the table that it creates


def split(script: str) -> list[str]:
    """The statements of a script, without comments, each on one line. Quoted text stays as it is."""
    statements = [""]
    start = 0
    for token in _TOKEN.finditer(script):
        statements[-1] += _SPACE.sub(" ", script[start : token.start()])
        start = token.end()
        if token[0] == ";":
            if _IN_TRIGGER.match(statements[-1]):
                statements[-1] += ";"
            else:
                statements.append("")
        else:
            statements[-1] += " " if token[0].startswith(("--", "/*")) else token[0]
    statements[-1] += _SPACE.sub(" ", script[start:])
    return [
        _SPACES.sub(" ", one.strip()) if _QUOTES.isdisjoint(one) else one.strip() for one in statements if one.strip()
    ]


def read(script: str, made: Collection[str] = ()) -> list[Statement]:
    """The statements of a migration in the form in which they run. `made`: tables created before, which no session uses yet."""
    new = set(made)
    found: list[Statement] = []
    for sql in split(script):
        for statement in _understood(sql, new):
            found.append(statement)
            if statement.makes:
                new.add(statement.makes)
    return found


def _understood(sql: str, new: set[str]) -> list[Statement]:
    if match := _CREATE_TABLE.match(sql):
        return [Statement(sql, makes=match[1])]
    if match := _CREATE_INDEX.match(sql):
        if match[3] in new:
            return [Statement(sql)]
        rest = sql[match.end() :]
        concurrently = f"create {match[1] or ''}index concurrently if not exists {match[2]} on {match[3]}{rest}"
        return [Statement(concurrently, match[3], "SHARE UPDATE EXCLUSIVE", "index", later=True, index=match[2])]
    if match := _ALTER_TABLE.match(sql):
        return [Statement(sql)] if match[1] in new else _altered(sql, match[1], match[2])
    if match := _DROP.match(sql):
        return [Statement(sql, match[2], "ACCESS EXCLUSIVE")]
    if match := _ROWS.match(sql):
        return [Statement(sql)] if match[1] in new else [Statement(sql, match[1], "ROW EXCLUSIVE", "rows")]
    return [Statement(sql, work="unknown")]


def _altered(sql: str, table: str, what: str) -> list[Statement]:
    if match := _ADD_CHECK.match(what):
        validate = f"alter table {table} validate constraint {match[1]}"
        return [
            Statement(f"{sql} not valid", table, "ACCESS EXCLUSIVE"),
            Statement(validate, table, "SHARE UPDATE EXCLUSIVE", "scan", later=True),
        ]
    if what.lower().startswith("set ("):
        return [Statement(sql, table, "SHARE UPDATE EXCLUSIVE")]
    return [Statement(sql, table, "ACCESS EXCLUSIVE", "moment" if _QUICK.match(what) else "scan")]
