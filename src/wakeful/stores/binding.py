"""Which row a payload is bound to: its ciphertext opens only in that row and column.

    writing   the query's parameters name the row: table, column, and the parts of one of the table's names
    reading   the query returns the parts of all names of the row in front of the payload; the sealed text says which
              name it was bound to

A row has several names because the writer does not always know the same one: an event has no number before it is stored, a
finished run is known by its number, and a text written to several rows at once is bound to a name that these rows share. The
letter of a name is stored with each payload, so its meaning never changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SEPARATOR: Final = "\x1f"
"""Separates the parts of a row's names from each other and from the payload."""

# Numbers, and ids that Wakeful makes. All other parts are users' texts, which may contain any character.
_NUMBERS: Final = frozenset({"seq", "run_seq", "event_seq", "schedule_seq", "from_at", "token"})
_OUR_OWN: Final = frozenset({"id", "root"})
MESSAGE_OF_ERROR: Final = "error.message"
_KEY_OF_EVENT = "(select bound.key from wakeful_event bound where bound.seq = {row}.event_seq)"


@dataclass(frozen=True, slots=True)
class Name:
    """One way to name a row of a table: a letter, and the parameters that it takes."""

    letter: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """The names of one table's rows, the most specific first."""

    table: str
    names: tuple[Name, ...]
    parts: tuple[str, ...]  # of all names, in the order in which a query returns them
    places: Mapping[str, tuple[int, ...]]  # by letter: the indexes of the name's parts
    expressions: Mapping[str, str]  # for parts that are not columns of the table

    def sql(self, row: str, others: Mapping[str, str] | None = None) -> str:
        """SQL for the parts of a row's names, to stand in front of a payload."""
        return "".join(f"{self._part(part, row, others or {})} || '{SEPARATOR}' || " for part in self.parts)

    def _part(self, part: str, row: str, others: Mapping[str, str]) -> str:
        column = others.get(part) or self.expressions.get(part, f"{row}.{part}").replace("{row}", row)
        if part in _NUMBERS:
            return f"coalesce(cast({column} as text), '')"
        return column if part in _OUR_OWN else f"replace(coalesce({column}, ''), '{SEPARATOR}', '')"


def _binding(table: str, *names: str, **expressions: str) -> Binding:
    made = [Name(one[0], tuple(one[1:].split())) for one in names]
    parts = tuple(dict.fromkeys(part for name in made for part in name.parts))
    places = {name.letter: tuple(parts.index(part) for part in name.parts) for name in made}
    return Binding(table, tuple(made), parts, places, expressions)


BINDINGS: Final = {
    binding.table: binding
    for binding in (
        _binding("event", "k key app"),
        _binding("run", "i id", "s seq", "a app"),
        _binding("step", "s run_seq key"),
        _binding("effect", "a id app", "i id", "r root"),
        _binding("delivery", "a id app", "i id", "s seq", "r run_seq"),
        _binding("remedy", "v run_seq verb operator"),
        _binding("approval", "a id app", "i id", "r run_seq"),
        _binding("vote", "v approval voter"),
        _binding("wait", "s run_seq key"),
        _binding("attempt", "t run_seq token"),
        _binding("conflict", "c event_seq content"),
        _binding("admission", "e event_seq agent", "t"),
        _binding("decision", "e event_seq run_seq agent rule", "r run_seq agent rule"),
        _binding("operation", "v app operator verb target"),
        _binding("state", "k app agent key"),
        _binding("schedule", "n app name", "s seq"),
        _binding("occurrence", "s schedule_seq from_at", "r run"),
        _binding("schedule_change", "v schedule_seq verb operator"),
        _binding("quarantine", "k key app", key=_KEY_OF_EVENT),
        _binding("source", "n app name"),
        _binding("alarm", "k key"),
        _binding("circuit", "n app name"),
        _binding("pause", "n app agent"),
        _binding("halt", "n app agent action"),
        _binding("grant", "i id"),
        _binding("retired", "n app"),
    )
}


@dataclass(frozen=True, slots=True)
class PayloadParameter:
    """A payload among a query's parameters: its index, and the place that it is bound to."""

    place: int
    parameter: str
    table: str
    column: str
    letter: str
    row: tuple[int, ...]  # the indexes of the parameters that name the row


@dataclass(frozen=True, slots=True)
class PayloadColumn:
    """A payload among the columns that a query returns: its index, its table and its column."""

    place: int
    table: str
    column: str
    parts: int  # the number of name parts in front of it


def named_by(binding: Binding, letter: str, values: Sequence[str]) -> str | None:
    """The name of a row by a letter, made from the parts that a query returned; None if the table has no such name."""
    places = binding.places.get(letter)
    return None if places is None else SEPARATOR.join([values[place] for place in places])


_LITERAL = re.compile(r"'(?:[^']|'')*'|\"where\"|--[^\n]*")
_TYPE = re.compile(r"\bas\s+\w+(?=\s*[\[\])])")
_WORD = re.compile(r"[(),]|[$?:]?\b[a-z_]\w*\b")
_EXTRACTS = re.compile(r"(?:json_extract\(.*'\$\.|->> ')(\w+)'")
_WRITES = re.compile(r"\b(?:insert into|update)\s+wakeful_(\w+)")
_TABLE = re.compile(r"\b(?:from|join|update|insert into)\s+wakeful_(\w+)(?:\s+(?:as\s+)?([a-z]\w*))?")
_FROM = re.compile(
    r"\b(?:from|join|update|insert into)\s+(?:lateral\s+)?(?:wakeful_(\w+)(?:\s+(?:as\s+)?([a-z]\w*))?|\()"
)
_DERIVED = re.compile(r"\)\s+(?:as\s+)?([a-z]\w*)")
_NO_NAMES = frozenset(
    [
        "set",
        "where",
        "on",
        "order",
        "group",
        "limit",
        "join",
        "left",
        "cross",
        "returning",
        "values",
        "select",
        "union",
        "for",
        "inner",
        "using",
        "as",
    ]
)
_SAME_EVENT = re.compile(r"\bevent\.seq = (run|wakeful_run)\.event_seq\b")


def written_table(sql: str) -> str | None:
    """The table that a statement writes to."""
    found = _WRITES.search(_plain(sql))
    return None if found is None else found[1]


def written_column(sql: str, parameter: str, columns: Sequence[str]) -> str:
    """The column that a parameter is written to when their names differ: `cancel_note = :note`."""
    if parameter in columns:
        return parameter
    found = re.search(rf"\b(\w+) = :{parameter}\b", sql)
    return parameter if found is None else found[1]


def bound_parameters(
    sql: str, parameters: Sequence[str], payloads: Sequence[tuple[int, str]], columns: Mapping[str, Sequence[str]]
) -> tuple[PayloadParameter, ...]:
    """The payloads among a query's parameters, each bound to the most specific row name that the other parameters provide."""
    table = written_table(sql)
    if table is None or not payloads:
        return ()
    name = next(one for one in BINDINGS[table].names if all(part in parameters for part in one.parts))
    row = tuple(parameters.index(part) for part in name.parts)
    return tuple(
        PayloadParameter(place, parameter, table, written_column(sql, parameter, columns[table]), name.letter, row)
        for place, parameter in payloads
    )


def bound_columns(sql: str, columns: Mapping[str, Sequence[str]]) -> tuple[str, tuple[PayloadColumn, ...]]:
    """The statement, changed to return each payload's row names in front of it, and the columns that are payloads."""
    plain = _plain(sql)
    payloads = {column for found in columns.values() for column in found}
    changes: list[tuple[int, str]] = []
    found: list[PayloadColumn] = []
    for spans in _answers(plain):
        first = not found
        for place, (start, end) in enumerate(spans):
            extracts = _EXTRACTS.search(sql, start, end)
            for match in re.finditer(r"(?:\b(\w+)\.)?\b([a-z_]+)\b(?!\s+is\b|\s*\(|\.)", plain[start:end]):
                if match[2] not in payloads:
                    continue
                at = start + match.start()
                table, row = _table_at(plain, at, match[1])
                if table not in columns or match[2] not in columns[table]:
                    continue
                column = match[2]
                if extracts is not None:  # an error: its class is readable, its message is sealed separately
                    if extracts[1] != "message":
                        continue
                    at, column = start, MESSAGE_OF_ERROR
                others = _events_app(plain, at) if table == "event" else None
                changes.append((at, f" {BINDINGS[table].sql(row, others)}"))
                if first:
                    found.append(PayloadColumn(place, table, column, len(BINDINGS[table].parts)))
    for at, text in sorted(changes, reverse=True):
        sql = sql[:at] + text + sql[at:]
    return sql, tuple(found)


def _plain(sql: str) -> str:
    """A statement in lower case with blanks instead of literals and types, so that positions stay the same."""
    lower = _LITERAL.sub(lambda match: " " * len(match[0]), sql).lower()
    return _TYPE.sub(lambda match: " " * len(match[0]), lower)


def _answers(plain: str) -> list[list[tuple[int, int]]]:
    """The spans of a statement's result columns; one list for each select of a union."""
    answers: list[list[tuple[int, int]]] = []
    depth, inside, updating, start = 0, False, False, 0
    for match in _WORD.finditer(plain):
        word = match[0]
        if word in "()":
            depth += 1 if word == "(" else -1
            continue
        if depth:
            continue
        if word in {"insert", "update", "delete"}:
            updating = True
        if word == "returning" or (word == "select" and not updating):
            answers.append([])
            inside, start = True, match.end()
        elif inside and word == ",":
            answers[-1].append((start, match.start()))
            start = match.end()
        elif inside and word in {"from", "union", "order", "where"} and not updating:
            answers[-1].append((start, match.start()))
            inside = False
    if inside:
        answers[-1].append((start, len(plain)))
    return answers


def _table_at(plain: str, at: int, named: str | None) -> tuple[str, str]:
    """The table of the column at this position, and its alias: from the innermost select, else from the whole statement."""
    whole = plain if named is not None else _select_around(plain, at) or plain
    names: dict[str, str] = {}
    outermost: list[str] = []
    depth, last = 0, 0
    for match in _FROM.finditer(whole):
        depth += whole.count("(", last, match.start()) - whole.count(")", last, match.start())
        last = match.start()
        table, name = match[1], match[2]
        if table is None:  # a derived table: use the table that its select reads
            end = _end_of(whole, match.end() - 1)
            inner, after = _read_by(whole[match.end() : end]), _DERIVED.match(whole, end)
            if inner is None or after is None:
                continue
            table, name = inner, after[1]
        elif not name or name in _NO_NAMES:
            name = f"wakeful_{table}"
        if name not in names or depth == 0:
            names[name] = table
        if depth == 0:
            outermost.append(name)
    name = named or next(iter(outermost), "")
    return names.get(name, ""), name


def _read_by(select: str) -> str | None:
    """The first table that a select reads directly, not in a subquery."""
    for match in _TABLE.finditer(select):
        if select.count("(", 0, match.start()) == select.count(")", 0, match.start()):
            return match[1]
    return None


def _select_around(plain: str, at: int) -> str | None:
    """The parenthesised select that contains this position."""
    depth = 0
    for start in range(at - 1, -1, -1):
        if plain[start] == ")":
            depth += 1
        elif plain[start] == "(":
            if depth:
                depth -= 1
            elif plain[start + 1 :].lstrip().startswith("select"):
                return plain[start + 1 : _end_of(plain, start)]
    return None


def _end_of(plain: str, start: int) -> int:
    depth = 0
    for end in range(start, len(plain)):
        depth += {"(": 1, ")": -1}.get(plain[end], 0)
        if depth == 0:
            return end
    return len(plain)


def _events_app(plain: str, at: int) -> dict[str, str] | None:
    """A claimed run's envelope is bound to the run's app, so a run that was moved to another app cannot open it."""
    group = _select_around(plain, at)
    found = None if group is None else _SAME_EVENT.search(group)
    return None if found is None else {"app": f"{found[1]}.app"}
