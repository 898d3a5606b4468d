"""Named queries: read from the .sql files once, shaped for one database.

    -- name(first, second) --          a heading: the name, and the parameters in the order they are handed over
    -- why it exists                   comments for people
    select … where x = :first          `:first` becomes ?1 on SQLite and $1 on PostgreSQL; {slots} are filled by dialect

A heading that ends in `bulk --` (PostgreSQL only) takes all rows in one statement, each parameter as an array of its
column; only `now` stays a single value. Arrays go over as text in PostgreSQL's own notation: the driver's encoder looks
at every element several times over, and that was a sixth of what a run cost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

_HEADING = re.compile(r"^-- (\w+)\(([^)]*)\)( bulk)? --$", re.MULTILINE)
_ARRAY = re.compile(r"cast\(:([a-z_]+) as (bigint|text)\[\]\)")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
# statement_timestamp() and not clock_timestamp(): the planner may use a stable value to enter an index, a volatile one
# it must compute per row, and a claim would then walk over every run that sleeps.
_POSTGRES_NOW = "coalesce(cast(:now as bigint), cast(extract(epoch from statement_timestamp()) * 1000000 as bigint))"
# What a claim tells of a run: the columns in the order in which `verbs/claim.py` reads them.
_CLAIMED = """seq, id, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at,
  (select envelope from wakeful_event event where event.seq = wakeful_run.event_seq), data,
  case when committed_at is not null then outcome end, key, gathered, version, parent_seq, parent_key, cancel_by, cancel_note,
  case when committed_at is not null and parent_seq is not null then output end"""
_SLOTS: dict[Dialect, dict[str, str]] = {
    "sqlite": {"{claimed}": _CLAIMED, "{now}": ":now", "{for_key_share}": "", "{for_update}": "", "{skip_locked}": ""},
    "postgres": {
        "{claimed}": _CLAIMED,
        "{now}": _POSTGRES_NOW,
        "{for_key_share}": "for key share",
        "{for_update}": "for update",
        "{skip_locked}": "for update skip locked",
    },
}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement, ready for its database, and the order of its parameters."""

    name: str
    parameters: tuple[str, ...]
    sql: str
    bulk: bool = False


@cache
def load_queries(dialect: Dialect) -> dict[str, Query]:
    """All queries of a database, by name."""
    folder = resources.files("wakeful.stores") / "sql"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    files = [name for name in names if not name.startswith("postgres")]
    files += [name for name in names if name.startswith("postgres") and dialect == "postgres"]
    found: dict[str, Query] = {}
    for file in files:
        for query in parse(folder.joinpath(file).read_text(encoding="utf-8"), dialect):
            found[query.name] = query
    return found


def parse(text: str, dialect: Dialect) -> list[Query]:
    """The queries of one file."""
    pieces = _HEADING.split(text)[1:]
    return [
        _shape(
            name, tuple(word.strip() for word in declared.split(",") if word.strip()), body, dialect, bulk=bool(bulk)
        )
        for name, declared, bulk, body in zip(pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=True)
    ]


def _shape(name: str, declared: tuple[str, ...], body: str, dialect: Dialect, *, bulk: bool) -> Query:
    sql = "\n".join(line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("--"))
    for slot, filling in _SLOTS[dialect].items():
        sql = sql.replace(slot, filling)
    if bulk:
        sql = _ARRAY.sub(r"cast(cast(:\1 as text) as \2[])", sql)
    used = set(_PARAMETER.findall(sql))
    if used != set(declared):
        message = f"query {name}: declares {sorted(declared)} and uses {sorted(used)}"
        raise ValueError(message)
    mark = "?" if dialect == "sqlite" else "$"
    numbers = {parameter: f"{mark}{number}" for number, parameter in enumerate(declared, start=1)}
    return Query(name, declared, _PARAMETER.sub(lambda match: numbers[match[1]], sql), bulk)
