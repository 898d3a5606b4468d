"""The cost limit of a CEL evaluation, checked before it begins.

The library stops an evaluation after 10,000 rounds of its loops and limits nothing else: one `replace` or `contains`
over two large texts blocks a process for seconds. So the compiled expression is read once, and its cost is bounded from
above by three numbers about its input:

    values    the number of values, at all depths             (a list of 10 numbers: 11)
    longest   the characters of the longest text
    texts     the characters of all texts together

cel_costs.py has the cost of each function by these numbers. An expression whose bound is over BUDGET is not evaluated.
Only the sizes of texts count, except for texts that are searched for, split by or matched with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from wakeful.cel_costs import BY_TEXT, FUNCTIONS, OF_A_CALL, CostBound, plain, sum_of
from wakeful.cel_sizes import Sizes, left_of, size_of, sizes_of

BUDGET = 30_000_000
ROUNDS = 10_000  # of all loops of one evaluation: the library stops there
# The library's cost for each value that it is given or returns, and for each round of a loop.
OF_A_VALUE = 300
OF_A_ROUND = 150
OF_GATHERING = 20  # for each round and each element gathered so far: the library copies the list

Path = tuple[str, str]  # ("data", "title")


class Scope(NamedTuple):
    """The sizes that the names of an expression stand for: `given` is the whole input, `fields` are parts of it, like
    ("data", "title"), and `names` are loop variables. `rounds`: how often this part is evaluated inside nested loops.
    """

    given: CostBound
    fields: Mapping[Path, CostBound]
    texts: Mapping[Path, str]  # the fields that are texts
    names: Mapping[str, CostBound]
    rounds: int = 1


Part = Callable[[Scope], CostBound]
NO_FIELDS: dict[Any, Any] = {}


class Meter:
    """Decides by sizes whether an expression could exceed its budget."""

    __slots__ = ("_part", "small")

    def __init__(self, compiled: bytes) -> None:
        """`compiled` is the expression as the library serializes it."""
        self._part = _read(compiled)
        self.small = 0  # an input of up to this many values and characters together is always within the budget
        size = 64
        while size <= 1 << 24 and self.cost(Sizes(size, size, size)) <= BUDGET:
            self.small, size = size, size * 2

    def cost(self, sizes: Sizes, bindings: Mapping[str, Any] = NO_FIELDS) -> int:
        """The highest cost of an evaluation over an input of this size, including the conversion in and out. With
        `bindings` its parts are measured one by one.
        """
        fields = {
            (root, name): value for root, held in bindings.items() if type(held) is dict for name, value in held.items()
        }
        parts = {path: CostBound(OF_A_CALL, *size_of(value)) for path, value in fields.items()}
        texts = {path: value for path, value in fields.items() if type(value) is str}
        bound = self._part(Scope(CostBound(OF_A_CALL, *sizes), parts, texts, {}))
        there = sizes.values * OF_A_VALUE + 2 * sizes.texts
        return there + bound.cost + bound.values * OF_A_VALUE + 2 * bound.texts

    def excess(self, bindings: Mapping[str, Any]) -> str | None:
        """Why an evaluation over this input could exceed its budget, or None if it cannot."""
        if left_of(self.small, bindings) >= 0:
            return None
        sizes = sizes_of(bindings.values())
        cost = self.cost(sizes, bindings)
        if cost <= BUDGET:
            return None
        return f"with {sizes.values:,} values and {sizes.texts:,} characters it could cost {cost:,} units; {BUDGET:,} are allowed"


# the compiled expression: protocol buffers, cel.expr.CheckedExpr and cel.expr.Expr


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
    return lambda _: CostBound(1)


def _text_of(message: bytes) -> str | None:
    """The text, if the expression is only a text constant."""
    for number, value in _fields(message):
        if number == CONST:
            for kind, held in _fields(cast("bytes", value)):
                if kind == _STRING:
                    return cast("bytes", held).decode()
    return None


def _name_of(message: bytes) -> str:
    """The name, if the expression is only a name."""
    for number, value in _fields(message):
        if number == NAME:
            return b"".join(cast("bytes", one) for place, one in _fields(cast("bytes", value)) if place == 1).decode()
    return ""


def _path_of(message: bytes) -> Path | None:
    """The field of a name, if the expression is only that."""
    for number, value in _fields(message):
        if number == SELECT:
            fields = dict(_fields(cast("bytes", value)))
            return _name_of(cast("bytes", fields.get(1, b""))), cast("bytes", fields.get(2, b"")).decode()
    return None


def _const(message: bytes) -> Part:
    length = sum(len(cast("bytes", value)) for kind, value in _fields(message) if kind in {_STRING, _BYTES})
    bound = CostBound(1, 1, length, length)
    return lambda _: bound


def _name(message: bytes) -> Part:
    name = b"".join(cast("bytes", value) for number, value in _fields(message) if number == 1).decode()
    return lambda scope: scope.names.get(name, scope.given)


def _select(message: bytes) -> Part:
    """A field is not larger than the value that contains it."""
    fields = dict(_fields(message))
    operand, field = cast("bytes", fields.get(1, b"")), cast("bytes", fields.get(2, b"")).decode()
    inner, path = _part(operand), (_name_of(operand), field)

    def bound(scope: Scope) -> CostBound:
        known = scope.fields.get(path) if path[0] not in scope.names else None
        if known is not None:
            return known
        of = inner(scope)
        return CostBound(of.cost + OF_A_CALL, of.values, of.longest, of.texts)

    return bound


def _call(message: bytes) -> Part:
    fields = list(_fields(message))
    name = next((cast("bytes", value).decode() for number, value in fields if number == 2), "")
    written = [cast("bytes", value) for number, value in fields if number in {1, 3}]  # the receiver comes first
    parts = [_part(one) for one in written]
    second = written[1] if len(written) > 1 else b""
    known, path = _text_of(second), _path_of(second)
    if name in BY_TEXT:
        by_text = BY_TEXT[name]

        def bound(scope: Scope) -> CostBound:
            named = path is not None and path[0] not in scope.names
            text = scope.texts.get(cast("Path", path)) if known is None and named else known
            return by_text([part(scope) for part in parts], text, known is not None)

        return bound
    function = FUNCTIONS.get(name, plain)
    return lambda scope: function([part(scope) for part in parts]) if parts else CostBound(OF_A_CALL)


def _made_of(parts: list[Part]) -> Part:
    """A list or a map of these parts."""

    def bound(scope: Scope) -> CostBound:
        given = [part(scope) for part in parts]
        whole = sum_of(given)
        longest = max((one.longest for one in given), default=0)
        return CostBound(whole.cost + OF_A_CALL, 1 + whole.values, longest, whole.texts, len(given))

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
    """all, exists, map, filter: for each element of a range, a condition and a step that changes the gathered value."""

    name: str
    gathered: str
    gathers: bool  # gathers a list; otherwise a boolean or a count
    range: Part
    first: Part
    condition: Part
    step: Part
    result: Part

    def __call__(self, scope: Scope) -> CostBound:
        """No function here costs less for one large text than for two halves of it. So the worst case is that all
        elements are equal, or that one element is everything; the sum of both cases is above either.
        """
        over, first = self.range(scope), self.first(scope)
        rounds = max(1, min(over.elements, -(-ROUNDS // scope.rounds)))
        share = -(-over.texts // rounds)
        alike = CostBound(1, -(-over.values // rounds), min(over.longest, share), share)
        each, cost_of_each = self._round(scope, alike, rounds)
        one, cost_of_one = self._round(scope, CostBound(1, over.values, over.longest, over.texts), 1)
        made = CostBound(
            1,
            first.values + one.values + rounds * each.values,
            max(first.longest, one.longest),
            first.texts + one.texts + rounds * each.texts,
            rounds if self.gathers else -1,
        )
        end = self.result(scope._replace(names={**scope.names, self.gathered: made}))
        cost = over.cost + first.cost + rounds * cost_of_each + cost_of_one + end.cost
        # A few outer rounds with all of this loop's rounds cost more than many outer rounds with a part of them.
        copied = rounds * min(over.elements, ROUNDS) if self.gathers else 0
        return CostBound(cost + OF_GATHERING * copied, *end[1:])

    def _round(self, scope: Scope, element: CostBound, rounds: int) -> tuple[CostBound, int]:
        """What one round adds to the gathered value, and its cost."""
        names = {**scope.names, self.name: element, self.gathered: CostBound(1)}
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
