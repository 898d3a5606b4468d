"""Decodes logical replication: the messages of PostgreSQL's `pgoutput`, protocol version 1. Bytes in, values out; no connection here.

    Begin ─► (Relation | Insert, Update, Delete | Message | Truncate)* ─► Commit        whole transactions, in commit order

A table is described once, and again after it was altered; rows then refer to it by number. Values come as text and are converted by
the type of their column: see values.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wakeful.clock import Microseconds
from wakeful.connect.postgres.values import converter
from wakeful.connect.rows.change import Operation

EPOCH: Microseconds = 946_684_800_000_000  # PostgreSQL counts from the year 2000
PUBLIC = "public"

_BEGIN = struct.Struct("!QqI")
_COMMIT = struct.Struct("!BQQq")
_TEXT, _NULL, _UNCHANGED = b"tnu"
_IS_KEY = 1
_KEY, _OLD, _NEW = b"KON"


class Garbled(ValueError):
    """Bytes that are not a message, or that refer to a table that was never described."""


class PgBegin(NamedTuple):
    """The start of a transaction."""

    commit_lsn: int
    committed_at: Microseconds


class PgCommit(NamedTuple):
    """The end of a transaction. The next one begins at `end_lsn` or later."""

    commit_lsn: int
    end_lsn: int


class PgMessage(NamedTuple):
    """A message written with pg_logical_emit_message()."""

    prefix: str
    content: bytes
    transactional: bool


class PgTruncated(NamedTuple):
    """All rows of these tables were removed; no rows are sent."""

    tables: list[str]


@dataclass(frozen=True, slots=True)
class PgRelation:
    """A table as it was when the following rows were written."""

    number: int
    table: str  # "orders", "sales.orders"
    identity: str  # d: by its primary key, i: by an index, f: the whole row, n: nothing
    columns: tuple[tuple[str, Callable[[bytes], Any]], ...]
    key: tuple[str, ...]  # identifies a row
    marked: frozenset[str]  # columns of the old row that are sent when the key changed or the row is deleted


class PgRow(NamedTuple):
    """A row before and after. `old` is the whole row with replica identity FULL, else the key if it changed, else None."""

    relation: PgRelation
    operation: Operation
    new: dict[str, Any] | None
    old: dict[str, Any] | None
    changed: list[str] | None


Decoded = PgBegin | PgCommit | PgMessage | PgTruncated | PgRelation | PgRow | None


class Decoder:
    """Decodes one stream. It remembers the tables described in it."""

    def __init__(self, keys: Mapping[int, tuple[str, ...]] | None = None) -> None:
        """`keys` are the primary keys of tables: with FULL, PostgreSQL marks every column as part of the key."""
        self._keys = {} if keys is None else keys  # may grow later
        self._relations: dict[int, PgRelation] = {}

    def decode(self, data: bytes) -> Decoded:
        """The next message; None for one that is not about rows. Raises Garbled if it is invalid."""
        try:
            return self._decode(data)
        except Garbled:
            raise
        except (IndexError, KeyError, ValueError, struct.error, OverflowError) as error:
            message = f"a pgoutput message cannot be decoded ({type(error).__name__}: {error}): {bytes(data[:40])!r}…"
            raise Garbled(message) from error

    def _decode(self, data: bytes) -> Decoded:
        kind = data[:1]
        if kind == b"I":
            relation = self._relation_at(data, 1)
            expect(data[5] == _NEW)
            new, at, _ = read_row(data, 6, relation.columns)
            expect(at == len(data))
            return PgRow(relation, "insert", new, None, None)
        if kind == b"U":
            return self._update(data)
        if kind == b"D":
            relation = self._relation_at(data, 1)
            expect(data[5] in {_KEY, _OLD})
            old, at, _ = read_row(data, 6, relation.columns)
            expect(at == len(data))
            if data[5] == _KEY:
                old = {name: value for name, value in old.items() if name in relation.marked}
            return PgRow(relation, "delete", None, old, None)
        if kind == b"B":
            expect(len(data) == 1 + _BEGIN.size)
            commit_lsn, committed, _ = _BEGIN.unpack_from(data, 1)
            return PgBegin(commit_lsn, committed + EPOCH)
        if kind == b"C":
            expect(len(data) == 1 + _COMMIT.size)
            _, commit_lsn, end_lsn, _ = _COMMIT.unpack_from(data, 1)
            return PgCommit(commit_lsn, end_lsn)
        if kind == b"R":
            return self._describe(data)
        if kind == b"M":
            return read_message(data)
        if kind == b"T":
            return self._truncated(data)
        if kind in {b"O", b"Y"}:  # origin of the transaction; description of an extension's type
            return None
        message = f"pgoutput sent a message of unknown kind: {bytes(data[:40])!r}…"
        raise Garbled(message)

    def _update(self, data: bytes) -> PgRow:
        relation = self._relation_at(data, 1)
        at, told = 5, data[5]
        old: dict[str, Any] | None = None
        if told in {_KEY, _OLD}:
            old, at, _ = read_row(data, 6, relation.columns)
        expect(data[at] == _NEW)
        new, at, unchanged = read_row(data, at + 1, relation.columns)
        expect(at == len(data))
        changed = None
        if old is not None and told == _OLD:
            for name in unchanged:  # a large value that is stored separately is not sent again if it did not change
                if name in old:
                    new[name] = old[name]
            changed = [name for name, value in new.items() if name not in old or old[name] != value]
        elif old is not None:
            old = {name: value for name, value in old.items() if name in relation.marked}
        return PgRow(relation, "update", new, old, changed)

    def _describe(self, data: bytes) -> PgRelation:
        (number,) = struct.unpack_from("!I", data, 1)
        schema, at = read_text(data, 5)
        name, at = read_text(data, at)
        identity = chr(data[at])
        (count,) = struct.unpack_from("!H", data, at + 1)
        at += 3
        columns, marked = [], []
        for _ in range(count):
            flags = data[at]
            column, at = read_text(data, at + 1)
            (kind, _) = struct.unpack_from("!Ii", data, at)
            at += 8
            columns.append((column, converter(kind)))
            if flags & _IS_KEY:
                marked.append(column)
        expect(at == len(data))
        known = self._keys.get(number, ())
        if known and {name for name, _ in columns}.issuperset(known):
            key = known
        else:
            key = () if identity == "f" else tuple(marked)
        table = name if schema == PUBLIC else f"{schema}.{name}"
        relation = PgRelation(number, table, identity, tuple(columns), key, frozenset(marked))
        self._relations[number] = relation
        return relation

    def _truncated(self, data: bytes) -> PgTruncated:
        count, _ = struct.unpack_from("!IB", data, 1)
        expect(len(data) == 6 + 4 * count)
        numbers = struct.unpack_from(f"!{count}I", data, 6)
        return PgTruncated([self._relations[number].table for number in numbers])

    def _relation_at(self, data: bytes, at: int) -> PgRelation:
        return self._relations[int.from_bytes(data[at : at + 4], "big")]


def read_row(
    data: bytes, at: int, columns: tuple[tuple[str, Callable[[bytes], Any]], ...]
) -> tuple[dict[str, Any], int, list[str]]:
    """The values of a row, where it ends, and the columns that were not sent because they did not change.

    A length that leads past the end is noticed by the caller, which checks where the row ended.
    """
    expect(int.from_bytes(data[at : at + 2], "big") == len(columns))
    at += 2
    row: dict[str, Any] = {}
    unchanged: list[str] = []
    for name, convert in columns:
        kind = data[at]
        if kind == _TEXT:
            begin = at + 5
            at = begin + int.from_bytes(data[at + 1 : begin], "big")
            row[name] = convert(data[begin:at])
        elif kind == _NULL:
            at += 1
            row[name] = None
        elif kind == _UNCHANGED:
            at += 1
            unchanged.append(name)
        else:
            message = f"pgoutput sent a value of kind {chr(kind)!r} for column {name}, but only text was requested"
            raise Garbled(message)
    return row, at, unchanged


def read_message(data: bytes) -> PgMessage:
    flags, _ = struct.unpack_from("!BQ", data, 1)
    prefix, at = read_text(data, 10)
    (length,) = struct.unpack_from("!I", data, at)
    expect(len(data) == at + 4 + length)
    return PgMessage(prefix, bytes(data[at + 4 :]), bool(flags & 1))


def read_text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def expect(met: bool) -> None:
    if not met:
        message = "it is not as long as it says, or its parts are in a different order"
        raise Garbled(message)


def shown_lsn(lsn: int) -> str:
    """A position in the log as PostgreSQL writes it: 16/B374D848."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def read_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
