"""Payloads: data of users and their programs, as opposed to identities, states and times.

This layer is between the verbs and the database. It finds payloads by the names that queries give to their parameters and columns:

    writing   larger than a row should be ──► into wakeful_blob, and `@blob:<id>` into the row
              with an encryption key      ──► `@sealed:…` (keyring.py), also inside a blob, bound to its row (binding.py)
    reading   the original text

No JSON begins with `@`. Other texts may; a text that could be mistaken for a mark gets one more `@`.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json, to_json

from wakeful.errors import EncryptionKeyMissing, PayloadMissing, PayloadTampered
from wakeful.stores.binding import BINDINGS, MESSAGE_OF_ERROR, SEPARATOR, PayloadColumn, PayloadParameter, named_by
from wakeful.stores.keyring import DIGEST_LENGTH, SEALED, KeyRing, missing_key
from wakeful.stores.tampered import LOOKED_AT_BY_CALLERS, Tampered, Tampering, refuse_tampered, refuse_to_act_on
from wakeful.stores.transaction import Row

LARGE = 64 * 1024  # characters
BLOB = "@blob:"
ESCAPED = "@@"
SEALED_ERROR = '{"@sealed":"'
MARKS = (BLOB, SEALED, ESCAPED, SEALED_ERROR)
FIRST_OF_MARKS = "@{"
POINTS_TO_BLOB = f"{SEPARATOR}{BLOB}"
WITH_OWN_WORDS = frozenset({"reason", "note", "cancel_note", "ending"})
UNDONE_BY = "undone by "  # followed by an effect's id; written by a statement
MOST_FINDINGS = 1000  # kept until people are notified
SHOWN_OF_AN_ERROR = 500  # bytes of its message, sealed separately for long listings

# JSON of any size.
VALUES = frozenset(
    {
        "envelope",
        "result",
        "output",
        "data",
        "message",
        "arguments",
        "executed",
        "value",
        "answer",
        "state_change",
        "variables",
        "headers",
    }
)
# Short texts that may reveal something of the values above: sealed, but never moved to a blob.
TEXTS = frozenset(
    {"reason", "note", "text", "question", "detail", "cancel_note", "failed_with", "ending", "settlement", "evidence"}
)
PAYLOADS = VALUES | TEXTS | {"error"}
# Policy's answers are Wakeful's own words.
NO_PAYLOADS = frozenset(
    {("insert_decision", "answer"), ("insert_run_decision", "answer"), ("page_of_decisions", "answer")}
)

Places = tuple[tuple[int, str], ...]

# A column may be called "where".
_NOISE = re.compile(r"'(?:[^']|'')*'|\"where\"|--[^\n]*|[$?:]\w+|\bas\s+\w+(?=\s*[\])])")
_WORD = re.compile(r"[(),]|\b[a-z_]\w*\b")


def given_places(name: str, parameters: Sequence[str]) -> Places:
    """The indexes and names of a query's parameters that are payloads; also the content digest, which a key may hide."""
    return tuple(
        (place, parameter)
        for place, parameter in enumerate(parameters)
        if (parameter in PAYLOADS and (name, parameter) not in NO_PAYLOADS)
        or (parameter == "content" and "envelope" in parameters)
    )


def returned_places(sql: str) -> tuple[int, ...]:
    """The indexes of a statement's result columns that contain payloads."""
    return tuple(place for place, words in enumerate(returned(sql)) if not PAYLOADS.isdisjoint(words))


def returned(sql: str) -> list[list[str]]:
    """The result columns of a statement, each as the list of words in its expression."""
    columns: list[list[str]] = []
    depth, state = 0, "before"  # then "in" the column list, then "after" it
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
    """Whether any payload is too large for its row or could be mistaken for a mark."""
    for place, _ in places:
        for row in rows:
            text = row[place]
            if text and (len(text) > LARGE or (text[0] in FIRST_OF_MARKS and text.startswith(MARKS))):
                return True
    return False


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query that returns the names of each payload's row, with the payloads that it takes and returns and their places."""

    sql: str
    given: tuple[PayloadParameter, ...]
    returned: tuple[PayloadColumn, ...]


class Codec:
    """Encodes and decodes the payloads of one store.

    `binds`: written payloads are bound to their place. `strict`: read payloads must be. With keys, the queries of `bound` are used.
    """

    def __init__(
        self,
        given: Mapping[str, Places],
        returned: Mapping[str, tuple[int, ...]],
        ring: KeyRing | None,
        bound: Mapping[str, BoundQuery] | None = None,
        own_words: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._given = given
        self._returned = returned
        self._bound = None if ring is None else bound
        self._own_words = own_words
        self.ring = ring
        self.binds = False
        self.strict = False
        self._found_any = False
        self.findings: dict[Tampering, None] = {}  # in order; execution/sealing.py takes them to raise alarms

    # writing

    def encode(self, name: str, rows: Sequence[Row]) -> tuple[Sequence[Row], list[tuple[str, str]]]:
        """The rows in the form in which they are stored, and the blobs (id, content) that they point to."""
        if self._bound is not None and self.ring is not None and self.binds:
            return self._encode_bound(self._bound[name].given, rows)
        places = self._given[name]
        if not places:
            return rows, []
        if self.ring is None and not needs_encoding(rows, places):
            return rows, []  # the usual case
        blobs: list[tuple[str, str]] = []
        encoded = []
        for row in rows:
            changed = list(row)
            for place, parameter in places:
                if changed[place] is not None:
                    changed[place] = self._stored(parameter, changed[place], blobs)
            encoded.append(tuple(changed))
        return encoded, blobs

    def _encode_bound(
        self, given: Sequence[PayloadParameter], rows: Sequence[Row]
    ) -> tuple[Sequence[Row], list[tuple[str, str]]]:
        if not given:
            return rows, []
        blobs: list[tuple[str, str]] = []
        encoded = []
        for row in rows:
            changed = list(row)
            row_name: str | None = None  # the same for all payloads of the row
            for one in given:
                text = changed[one.place]
                if text is None:
                    continue
                if one.parameter == "content":
                    changed[one.place] = cast("KeyRing", self.ring).digest(text)
                    continue
                refuse_tampered(text)
                if row_name is None:
                    row_name = row_named([changed[number] for number in one.row])
                sealed = self.seal(one.column, text, one.table, row_name, one.letter)
                changed[one.place] = in_blob(sealed, blobs) if len(sealed) > LARGE and one.column in VALUES else sealed
            encoded.append(tuple(changed))
        return encoded, blobs

    def _stored(self, parameter: str, text: str, blobs: list[tuple[str, str]]) -> str:
        if parameter == "content":
            return text if self.ring is None else self.ring.digest(text)
        if self.ring is not None:
            refuse_tampered(text)
            text = self.seal(parameter, text)
        elif text.startswith(MARKS):
            text = f"@{text}"
        return in_blob(text, blobs) if len(text) > LARGE and parameter in VALUES else text

    def seal(self, column: str, text: str, table: str | None = None, row: str = "", letter: str = "") -> str:
        """Encrypt a text with the first key, bound to a place if a table is given. Of an error, the class stays readable and the
        beginning of its message is sealed separately. A circuit's error is one line of plain text.
        """
        ring = cast("KeyRing", self.ring)
        place = None if table is None else place_of(table, column, row)
        if column != "error" or not text.startswith("{"):
            return ring.seal(text, place, letter)
        error = from_json(text)
        shown = {"@sealed": ring.seal(text, place, letter)}
        if isinstance(error, dict):
            if isinstance(error.get("type"), str):
                shown["type"] = error["type"]
            if isinstance(error.get("message"), str):
                beginning = error["message"].encode()[:SHOWN_OF_AN_ERROR].decode(errors="ignore")
                apart = None if table is None else place_of(table, MESSAGE_OF_ERROR, row)
                shown["message"] = ring.seal(beginning, apart, letter)
        return to_json(shown).decode()

    def renewed(self, table: str, column: str, names: str, stored: str, blob: str | None) -> str | None:
        """A stored payload, bound to its row and encrypted with the first key; None if it already is, or is not to be encrypted.
        `blob`: the content that the row points to. A Tampered payload is returned unchanged, to be reported and not rewritten.
        """
        ring = cast("KeyRing", self.ring)
        if not stored:
            return None
        if column == "content":
            return ring.digest(stored) if len(stored) < DIGEST_LENGTH else None
        text = stored if blob is None else blob
        if self._is_own_word(column, text):
            return None
        sealed = sealed_part(text)
        if sealed is not None and ring.is_current(sealed, bound=True):
            return None
        read = self.read_at(
            table, column, names.split(SEPARATOR), stored, {} if blob is None else {stored[len(BLOB) :]: blob}
        )
        if isinstance(read, Tampered):
            return read
        binding = BINDINGS[table]
        letter = binding.names[0].letter
        return self.seal(column, read, table, named_by(binding, letter, names.split(SEPARATOR)) or "", letter)

    # reading

    def references(self, name: str, rows: Sequence[Row]) -> set[str] | None:
        """The ids of the blobs that these rows point to; None, the usual case, if no row needs decoding."""
        if self._bound is not None:
            return self._references_of_bound(self._bound[name].returned, rows)
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

    @staticmethod
    def _references_of_bound(returned: Sequence[PayloadColumn], rows: Sequence[Row]) -> set[str] | None:
        if not returned or not rows:
            return None
        return {
            text.rpartition(SEPARATOR)[2][len(BLOB) :]
            for row in rows
            for one in returned
            if (text := row[one.place]) is not None and POINTS_TO_BLOB in text
        }

    def decode(self, name: str, rows: Iterable[Row], blobs: Mapping[str, str], *, acting: bool = False) -> list[Row]:
        """The rows with their payloads decoded. `acting`: for a transition; raises PayloadTampered if it would act on a tampered one."""
        if self._bound is not None:
            found = self._decode_bound(self._bound[name].returned, rows, blobs)
            if acting and self._found_any and name not in LOOKED_AT_BY_CALLERS:
                refuse_to_act_on(found)
            return found
        places = self._returned[name]
        decoded: list[Row] = []
        for row in rows:
            changed = list(row)
            for place in places:
                if isinstance(changed[place], str):
                    changed[place] = self.read(changed[place], blobs)
            decoded.append(tuple(changed))
        return decoded

    def _decode_bound(
        self, returned: Sequence[PayloadColumn], rows: Iterable[Row], blobs: Mapping[str, str]
    ) -> list[Row]:
        decoded: list[Row] = []
        for row in rows:
            changed = list(row)
            for one in returned:
                if changed[one.place] is not None:
                    *names, text = changed[one.place].split(SEPARATOR, one.parts)
                    changed[one.place] = self.read_at(one.table, one.column, names, text, blobs)
            decoded.append(tuple(changed))
        return decoded

    def read_at(self, table: str, column: str, names: Sequence[str], text: str, blobs: Mapping[str, str]) -> str:
        """The original text of a payload stored in this place; Tampered if it is not the text that was stored there."""
        if not text:
            return text  # removed by housekeeping
        if text.startswith(BLOB):
            identifier = text[len(BLOB) :]
            if identifier not in blobs:
                if self.strict:
                    return self.tampered(table, column, names, f"it points to blob {identifier}, which does not exist")
                raise blob_missing(identifier)
            text = blobs[identifier]
        sealed = sealed_part(text)
        if sealed is None:
            if self.strict and not self._is_own_word(column, text):
                return self.tampered(table, column, names, "it is plain text, but this store is encrypted")
            return text[1:] if text.startswith(ESCAPED) else text
        if self.ring is None:
            raise missing_key([key_of(sealed)], frozenset())
        if self.strict and not is_bound(sealed):
            return self.tampered(
                table, column, names, "it is encrypted in the older form, which no row of this store has any more"
            )
        binding = BINDINGS[table]
        try:
            return self.ring.open(
                sealed,
                lambda letter: (
                    None if (row := named_by(binding, letter, names)) is None else place_of(table, column, row)
                ),
            )
        except PayloadTampered:
            why = "it does not open in this place: it was changed, cut, or comes from another row, column or store"
            return self.tampered(table, column, names, why)
        except EncryptionKeyMissing:
            if not self.strict:
                raise
            return self.tampered(
                table, column, names, f"it names key {key_of(sealed)}, which this process does not have"
            )

    def _is_own_word(self, column: str, text: str) -> bool:
        """Whether a statement wrote this text itself, like "its process died"."""
        return column in WITH_OWN_WORDS and (text in self._own_words() or text.startswith(UNDONE_BY))

    def tampered(self, table: str, column: str, names: Sequence[str], why: str) -> Tampered:
        """A substitute for a payload of this place. Records the finding, so that people are notified."""
        binding = BINDINGS[table]
        row = ", ".join(f"{part} {value}" for part, value in zip(binding.parts, names, strict=False) if value)
        finding = Tampering(f"wakeful_{table}", column, row, why)
        self._found_any = True
        if len(self.findings) < MOST_FINDINGS:
            self.findings[finding] = None
        return Tampered(finding)

    def read(self, text: str, blobs: Mapping[str, str]) -> str:
        """The original text of a stored payload, without keys."""
        if text.startswith(BLOB):
            identifier = text[len(BLOB) :]
            if identifier not in blobs:
                raise blob_missing(identifier)
            return self.read(blobs[identifier], {})
        if text.startswith(ESCAPED):
            return text[1:]
        sealed = sealed_part(text)
        if sealed is None:
            return text
        raise missing_key([key_of(sealed)], frozenset())


def in_blob(text: str, blobs: list[tuple[str, str]]) -> str:
    """Add a new blob and return the reference to it."""
    identifier = secrets.token_hex(12)
    blobs.append((identifier, text))
    return f"{BLOB}{identifier}"


def blob_missing(identifier: str) -> PayloadMissing:
    message = f"a stored payload is gone: blob {identifier} is not in wakeful_blob. Was it removed by hand?"
    return PayloadMissing(message)


def place_of(table: str, column: str, row: str) -> str:
    """The place that a payload is bound to."""
    return f"{table}.{column}{SEPARATOR}{row}"


def row_named(values: Iterable[object]) -> str:
    """The name of a row, made from the parameters that name it."""
    return SEPARATOR.join(["" if value is None else str(value).replace(SEPARATOR, "") for value in values])


def sealed_part(text: str) -> str | None:
    """The ciphertext in a stored text; None if it is plain text."""
    if text.startswith(SEALED):
        return text
    if not text.startswith(SEALED_ERROR):
        return None
    with contextlib.suppress(ValueError):
        found = from_json(text)["@sealed"]
        if isinstance(found, str) and found.startswith(SEALED):
            return found
    return SEALED  # malformed: it will not open


def key_of(sealed: str) -> str:
    """The id of the key that a ciphertext names."""
    return sealed[len(SEALED) :].partition(":")[0].partition(".")[0]


def is_bound(sealed: str) -> bool:
    return "." in sealed[len(SEALED) :].partition(":")[0]


def refuse_missing_keys(used: Iterable[Any], ring: KeyRing | None) -> None:
    """Raise EncryptionKeyMissing if the store has payloads under keys that are not here."""
    given = ring.ids if ring is not None else frozenset()
    missing = [identifier for identifier in used if identifier not in given]
    if missing:
        raise missing_key(missing, given)
