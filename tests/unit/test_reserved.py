"""Which names belong to a door of their own, and who may use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from wakeful.errors import ReservedName, StoreUnavailable
from wakeful.intake import reserved
from wakeful.intake.reserved import By, ReservedNames
from wakeful.model import Event


class Stored:
    """What the store knows, for a test to change."""

    def __init__(self, *rows: Sequence[Any]) -> None:
        self.rows = list(rows)
        self.gone = False
        self.asked = 0

    async def __call__(self) -> list[Sequence[Any]]:
        self.asked += 1
        if self.gone:
            raise StoreUnavailable("gone")
        return self.rows


def refused(names: ReservedNames, source: str, type_: str = "x", by: By = "outside") -> bool:
    try:
        names.refuse([Event(source, "1", type_)], by)
    except ReservedName:
        return True
    return False


NAMES = ReservedNames("shop", brought={"/hooks/a": 'webhook "/hooks/a"'}, agents=["pack"])


@pytest.mark.parametrize(
    ("source", "outside", "app"),
    [
        ("/hooks/a", True, True),
        ("/shop/pack", True, False),
        ("/shop/run", True, False),
        ("/shop/checkins", True, False),
        ("/shop/schedules/x", True, False),
        ("/shop/alarms/x", True, False),
        ("/shop", False, False),
        ("/shop/packer", False, False),
        ("/shop/schedules", False, False),
        ("/other/pack", False, False),
        ("/Hooks/a", False, False),
    ],
)
def test_who_may_use_which(source: str, outside: bool, app: bool):
    assert refused(NAMES, source) == outside
    assert refused(NAMES, source, by="app") == app
    assert not refused(NAMES, source, by="source")


def test_types_of_wakefuls_own():
    assert refused(NAMES, "/x", "wakeful.checkin")
    assert not refused(NAMES, "/x", "wakefulness")
    assert not refused(NAMES, "/shop/pack", "wakeful.call", by="app")


def test_the_one_of_a_batch_is_named():
    events = [Event("/x", "1", "x"), Event("/hooks/a", "2", "x"), Event("/hooks/a", "3", "x")]
    with pytest.raises(ReservedName) as caught:
        NAMES.refuse(events)
    assert (caught.value.index, caught.value.field) == (1, "source")


async def test_what_other_processes_declared_is_learnt_and_forgotten():
    now = 1000.0
    stored = Stored(
        ("/hooks/b", "webhook", '["bee"]'),
        ("/hooks/c", "webhook", None),
        ("tape", "tape", "[]"),
        ("ship", "agent", None),
    )
    names = ReservedNames("shop", brought={"/hooks/a": "a"}, agents=["pack"], stored=stored, now=lambda: now)
    assert not names.are_old  # nothing was learnt: a process that never opened the store asks nothing
    await names.learn()
    assert [refused(names, one) for one in ("bee", "/hooks/b", "/hooks/c", "/shop/ship", "/hooks/a")] == [
        True,
        False,
        True,
        True,
        True,
    ]
    stored.rows = [("/hooks/d", "webhook", None)]
    now += reserved.LEARN_EVERY
    assert not names.are_old
    now += 1
    assert names.are_old
    stored.gone = True
    await names.learn_again()
    assert refused(names, "bee")
    assert not names.are_old  # an outage is not asked about with every event
    stored.gone = False
    now += reserved.LEARN_EVERY + 1
    await names.learn_again()
    assert [refused(names, one) for one in ("bee", "/hooks/d", "/hooks/a", "/shop/pack")] == [False, True, True, True]
    assert stored.asked == 3
