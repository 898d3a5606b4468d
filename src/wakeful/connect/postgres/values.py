"""Converts values of PostgreSQL to JSON, by the type of their column. Types without a JSON form stay the text that PostgreSQL
writes.

    boolean                       true, false
    smallint, integer, bigint     numbers
    real, double precision        numbers; NaN and the infinities as text
    numeric                       a number if no digit is lost (15 digits), else text
    json, jsonb                   their content; text if nested deeper than an event may be
    arrays of these and of text   lists
    timestamp, timestamptz        2026-03-01T08:30:00.5, 2026-03-01T08:30:00.5+00:00
    bytea                         base64
    all others                    text: date, time, uuid, inet, enums, ranges, domains, …
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json

# Output settings, so that values are written alike regardless of the settings of database and role.
SETTINGS = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
EXACT_DIGITS = 15
EXACT_WHOLE_DIGITS = 18
# A value is nested inside `data`, `new` or `old`, and its column.
DEEPEST = DEPTH_LIMIT - 4

Convert = Callable[[bytes], Any]


def text(raw: bytes) -> str:
    return str(raw, "utf-8", "replace")


def truth(raw: bytes) -> Any:
    return raw == b"t" if raw in {b"t", b"f"} else text(raw)


def whole(raw: bytes) -> Any:
    try:
        return int(raw)
    except ValueError:
        return text(raw)


def floating(raw: bytes) -> Any:
    try:
        value = float(raw)
    except ValueError:
        return text(raw)
    return value if math.isfinite(value) else text(raw)


def numeric(raw: bytes) -> Any:
    """A number if few enough digits: a float then keeps the digits that it was read with."""
    if b"." not in raw:
        return whole(raw) if len(raw) <= EXACT_WHOLE_DIGITS and raw[-1:].isdigit() else text(raw)
    return floating(raw) if len(raw.strip(b"-0").replace(b".", b"")) <= EXACT_DIGITS else text(raw)


def document(raw: bytes) -> Any:
    try:
        return read_json(raw, depth=DEEPEST, inside=("data",))
    except InvalidEvent:
        return text(raw)


def moment(raw: bytes) -> str:
    """`2026-03-01 08:30:00.5+00`. Times BC, after the year 9999, and infinite ones have no ISO 8601 form and stay text."""
    if raw[10:11] != b" " or raw.endswith(b"BC"):
        return text(raw)
    written = f"{text(raw[:10])}T{text(raw[11:])}"
    return f"{written}:00" if written[-3] in "+-" else written


def binary(raw: bytes) -> str:
    try:
        return b64encode(bytes.fromhex(text(raw[2:]))).decode() if raw.startswith(b"\\x") else text(raw)
    except ValueError:
        return text(raw)


def several(convert: Convert, raw: bytes) -> Any:
    """An array of any depth."""
    try:
        return Elements(raw, convert).read()
    except (ValueError, IndexError, RecursionError):
        return text(raw)


class Elements:
    r"""`{1,NULL,"a \"b\""}`, `{{1,2},{3,4}}`, `[0:1]={1,2}`: an array as PostgreSQL writes it."""

    def __init__(self, raw: bytes, convert: Convert) -> None:
        self._raw = raw
        self._convert = convert
        self._at = self._raw.index(b"=") + 1 if self._raw[:1] == b"[" else 0

    def read(self) -> list[Any]:
        found = self._list()
        if self._at != len(self._raw):
            raise ValueError
        return found

    def _list(self) -> list[Any]:
        if self._next() != b"{":
            raise ValueError
        found: list[Any] = []
        if self._peek() == b"}":
            self._at += 1
            return found
        while True:
            found.append(self._list() if self._peek() == b"{" else self._element())
            sign = self._next()
            if sign == b"}":
                return found
            if sign != b",":
                raise ValueError

    def _element(self) -> Any:
        if self._peek() == b'"':
            return self._convert(self._quoted())
        begin = self._at
        while self._peek() not in {b",", b"}"}:
            self._at += 1
        word = self._raw[begin : self._at]
        return None if word == b"NULL" else self._convert(word)

    def _quoted(self) -> bytes:
        self._at += 1
        parts = bytearray()
        while (sign := self._next()) != b'"':
            parts += self._next() if sign == b"\\" else sign
        return bytes(parts)

    def _peek(self) -> bytes:
        if self._at >= len(self._raw):
            raise ValueError
        return self._raw[self._at : self._at + 1]

    def _next(self) -> bytes:
        sign = self._peek()
        self._at += 1
        return sign


# The oid of a type, the oid of its array type, and the converter. PostgreSQL never changes these numbers.
_TYPES: tuple[tuple[int, int, Convert], ...] = (
    (16, 1000, truth),
    (21, 1005, whole),
    (23, 1007, whole),
    (20, 1016, whole),
    (26, 1028, whole),
    (700, 1021, floating),
    (701, 1022, floating),
    (1700, 1231, numeric),
    (114, 199, document),
    (3802, 3807, document),
    (1114, 1115, moment),
    (1184, 1185, moment),
    (17, 1001, binary),
    (18, 1002, text),  # "char"
    (19, 1003, text),  # name
    (25, 1009, text),
    (1042, 1014, text),  # character
    (1043, 1015, text),  # character varying
    (1082, 1182, text),  # date
    (1083, 1183, text),  # time
    (1266, 1270, text),  # time with time zone
    (1186, 1187, text),  # interval
    (2950, 2951, text),  # uuid
    (869, 1041, text),  # inet
    (650, 651, text),  # cidr
    (829, 1040, text),  # macaddr
)
_CONVERTERS: dict[int, Convert] = {
    **{kind: convert for kind, _, convert in _TYPES},
    **{array: partial(several, convert) for _, array, convert in _TYPES},
}


def converter(kind: int) -> Convert:
    """The converter of a type."""
    return _CONVERTERS.get(kind, text)
