"""Which ones, at what pace, and what it would mean: without a store."""

from __future__ import annotations

import asyncio
from dataclasses import astuple
from typing import Any

import pytest

from support.fake_api import LETTER, FakeStore, a_shop
from wakeful.clock import SECOND
from wakeful.errors import InvalidData, NotFound
from wakeful.model import Decision
from wakeful.operations.declared import Declared
from wakeful.operations.feeding import Feeding, feed_events, has, plan_feed, read_window
from wakeful.operations.pace import BATCH, Pace, read_rate
from wakeful.operations.redo import Choice, Plan, redo_letters
from wakeful.policy.judgement import Judgement
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor
from wakeful.stores.stored import EventToFeed

NOON = 1_767_268_800 * SECOND  # 2026-01-01 12:00:00 UTC


def letter(identifier: str, message: str = "broken 1", **changes: Any) -> dict[str, Any]:
    return {**LETTER, "id": identifier, "error": {"type": "Persistent", "message": message}, **changes}


# time and pace


def test_a_window_the_wrong_way_round_tells_what_was_understood():
    assert read_window("2h", None, now=NOON) == (NOON - 7200 * SECOND, NOON)
    with pytest.raises(ValueError, match=r"from '1h' \(2026-01-01T11:00:00Z\) is not before to '2h' \(2026-01-01T10"):
        read_window("1h", "2h", now=NOON)


@pytest.mark.parametrize(
    ("text", "rate"), [("20/s", 20), ("600/m", 10), ("3600/h", 1), ("5", 5), ("0.5/s", 0.5), ("max", None)]
)
def test_rates(text, rate):
    assert read_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "-1/s", "5/d", "nan", "inf", "1e999"])
def test_what_is_no_rate(text):
    with pytest.raises(ValueError, match="is not a rate"):
        read_rate(text)


@pytest.mark.parametrize(("rate", "size"), [(None, BATCH), (1, 1), (50, 5), (10**9, BATCH)])
def test_a_batch_is_what_goes_in_a_moment(rate, size):
    assert Pace(rate).batch == size


async def test_a_pace_waits_its_turn_and_stops_when_it_is_told():
    stop = asyncio.Event()
    slow = Pace(1 / 3600, stop)
    assert await slow.turn(0)
    waiting = asyncio.ensure_future(slow.turn(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    stop.set()
    assert not await waiting
    assert not await Pace(None, stop).turn(0)


# dead letters


def test_a_plan_groups_by_agent_and_error_and_names_what_would_be_skipped():
    plan = Plan(
        [
            letter("a", "broken 1"),
            letter("b", "broken 2", confirmed={"mail": 3}),
            letter("c", "gone"),
            letter("d", "gone", agent="other", confirmed={}),
        ]
    )
    shown = plan.to_json()
    assert (shown["count"], shown["confirmed_effects"]) == (4, 7)
    assert shown["confirmed_actions"] == {"charge": 4, "mail": 3}
    assert [(one["agent"], one["error"], one["count"]) for one in shown["groups"]] == [
        ("review", "Persistent: broken …", 2),
        ("review", "Persistent: gone", 1),
        ("other", "Persistent: gone", 1),
    ]


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (Choice(), True),
        (Choice(error="BROKEN"), True),
        (Choice(error="persistent: br"), True),
        (Choice(error="gone"), False),
        (Choice(until=1_000_001), True),
        (Choice(until=1_000_000), False),
    ],
)
def test_choices(choice, taken):
    assert choice.takes(LETTER) is taken


async def test_the_oldest_go_first():
    store, seen = FakeStore(), []
    letters = [letter(str(number)) for number in range(BATCH + 1)]
    done = await redo_letters(
        store, letters, by=Actor("ada", "code"), note="n", progress=lambda done, of: seen.append((done, of))
    )
    assert (done, seen) == (BATCH + 1, [(BATCH, BATCH + 1), (BATCH + 1, BATCH + 1)])
    assert [one.id for one in store.redone] == [str(number) for number in reversed(range(BATCH + 1))]
    (operation,) = store.operations
    assert (operation.operator, operation.verb, operation.detail) == ("ada", "replay", f"{done} of {done}: n")


async def test_a_stop_ends_it_between_two_batches_and_that_is_written_down():
    store, stop = FakeStore(), asyncio.Event()
    letters = [letter(str(number)) for number in range(30)]
    done = await redo_letters(
        store, letters, by=Actor("ada", "code"), discard=True, pace=Pace(100, stop), progress=lambda *_: stop.set()
    )
    assert (done, len(store.redone)) == (10, 10)
    assert (store.operations[0].verb, store.operations[0].detail) == ("discard", "10 of 30")


# stored events


class Events(ReadsDatabase):
    """Rows of made-up events."""

    def __init__(self, *events: EventToFeed) -> None:
        self.events = events

    async def fetch(self, name: str, *given: Any) -> list[Any]:
        assert name == "list_events_to_feed"
        _, prefix, _, _, _, after, most, _ = given
        return [astuple(one) for one in self.events if one.type.startswith(prefix) and one.seq > after][:most]


def event(seq: int, kind: str = "ticket.created", admission: Any = None, run: str | None = None) -> EventToFeed:
    return EventToFeed(seq, "shop", "/web", str(seq), kind, admission, run, "{}")


@pytest.mark.parametrize(
    ("admission", "run", "had"),
    [
        (None, None, False),
        ("skipped", None, False),
        ("expired", None, False),
        ("expired", "r", True),
        ("started", "r", True),
        ("joined", None, True),
        ("superseded", None, True),
        ("denied", None, True),
    ],
)
def test_what_an_agent_has(admission, run, had):
    assert has(event(1, admission=admission, run=run)) is had


async def test_a_plan_of_events_counts_page_by_page():
    events = [event(number) for number in range(1, BATCH + 6)]
    events[3] = event(4, admission="started", run="r")
    events[4] = event(5, admission="denied")
    plan = await plan_feed(Events(*events), Feeding("ticket.*", 0, 1, "later"))
    assert plan.to_json() == {"events": BATCH + 5, "new": BATCH + 3, "already_had": 1, "denied": 1}


@pytest.mark.parametrize(("pattern", "count"), [("ticket.created", 1), ("ticket.*", 2), ("*.created", 2), ("*", 4)])
async def test_types_and_patterns_of_types(pattern, count):
    kinds = ["ticket.created", "ticket.created.late", "order.created", "ticke"]
    reader = Events(*(event(number, kind) for number, kind in enumerate(kinds, start=1)))
    assert (await plan_feed(reader, Feeding(pattern, 0, 1, "later"))).events == count


async def test_events_of_two_apps_are_not_for_one_agent():
    other = EventToFeed(2, "bank", "/web", "2", "ticket.created")
    with pytest.raises(ValueError, match="belong to the apps bank and shop"):
        await plan_feed(Events(event(1), other), Feeding("ticket.created", 0, 1, "later"))


async def test_events_are_fed_in_batches_up_to_a_number_and_policy_is_asked():
    store, reader = FakeStore(), Events(*(event(number) for number in range(1, 8)))
    feeding = Feeding("ticket.*", 0, 1, "later")
    plan = await plan_feed(reader, feeding)
    done = await feed_events(
        store,
        reader,
        feeding,
        plan,
        by=Actor("ada", "code"),
        note="new",
        most=5,
        judge=lambda one: Judgement(Decision("deny" if one.seq == 2 else "allow", "rule", "odd")),
        pace=Pace(20_000_000_000),
    )
    (request,) = store.fed
    assert (done, request.app, request.agent, request.reason) == (4, "shop", "later", "replayed by ada: new")
    assert [seq for seq, _ in request.runs] == [1, 3, 4, 5]
    assert [seq for seq, _ in request.denied] == [2]
    assert store.operations[0].detail is not None
    assert store.operations[0].detail.startswith("4 of 7 events, ticket.* from 1970")


# what the code says


def test_an_agent_that_is_not_there_and_data_that_does_not_fit():
    declared = Declared(a_shop())
    declared.refuse_unknown("review")
    with pytest.raises(NotFound, match='no agent "reveiw"'):
        declared.refuse_unknown("reveiw")
    assert declared.refuse_misfit("review", 7)
    assert not declared.refuse_misfit("nobody", "x")
    with pytest.raises(
        InvalidData, match="the edited data does not fit agent review: data: Input should be a valid int"
    ):
        declared.refuse_misfit("review", "x")
