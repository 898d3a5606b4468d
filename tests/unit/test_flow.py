"""What the door decides about order and limits, before anything is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import App, ConfigError, Event, Run, on
from wakeful.cel import compile_expression
from wakeful.intake.flow import LONGEST_KEY, FlowPlan, as_key, flows_of
from wakeful.model import Flow


def plan_of(app: App, **options: Any) -> FlowPlan:
    @app.agent(on("go"), name=f"agent{len(app.agents)}", **options)
    async def agent(run: Run) -> None: ...

    return list(app.agents.values())[-1].flow


def event(data: Any) -> Event:
    return Event("/test", "1", "go", data, subject="printer")


@pytest.mark.parametrize(
    ("value", "key"),
    [("shop", "shop"), (7, "7"), (7.0, "7"), (7.5, "7.5"), (True, "true"), (False, "false"), ("", ""), ("a\0b", "a␀b")],
)
def test_a_key_is_a_text(value: Any, key: str):
    assert as_key(value) == key


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, b"bytes", float("nan"), float("inf")])
def test_what_is_no_key_is_refused(value: Any):
    with pytest.raises(ValueError, match="it gives"):
        as_key(value)


@given(st.text(min_size=LONGEST_KEY + 1, max_size=LONGEST_KEY * 3), st.text(min_size=1, max_size=5))
def test_long_keys_are_shortened_and_stay_apart(text: str, more: str):
    assert len(as_key(text)) < LONGEST_KEY
    assert as_key(text) == as_key(text)
    if not any(0xD800 <= ord(character) < 0xE000 for character in text + more):
        assert as_key(text) != as_key(text + more)


def test_an_agent_without_any_of_it_costs_the_door_nothing():
    app = App("app")
    plan_of(app)
    assert flows_of(app.agents) == {}


def test_one_priority_ranks_all_runs_of_the_app():
    app = App("app")
    plan_of(app)
    plan_of(app, priority=3)
    flows = flows_of(app.agents)
    assert [flows[name].flow(event({})).priority for name in app.agents] == [0, 3]


@pytest.mark.parametrize(
    ("options", "flow"),
    [
        ({"key": "data.k"}, Flow("a")),
        ({"key": "event.subject", "on_dead": "skip"}, Flow("printer", blocks=False)),
        ({"key": lambda one: one.data["k"] * 2, "concurrency_per_key": 2}, Flow("aa", 2)),
        ({"overlap": "skip"}, Flow("", 1, blocks=False, overlap="skip")),
        ({"debounce": "1s"}, Flow("", None, blocks=False, debounce=(1_000_000, 10_000_000))),
        ({"batch": (5, "1s")}, Flow("", None, blocks=False, batch=(5, 1_000_000))),
        ({"key": "data.k", "batch": (5, "1s")}, Flow("a", 1, batch=(5, 1_000_000))),
        ({"key": "data.missing", "batch": (5, "1s")}, Flow()),
        ({"priority": "data.n"}, Flow(None, None, blocks=False, priority=3)),
        ({"expires": "1s"}, Flow(None, None, blocks=False, expires=1_000_000)),
    ],
)
def test_an_event_and_what_was_declared_make_a_flow(options: dict[str, Any], flow: Flow):
    assert plan_of(App("app"), **options).flow(event({"k": "a", "n": 3})) == flow


def test_an_expression_gives_what_it_says():
    assert compile_expression("data.a + 1", where="here").value(event({"a": 1})) == 2
    with pytest.raises(ValueError, match=r"no field data\.b\.c"):
        compile_expression("data.b.c", where="here").value(event({"b": {}}))
    with pytest.raises(ConfigError, match=r"here: the expression is empty"):
        compile_expression(" ", where="here")
