"""What an evaluation of a CEL expression may cost, told before it begins.

The library stops an evaluation after 10,000 rounds of its loops and counts nothing else: one `replace` or `contains` over two large
texts holds a process up for seconds. So the expression is read once, as the library compiled it, and its cost is bounded from above
by three numbers of what it is asked of:

    values    how many values there are, all the way down     (a list of 10 numbers: 11)
    longest   how many characters the longest text has
    texts     how many characters all texts have together

A unit is about a nanosecond of a slow core. An expression whose bound is over BUDGET is not evaluated. The bound knows sizes only, never
what is in a text, so it is the same wherever it is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

BUDGET = 30_000_000
ROUNDS = 10_000  # of all loops of one evaluation: the library ends it there
# What the library needs for each value that it is handed, or hands back, and for each round of a loop.
OF_A_VALUE = 300
OF_A_ROUND = 150
OF_GATHERING = 20  # for each round and each element that is gathered already: the library copies the list
OF_A_CALL = 20
SHORT_PATTERN = 200


Path = tuple[str, str]  # ("data", "title")


class Sizes(NamedTuple):
    """How large something is."""

    values: int
    longest: int
    texts: int
    length: int = -1  # of a list or a map whose length is known: else it may have as many elements as there are values


def sizes_of(given: Iterable[Any]) -> Sizes:
    """The sizes of some values; they stop to grow soon after they are over any budget."""
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
        if (values + len(waiting)) * OF_A_VALUE > BUDGET:
            return Sizes(values + len(waiting), longest, texts)
    return Sizes(values, longest, texts)


def left_of(allowed: int, value: Any) -> int:
    """What is left of so many values and characters; below zero, and perhaps not all was looked at, if they are not enough."""
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


class Bound(NamedTuple):
    """The most that a part of an expression can cost, and how large what it gives can be."""

    cost: int
    values: int = 1
    longest: int = 0
    texts: int = 0
    length: int = -1

    @property
    def elements(self) -> int:
        return self.values if self.length < 0 else self.length


class Scope(NamedTuple):
    """What the names of an expression stand for: `given` for all that is handed in, `fields` for parts of it, like ("data", "title");
    `names` are those of loops. `rounds`: how often this part is evaluated, as one loop stands in another.
    """

    given: Bound
    fields: Mapping[Path, Bound]
    texts: Mapping[Path, str]  # what those fields are that are texts
    names: Mapping[str, Bound]
    rounds: int = 1


Part = Callable[[Scope], Bound]
NO_FIELDS: dict[Any, Any] = {}


class Meter:
    """Says of sizes whether an expression could run out of its budget."""

    __slots__ = ("_part", "small")

    def __init__(self, compiled: bytes) -> None:
        """`compiled` is the expression as the library serializes it."""
        self._part = _read(compiled)
        self.small = 0  # values and characters, together, of which any number up to this is within the budget
        size = 64
        while size <= 1 << 24 and self.cost(Sizes(size, size, size)) <= BUDGET:
            self.small, size = size, size * 2

    def cost(self, sizes: Sizes, bindings: Mapping[str, Any] = NO_FIELDS) -> int:
        """The most that an evaluation over something of this size costs, with its conversion there and back. With `bindings` the parts of
        it are looked at one by one.
        """
        fields = {
            (root, name): value for root, held in bindings.items() if type(held) is dict for name, value in held.items()
        }
        parts = {path: Bound(OF_A_CALL, *_size_of(value)) for path, value in fields.items()}
        texts = {path: value for path, value in fields.items() if type(value) is str}
        bound = self._part(Scope(Bound(OF_A_CALL, *sizes), parts, texts, {}))
        there = sizes.values * OF_A_VALUE + 2 * sizes.texts
        return there + bound.cost + bound.values * OF_A_VALUE + 2 * bound.texts

    def excess(self, bindings: Mapping[str, Any]) -> str | None:
        """Why an evaluation over these could run out of its budget, in words; None if it cannot."""
        if left_of(self.small, bindings) >= 0:
            return None
        sizes = sizes_of(bindings.values())
        cost = self.cost(sizes, bindings)
        if cost <= BUDGET:
            return None
        return f"of {sizes.values:,} values with {sizes.texts:,} characters it could cost {cost:,} units, and {BUDGET:,} are allowed"


def _size_of(value: Any) -> Sizes:
    length = len(value) if type(value) is list or type(value) is dict else -1
    return sizes_of([value])._replace(length=length)


# how much each function costs


def _sum(parts: Iterable[Bound]) -> Bound:
    cost = values = longest = texts = 0
    for one in parts:
        cost += one.cost
        values += one.values
        longest += one.longest
        texts += one.texts
    return Bound(cost, values, longest, texts)


def _plain(given: list[Bound]) -> Bound:
    """A function that goes through its arguments once, and gives no more than they are."""
    whole = _sum(given)
    return Bound(whole.cost + OF_A_CALL + 8 * whole.longest + whole.values, whole.values, whole.longest, whole.texts)


def _measure(given: list[Bound]) -> Bound:
    """A function that gives a number, a time or a boolean."""
    return Bound(sum(one.cost + 3 * one.longest for one in given) + OF_A_CALL)


def _compare(given: list[Bound]) -> Bound:
    cost = sum(one.cost for one in given)
    values, longest, texts = (min(one[place] for one in given) for place in (1, 2, 3))
    return Bound(cost + OF_A_CALL + 20 * (values - 1) + max(longest, texts if values > 1 else 0) // 8)


def _among(given: list[Bound]) -> Bound:
    """`x in list`: a comparison with each of them."""
    compared = _compare(given)
    return Bound(compared.cost + 20 * given[-1].values + given[-1].texts // 8)


def _choose(given: list[Bound]) -> Bound:
    """&&, || and ?: give one of their arguments."""
    cost = sum(one.cost for one in given) + OF_A_CALL
    values, longest, texts = (max(one[place] for one in given) for place in (1, 2, 3))
    return Bound(cost, values, longest, texts, max(one.elements for one in given))


def _element(given: list[Bound]) -> Bound:
    """list[i] and map[key]: no larger than all of it."""
    chosen = _choose(given)
    return chosen._replace(length=-1)


def _search(given: list[Bound]) -> Bound:
    """One text in another: at worst each character of the one with each of the other."""
    text, wanted = given[0], given[-1] if len(given) == 2 else given[1]
    cost = sum(one.cost for one in given) + OF_A_CALL
    return Bound(cost + text.longest * (6 + min(wanted.longest, text.longest) // 32))


def _match(given: list[Bound], pattern: str | None, *, written: bool) -> Bound:
    """A regular expression is compiled each time, and may cost for each character as much as it has states. A repetition multiplies
    them: a pattern that is not known may have a thousand for each of its characters. One that is `written` in the code, and short, is
    believed to be meant well: it costs little for each character.
    """
    length, text = given[-1].longest, given[0].longest
    states, each = 2_000 * length, 5_000 * length
    if pattern is not None:
        counts = [int(count) for count in _REPEATED.findall(pattern)]
        states = math.prod(counts, start=length + 1) if "){" in pattern else length + 4 * sum(counts)
        each = 30 * states
        if written and length <= SHORT_PATTERN:
            each = 5 * states if counts else max(3, length // 4)
    cost = sum(one.cost for one in given) + 4_000
    return Bound(cost + 1_000 * states + each * text)


def _replace(given: list[Bound], wanted: str | None) -> Bound:
    text, old, new = given[:3]
    places = text.longest // len(wanted) if wanted else text.longest + 1
    longest = text.longest + places * new.longest
    cost = sum(one.cost for one in given) + OF_A_CALL + 50 * text.longest + 4 * longest
    cost += text.longest * (min(old.longest, text.longest) // 32)
    return Bound(cost, 1, longest, longest)


def _split(given: list[Bound], separator: str | None) -> Bound:
    text = given[0]
    pieces = 2 + (text.longest // len(separator) if separator else text.longest)
    searched = _search(given[:2]).cost + sum(one.cost for one in given[2:])
    return Bound(searched + 80 * pieces + text.longest, pieces, text.longest, text.longest)


def _join(given: list[Bound]) -> Bound:
    pieces = given[0]
    between = given[1].longest if len(given) > 1 else 0
    longest = pieces.texts + pieces.values * between
    return Bound(sum(one.cost for one in given) + OF_A_CALL + 20 * pieces.values + 5 * longest, 1, longest, longest)


def _grow(given: list[Bound]) -> Bound:
    """format, quote and conversions to text: all of it, with signs around it."""
    whole = _sum(given)
    longest = 4 * (whole.texts + whole.longest) + 40 * whole.values
    return Bound(whole.cost + OF_A_CALL + 12 * longest, 1, longest, longest)


def _add(given: list[Bound]) -> Bound:
    whole = _sum(given)
    elements = sum(one.elements for one in given)
    cost = whole.cost + OF_A_CALL + 2 * whole.longest + 40 * (whole.values - len(given))
    return Bound(cost, whole.values, whole.longest, whole.texts, elements)


_FUNCTIONS: dict[str, Callable[[list[Bound]], Bound]] = {
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
# Those that depend on what their second argument is, where that is known.
_BY_TEXT: dict[str, Callable[[list[Bound], str | None, bool], Bound]] = {
    "matches": lambda given, pattern, written: _match(given, pattern, written=written),
    "replace": lambda given, wanted, _: _replace(given, wanted),
    "split": lambda given, separator, _: _split(given, separator),
}
_REPEATED = re.compile(r"[{,](\d+)")


# the expression, as the library compiled it: messages of protocol buffers, cel.expr.CheckedExpr and cel.expr.Expr


def _read(compiled: bytes) -> Part:
    packed = dict(_fields(compiled))
    checked = dict(_fields(cast("bytes", packed[2])))  # google.protobuf.Any: 1 is its type
    return _part(cast("bytes", checked[4]))


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            length, at = _varint(message, at)
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


CONST, NAME, SELECT, CALL, LIST, STRUCT, LOOP = 3, 4, 5, 6, 7, 8, 9
_STRING, _BYTES = 6, 7  # of a constant


def _part(message: bytes) -> Part:
    for number, value in _fields(message):
        if number in _PARTS:
            return _PARTS[number](cast("bytes", value))
    return lambda _: Bound(1)


def _text_of(message: bytes) -> str | None:
    """The text that an expression is, if it is nothing else."""
    for number, value in _fields(message):
        if number == CONST:
            for kind, held in _fields(cast("bytes", value)):
                if kind == _STRING:
                    return cast("bytes", held).decode()
    return None


def _name_of(message: bytes) -> str:
    """The name that an expression is, if it is nothing else."""
    for number, value in _fields(message):
        if number == NAME:
            return b"".join(cast("bytes", one) for place, one in _fields(cast("bytes", value)) if place == 1).decode()
    return ""


def _path_of(message: bytes) -> Path | None:
    """The field of a name that an expression is, if it is nothing else."""
    for number, value in _fields(message):
        if number == SELECT:
            fields = dict(_fields(cast("bytes", value)))
            return _name_of(cast("bytes", fields.get(1, b""))), cast("bytes", fields.get(2, b"")).decode()
    return None


def _const(message: bytes) -> Part:
    length = sum(len(cast("bytes", value)) for kind, value in _fields(message) if kind in {_STRING, _BYTES})
    bound = Bound(1, 1, length, length)
    return lambda _: bound


def _name(message: bytes) -> Part:
    name = b"".join(cast("bytes", value) for number, value in _fields(message) if number == 1).decode()
    return lambda scope: scope.names.get(name, scope.given)


def _select(message: bytes) -> Part:
    """A field is not larger than what it is a field of."""
    fields = dict(_fields(message))
    operand, field = cast("bytes", fields.get(1, b"")), cast("bytes", fields.get(2, b"")).decode()
    inner, path = _part(operand), (_name_of(operand), field)

    def bound(scope: Scope) -> Bound:
        known = scope.fields.get(path) if path[0] not in scope.names else None
        if known is not None:
            return known
        of = inner(scope)
        return Bound(of.cost + OF_A_CALL, of.values, of.longest, of.texts)

    return bound


def _call(message: bytes) -> Part:
    fields = list(_fields(message))
    name = next((cast("bytes", value).decode() for number, value in fields if number == 2), "")
    written = [cast("bytes", value) for number, value in fields if number in {1, 3}]  # what it is called on comes first
    parts = [_part(one) for one in written]
    second = written[1] if len(written) > 1 else b""
    known, path = _text_of(second), _path_of(second)
    if name in _BY_TEXT:
        by_text = _BY_TEXT[name]

        def bound(scope: Scope) -> Bound:
            named = path is not None and path[0] not in scope.names
            text = scope.texts.get(cast("Path", path)) if known is None and named else known
            return by_text([part(scope) for part in parts], text, known is not None)

        return bound
    function = _FUNCTIONS.get(name, _plain)
    return lambda scope: function([part(scope) for part in parts]) if parts else Bound(OF_A_CALL)


def _list(message: bytes) -> Part:
    parts = [_part(cast("bytes", value)) for number, value in _fields(message) if number == 1]

    def bound(scope: Scope) -> Bound:
        given = [part(scope) for part in parts]
        whole = _sum(given)
        longest = max((one.longest for one in given), default=0)
        return Bound(whole.cost + OF_A_CALL, 1 + whole.values, longest, whole.texts, len(given))

    return bound


def _struct(message: bytes) -> Part:
    """{key: value, …}: each entry has its key in 3 and its value in 4; the name of a field is 2."""
    parts = [
        _part(cast("bytes", value))
        for number, entry in _fields(message)
        if number == 2
        for place, value in _fields(cast("bytes", entry))
        if place in {3, 4}
    ]

    def bound(scope: Scope) -> Bound:
        given = [part(scope) for part in parts]
        whole = _sum(given)
        longest = max((one.longest for one in given), default=0)
        return Bound(whole.cost + OF_A_CALL, 1 + whole.values, longest, whole.texts, len(given))

    return bound


@dataclass(frozen=True, slots=True)
class _Loop:
    """all, exists, map, filter: for each of a range, a condition and a step that changes what was gathered."""

    name: str
    gathered: str
    gathers: bool  # a list: else whether something holds, or how often
    range: Part
    first: Part
    condition: Part
    step: Part
    result: Part

    def __call__(self, scope: Scope) -> Bound:
        """No function here costs less for one large text than for two halves of it. So at worst all elements are alike, or one of
        them is all there is; the sum of both is over either.
        """
        over, first = self.range(scope), self.first(scope)
        rounds = max(1, min(over.elements, -(-ROUNDS // scope.rounds)))
        share = -(-over.texts // rounds)
        alike = Bound(1, -(-over.values // rounds), min(over.longest, share), share)
        each, cost_of_each = self._round(scope, alike, rounds)
        one, cost_of_one = self._round(scope, Bound(1, over.values, over.longest, over.texts), 1)
        made = Bound(
            1,
            first.values + one.values + rounds * each.values,
            max(first.longest, one.longest),
            first.texts + one.texts + rounds * each.texts,
            rounds if self.gathers else -1,
        )
        end = self.result(scope._replace(names={**scope.names, self.gathered: made}))
        cost = over.cost + first.cost + rounds * cost_of_each + cost_of_one + end.cost
        # Few rounds of the outer loop with all of this one's cost more than many rounds with a part of them.
        copied = rounds * min(over.elements, ROUNDS) if self.gathers else 0
        return Bound(cost + OF_GATHERING * copied, *end[1:])

    def _round(self, scope: Scope, element: Bound, rounds: int) -> tuple[Bound, int]:
        """What one round adds to what is gathered, and its cost."""
        names = {**scope.names, self.name: element, self.gathered: Bound(1)}
        inside = scope._replace(names=names, rounds=min(ROUNDS, scope.rounds * rounds))
        condition, step = self.condition(inside), self.step(inside)
        return step, condition.cost + step.cost + OF_A_ROUND


def _loop(message: bytes) -> Part:
    fields = {number: cast("bytes", value) for number, value in _fields(message)}
    parts = {number: _part(fields.get(number, b"")) for number in (2, 4, 5, 6, 7)}
    name, gathered = (fields.get(number, b"").decode() for number in (1, 3))
    gathers = any(number == LIST for number, _ in _fields(fields.get(4, b"")))
    return _Loop(name, gathered, gathers, parts[2], parts[4], parts[5], parts[6], parts[7])


_PARTS: dict[int, Callable[[bytes], Part]] = {
    CONST: _const,
    NAME: _name,
    SELECT: _select,
    CALL: _call,
    LIST: _list,
    STRUCT: _struct,
    LOOP: _loop,
}
