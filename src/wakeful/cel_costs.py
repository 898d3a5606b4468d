"""The highest cost of each CEL function and the largest size of its result, by the sizes of its arguments.

A unit is about a nanosecond of a slow core, measured with the library and rounded up. No function costs less for one
large text than for two halves of it: loops rely on that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

OF_A_CALL = 20
SHORT_PATTERN = 200
ENOUGH = 10**12  # states of a regular expression
DIGITS = 9  # of a repetition's count: the library allows at most 1,000 repetitions


class CostBound(NamedTuple):
    """The highest cost of a part of an expression, and the largest size of its result."""

    cost: int
    values: int = 1
    longest: int = 0
    texts: int = 0
    length: int = -1

    @property
    def elements(self) -> int:
        return self.values if self.length < 0 else self.length


def sum_of(parts: Iterable[CostBound]) -> CostBound:
    cost = values = longest = texts = 0
    for one in parts:
        cost += one.cost
        values += one.values
        longest += one.longest
        texts += one.texts
    return CostBound(cost, values, longest, texts)


def plain(given: list[CostBound]) -> CostBound:
    """A function that reads its arguments once and returns no more than they hold."""
    whole = sum_of(given)
    return CostBound(
        whole.cost + OF_A_CALL + 8 * whole.longest + whole.values, whole.values, whole.longest, whole.texts
    )


def _measure(given: list[CostBound]) -> CostBound:
    """A function that returns a number, a time or a boolean."""
    return CostBound(sum(one.cost + 3 * one.longest for one in given) + OF_A_CALL)


def _compare(given: list[CostBound]) -> CostBound:
    cost = sum(one.cost for one in given)
    values, longest, texts = (min(one[place] for one in given) for place in (1, 2, 3))
    return CostBound(cost + OF_A_CALL + 20 * (values - 1) + max(longest, texts if values > 1 else 0) // 8)


def _among(given: list[CostBound]) -> CostBound:
    """`x in list`: a comparison with each element."""
    compared = _compare(given)
    return CostBound(compared.cost + 20 * given[-1].values + given[-1].texts // 8)


def _choose(given: list[CostBound]) -> CostBound:
    """&&, || and ?: return one of their arguments."""
    cost = sum(one.cost for one in given) + OF_A_CALL
    values, longest, texts = (max(one[place] for one in given) for place in (1, 2, 3))
    return CostBound(cost, values, longest, texts, max(one.elements for one in given))


def _element(given: list[CostBound]) -> CostBound:
    """list[i] and map[key]: no larger than the whole."""
    chosen = _choose(given)
    return chosen._replace(length=-1)


def _search(given: list[CostBound]) -> CostBound:
    """One text in another: at worst each character of one is compared with each of the other."""
    text, wanted = given[0], given[-1] if len(given) == 2 else given[1]
    cost = sum(one.cost for one in given) + OF_A_CALL
    return CostBound(cost + text.longest * (6 + min(wanted.longest, text.longest) // 32))


def _match(given: list[CostBound], pattern: str | None, *, written: bool) -> CostBound:
    """A regular expression is compiled on each call, and each character may cost as much as the pattern has states. A
    repetition multiplies the states: an unknown pattern may have a thousand for each of its characters. A short pattern
    that is `written` in the code is trusted to be harmless: it costs little for each character.
    """
    length, text = given[-1].longest, given[0].longest
    states, each = 2_000 * length, 5_000 * length
    if pattern is not None:
        counts = [int(count.lstrip("0")[:DIGITS] or 0) for count in _REPEATED.findall(pattern)]
        states = _product(length + 1, counts) if "){" in pattern else length + 4 * sum(counts)
        each = 30 * states
        if written and length <= SHORT_PATTERN:
            each = 5 * states if counts else max(3, length // 4)
    cost = sum(one.cost for one in given) + 4_000
    return CostBound(cost + 1_000 * states + each * text)


def _product(states: int, counts: list[int]) -> int:
    """Multiply, but stop above every budget: thousands of repetitions in a hostile pattern would make a number of
    megabytes. A repetition of zero counts as one.
    """
    for count in counts:
        states *= max(count, 1)
        if states > ENOUGH:
            break
    return states


def _replace(given: list[CostBound], wanted: str | None) -> CostBound:
    text, old, new = given[:3]
    places = text.longest // len(wanted) if wanted else text.longest + 1
    longest = text.longest + places * new.longest
    cost = sum(one.cost for one in given) + OF_A_CALL + 50 * text.longest + 4 * longest
    cost += text.longest * (min(old.longest, text.longest) // 32)
    return CostBound(cost, 1, longest, longest)


def _split(given: list[CostBound], separator: str | None) -> CostBound:
    text = given[0]
    pieces = 2 + (text.longest // len(separator) if separator else text.longest)
    searched = _search(given[:2]).cost + sum(one.cost for one in given[2:])
    return CostBound(searched + 80 * pieces + text.longest, pieces, text.longest, text.longest)


def _join(given: list[CostBound]) -> CostBound:
    pieces = given[0]
    between = given[1].longest if len(given) > 1 else 0
    longest = pieces.texts + pieces.values * between
    return CostBound(sum(one.cost for one in given) + OF_A_CALL + 20 * pieces.values + 5 * longest, 1, longest, longest)


def _grow(given: list[CostBound]) -> CostBound:
    """format, quote and conversions to text: the whole input, with characters around it."""
    whole = sum_of(given)
    longest = 4 * (whole.texts + whole.longest) + 40 * whole.values
    return CostBound(whole.cost + OF_A_CALL + 12 * longest, 1, longest, longest)


def _add(given: list[CostBound]) -> CostBound:
    whole = sum_of(given)
    elements = sum(one.elements for one in given)
    cost = whole.cost + OF_A_CALL + 2 * whole.longest + 40 * (whole.values - len(given))
    return CostBound(cost, whole.values, whole.longest, whole.texts, elements)


FUNCTIONS: dict[str, Callable[[list[CostBound]], CostBound]] = {
    "_&&_": _choose,
    "_||_": _choose,
    "_?_:_": _choose,
    "!_": _choose,
    "@not_strictly_false": _choose,
    "__not_strictly_false__": _choose,
    "_[_]": _element,
    "_==_": _compare,
    "_!=_": _compare,
    "_<_": _compare,
    "_<=_": _compare,
    "_>_": _compare,
    "_>=_": _compare,
    "startsWith": _compare,
    "endsWith": _compare,
    "@in": _among,
    **dict.fromkeys(("size", "int", "uint", "double", "bool", "timestamp", "duration"), _measure),
    "_+_": _add,
    "contains": _search,
    "indexOf": _search,
    "lastIndexOf": _search,
    "join": _join,
    "format": _grow,
    "quote": _grow,
    "strings.quote": _grow,
    "string": _grow,
}
# Functions whose cost depends on the text of their second argument, where it is known.
BY_TEXT: dict[str, Callable[[list[CostBound], str | None, bool], CostBound]] = {
    "matches": lambda given, pattern, written: _match(given, pattern, written=written),
    "replace": lambda given, wanted, _: _replace(given, wanted),
    "split": lambda given, separator, _: _split(given, separator),
}
_REPEATED = re.compile(r"[{,](\d+)")
