"""The YAML of a policy, or of another file of an app, as a tree in which every value knows its place, so that every mistake can be
shown where it is.

Only what such a file needs is read: maps with text keys, lists, and scalars. Anchors, aliases, tags and a second document
are refused, and so are maps that have a field twice. Nothing is constructed: a scalar keeps its text and its kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

LARGEST = 1_000_000  # bytes of a text
DEEPEST = 16
_LINE = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KINDS: dict[str, Kind] = {"str": "text", "int": "whole", "float": "number", "bool": "flag", "null": "nothing"}
_TRUE = {"true", "yes", "on"}

Kind = Literal["text", "whole", "number", "flag", "nothing", "other", "broken"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in one of the files: it sorts by file, then by line and column, which count from 1."""

    number: int
    line: int
    column: int
    file: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problems:
    """The mistakes in the files of a policy, collected."""

    def __init__(self) -> None:
        self._found: list[tuple[Place, str]] = []

    def add(self, place: Place, problem: str) -> None:
        self._found.append((place, problem))

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """One line for each, sorted by place."""
        return [f"{place}: {problem}" for place, problem in sorted(self._found)]


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file."""

    number: int
    file: str
    lines: Sequence[str]

    def place(self, line: int, column: int) -> Place:
        """A place, by line and column that count from 0."""
        return Place(self.number, line + 1, column + 1, self.file)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. Its kind is what YAML makes of it: `on` is a flag, unless it is in quotes."""

    place: Place
    text: str
    kind: Kind
    style: str | None = None
    end: tuple[int, int] = (0, 0)  # line and column, from 0
    source: Source | None = None

    @property
    def is_true(self) -> bool:
        return self.text.lower() in _TRUE

    def at(self, line: int, column: int) -> Place:
        """The place of a character of its text, by line and column from 1. Where that is unknown (escapes, folded
        lines), the place of the scalar itself.
        """
        if self.source is None or line < 1 or column < 1:
            return self.place
        first = self.place.line - 1
        if self.style == "|":
            return self._in_block(self.source, first, line, column)
        if line == 1 and self.end[0] == first:
            quoted = self.style in ("'", '"')
            written = self.source.lines[first][self.place.column - 1 : self.end[1]]
            if (written[1:-1] if quoted else written) == self.text:
                return self.source.place(first, self.place.column - 1 + quoted + column - 1)
        return self.place

    def _in_block(self, source: Source, first: int, line: int, column: int) -> Place:
        lines = source.lines[first + 1 : self.end[0] + 1]
        indent = next((len(one) - len(one.lstrip(" ")) for one in lines if one.strip(" ")), 0)
        texts = self.text.split("\n")
        if line <= min(len(lines), len(texts)) and lines[line - 1][indent:] == texts[line - 1]:
            return source.place(first + line, indent + column - 1)
        return self.place


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: Place
    items: list[Node]


@dataclass(frozen=True, slots=True)
class Table:
    """A map: each field with the place of its name."""

    place: Place
    fields: dict[str, tuple[Place, Node]]


Node = Scalar | Items | Table


@dataclass(frozen=True, slots=True)
class FileKind:
    """What the file is, in messages: its noun, and how it begins."""

    noun: str = "a policy"
    begins: str = "policy: 1"


POLICY = FileKind()


def read_tree(number: int, file: str, text: str, problems: Problems, what: FileKind = POLICY) -> Node | None:
    """The tree of a file. None if it is empty or is not YAML; then the problem is added."""
    text = text.removeprefix("\ufeff")
    source = Source(number, file, _LINE.split(text))
    if len(text) > LARGEST or len(text.encode("utf-8", "replace")) > LARGEST:
        problems.add(source.place(0, 0), f"the file is larger than {LARGEST:,} bytes")
        return None
    if (unreadable := _UNREADABLE.search(text)) is not None:
        line = len(_LINE.findall(text, 0, unreadable.start()))
        column = unreadable.start() - max((one.end() for one in _LINE.finditer(text, 0, unreadable.start())), default=0)
        problems.add(source.place(line, column), f"the character U+{ord(unreadable[0]):04X} is not allowed in YAML")
        return None
    return _Builder(source, problems, what).build(text)


@lru_cache(maxsize=1)
def _yaml() -> tuple[Any, Any, Any]:
    """The library, its parser and its resolver. Imported here because only programs with a policy need it."""
    import yaml

    return yaml, getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.resolver.Resolver()


class _Stop(Exception):
    """The rest of the file cannot be read. Its problem is added."""


@dataclass(slots=True)
class _Open:
    """A list or a map that is being read."""

    node: Items | Table
    name: Scalar | None = None  # the name of the field whose value comes next
    waits: bool = False  # for the value of a field; its name may be none


class _Builder:
    """Makes a tree of the parser's events: no recursion, so that a text with many brackets is only a long text."""

    def __init__(self, source: Source, problems: Problems, what: FileKind) -> None:
        self._source = source
        self._problems = problems
        self._what = what
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._documents = 0

    def build(self, text: str) -> Node | None:
        yaml, loader, _ = _yaml()
        try:
            for event in yaml.parse(text, Loader=loader):
                self._take(event)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line, column = (0, 0) if mark is None else (mark.line, mark.column)
            self._problems.add(self._source.place(line, column), f"this is not YAML: {self._words(error, line)}")
            return None
        except _Stop:
            return None
        if self._root is None:
            self._problems.add(self._source.place(0, 0), f"the file is empty: begin it with {self._what.begins}")
        return self._root

    def _words(self, error: Any, line: int) -> str:
        here = self._source.lines[line] if line < len(self._source.lines) else ""
        if "\t" in here[: len(here) - len(here.lstrip())]:
            return "the line is indented with a tab; use spaces"
        parts = [getattr(error, "context", None), getattr(error, "problem", None)]
        return ", ".join(part for part in parts if part) or "it cannot be read"

    def _take(self, event: Any) -> None:
        kind = type(event).__name__
        place = self._source.place(event.start_mark.line, event.start_mark.column)
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                self._stop(place, f"a second document begins here; {self._what.noun} is one document")
        if kind == "AliasEvent":
            self._problems.add(
                place, f"anchors and aliases are not allowed in {self._what.noun}: write the value again"
            )
            self._put(Scalar(place, "", "broken"))
        if getattr(event, "anchor", None) is not None and kind != "AliasEvent":
            self._problems.add(place, f"anchors and aliases are not allowed in {self._what.noun}")
        if kind == "ScalarEvent":
            self._put(self._scalar(event, place))
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._check_tag(event, place)
            if len(self._open) >= DEEPEST:
                self._stop(place, f"more than {DEEPEST} lists and maps are inside each other")
            self._open.append(_Open(Items(place, []) if kind == "SequenceStartEvent" else Table(place, {})))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            self._put(self._open.pop().node)

    def _stop(self, place: Place, problem: str) -> None:
        self._problems.add(place, problem)
        raise _Stop

    def _check_tag(self, event: Any, place: Place) -> bool:
        if event.tag is not None:
            self._problems.add(place, f"the tag {event.tag} is not allowed in {self._what.noun}")
        return event.tag is None

    def _scalar(self, event: Any, place: Place) -> Scalar:
        yaml, _, resolver = _yaml()
        kind: Kind = "broken"
        if self._check_tag(event, place):
            tag = resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
            kind = _KINDS.get(tag.rpartition(":")[2], "other")
        end = (event.end_mark.line, event.end_mark.column)
        return Scalar(place, event.value, kind, event.style, end, self._source)

    def _put(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        inner = self._open[-1]
        if isinstance(inner.node, Items):
            inner.node.items.append(node)
        elif not inner.waits:
            inner.waits = True
            inner.name = node if isinstance(node, Scalar) else None
            if inner.name is None:
                self._problems.add(node.place, "the name of a field must be a text")
        else:
            self._field(inner.node, inner.name, node)
            inner.waits = False

    def _field(self, table: Table, name: Scalar | None, value: Node) -> None:
        if name is None or name.kind == "broken":
            return
        if name.text in table.fields:
            first = table.fields[name.text][0]
            self._problems.add(name.place, f'the field "{name.text}" is given twice; the first one is at {first}')
            return
        table.fields[name.text] = (name.place, value)
