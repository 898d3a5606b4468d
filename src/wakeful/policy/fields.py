"""The fields of a map in a policy, read by kind. Each value that does not fit is added to the problems and is None then,
so that reading goes on and all problems are found at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import did_you_mean
from wakeful.policy.tree import Items, Node, Place, Problems, Scalar, Table
from wakeful.rate import Rate

LONGEST_SPAN: Microseconds = 366 * 86_400 * SECOND
MOST = 1_000_000_000  # of a count
LONGEST_TEXT = 1_000
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")


class Fields:
    """A map whose fields are known. `what` names it in messages."""

    def __init__(self, table: Table, known: Sequence[str], what: str, problems: Problems) -> None:
        self.place = table.place
        self._table = table
        self._problems = problems
        for name, (place, _) in table.fields.items():
            if name not in known:
                problems.add(place, f'{what} has no field "{name}".{did_you_mean(name, known)}')

    def __contains__(self, name: str) -> bool:
        return name in self._table.fields

    def name_place(self, name: str) -> Place:
        """The place of the field's name."""
        return self._table.fields[name][0]

    def node(self, name: str) -> Node | None:
        found = self._table.fields.get(name)
        return None if found is None else found[1]

    def scalar(self, name: str) -> Scalar | None:
        """A text, which must not be empty."""
        node = self.node(name)
        return None if node is None else self._text(name, node)

    def texts(self, name: str) -> list[Scalar] | None:
        """One text, or a list of them. None if it is not given, or if one of them does not fit."""
        node = self.node(name)
        if node is None:
            return None
        if not isinstance(node, Items):
            one = self._text(name, node)
            return None if one is None else [one]
        if not node.items:
            self._problems.add(node.place, f"{name}: the list is empty")
        found = [self._text(name, item) for item in node.items]
        fitting = [one for one in found if one is not None]
        return fitting if found and len(fitting) == len(found) else None

    def choice(self, name: str, options: Collection[str], otherwise: str | None = None) -> str | None:
        """One of some words; `otherwise` if it is not given."""
        if name not in self:
            return otherwise
        node = self.node(name)
        if isinstance(node, Scalar) and node.kind not in ("nothing", "broken"):  # `no` is a wrong word, not a flag
            if node.text in options:
                return node.text
            self._problems.add(node.place, f'{name}: "{node.text}" is not known.{did_you_mean(node.text, options)}')
        elif node is not None:
            self._refuse(name, node, "a text")
        return None

    def span(self, name: str, otherwise: Microseconds) -> Microseconds:
        """A duration like 4h."""
        found = self._written(name, "a duration like 4h")
        if found is None:
            return otherwise
        try:
            span = duration(found.text)
        except (ValueError, OverflowError):
            problem = f'{name}: "{found.text}" is not a duration: write it like 30s, 10m, 4h or 2d'
            self._problems.add(found.place, problem)
            return otherwise
        if not 0 < span <= LONGEST_SPAN:
            self._problems.add(found.place, f'{name}: "{found.text}" is not between 1us and 366d')
            return otherwise
        return span

    def rate(self, name: str) -> Rate | None:
        """A rate like 20/h."""
        found = self._written(name, "a rate like 20/h")
        if found is None:
            return None
        try:
            rate = Rate.read(found.text)
            if rate.most > MOST or rate.within > LONGEST_SPAN:
                raise ValueError
        except (ValueError, OverflowError):
            problem = f'{name}: "{found.text}" is not a rate: write a count and a time span, like 20/h or 5/10m'
            self._problems.add(found.place, problem)
            return None
        return rate

    def whole(self, name: str, otherwise: int) -> int:
        """A whole number from 1."""
        node = self.node(name)
        if node is None:
            return otherwise
        if isinstance(node, Scalar) and node.kind == "whole" and _WHOLE.fullmatch(node.text) and int(node.text) >= 1:
            return int(node.text)
        self._refuse(name, node, "a whole number from 1")
        return otherwise

    def flag(self, name: str, *, otherwise: bool) -> bool:
        """The value of `true` or `false`."""
        node = self.node(name)
        if node is None:
            return otherwise
        if isinstance(node, Scalar) and node.kind == "flag":
            return node.is_true
        self._refuse(name, node, "true or false")
        return otherwise

    def items(self, name: str) -> list[Node] | None:
        """A list with at least one item."""
        node = self.node(name)
        if isinstance(node, Items) and node.items:
            return node.items
        if isinstance(node, Items):
            self._problems.add(node.place, f"{name}: the list is empty")
        elif node is not None:
            self._refuse(name, node, "a list")
        return None

    def table(self, name: str) -> Table | None:
        node = self.node(name)
        if node is None or isinstance(node, Table):
            return node
        self._refuse(name, node, "a map")
        return None

    def _written(self, name: str, wanted: str) -> Scalar | None:
        node = self.node(name)
        return None if node is None else self._text(name, node, wanted)

    def _text(self, name: str, node: Node, wanted: str = "a text") -> Scalar | None:
        if not isinstance(node, Scalar) or node.kind != "text":
            self._refuse(name, node, wanted)
            return None
        if not node.text.strip():
            self._problems.add(node.place, f"{name}: the text is empty")
            return None
        return node

    def _refuse(self, name: str, node: Node, wanted: str) -> None:
        if isinstance(node, Scalar) and node.kind == "broken":  # its problem is known
            return
        hint = ""
        if wanted == "a text" and isinstance(node, Scalar) and node.kind in ("flag", "whole", "number", "other"):
            hint = f': YAML does not read {node.text} as a text, unless it is in quotes: "{node.text}"'
        self._problems.add(node.place, f"{name} must be {wanted}, not {shown(node)}{hint}")


def shown(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Table):
        return "a map"
    if node.kind == "nothing":
        return "empty"
    kinds = {"whole": "the number ", "number": "the number ", "flag": "the flag "}
    text = node.text if len(node.text) <= 40 else f"{node.text[:40]}…"
    return f'"{text}"' if node.kind == "text" else f"{kinds.get(node.kind, '')}{text}"
