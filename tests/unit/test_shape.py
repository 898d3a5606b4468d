"""What an answer must be: each place that does not fit is named, in words, and what is not known passes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from wakeful.operations.answering import understand
from wakeful.operations.shape import expected, fits, misfits


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=2, max_length=10)
    count: int = Field(default=1, ge=1, le=9)


class Order(BaseModel):
    lines: list[Line] = Field(min_length=1)
    size: Size = Size.SMALL
    note: str | None = None
    kind: Literal["order"] = "order"
    discount: float = Field(default=0, gt=-1, lt=1)
    tags: dict[str, int] = {}


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def schema_of(kind: Any) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


FULL = {"lines": [{"name": "tea"}], "size": "l", "note": None, "kind": "order", "discount": 0.5, "tags": {"a": 1}}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (bool, True),
        (int, 3),
        (int, 3.0),
        (float, 3),
        (str, ""),
        (str | None, None),
        (Literal["a", 1], 1),
        (Size, "s"),
        (Order, {"lines": [{"name": "tea", "count": 9}]}),
        (Order, FULL),
        (Tree, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}),
        (Pet, {"kind": "dog", "name": "Rex"}),
        (tuple[int, str], [1, "a"]),
        (set[int], [1, 2]),
        (dict[str, list[int]], {"a": [1], "b": []}),
        (datetime, "2026-01-31T12:00:00Z"),
        (Decimal, "1.5"),
        (Any, {"a": 1}),
        (Annotated[str, Field(pattern=r"^\d+$")], "123"),
    ],
)
def test_what_fits_passes(kind: Any, value: Any):
    assert misfits(value, schema_of(kind)) == []


@pytest.mark.parametrize(
    ("kind", "value", "lines"),
    [
        (bool, "yes", ['the answer: true or false is expected, not "yes"']),
        (bool, 1, ["the answer: true or false is expected, not 1"]),
        (int, True, ["the answer: a whole number is expected, not true"]),
        (int, 1.5, ["the answer: a whole number is expected, not 1.5"]),
        (str, None, ["the answer: text is expected, not null"]),
        (str | None, 3, ["the answer: text or null is expected, not 3"]),
        (Literal[1, 2], True, ["the answer: one of 1, 2 is expected, not true"]),
        (Size, "x", ['the answer: one of "s", "l" is expected, not "x"']),
        (tuple[int, str], [1, 2], ["[1]: text is expected, not 2"]),
        (tuple[int, str], [1], ["the answer: a list of 2 is expected, and this has 1"]),
        (dict[str, int], {"a": 1, "b": "c"}, ['b: a whole number is expected, not "c"']),
        (Annotated[str, Field(pattern=r"^\d+$")], "a", [r'the answer: "a" does not match the pattern ^\d+$']),
        (Tree, {"name": "a", "children": [{}]}, ["children[0].name is missing: text is expected"]),
        (Line | None, {"name": "x"}, ["name: text of 2 to 10 characters is expected, and this has 1"]),
        (Pet, {"kind": "cat", "lives": "9"}, ['lives: a whole number is expected, not "9"']),
        (
            Order,
            {"lines": [{"nam": "tea", "count": 10}], "kind": "offer", "discount": 1, "note": 3},
            [
                "lines[0].name is missing: text of 2 to 10 characters is expected",
                'there is no field lines[0].nam. Did you mean "name"?',
                "lines[0].count: a whole number of at least 1 and at most 9 is expected, not 10",
                'kind: "order" is expected, not "offer"',
                "discount: a number of over -1 and under 1 is expected, not 1",
                "note: text or null is expected, not 3",
            ],
        ),
        (Order, [], None),
        (Order, {"lines": []}, ["lines: a list of at least 1 is expected, and this has 0"]),
    ],
)
def test_each_place_that_does_not_fit_is_named(kind: Any, value: Any, lines: list[str] | None):
    found = misfits(value, schema_of(kind))
    if lines is None:
        assert len(found) == 1
        assert found[0].startswith("the answer: an object with lines (a list")
    else:
        assert found == lines


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "something new"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "string", "pattern": "(?<![a-z"},
        {"not": {"type": "string"}},
        {"type": "string", "format": "email"},
        {},
    ],
)
def test_what_is_not_known_passes(schema: dict[str, Any]):
    assert fits("text", schema)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-20, 20) | some.floats(-2, 2) | some.text(max_size=12),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(["lines", "name", "count", "note", "kind", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
@pytest.mark.parametrize("kind", [Order, Line, Tree, Pet, bool, int, Size, tuple[int, str]])
def test_what_it_refuses_the_code_refuses_strictly_too(kind: Any, value: Any):
    """Nothing is kept from the code that it would have read as it stands."""
    try:
        TypeAdapter(kind).validate_json(TypeAdapter(Any).dump_json(value), strict=True)
    except ValidationError:
        return
    assert misfits(value, schema_of(kind)) == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (bool, "true or false"),
        (None, "any JSON"),
        (Annotated[int, Field(ge=1)], "a whole number of at least 1"),
        (Size, 'one of "s", "l"'),
        (list[int], "a list, each a whole number"),
        (datetime, "text (date-time)"),
        (
            Line,
            (
                "an object with name (text of 2 to 10 characters), "
                "count (a whole number of at least 1 and at most 9, may be left out)"
            ),
        ),
    ],
)
def test_what_is_expected_is_told_in_words(kind: Any, words: str):
    assert expected(None if kind is None else schema_of(kind)) == words


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("yes", bool, True),
        ("No", bool, False),
        ("true", bool, True),
        ("yes", str, "yes"),
        ("12", str, "12"),
        ('"12"', str, "12"),
        ("12", int, 12),
        ("twelve", int, "twelve"),
        ("go ahead", str, "go ahead"),
        ('{"name": "tea"}', Line, {"name": "tea"}),
        ('{"nam": 1}', Line, {"nam": 1}),
        ("null", str | None, None),
        ("null", str, "null"),
        ("yes", None, True),
        ("[1]", None, [1]),
        ('"never"', None, "never"),
        ("s", Size, "s"),
    ],
)
def test_what_people_write_is_understood(text: str, kind: Any, value: Any):
    understood = understand(text, None if kind is None else schema_of(kind))
    assert understood == value
    assert type(understood) is type(value)


@pytest.mark.parametrize(("text", "kind"), [("never", None), ("{bad", Line), ("[1", None)])
def test_what_is_no_json_where_that_is_needed_is_refused(text: str, kind: Any):
    with pytest.raises(ValueError, match="not JSON"):
        understand(text, None if kind is None else schema_of(kind))
