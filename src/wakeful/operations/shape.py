"""The JSON schema of an answer: the expected value in words, and the errors of a given value.

Covers the keywords that pydantic generates. Unknown keywords pass: the code that asked validates the answer and can ask again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wakeful.errors import did_you_mean
from wakeful.intake.untrusted import Path, field_name, shown

Schema = dict[str, Any]

DEEPEST = 100  # nested references: a schema may be recursive
SHOWN_CHOICES = 12
WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def misfits(value: Any, schema: Schema | None, *, whole: str = "the answer") -> list[str]:
    """One line for each place that does not fit; empty if the value fits. `whole` is the name of the value itself."""
    lines = [] if schema is None else list(_Reading(schema).misfits(value, schema, (), 0))
    return [f"{whole}{line}" if line.startswith(":") else line for line in lines]


def fits(value: Any, schema: Schema | None) -> bool:
    return not misfits(value, schema)


def expected(schema: Schema | None) -> str:
    """The expected value, on one line: `an object with amount (a whole number from 1 up), note (text, may be left out)`."""
    return "any JSON" if schema is None else _Reading(schema).words(schema, 0)


class _Reading:
    """A schema with the definitions that it refers to."""

    def __init__(self, whole: Schema) -> None:
        self._definitions: dict[str, Any] = whole.get("$defs", {})

    # errors

    def misfits(self, value: Any, schema: Any, path: Path, depth: int) -> Iterator[str]:
        schema = self._resolved(schema)
        if not schema or depth > DEEPEST:
            return
        for part in schema.get("allOf", ()):
            yield from self.misfits(value, part, path, depth + 1)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            yield from self._none_of(value, choices, schema, path, depth)
            return
        if not _is_allowed(value, schema) or not _is_of(value, schema.get("type")):
            yield f"{field_name(path)}: {self.words(schema, 0)} is expected, not {_shown(value)}"
            return
        yield from self._limits(value, schema, path)
        if isinstance(value, dict):
            yield from self._members(value, schema, path, depth)
        elif isinstance(value, list):
            yield from self._items(value, schema, path, depth)

    def _none_of(self, value: Any, choices: list[Any], schema: Schema, path: Path, depth: int) -> Iterator[str]:
        found = [list(self.misfits(value, one, path, depth + 1)) for one in choices]
        if not all(found):
            return
        # Report each place for the alternative that was most likely meant.
        meant = [
            wrong
            for one, wrong in zip(choices, found, strict=True)
            if self._could_be(value, self._resolved(one), depth + 1)
        ]
        if len(meant) == 1:
            yield from meant[0]
        else:
            yield f"{field_name(path)}: {self.words(schema, 0)} is expected, not {_shown(value)}"

    def _could_be(self, value: Any, schema: Schema, depth: int) -> bool:
        """Whether the value has the right JSON type and matching discriminator members."""
        if schema.get("anyOf") or schema.get("oneOf"):
            return False
        if not (_is_of(value, schema.get("type")) and _is_allowed(value, schema)):
            return False
        if not isinstance(value, dict):
            return True
        members = {name: self._resolved(one) for name, one in schema.get("properties", {}).items()}
        tags = {name: one for name, one in members.items() if "const" in one}
        return all(
            name not in value or not any(self.misfits(value[name], one, (), depth)) for name, one in tags.items()
        )

    @staticmethod
    def _limits(value: Any, schema: Schema, path: Path) -> Iterator[str]:
        if isinstance(value, str):
            if "pattern" in schema and not _matches(schema["pattern"], value):
                yield f"{field_name(path)}: {_shown(value)} does not match the pattern {schema['pattern']}"
            wrong = _outside(len(value), schema.get("minLength"), schema.get("maxLength"))
            if wrong:
                yield f"{field_name(path)}: text of {wrong} characters is expected, and this has {len(value)}"
        elif isinstance(value, list):
            wrong = _outside(len(value), schema.get("minItems"), schema.get("maxItems"))
            if wrong:
                yield f"{field_name(path)}: a list of {wrong} is expected, and this has {len(value)}"
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
            wrong = _outside(value, schema.get("minimum"), schema.get("maximum"))
            if wrong or (over is not None and value <= over) or (under is not None and value >= under):
                yield f"{field_name(path)}: {_number_words(schema)} is expected, not {_shown(value)}"

    def _members(self, value: dict[str, Any], schema: Schema, path: Path, depth: int) -> Iterator[str]:
        members: dict[str, Any] = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{field_name((*path, name))} is missing: {self.words(members.get(name, {}), 0)} is expected"
        for name, one in value.items():
            inside = (*path, name)
            if name in members:
                yield from self.misfits(one, members[name], inside, depth + 1)
            elif others is False:
                yield f"there is no field {field_name(inside)}.{did_you_mean(name, members)}"
            elif isinstance(others, dict):
                yield from self.misfits(one, others, inside, depth + 1)

    def _items(self, value: list[Any], schema: Schema, path: Path, depth: int) -> Iterator[str]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items")
        for place, one in enumerate(value):
            of = first[place] if place < len(first) else rest
            if isinstance(of, dict):
                yield from self.misfits(one, of, (*path, place), depth + 1)

    # expected values

    def words(self, schema: Any, depth: int) -> str:
        schema = self._resolved(schema)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return " or ".join(dict.fromkeys(self.words(one, depth + 1) for one in choices))
        if "const" in schema:
            return _shown(schema["const"])
        if "enum" in schema:
            shown_ones = ", ".join(_shown(one) for one in schema["enum"][:SHOWN_CHOICES])
            more = f" or {len(schema['enum']) - SHOWN_CHOICES} more" if len(schema["enum"]) > SHOWN_CHOICES else ""
            return f"one of {shown_ones}{more}" if len(schema["enum"]) > 1 else shown_ones
        match schema.get("type"):
            case "string":
                wanted = _reach(schema.get("minLength"), schema.get("maxLength"))
                return (
                    f"text of {wanted} characters"
                    if wanted
                    else f"text ({form})"
                    if (form := schema.get("format"))
                    else "text"
                )
            case "integer" | "number":
                return _number_words(schema)
            case "array" if isinstance(schema.get("items"), dict) and depth < DEEPEST:
                return f"a list, each {self.words(schema['items'], depth + 1)}"
            case "object" if schema.get("properties") and depth == 0:
                return f"an object with {', '.join(self._member_words(schema))}"
            case list() as kinds:
                return " or ".join(WORDS.get(kind, str(kind)) for kind in kinds)
            case str() as kind:
                return WORDS.get(kind, kind)
            case _:
                return "any JSON"

    def _member_words(self, schema: Schema) -> Iterator[str]:
        needed = schema.get("required", ())
        for name, one in schema["properties"].items():
            yield f"{name} ({self.words(one, 1)}{'' if name in needed else ', may be left out'})"

    def _resolved(self, schema: Any) -> Schema:
        """The schema behind a reference."""
        for _ in range(DEEPEST):
            if not (isinstance(schema, dict) and "$ref" in schema):
                return schema if isinstance(schema, dict) else {}
            schema = self._definitions.get(str(schema["$ref"]).removeprefix("#/$defs/"))
        return {}


def _is_of(value: Any, kind: Any) -> bool:
    if isinstance(kind, list):
        return any(_is_of(value, one) for one in kind)
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True


def _is_allowed(value: Any, schema: Schema) -> bool:
    if "const" in schema and not _same(value, schema["const"]):
        return False
    return "enum" not in schema or any(_same(value, one) for one in schema["enum"])


def _same(first: Any, second: Any) -> bool:
    """Equality as in JSON: true is not 1."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _matches(pattern: Any, text: str) -> bool:
    try:
        return re.search(str(pattern), text) is not None
    except re.error:  # a pattern of another regex dialect: left to the code
        return True


def _outside(size: float, least: float | None, most: float | None) -> str:
    if (least is not None and size < least) or (most is not None and size > most):
        return _reach(least, most)
    return ""


def _reach(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f"{least:g}" if least == most else f"{least:g} to {most:g}"
    return f"at least {least:g}" if least is not None else f"at most {most:g}" if most is not None else ""


def _number_words(schema: Schema) -> str:
    told = [WORDS["integer" if schema.get("type") == "integer" else "number"]]
    for name, words in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "over"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "under"),
    ):
        if schema.get(name) is not None:
            told.append(f"{words} {schema[name]:g}")
    return told[0] if len(told) == 1 else f"{told[0]} of {' and '.join(told[1:])}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else shown(value)
