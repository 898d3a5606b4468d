"""The text of a CEL expression: its tokens, the fields that it names, and words for mistakes in it.

Nothing here needs the library: an expression is read before it is compiled, so that only the fields it names are passed
to it, and so that the library's errors can be told in one line, with a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from wakeful.errors import did_you_mean

SHOWN_LIMIT = 200
ROOTS = ("data", "event")

TEXTS = (
    "id",
    "source",
    "type",
    "subject",
    "datacontenttype",
    "dataschema",
    "traceparent",
    "correlationid",
    "causationid",
)
TIMES = ("time", "expirytime")
_TOKEN = re.compile(
    r"""
      (?P<skipped> \s+ | //[^\n]* )
    | (?P<text>    "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )
    | (?P<name>    [A-Za-z_][A-Za-z_0-9]* )
    | (?P<sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")

Path = tuple[str, ...]


def on_one_line(expression: str) -> str:
    line = " ".join(expression.split())
    return line if len(line) <= SHOWN_LIMIT else line[:SHOWN_LIMIT] + "…"


def tokens_of(expression: str) -> list[tuple[str, str]] | None:
    """The tokens of an expression as (kind, text), or None if it holds something that is not parsed here.

    Raw, byte and triple-quoted texts and quoted names have rules of their own; they are too rare to parse.
    """
    tokens: list[tuple[str, str]] = []
    before = "skipped"
    for match in _TOKEN.finditer(expression):
        kind, text = str(match.lastgroup), match.group()
        if text in ("`", '"', "'") or (kind == "text" and before in ("name", "text")):
            return None
        before = kind
        if kind != "skipped":
            tokens.append((kind, text))
    return tokens


def paths_of(tokens: list[tuple[str, str]], roots: Collection[str] = ROOTS) -> list[Path]:
    """The paths that start at one of the roots: data.a.b and data["a"] are ("data", "a", "b") and ("data", "a").

    A root that stands alone, or is used in another way, is a path of length one: then everything is needed.
    """
    ends = [*tokens, ("end", ""), ("end", ""), ("end", "")]
    paths: list[Path] = []
    for position, (kind, text) in enumerate(tokens):
        if kind != "name" or text not in roots:
            continue
        if position and tokens[position - 1][1] == ".":
            if not _is_member(tokens, position):
                paths.append((text,))
            continue
        path = [text]
        position += 1
        while True:
            sign, (next_kind, next_text), after = ends[position][1], ends[position + 1], ends[position + 2][1]
            if sign == "." and next_kind == "name" and after != "(":
                path.append(next_text)
                position += 2
            elif sign == "[" and next_kind == "text" and after == "]" and "\\" not in next_text:
                path.append(next_text[1:-1])
                position += 3
            else:
                break
        paths.append(tuple(path))
    return paths


def _is_member(tokens: list[tuple[str, str]], position: int) -> bool:
    """Whether the name at `position`, which follows a dot, is a field of something; in `.data` it is the root itself."""
    kind, text = tokens[position - 2] if position >= 2 else ("end", "")
    return (kind in ("name", "text") and text != "in") or text in (")", "]", "}")


def fields_of(root: str, paths: list[Path] | None) -> tuple[str, ...] | None:
    """The first fields below a root that the paths name; None if all of it is needed."""
    if paths is None:
        return None
    mine = [path for path in paths if path[0] == root]
    if any(len(path) == 1 for path in mine):
        return None
    return tuple(dict.fromkeys(path[1] for path in mine))


def complaint_about(tokens: list[tuple[str, str]], paths: list[Path]) -> str | None:
    """A reason to refuse an expression that the library would accept but that could never match."""
    for path in paths:
        # A misspelt attribute in lower case may be an extension, so only impossible attribute names are refused.
        if path[0] == "event" and len(path) > 1 and not _ATTRIBUTE_NAME.fullmatch(path[1]):
            suggestion = did_you_mean(path[1].lower().replace("_", ""), (*TEXTS, *TIMES))
            return f"names event.{path[1]}, but an event has no such attribute.{suggestion}"
    words = [text for _, text in tokens]
    for position in range(len(words) - 5):
        # The library takes the qualified name for the argument, so has() would return the time itself.
        if words[position : position + 4] == ["has", "(", "event", "."] and words[position + 4] in TIMES:
            name = words[position + 4]
            return f"uses has(event.{name}), which does not work: write '{name}' in event"
    return None


_PROBLEM = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_FUNCTIONS = (
    "contains",
    "endsWith",
    "startsWith",
    "matches",
    "size",
    "has",
    "all",
    "exists",
    "exists_one",
    "filter",
    "map",
    "timestamp",
    "duration",
    "lowerAscii",
    "upperAscii",
    "split",
    "trim",
    "replace",
    "substring",
    "indexOf",
    "join",
    "string",
    "int",
    "double",
)
_HABITS = {"and": "&&", "or": "||", "not": "!", "True": "true", "False": "false", "None": "null"}


class Refusal(NamedTuple):
    """Why the library refuses an expression: where, and a name that does not exist or else a syntax error."""

    line: int  # line and column count from 1; 0 if the place is not known
    column: int
    name: str | None
    problem: str


def refusal_of(problem: str) -> Refusal:
    """Read the library's error, which has several lines."""
    match = _PROBLEM.search(problem)
    if match is None:
        return Refusal(0, 0, None, problem.splitlines()[0])
    text = match[3].removesuffix("[INVALID_ARGUMENT]").strip()
    undeclared = UNDECLARED.search(text)
    text = text.removeprefix("Syntax error: ").partition(" expecting {")[0].replace("'<EOF>'", "the end")
    return Refusal(int(match[1]), int(match[2]), None if undeclared is None else undeclared[1], text)


def reworded(problem: str, expression: str) -> str:
    """The library's several lines as one: the error, its column, and what was probably meant."""
    line, column, name, text = refusal_of(problem)
    if not line:
        return f"is not a CEL expression: {text}"
    place = f"at column {column}" if line == 1 else f"at line {line}, column {column}"
    if name is not None:
        return f'names "{name}" {place}, which does not exist.{meant_by(name, expression)}'
    return f"is not a CEL expression: {text} {place}.{habit_in(expression)}"


def meant_by(name: str, expression: str, roots: Collection[str] = ROOTS) -> str:
    """A guess for a name that does not exist."""
    if name in _HABITS:
        return f' Did you mean "{_HABITS[name]}"?'
    root, dot, rest = name.partition(".")
    if re.search(rf"\b{re.escape(name)}\s*\(", expression):
        return did_you_mean(name, _FUNCTIONS)
    near = did_you_mean(root, roots)
    if dot and "Did you mean" in near:
        return f'{near[:-2]}.{rest}"?'
    if name in (*TEXTS, *TIMES):
        return f' Did you mean "event.{name}"?'
    return f' Did you mean "data.{name}"?'


def habit_in(expression: str) -> str:
    """A hint for habits from other languages, like `and` for &&."""
    tokens = tokens_of(expression) or []
    words = [text for kind, text in tokens if kind == "name"]
    for word in ("and", "or", "not"):
        if word in words:
            return f' Did you mean "{_HABITS[word]}"?'
    signs = [text for kind, text in tokens if kind == "sign"]
    for sign, double in (("=", "=="), ("&", "&&"), ("|", "||")):
        alone = re.search(rf"(?<![{re.escape(sign)}<>!]){re.escape(sign)}(?!{re.escape(sign)})", expression)
        if sign in signs and alone is not None:
            return f' Did you mean "{double}"?'
    return ""
