"""Values as JSON text: what can be stored, what comes back, and which arguments are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from wakeful.errors import NotSerialisable, Persistent
from wakeful.values import RESULT_LIMIT, digest_of_arguments, from_text, read_back, returns_of, to_text

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
Pair = namedtuple("Pair", "first second")  # noqa: PYI024 the untyped kind too


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    name: str
    tags: set[str] = set()


@dataclass
class Point:
    x: int
    y: int


def digest(*arguments: Any, **keywords: Any) -> str:
    return digest_of_arguments(arguments, keywords, step="fetch")[0]


class TestText:
    @given(json_values)
    def test_what_is_json_comes_back_as_it_was(self, value):
        assert from_text(to_text(value, what="it")) == value

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "null"),
            (True, "true"),
            ("ü", '"ü"'),
            ("a\0b", '"a\\u0000b"'),
            ((1, 2), "[1,2]"),
            (Item(name="a"), '{"name":"a","tags":[]}'),
            (Point(1, 2), '{"x":1,"y":2}'),
            (datetime(2026, 1, 31, tzinfo=UTC), '"2026-01-31T00:00:00Z"'),
            (date(2026, 1, 31), '"2026-01-31"'),
            (timedelta(hours=1), '"PT1H"'),
            (Decimal("1.10"), '"1.10"'),
            (Colour.RED, '"red"'),
            (Path("/x"), '"/x"'),
            (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
            (b"abc", '"abc"'),
        ],
    )
    def test_what_pydantic_knows_is_written(self, value, text):
        assert to_text(value, what="it") == text

    @pytest.mark.parametrize("value", [object(), {"a": object()}, lambda: 1, b"\xff", "\ud800", {"a": {object()}}])
    def test_what_is_not_json_is_refused_by_its_name_with_the_remedy(self, value):
        with pytest.raises(NotSerialisable, match=r"^the result of step x cannot be stored as JSON .*pydantic model$"):
            to_text(value, what="the result of step x")

    def test_what_goes_round_in_a_circle_is_refused(self):
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(NotSerialisable):
            to_text(circle, what="it")

    def test_the_limit_is_in_bytes_and_said(self):
        assert to_text("x" * 8, what="it", limit=10)
        with pytest.raises(NotSerialisable, match=r"it is 11 bytes of JSON, over the limit of 10: .*address"):
            to_text("x" * 9, what="it", limit=10)
        with pytest.raises(NotSerialisable):
            to_text("ü" * 5, what="it", limit=10)
        assert RESULT_LIMIT == 64 * 1024 * 1024

    def test_it_is_a_persistent_failure(self):
        assert issubclass(NotSerialisable, Persistent)


class TestReadBack:
    def test_through_the_declared_type(self):
        adapter: TypeAdapter[Item] = TypeAdapter(Item)
        assert from_text('{"name":"a","tags":["b"]}', adapter) == Item(name="a", tags={"b"})

    def test_without_one_it_is_plain_json_the_first_time_too(self):
        assert read_back((1, 2), "[1,2]", None, step="x") == [1, 2]
        assert read_back(Point(1, 2), '{"x":1,"y":2}', None, step="x") == {"x": 1, "y": 2}
        assert read_back({1: 2}, '{"1":2}', None, step="x") == {"1": 2}

    def test_what_does_not_fit_names_the_step_and_the_place(self):
        with pytest.raises(
            NotSerialisable, match=r"the result of step x does not fit its return annotation \(1: Input"
        ):
            read_back(["1", "a"], '["1","a"]', TypeAdapter(list[int]), step="x")


class TestReturns:
    def test_by_the_return_annotation(self):
        def items() -> list[Item]: ...  # type: ignore[empty-body]

        adapter = returns_of(items)
        assert adapter is not None
        assert adapter.validate_json('[{"name":"a"}]') == [Item(name="a")]

    @pytest.mark.parametrize("annotation", [Any, None, str, int, bool, float, dict, list])
    def test_none_where_plain_json_will_do(self, annotation):
        def function(): ...

        function.__annotations__["return"] = annotation
        assert returns_of(function) is None

    def test_none_where_it_cannot_be_found_out(self):
        def unknown() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821 only a type checker would know it

        class Strange:
            pass

        def arbitrary() -> Strange: ...  # type: ignore[empty-body]

        assert returns_of(unknown) is None
        assert returns_of(arbitrary) is None
        assert returns_of(len) is None


class TestDigest:
    def test_no_arguments_have_none(self):
        assert digest_of_arguments((), {}, step="x") == ("", "[]")

    @given(json_values, json_values)
    def test_equal_values_are_the_same_and_others_are_not(self, one, other):
        assert digest(one) == digest(json.loads(json.dumps(one)))
        same = to_text([one], what="it") == to_text([other], what="it")
        if not same and json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True):
            assert digest(one) != digest(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ({"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}}),
            (OrderedDict(a=1, b=2), {"b": 2, "a": 1}),
            ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
            ({3, 1, 2}, {1, 2, 3}),
            (frozenset("abc"), {"c", "b", "a"}),
            ({"x": {1, 2}}, {"x": frozenset({2, 1})}),
            ((1, 2), [1, 2]),
            (Pair(1, {2, 3}), (1, {3, 2})),
            (deque([{1, 2}]), [{2, 1}]),
            (Item(name="a", tags={"x", "y"}), {"name": "a", "tags": {"y", "x"}}),
            (Point(1, 2), {"y": 2, "x": 1}),
            (datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)),
        ],
    )
    def test_the_order_of_keys_and_sets_does_not_count(self, one, other):
        assert digest(one) == digest(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ([1, 2], [2, 1]),
            (1, "1"),
            (1, True),
            (None, "null"),
            ("", None),
            ([], {}),
            ([[1], 2], [[1, 2]]),
            ("a", "a "),
        ],
    )
    def test_what_differs_differs(self, one, other):
        assert digest(one) != digest(other)

    def test_positions_and_keywords_are_told_apart(self):
        assert len({digest(1, 2), digest(2, 1), digest(1, b=2), digest(a=1, b=2), digest([1, 2])}) == 5
        assert digest(a=1, b=2) == digest(b=2, a=1)

    def test_the_text_shows_the_arguments(self):
        assert json.loads(digest_of_arguments((1, "a"), {"b": [2]}, step="x")[1]) == [1, "a", {"**": {"b": [2]}}]

    @pytest.mark.parametrize(
        "argument",
        [
            object(),
            {"a": object()},
            {frozenset({object()})},
            [lambda: 1],
            (n for n in range(3)),
            iter([1]),
            [iter("a")],
            "\ud800",
        ],
    )
    def test_what_is_not_json_is_refused_by_the_name_of_the_step(self, argument):
        with pytest.raises(NotSerialisable, match="the arguments of step fetch"):
            digest(argument)

    def test_an_iterator_is_not_used_up(self):
        numbers = iter([1, 2, 3])
        with pytest.raises(NotSerialisable, match="make it a list"):
            digest(numbers)
        assert list(numbers) == [1, 2, 3]

    def test_what_goes_round_in_a_circle_is_refused(self):
        circle: dict[str, Any] = {}
        circle["self"] = circle
        with pytest.raises(NotSerialisable, match="the arguments of step fetch"):
            digest(circle)

    def test_it_is_the_same_in_every_process(self):
        """A set of texts has another order in each, by PYTHONHASHSEED."""
        program = (
            "from wakeful.values import digest_of_arguments as d;"
            "print(d(({str(n) for n in range(100)}, frozenset('abcdef'), {'k': {'x', 'y', 'z'}}), {}, step='x')[0])"
        )
        digests = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True, text=True, check=True, timeout=60,
            ).stdout
            for seed in ("0", "1", "2")
        }  # fmt: skip
        assert len(digests) == 1

    def test_whose_they_are_is_said_in_words(self):
        with pytest.raises(NotSerialisable, match=r"^the arguments of action pay cannot be .*: pass plain values"):
            digest_of_arguments((object(),), {}, of="action pay")
        with pytest.raises(NotSerialisable, match=r"^the result of action pay does not fit"):
            from_text('"x"', TypeAdapter(int), of="action pay")
        with pytest.raises(NotSerialisable, match=r"the message to channel ops .*: pass plain values"):
            to_text(object(), what="the message to channel ops", passed=True)
        with pytest.raises(NotSerialisable, match=r"the result of step fetch .*: return plain values"):
            to_text(object(), what="the result of step fetch")
