"""SQLite's own literals, as quote() writes them: the format of rows in a change table.

    1,-2.5,'it''s',X'00FF',NULL

Every SQLite can write them, of any age and build, without loss. JSON functions may be missing, fail on a blob (and with them the
application's own write), and older ones round numbers.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from typing import Any

_LITERAL = re.compile(
    r"""
    (?P<null>NULL)
    | '(?P<text>(?:[^']|'')*)'
    | [Xx]'(?P<blob>(?:[0-9A-Fa-f]{2})*)'
    | (?P<infinite>[+-]?Inf)
    | (?P<integer>[+-]?[0-9]{1,19})(?![0-9.eE])
    | (?P<real>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?)
    """,
    re.VERBOSE,
).match


def read_literals(written: str) -> list[Any]:
    """The values of a row: None, int, float, str or bytes. Raises ValueError with the position that is unreadable."""
    values: list[Any] = []
    at = 0
    while True:
        found = _LITERAL(written, at)
        if found is None:
            message = f"no SQL literal at character {at}"
            raise ValueError(message)
        values.append(_value(found))
        at = found.end()
        if at == len(written):
            return values
        if written[at] != ",":
            message = f"no comma at character {at}"
            raise ValueError(message)
        at += 1


def plain_value(value: Any) -> Any:
    """A value of SQLite as JSON: a blob becomes base64, an infinite number becomes text."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _value(found: re.Match[str]) -> Any:
    kind, text = found.lastgroup, found[found.lastgroup or 0]
    match kind:
        case "null":
            return None
        case "text":
            return text.replace("''", "'")
        case "blob":
            return bytes.fromhex(text)
        case "infinite":
            return -math.inf if text.startswith("-") else math.inf
        case "integer":
            return int(text)
        case _:
            return float(text)
