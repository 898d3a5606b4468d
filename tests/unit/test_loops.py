"""Chains: what events say of them, whoever wrote that; and the two rules about loops."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import App
from wakeful.connect.rows.causes import LIMIT, cause_of, stamp
from wakeful.errors import ConfigError
from wakeful.model import Decision, Event, event_key
from wakeful.policy.decide import AdmissionFacts, decide
from wakeful.policy.loops import (
    DEEPEST,
    DEPTH,
    PATH,
    PATH_LIMIT,
    ROOT,
    Chain,
    ChainLimits,
    chain_of,
    depth_of,
    next_link,
)
from wakeful.rate import Rate

# Whatever somebody may write, with what means something here.
TEXT = st.text('ops/>01{}"\\ é\x00\ud800', max_size=200)


def an_event(**extensions: Any) -> Event:
    return Event("/tests", "first", "go", extensions=extensions)


def facts(event: Event, *, rounds: int = 0, limits: ChainLimits | None = None, agent: str = "fix") -> AdmissionFacts:
    chain = (limits or ChainLimits()).chain(event)
    return AdmissionFacts("ops", agent, None, event, 0, None if chain is None else replace(chain, rounds=rounds))


def after(agents: list[str], event: Event | None = None) -> Event:
    """The event that comes out of runs of these agents, one after the other."""
    event = event or an_event()
    for number, agent in enumerate(agents):
        event = Event(
            f"/ops/{agent}", f"e{number}", "go", extensions=next_link(event, "ops", agent), correlationid="first"
        )
    return event


def test_what_comes_from_outside_begins_a_chain():
    assert chain_of(an_event()) is None
    one = after(["review"])
    assert chain_of(one) == Chain(event_key("ops", "/tests", "first"), 1, ("ops/review",))
    assert chain_of(after(["review", "fix", "review"])) == Chain(
        event_key("ops", "/tests", "first"), 3, ("ops/review", "ops/fix", "ops/review")
    )


def test_a_chain_closes_a_loop_only_where_it_has_been():
    chain = chain_of(after(["review", "fix"]))
    assert chain is not None
    assert chain.closes("ops", "review")
    assert not chain.closes("ops", "report")
    assert not chain.closes("desk", "review")  # an agent of that name, of another app
    assert chain.shown("ops") == "review → fix"
    assert chain.shown("desk") == "ops/review → ops/fix"


def test_a_long_path_is_cut_and_its_depth_is_not():
    event = after([f"agent-{number:03}" for number in range(300)])
    assert len(event.extensions[PATH]) <= PATH_LIMIT
    assert event.extensions[PATH].endswith("ops/agent-299")
    assert depth_of(event) == 300
    chain = chain_of(event)
    assert chain is not None
    assert chain.shown("ops").startswith("… → agent-294 → ")


@pytest.mark.parametrize("said", [0, -3, True, None, "", "two", "-1", "1.5", "٣"])
def test_a_depth_that_is_none_is_not_said(said: Any):
    assert chain_of(an_event(**{DEPTH: said})) is None


def test_what_came_as_headers_counts_as_well():
    chain = chain_of(an_event(**{DEPTH: "7", PATH: "desk/ask", ROOT: "abc"}))
    assert chain == Chain("abc", 7, ("desk/ask",))


def test_a_depth_without_end_is_a_number_like_others():
    event = an_event(**{DEPTH: 10**40})
    assert depth_of(event) == DEEPEST
    assert next_link(event, "ops", "fix")[DEPTH] == DEEPEST
    assert depth_of(an_event(**{DEPTH: "9" * 500})) == DEEPEST


@given(st.dictionaries(st.sampled_from([DEPTH, PATH, ROOT]), TEXT | st.booleans() | st.integers()))
def test_whatever_is_said_from_outside_makes_a_next_link(said: dict[str, Any]):
    link = next_link(an_event(**said), "ops", "fix")
    assert 1 <= link[DEPTH] <= DEEPEST
    assert 0 < len(link[PATH]) <= PATH_LIMIT + len("ops/fix") + 1
    assert 0 < len(link[ROOT]) <= 100
    assert chain_of(an_event(**link)) is not None


# rules


def test_a_chain_ends_at_its_depth():
    limits = ChainLimits(deepest=3)
    assert decide(facts(after(["a", "b", "c"]), limits=limits)).answer == "allow"
    decision = decide(facts(after(["a", "b", "c", "d"]), limits=limits))
    assert (decision.answer, decision.rule) == ("deny", "chain_depth")
    assert "event 4 of the chain that began with event first (a → b → c → d)" in decision.reason
    assert "App(chain_depth=3)" in decision.reason
    assert decide(facts(after(["a"] * 50), limits=ChainLimits(deepest=None))).answer == "allow"


def test_a_chain_comes_back_only_so_often():
    event, limits = after(["fix", "review"]), ChainLimits(rate=Rate.read("5/m"))
    assert decide(facts(event, rounds=5, limits=limits)).answer == "allow"
    decision = decide(facts(event, rounds=6, limits=limits))
    assert (decision.answer, decision.rule) == ("deny", "chain_rate")
    assert "came back to agent fix more than 5 times within 1m (fix → review)" in decision.reason
    assert decide(facts(event, rounds=10**6, limits=ChainLimits(rate=None))).answer == "allow"


def test_a_rule_of_a_users_own_may_use_the_same_facts():
    def twice_at_most(facts: AdmissionFacts) -> Decision | None:
        if facts.chain is not None and facts.chain.path.count(f"{facts.app}/{facts.agent}") > 1:
            return Decision("deny", rule="twice_at_most", reason="it was here twice")
        return Decision("allow", rule="twice_at_most", reason="fine")

    assert decide(facts(after(["fix", "review"])), (twice_at_most,)).answer == "allow"
    assert decide(facts(after(["fix", "review", "fix"])), (twice_at_most,)).answer == "deny"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"chain_depth": 0}, "chain_depth must be a whole number from 1 up, or None for no limit, not 0"),
        ({"chain_depth": True}, "chain_depth must be a whole number"),
        ({"chain_rate": "often"}, "chain_rate: 'often' is not a rate"),
        ({"chain_rate": "10/2d"}, "counts for longer than a day"),
        ({"chain_rates": "1/m"}, "Did you mean"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(option: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as caught:
        App("ops", **option)
    assert words in str(caught.value)


# marks


def test_a_change_says_which_run_wrote_it():
    cause = cause_of(after(["review"]), app="ops", agent="fix", run="r1")
    change = Event("/postgres/db/orders", "0/1", "postgres.orders.insert", {})
    stamp(change, cause)
    assert change.causationid == "e0"
    assert change.correlationid == "first"
    assert change.extensions["causedby"] == "r1"
    assert chain_of(change) == Chain(event_key("ops", "/tests", "first"), 2, ("ops/review", "ops/fix"))
    assert len(cause) < 400


@pytest.mark.parametrize(
    "cause",
    [
        None,
        "",
        "by hand",
        "[]",
        "7",
        "{",
        '{"run": 7}',
        '{"run": ""}',
        '{"run": "a\\u0000b"}',
        '{"run": "\\ud800"}',
        json.dumps({"run": "x" * 2_000}),
        json.dumps({"run": "r", "more": "x" * LIMIT}),
    ],
)
def test_what_is_no_mark_changes_nothing(cause: str | None):
    change = Event("/postgres/db/orders", "0/1", "postgres.orders.insert", {})
    stamp(change, cause)
    assert change == Event("/postgres/db/orders", "0/1", "postgres.orders.insert", {})


@given(
    st.text()
    | st.recursive(st.none() | st.integers() | TEXT, lambda x: st.dictionaries(TEXT, x, max_size=3)).map(json.dumps)
)
def test_no_mark_is_an_error(cause: str):
    stamp(Event("/s", "1", "t"), cause)


@given(
    st.dictionaries(
        st.sampled_from(["run", "event", "correlationid", DEPTH, PATH, ROOT]), st.none() | st.integers() | TEXT
    )
)
def test_a_mark_that_is_wrong_in_parts_is_read_as_far_as_it_goes(mark: dict[str, Any]):
    event = Event("/s", "1", "t")
    stamp(event, json.dumps(mark))
    next_link(event, "ops", "fix")
    assert all(isinstance(value, str | int) for value in event.extensions.values())
