"""JSON from outside: read fast, and refused if it holds something that could not be stored or read back everywhere.

    bytes ──► from_json ──► scan of the bytes ──► value
                  │               │
                  │               └─ something may be there ──► walk over the value ──► value, or what and where
                  └─ refused ──► read once more, slowly, to say what and where

The parser itself refuses broken syntax, broken UTF-8, lone surrogates, NaN and Infinity. It accepts NUL, integers of
any size, `1e999` (which becomes infinite) and 200 levels of nesting. Checking every value for these would cost more
than the parsing, so the bytes are scanned first, at the speed of memchr. The scan may raise a false alarm (digits
inside a text look like a number), which costs a walk. It never misses: a JSON number and the escape of NUL have one
spelling in bytes.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from wakeful.errors import InvalidEvent

DEPTH_LIMIT = 100
SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**63 - 1
SHOWN_LIMIT = 120

# In a copy of the bytes every digit (and plus) becomes 0 and every E becomes e. Then two searches find a possible
# integer of 19 digits or more (18 always fit 64 bits), and a possible exponent of three digits or more.
_FLATTEN = bytes.maketrans(b"123456789+E", b"0000000000e")
_MANY_DIGITS = b"0" * 19
_EXPONENT = b"0e000"
_LARGE_EXPONENT = re.compile(rb"(?:\A|[:\[,\s])-?[0-9][0-9.]*[eE]\+?[0-9]{3}")
_LOOKS = 32
_THREE_DIGITS = re.compile(rb"[eE]\+?[0-9]{3}").match
_BEFORE_A_NUMBER = b":[, \t\r\n"
_MINUS = ord("-")

Path = tuple[str | int, ...]
_Link = (
    tuple[Any, str | int] | None
)  # (the parent's link, the key in it): a path that costs one tuple for each container


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a value that cannot be accepted, and its place."""

    path: Path
    message: str


def read_json(body: bytes, *, depth: int, inside: Path = ()) -> Any:
    """The value of a JSON text: an event, or an array of events; with `inside`, the part of an event at that path.

    `depth` limits the nesting of an event's content: its envelope and the array of a batch are not counted.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise _explain(body, error, depth, inside) from None
    if may_hold_a_fault(body, depth):
        refuse_faults(value, depth=depth, inside=inside)
    return value


def may_hold_a_fault(body: bytes, levels: int) -> bool:
    """Whether a walk over the value could find a fault. Cheap, and never wrong when it says no."""
    if b"\\" in body and b"\\u0000" in body:
        return True
    if body.count(b"{") + body.count(b"[") > levels:
        return True
    flat = body.translate(_FLATTEN)
    if _MANY_DIGITS in flat:
        return True
    # Hexadecimal ids often look like an exponent, so a second look decides: at these few places or, if there are many,
    # over everything, which is slower for a few and faster for many.
    at = -1
    for _ in range(_LOOKS):
        at = flat.find(_EXPONENT, at + 1)
        if at < 0:
            return False
        if _is_number(body, at):
            return True
    return _LARGE_EXPONENT.search(body) is not None


def _is_number(body: bytes, at: int) -> bool:
    """Whether the digit at `at`, which an exponent may follow, ends a possible number: it starts where a number can
    begin.
    """
    if _THREE_DIGITS(body, at + 1) is None:
        return False
    start = at
    while start and body[start - 1] in b"0123456789.":
        start -= 1
    if start and body[start - 1] == _MINUS:
        start -= 1
    return not start or body[start - 1] in _BEFORE_A_NUMBER


def refuse_faults(value: Any, *, depth: int, inside: Path = ()) -> None:
    """Raise InvalidEvent for the first fault in a value."""
    batch = not inside and type(value) is list
    fault = find_fault(value, depth=depth, outside=0 if inside else 2 if batch else 1)
    if fault is not None:
        path, index = fault.path, None
        if batch and path and isinstance(path[0], int):
            index, path = path[0], path[1:]
        field = field_name((*inside, *path)) or "body"
        raise InvalidEvent(f"{field} {fault.message}", field=field, index=index)


def find_fault(value: Any, *, depth: int, outside: int = 0) -> Fault | None:
    """The first fault in a value, found without recursion; None if there is none. The `outside` levels are not counted."""
    message = _fault_of_scalar(value)
    if message is not None:
        return Fault((), message)
    waiting: list[tuple[Any, _Link, int]] = [(value, None, 1 - outside)]
    while waiting:
        container, link, level = waiting.pop()
        kind = type(container)
        if kind is dict:
            items = container.items()
        elif kind is list:
            items = enumerate(container)
        else:
            continue
        if level > depth:
            return Fault(_path(link)[:outside], too_deep(depth))
        for key, item in items:
            kind = type(item)
            if kind is dict or kind is list:
                waiting.append((item, (link, key), level + 1))
            elif kind is not bool and item is not None:
                message = _fault_of_scalar(item)
                if message is not None:
                    return Fault(_path((link, key)), message)
            if type(key) is str and (message := _fault_of_text(key)) is not None:
                return Fault(_path((link, key)), f"has a name that {message}")
    return None


def too_deep(depth: int) -> str:
    return f"is nested too deep (the limit is {depth} levels): flatten it"


def shown(value: Any) -> str:
    """A value from outside, short and printable, for a message."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)[:SHOWN_LIMIT])
    if isinstance(value, str):
        text = f'"{text}"'
    return text + "…" if len(str(value)) > SHOWN_LIMIT else text


def field_name(path: Path) -> str:
    """A path as people write it: data.items[3].name"""
    parts = [f"[{part}]" if isinstance(part, int) else f".{shown(part)[1:-1]}" for part in path]
    return "".join(parts).removeprefix(".")


def _fault_of_scalar(value: Any) -> str | None:
    kind = type(value)
    if kind is str:
        return _fault_of_text(value)
    if kind is int and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return "is an integer beyond 64 bits: send it as text"
    if kind is float and not math.isfinite(value):
        return "is not a finite number: leave it out, or send it as text"
    return None


def _fault_of_text(text: str) -> str | None:
    if "\x00" in text:
        return "holds a NUL character: remove it"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "holds a lone surrogate, half of a character: send whole characters"
    return None


def _path(link: _Link) -> Path:
    parts: list[str | int] = []
    while link is not None:
        link, key = link
        parts.append(key)
    return tuple(reversed(parts))


def _explain(body: bytes, error: ValueError, depth: int, inside: Path) -> InvalidEvent:
    """Say what is wrong with a text that the parser refused. Slow, and only run for a refusal."""
    field = field_name(inside) or "body"
    try:
        text = body.decode()
    except UnicodeDecodeError as undecodable:
        message = f"{field} is not UTF-8 (at byte {undecodable.start}): send JSON as UTF-8"
        return InvalidEvent(message, field=field)
    try:
        # This parser accepts lone surrogates, NaN and deeper nesting, so that the walk can name the field they are in.
        refuse_faults(json.loads(text, parse_int=_bounded), depth=depth, inside=inside)
    except InvalidEvent as invalid:
        return invalid
    except RecursionError:
        return InvalidEvent(f"{field} {too_deep(depth)}", field=field)
    except ValueError:
        pass
    return InvalidEvent(f"{field} is not JSON: {error}", field=field)


def _bounded(digits: str) -> int:
    """An integer. One that is far too large is not converted, because that takes quadratic time."""
    return int(digits) if len(digits) < 25 else LARGEST_INTEGER + 1
