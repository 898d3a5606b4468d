"""What an evaluation of a CEL expression may cost, told before it begins.

The library stops an evaluation after 10,000 rounds of its loops and counts nothing else: one `replace` or `contains` over two large
texts holds a process up for seconds. So the expression is read once, as the library compiled it, and its cost is bounded from above
by three numbers of what it is asked of:

    values    how many values there are, all the way down     (a list of 10 numbers: 11)
    longest   how many characters the longest text has
    texts     how many characters all texts have together

What functions cost by these is in cel_costs.py. An expression whose bound is over BUDGET is not evaluated. Of
texts only the sizes count, but for what is searched for, split by or matched with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from wakeful.cel_costs import BY_TEXT, FUNCTIONS, OF_A_CALL, Bound, plain, sum_of
from wakeful.cel_sizes import Sizes, left_of, size_of, sizes_of

BUDGET = 30_000_000
ROUNDS = 10_000  # of all loops of one evaluation: the library ends it there
# What the library needs for each value that it is handed, or hands back, and for each round of a loop.
OF_A_VALUE = 300
OF_A_ROUND = 150
OF_GATHERING = 20  # for each round and each element that is gathered already: the library copies the list

Path = tuple[str, str]  # ("data", "title")


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
        parts = {path: Bound(OF_A_CALL, *size_of(value)) for path, value in fields.items()}
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
    if name in BY_TEXT:
        by_text = BY_TEXT[name]

        def bound(scope: Scope) -> Bound:
            named = path is not None and path[0] not in scope.names
            text = scope.texts.get(cast("Path", path)) if known is None and named else known
            return by_text([part(scope) for part in parts], text, known is not None)

        return bound
    function = FUNCTIONS.get(name, plain)
    return lambda scope: function([part(scope) for part in parts]) if parts else Bound(OF_A_CALL)


def _made_of(parts: list[Part]) -> Part:
    """A list or a map of these."""

    def bound(scope: Scope) -> Bound:
        given = [part(scope) for part in parts]
        whole = sum_of(given)
        longest = max((one.longest for one in given), default=0)
        return Bound(whole.cost + OF_A_CALL, 1 + whole.values, longest, whole.texts, len(given))

    return bound


def _list(message: bytes) -> Part:
    return _made_of([_part(cast("bytes", value)) for number, value in _fields(message) if number == 1])


def _struct(message: bytes) -> Part:
    """{key: value, …}: each entry has its key in 3 and its value in 4; the name of a field is 2."""
    parts = [
        _part(cast("bytes", value))
        for number, entry in _fields(message)
        if number == 2
        for place, value in _fields(cast("bytes", entry))
        if place in {3, 4}
    ]
    return _made_of(parts)


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
