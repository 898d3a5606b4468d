"""The size of the input of a CEL expression, which decides its cost (cel_costs.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

ENOUGH = 100_000  # values: more than any expression may take


class Sizes(NamedTuple):
    """The size of some values."""

    values: int
    longest: int
    texts: int
    length: int = -1  # of a list or map, if known; otherwise it may have as many elements as there are values


def sizes_of(given: Iterable[Any]) -> Sizes:
    """The sizes of some values. Counting stops soon after they are over any budget."""
    values = longest = texts = 0
    waiting = list(given)
    while waiting:
        value = waiting.pop()
        values += 1
        kind = type(value)
        if kind is str:
            length = len(value)
            texts += length
            longest = max(longest, length)
        elif kind is dict:
            waiting.extend(value.values())
            for name in value:
                length = len(name) if type(name) is str else 1
                texts += length
                longest = max(longest, length)
        elif kind is list or kind is tuple:
            waiting.extend(value)
        elif isinstance(value, bytes):
            texts += len(value)
            longest = max(longest, len(value))
        elif isinstance(value, Mapping):
            waiting.append(dict(value))
        if values + len(waiting) > ENOUGH:
            return Sizes(values + len(waiting), longest, texts)
    return Sizes(values, longest, texts)


def left_of(allowed: int, value: Any) -> int:
    """What is left of an allowance of values and characters. Below zero it is exceeded, and counting may have stopped
    early.
    """
    kind = type(value)
    if kind is dict:
        allowed -= 2 * len(value) + 1
        for name, held in value.items():
            inner = type(held)
            allowed -= len(name)
            if inner is str:
                allowed -= len(held)
            elif inner is dict or inner is list or inner is bytes:
                allowed = left_of(allowed, held)
            if allowed < 0:
                break
        return allowed
    if kind is list:
        allowed -= len(value) + 1
        for held in value:
            if allowed < 0:
                break
            if type(held) is not int:
                allowed = left_of(allowed, held)
        return allowed
    return allowed - len(value) if kind is str or kind is bytes else allowed - 1


def size_of(value: Any) -> Sizes:
    """The sizes of one value, with its length."""
    length = len(value) if type(value) is list or type(value) is dict else -1
    return sizes_of([value])._replace(length=length)
