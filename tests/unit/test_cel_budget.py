"""What an evaluation may cost: told by sizes alone, before it begins. Nothing here depends on how fast the machine is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.cel import OutOfBudget, compile_arguments, compile_condition, compile_expression
from wakeful.cel_budget import BUDGET, Meter
from wakeful.cel_sizes import Sizes, left_of, sizes_of
from wakeful.model import Event

MILLION = "a" * 1_000_000


def event(data: Any) -> Event:
    return Event(source="/shop", id="1", type="order.created", data=data)


def meter(expression: str) -> Meter:
    return compile_condition(expression, where="here")._meter


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("data.a.contains(data.b)", {"a": MILLION, "b": "a" * 500_000 + "b"}),
        ("data.a.indexOf(data.b) == 1", {"a": MILLION, "b": "a" * 500_000 + "b"}),
        ("data.a.replace('a', data.b) == ''", {"a": "a" * 1_000, "b": "b" * 100_000}),
        ("data.a.replace(data.b, data.c) == ''", {"a": MILLION, "b": "a" * 500_000 + "b", "c": ""}),
        ("data.a.replace('', data.a) == ''", {"a": "a" * 20_000}),
        ("data.a.replace('a', data.a).replace('a', data.a) == ''", {"a": "a" * 300}),
        ("data.a.matches(data.b)", {"a": "a" * 900, "b": "(a?){1000}b"}),
        ("data.a.matches(data.b)", {"a": "a" * 900, "b": "(a?){1000}b(c){0}"}),
        ("data.a.matches(data.b)", {"a": "a", "b": "(a){9}" * 20_000}),  # a number of thousands of digits
        ("data.a.matches(data.b)", {"a": "a", "b": "(a){" + "9" * 5_000 + "}"}),
        ("data.a.matches(data.a)", {"a": "ab" * 2_500}),
        ("data.many.all(x, size(data.many + data.many) > 1)", {"many": [0] * 1_800}),
        ("data.many.filter(x, 1 in data.many.map(y, 0)) == []", {"many": [0] * 700}),
        ("data.many.join(data.a) == ''", {"a": "a" * 80_000, "many": ["b"] * 300}),
        ("data.a.matches('^(a?){1000}b$')", {"a": "a" * 10_000}),
        ("size(data.a.split('')) > 1", {"a": MILLION}),
        ("data.a.split('').map(c, data.a + c).join('') == ''", {"a": "a" * 5_000}),
        ("data.many.exists(x, size(data.a) < 0)", {"a": MILLION, "many": list(range(3_000))}),
        ("data.many.exists(x, data.a.lowerAscii() == x)", {"a": MILLION, "many": ["b"] * 100}),
        ("size(data.many.map(x, data.many)) > 1", {"many": list(range(3_000))}),
        ("data.many.map(x, data.a + x).join('') == ''", {"a": MILLION, "many": ["b"] * 50}),
        ("data.many.all(x, x in data.more)", {"many": ["b"] * 3_000, "more": ["a"] * 3_000}),
        ("size(data) > 1", {"many": [0] * 200_000}),
        ("data.many.exists(x, x == 1)", {"many": [0] * 10_100}),  # the library's own limit
        ("data.many.exists(x, data.many.exists(y, x + y == 1))", {"many": [0] * 300}),
        ("!data.many.exists(x, x.bad)", {"many": [{"bad": False}] * 10_100}),
        ("data.many.all(x, x == 0) || true", {"many": [0] * 200_000}),
    ],
)
def test_what_would_cost_too_much_is_no_answer(expression: str, data: Any):
    match = compile_condition(expression, where="here").matches(event(data))
    assert (match.matched, match.exhausted) == (False, True)
    assert "ran out of its budget: " in match.reason
    assert "no match" not in match.reason


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("data.severity >= 3 && event.source.startsWith('/shop')", {"severity": 3}),
        ("data.body.contains('urgent')", {"body": MILLION + "urgent"}),
        ("data.body.lowerAscii().contains('urgent')", {"body": MILLION + "URGENT"}),
        ("data.body.matches('urgen(t|z)$')", {"body": MILLION + "urgent"}),
        ("data.code.matches('^[A-Z]{3}-[0-9]{4}$')", {"code": "ABC-1234"}),
        ("data.code.matches(data.pattern)", {"code": "ABC-1234", "pattern": "^(ABC|DEF|GHI)-[0-9]+( or more words)?$"}),
        (
            "data.items.exists(i, i.price > 100.0 && i.name.contains('b'))",
            {"items": [{"name": "b" * 200, "price": 101.0}] * 5_000},
        ),
        (
            "data.orders.exists(o, o.lines.exists(l, l.sku == 'x'))",
            {"orders": [{"lines": [{"sku": "x", "n": 1}] * 20}] * 100},
        ),
        ("data.items.map(i, i.name).join(',').contains('z')", {"items": [{"name": "z" * 200, "n": 1}] * 500}),
        ("data.text.replace(' ', '').replace('-', '').lowerAscii() == 'x'", {"text": "- " * 10_000 + "X"}),
        ("data.tags.exists(t, t in ['a', 'b'])", {"tags": ["c"] * 1_000 + ["a"]}),
        ("data.path.split('/')[1] == 'shop'", {"path": "/shop/" + "x" * 1_000}),
        ("size(data.text.split(',')) == 30001", {"text": "abcd," * 30_000}),
    ],
)
def test_what_people_write_is_within(expression: str, data: Any):
    assert compile_condition(expression, where="here").matches(event(data)).matched


def test_a_bound_stays_a_number_that_can_be_counted_and_shown():
    """The bound itself took two seconds for this pattern."""
    pattern = "(a){999}" * 120_000
    bound = meter("data.a.matches(data.b)").cost(
        Sizes(3, len(pattern), len(pattern)), {"data": {"a": "a", "b": pattern}}
    )
    assert BUDGET < bound < 10**30


def test_a_value_that_would_cost_too_much_is_said_to_be_unknown():
    expression = compile_expression("data.a.replace('a', data.b)", where="here")
    with pytest.raises(OutOfBudget, match="ran out of its budget"):
        expression.value(event({"a": "a" * 1_000, "b": "b" * 100_000}))
    assert expression.value(event({"a": "xa", "b": "b"})) == "xb"
    looping = compile_expression("data.many.filter(x, x > 5)[0]", where="here")
    with pytest.raises(OutOfBudget):
        looping.value(event({"many": list(range(20_000))}))
    ask = compile_arguments("arguments.a.replace('a', arguments.a)", ["a"], where="here")
    with pytest.raises(OutOfBudget):
        ask({"a": MILLION})
    assert ask({"a": "a"}) == "a"


def test_what_wait_for_hands_in_counts_too():
    condition = compile_condition("data.a.contains(values.b)", where="here", values=True)
    assert condition.matches(event({"a": MILLION}), {"b": "a" * 500_000 + "b"}).exhausted
    assert condition.matches(event({"a": "ab"}), {"b": "b"}).matched


EXPRESSIONS = [
    "data.a.contains(data.b)",
    "data.a.replace(data.b, data.c) == ''",
    "data.a.matches(data.b)",
    "data.a.split(data.b).map(x, x + data.c).join(data.b) == ''",
    "data.many.exists(x, data.a.contains(x) && x in data.more)",
    "data.many.map(x, data.more.filter(y, y > x)).exists(z, size(z) > 3)",
    "data.a + data.b == data.c && {'a': data.a}.a == string(data.many)",
    "data.x > 3",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_more_never_costs_less(expression: str):
    """So what is small enough by its sum alone need not be looked at part by part."""
    found = meter(expression)
    sizes = [Sizes(n, n, n) for n in (1, 10, 100, 1_000, 10_000, 100_000)]
    costs = [found.cost(one) for one in sizes]
    assert costs == sorted(costs)
    assert found.small == 0 or found.cost(Sizes(found.small, found.small, found.small)) <= BUDGET


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_knowing_the_parts_never_makes_it_dearer(expression: str):
    bindings = {"data": {"a": "a" * 300, "b": "b" * 20, "c": "c", "many": ["x"] * 50, "more": [1] * 20, "x": 1}}
    found, whole = meter(expression), sizes_of(bindings.values())
    assert found.cost(whole, bindings) <= found.cost(whole)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


@given(JSON)
def test_the_quick_look_is_never_below_the_careful_one(value: Any):
    sizes = sizes_of([value])
    assert left_of(10_000, value) <= 10_000 - (sizes.values + sizes.texts) + 1
    assert left_of(0, [value]) < 0


def test_a_value_over_any_budget_is_not_gone_through():
    endless = [[0] * 1_000] * 1_000_000  # it would be a thousand million
    assert sizes_of([endless]).values >= 1_000_000
    assert left_of(1_000, endless) < 0
    assert meter("data.many.exists(x, x == 1)").excess({"data": {"many": endless}})
