"""Routing: which agents an event is for, and why the others are not."""

from __future__ import annotations

from wakeful.intake.route import PLAN_LIMIT, Router, Routing
from wakeful.model import Event
from wakeful.triggers.on import on


def event(kind: str, data=None) -> Event:
    return Event("s", "1", kind, data)


def test_agents_come_in_the_order_they_were_declared():
    router = Router(
        [
            ("last letters", [on("*")]),
            ("exact", [on("ticket.created")]),
            ("pattern", [on("ticket.*")]),
            ("other", [on("order.*")]),
            ("both", [on("order.created"), on("*.created")]),
        ]
    )
    assert [routing.agent for routing in router.route(event("ticket.created"))] == [
        "last letters",
        "exact",
        "pattern",
        "both",
    ]
    assert router.route(event("ticket.created"))[1] == Routing("exact", matched=True, reason='on("ticket.created")')
    assert router.route(event("ticket.created"))[3].reason == 'on("*.created")'


def test_an_event_for_nobody_gets_an_empty_list():
    router = Router([("a", [on("x")]), ("none", [])])
    assert router.route(event("y")) == []
    assert router.route(event("y")) == []
    assert Router([]).route(event("y")) == []


def test_a_condition_that_is_false_is_listed_with_the_reason():
    router = Router([("a", [on("t", where="data.severity >= 3")]), ("b", [on("t")]), ("c", [on("u", where="true")])])
    assert router.route(event("t", {"severity": 1})) == [
        Routing("a", matched=False, reason='where "data.severity >= 3" was false'),
        Routing("b", matched=True, reason='on("t")'),
    ]
    assert router.route(event("t", {}))[0].reason == "no field data.severity: counts as no match"
    assert router.route(event("t", {"severity": 4}))[0].matched


def test_an_agent_is_listed_once_and_one_match_of_its_triggers_is_enough():
    router = Router([("a", [on("t", where="data.x == 1"), on("t", where="data.x == 2"), on("*", where="data.x == 3")])])
    assert [router.route(event("t", {"x": x})) for x in (2, 3)] == [
        [Routing("a", matched=True, reason='where "data.x == 2" was true')],
        [Routing("a", matched=True, reason='where "data.x == 3" was true')],
    ]
    [routing] = router.route(event("t", {"x": 4}))
    assert (
        routing.reason == 'where "data.x == 1" was false; where "data.x == 2" was false; where "data.x == 3" was false'
    )


def test_a_trigger_without_condition_makes_the_others_needless():
    router = Router([("a", [on("t", where="data.x == 1"), on("t")])])
    assert router.route(event("t", {"x": 4})) == [Routing("a", matched=True, reason='on("t")')]


def test_the_answer_may_be_changed_by_whoever_asked():
    router = Router([("a", [on("t")])])
    router.route(event("t")).clear()
    assert len(router.route(event("t"))) == 1


def test_types_without_end_do_not_fill_the_memory():
    router = Router([("a", [on("t.*")])])
    for number in range(PLAN_LIMIT * 2 + 10):
        assert len(router.route(event(f"t.{number}"))) == 1
    assert len(router._plans) <= PLAN_LIMIT
