"""Payloads: what people and their programs put in, as opposed to identities, states and times.

Below the verbs and above the database, by the names that the queries give to their parameters and columns:

    going in     larger than a row should be ──► into wakeful_blob, and `@blob:<id>` into the row
                 with an encryption key      ──► `@sealed:…` (keyring.py), also inside a blob
    coming out   the text again

No JSON begins with `@`. Other texts may, and those that could be mistaken get one more.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic_core import from_json, to_json

from wakeful.errors import PayloadMissing
from wakeful.stores.base import Row
from wakeful.stores.keyring import DIGEST_LENGTH, SEALED, KeyRing, missing_key

LARGE = 64 * 1024  # characters
BLOB = "@blob:"
ESCAPED = "@@"
SEALED_ERROR = '{"@sealed":"'
MARKS = (BLOB, SEALED, ESCAPED, SEALED_ERROR)
FIRST_OF_MARKS = "@{"
SHOWN_OF_AN_ERROR = 500  # bytes of its message, sealed apart: what a listing of very many shows

# JSON of any size.
VALUES = frozenset(
    {
        "envelope",
        "result",
        "output",
        "data",
        "message",
        "arguments",
        "value",
        "answer",
        "state_change",
        "variables",
        "headers",
    }
)
# Texts that may tell something of these: they are short, and only sealed.
TEXTS = frozenset({"reason", "note", "text", "question", "detail", "cancel_note", "failed_with", "ending"})
PAYLOADS = VALUES | TEXTS | {"error"}
# Policy's answers are words of our own.
NO_PAYLOADS = frozenset({("insert_decision", "answer"), ("insert_run_decision", "answer")})

Places = tuple[tuple[int, str], ...]

_NOISE = re.compile(r"'(?:[^']|'')*'|--[^\n]*|[$?:]\w+|\bas\s+\w+(?=\s*[\])])")
_WORD = re.compile(r"[(),]|\b[a-z_]\w*\b")


def given_places(name: str, parameters: Sequence[str]) -> Places:
    """Which parameters of a query are payloads, by their place; and the content's digest, which a key may hide."""
    return tuple(
        (place, parameter)
        for place, parameter in enumerate(parameters)
        if (parameter in PAYLOADS and (name, parameter) not in NO_PAYLOADS)
        or (parameter == "content" and "envelope" in parameters)
    )


def returned_places(sql: str) -> tuple[int, ...]:
    """Which columns of what a statement returns are made of payloads, by their place."""
    return tuple(place for place, words in enumerate(returned(sql)) if not PAYLOADS.isdisjoint(words))


def returned(sql: str) -> list[list[str]]:
    """The columns that a statement returns, each as the words that it is made of."""
    columns: list[list[str]] = []
    depth, state = 0, "before"  # then "in" the list of columns, then "after" it
    updating = False
    for match in _WORD.finditer(_NOISE.sub(" ", sql.lower())):
        word = match[0]
        if word in "()":
            depth += 1 if word == "(" else -1
        if depth == 0 and word in {"insert", "update", "delete"}:
            updating = True
        if depth == 0 and (word == "returning" or (word == "select" and state == "before" and not updating)):
            columns, state = [[]], "in"
        elif (
            depth == 0
            and state == "in"
            and word in {"from", "union", "order", "where"}
            and not (updating and word != "union")
        ):
            state = "after"
        elif state == "in" and word == "," and depth == 0:
            columns.append([])
        elif state == "in" and word not in "(),":
            columns[-1].append(word)
    return columns


def needs_encoding(rows: Sequence[Row], places: Places) -> bool:
    """Is any payload too large for its row, or to be mistaken for something else?"""
    for place, _ in places:
        for row in rows:
            text = row[place]
            if text and (len(text) > LARGE or (text[0] in FIRST_OF_MARKS and text.startswith(MARKS))):
                return True
    return False


class Codec:
    """What the payloads of one store look like in its rows."""

    def __init__(
        self, given: Mapping[str, Places], returned: Mapping[str, tuple[int, ...]], ring: KeyRing | None
    ) -> None:
        self._given = given
        self._returned = returned
        self.ring = ring

    # going in

    def encode(self, name: str, rows: Sequence[Row]) -> tuple[Sequence[Row], list[tuple[str, str]]]:
        """The rows as they are stored, and the blobs (id, content) that they point to."""
        places = self._given[name]
        if not places:
            return rows, []
        if self.ring is None and not needs_encoding(rows, places):
            return rows, []  # as nearly always
        blobs: list[tuple[str, str]] = []
        encoded = []
        for row in rows:
            changed = list(row)
            for place, parameter in places:
                if changed[place] is not None:
                    changed[place] = self._stored(parameter, changed[place], blobs)
            encoded.append(tuple(changed))
        return encoded, blobs

    def _stored(self, parameter: str, text: str, blobs: list[tuple[str, str]]) -> str:
        if parameter == "content":
            return text if self.ring is None else self.ring.digest(text)
        if self.ring is not None:
            text = self.seal(parameter, text)
        elif text.startswith(MARKS):
            text = f"@{text}"
        if len(text) <= LARGE or parameter not in VALUES:
            return text
        identifier = secrets.token_hex(12)
        blobs.append((identifier, text))
        return f"{BLOB}{identifier}"

    def seal(self, column: str, text: str) -> str:
        """A text under the first key. Of an error the class stays readable, and the beginning of its message stands apart;
        that of a circuit is one line of text.
        """
        ring = cast("KeyRing", self.ring)
        if column != "error" or not text.startswith("{"):
            return ring.seal(text)
        error = from_json(text)
        shown = {"@sealed": ring.seal(text)}
        if isinstance(error, dict):
            if isinstance(error.get("type"), str):
                shown["type"] = error["type"]
            if isinstance(error.get("message"), str):
                beginning = error["message"].encode()[:SHOWN_OF_AN_ERROR].decode(errors="ignore")
                shown["message"] = ring.seal(beginning)
        return to_json(shown).decode()

    def renewed(self, column: str, stored: str | None, ring: KeyRing) -> str | None:
        """What is stored, under the first key; None when it is so already, or there is nothing to encrypt."""
        if not stored or stored.startswith(BLOB):
            return None
        if column == "content":
            return ring.digest(stored) if len(stored) < DIGEST_LENGTH else None
        sealed = from_json(stored)["@sealed"] if stored.startswith(SEALED_ERROR) else stored
        return None if ring.is_current(sealed) else self.seal(column, self.read(stored, {}))

    # coming out

    def references(self, name: str, rows: Sequence[Row]) -> set[str] | None:
        """The ids of the blobs that these rows point to; None when they are as they shall be, as nearly always."""
        places = self._returned[name]
        if not places:
            return None
        found: set[str] | None = None
        for row in rows:
            for place in places:
                text = row[place]
                if isinstance(text, str) and text.startswith(MARKS):
                    found = set() if found is None else found
                    if text.startswith(BLOB):
                        found.add(text[len(BLOB) :])
        return found

    def decode(self, name: str, rows: Iterable[Row], blobs: Mapping[str, str]) -> list[Row]:
        """The rows with their payloads."""
        places = self._returned[name]
        decoded: list[Row] = []
        for row in rows:
            changed = list(row)
            for place in places:
                if isinstance(changed[place], str):
                    changed[place] = self.read(changed[place], blobs)
            decoded.append(tuple(changed))
        return decoded

    def read(self, text: str, blobs: Mapping[str, str]) -> str:
        """What was given, out of what is stored."""
        if text.startswith(BLOB):
            identifier = text[len(BLOB) :]
            if identifier not in blobs:
                message = f"a stored payload is gone: blob {identifier} is not in wakeful_blob. Was it removed by hand?"
                raise PayloadMissing(message)
            return self.read(blobs[identifier], {})
        if text.startswith(ESCAPED):
            return text[1:]
        if text.startswith(SEALED_ERROR):
            return self._opened(from_json(text)["@sealed"])
        return self._opened(text) if text.startswith(SEALED) else text

    def _opened(self, sealed: str) -> str:
        if self.ring is None:
            raise missing_key([sealed.split(":", 2)[1]], frozenset())
        return self.ring.open(sealed)


def refuse_missing_keys(used: Iterable[Any], ring: KeyRing | None) -> None:
    """EncryptionKeyMissing when a store has payloads under keys that are not here."""
    given = ring.ids if ring is not None else frozenset()
    missing = [identifier for identifier in used if identifier not in given]
    if missing:
        raise missing_key(missing, given)
