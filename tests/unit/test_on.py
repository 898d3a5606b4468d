"""on(): a type or a pattern of types, and a condition."""

from __future__ import annotations

import pytest

from wakeful.errors import ConfigError
from wakeful.model import Event
from wakeful.triggers.base import Trigger
from wakeful.triggers.on import On, on


def fits(pattern: str, kind: str) -> bool:
    return on(pattern).matches(Event("s", "1", kind)).matched


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        (
            "ticket.created",
            ["ticket.created"],
            ["ticket.create", "ticket.created.x", "Ticket.created", "ticketxcreated"],
        ),
        ("ticket.*", ["ticket.created", "ticket.comment.added"], ["ticket", "tickets.created", "a.ticket.created"]),
        ("*", ["a", "a.b", "*", "a\nb"], []),
        ("a.*.b", ["a.x.b", "a.x.y.b"], ["a.b", "a.x.c", "a.x.b.c"]),
        ("*.failed", ["job.failed", "a.job.failed"], ["failed", "job.failed.x"]),
        ("*a*", ["a", "bab"], ["b"]),
        ("**", ["a"], []),
        ("a.*.b.*.c", ["a.1.b.2.c", "a.b.b.b.c.c"], ["a.1.b.c", "a.1.c"]),
        ("a.[b]+?", ["a.[b]+?"], ["a.b"]),
    ],
)
def test_patterns(pattern, taken, left):
    assert [kind for kind in taken if not fits(pattern, kind)] == []
    assert [kind for kind in left if fits(pattern, kind)] == []


def test_a_pattern_of_many_wildcards_is_quick_on_a_long_type():
    assert not fits("*a" * 20 + "*b", "a" * 1024)


def test_it_is_a_value():
    assert on("a", where="true") == On("a", where="true")
    assert on("a") != on("b")
    assert len({on("a"), on("a"), on("a", where="true")}) == 2
    assert repr(on("a")) == "On(type='a', where=None)"
    trigger: Trigger = on("a")
    assert isinstance(trigger, Trigger)
    assert trigger.carries_data
    with pytest.raises(AttributeError):
        on("a").type = "b"  # type: ignore[misc]


def test_it_says_what_it_is_and_why():
    trigger = on("ticket.*", where="data.severity >= 3")
    assert trigger.describe() == 'on("ticket.*", where="data.severity >= 3")'
    assert trigger.matches(Event("s", "1", "order.created", {})).reason == 'type "order.created" is not "ticket.*"'
    assert (
        trigger.matches(Event("s", "1", "ticket.created", {"severity": 1})).reason
        == 'where "data.severity >= 3" was false'
    )
    assert on("ticket.*").matches(Event("s", "1", "ticket.created")).reason == 'on("ticket.*")'


@pytest.mark.parametrize("kind", ["", "  ", " a", "a\n", "a\0b", "x" * 1025, 7, None])
def test_a_bad_type_is_refused(kind):
    with pytest.raises(ConfigError, match=r"on\("):
        on(kind)


@pytest.mark.parametrize("where", ["", "dta.x == 1", 7])
def test_a_bad_condition_is_refused_with_its_place(where):
    with pytest.raises(ConfigError, match=r'on\("ticket"\)'):
        on("ticket", where=where)
