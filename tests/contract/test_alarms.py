"""Alarms are incidents: they open, are told, are acknowledged or muted, resolve, and open again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.stores import APP, Member, OpenStore, accept, an_arrival, do_all, join, query, reader
from wakeful.clock import VirtualClock, duration, to_text
from wakeful.model import Arrival, Claim, Event
from wakeful.stores.alarm import Alarm, failing_alarm, paused_alarm
from wakeful.stores.journal import Died, Probe
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.alarms import (
    AlarmChanged,
    AlarmVerb,
    ChangeAlarm,
    ResolveAlarms,
    StoredAlarm,
    TellAlarms,
    first_to_tell,
)
from wakeful.stores.verbs.failing import Streak
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.stores.verbs.redo import RedoRun

TELLER = "wakeful.tell"
DEAD = "dead/app/agent/3f2a91"


async def raise_alarm(store: DatabaseStore, text: str = "something broke", key: str = "key", **more: Any) -> None:
    await store.do(RaiseAlarm(Alarm(APP, key, text, **more)))


async def the_alarm(store: DatabaseStore) -> dict[str, object]:
    (alarm,) = (await reader(store).alarms())["alarms"]
    return dict(alarm)


async def change(store: DatabaseStore, verb: AlarmVerb, key: str = "key", **more: Any) -> AlarmChanged:
    changed = await store.do(ChangeAlarm(key, verb, by=Actor("ada", "code"), **more))
    assert changed is not None
    return changed


def arrival_of(alarm: StoredAlarm) -> Arrival:
    """The event of a telling, as the teller makes it."""
    event = Event(f"/alarms/{alarm.key}", f"{alarm.incident}.{alarm.told + 1}", "wakeful.alarm", {"text": alarm.text})
    return an_arrival(event=event, agents=(TELLER,))


async def tell(store: DatabaseStore, repeat: str = "4h") -> list[StoredAlarm]:
    return await store.do(TellAlarms(APP, TELLER, 10, duration(repeat), arrival_of))


async def test_an_alarm_opens(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store, agent="review", owner="platform")
    present = to_text(clock.now())
    assert await the_alarm(store) == {
        "key": "key",
        "app": "app",
        "state": "open",
        "text": "something broke",
        "count": 1,
        "opened_at": present,
        "last_at": present,
        "agent": "review",
        "owner": "platform",
        "incident": 1,
        "loud": False,
        "told": 0,
        "told_at": None,
        "tell_at": present,
        "acknowledged_at": None,
        "acknowledged_by": None,
        "note": None,
        "muted_until": None,
        "resolved_at": None,
        "subject": "Something broke",
        "do": None,
        "to": None,
        "remind_at": None,
        "ending": None,
    }


async def test_raising_it_again_refreshes_it(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    opened = to_text(clock.now())
    clock.move("1m")
    await raise_alarm(store, "it broke again")
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"], alarm["text"]) == ("open", 2, "it broke again")
    assert (alarm["opened_at"], alarm["last_at"]) == (opened, to_text(clock.now()))


async def test_an_acknowledged_one_stays_acknowledged(store: DatabaseStore):
    await raise_alarm(store)
    await change(store, "acknowledge")
    await raise_alarm(store)
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"]) == ("acknowledged", 2)


async def test_a_resolved_one_opens_anew(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    await raise_alarm(store)
    await change(store, "resolve")
    clock.move("1d")
    await raise_alarm(store, "it is back")
    alarm = await the_alarm(store)
    assert (alarm["state"], alarm["count"], alarm["text"]) == ("open", 1, "it is back")
    assert (alarm["opened_at"], alarm["incident"], alarm["told"]) == (to_text(clock.now()), 2, 0)
    assert (alarm["resolved_at"], alarm["tell_at"]) == (None, to_text(clock.now()))


async def test_the_same_alarm_many_times_at_once_is_counted(stores: OpenStore, store_url: str):
    one, other = await stores(store_url), await stores(store_url)
    await asyncio.gather(*(raise_alarm(store) for store in (one, other) * 10))
    assert (await the_alarm(one))["count"] == 20


async def test_alarms_are_listed_by_state_and_the_latest_first(store: DatabaseStore, clock: VirtualClock):
    for key in ("a", "b", "c"):
        await raise_alarm(store, key=key)
        clock.move("1s")
    await change(store, "resolve", "b")
    assert [alarm["key"] for alarm in (await reader(store).alarms())["alarms"]] == ["b", "c", "a"]
    assert [alarm["key"] for alarm in (await reader(store).alarms(state="open"))["alarms"]] == ["c", "a"]


# people


async def test_a_person_acknowledges_an_alarm(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    assert await change(store, "acknowledge", note="on it") == AlarmChanged(APP, "open", "acknowledged")
    alarm = await the_alarm(store)
    assert (alarm["acknowledged_by"], alarm["note"]) == ("ada", "on it")
    assert (alarm["acknowledged_at"], alarm["tell_at"]) == (to_text(clock.now()), None)


async def test_the_first_who_acknowledges_stands(store: DatabaseStore):
    await raise_alarm(store)
    await change(store, "acknowledge")
    again = await store.do(ChangeAlarm("key", "acknowledge", by=Actor("bob", "code")))
    assert again == AlarmChanged(APP, "acknowledged", "acknowledged", "is already acknowledged, by ada")
    assert (await the_alarm(store))["acknowledged_by"] == "ada"


async def test_what_is_resolved_cannot_be_changed(store: DatabaseStore):
    await raise_alarm(store)
    await change(store, "resolve")
    for verb in ("acknowledge", "mute", "resolve"):
        changed = await store.do(ChangeAlarm("key", verb, span=1, by=Actor("ada", "code")))
        assert changed is not None
        assert changed.refused is not None


async def test_there_is_no_such_alarm(store: DatabaseStore):
    assert await store.do(ChangeAlarm("nothing", "resolve", by=Actor("ada", "code"))) is None


async def test_a_loud_one_cannot_be_muted(store: DatabaseStore):
    await raise_alarm(store, loud=True)
    changed = await change(store, "mute", span=duration("2h"))
    assert changed.refused is not None
    assert "cannot be muted" in changed.refused
    assert [one.key for one in await tell(store)] == ["key"]


async def test_two_people_at_once(stores: OpenStore, store_url: str):
    one, other = await stores(store_url), await stores(store_url)
    await raise_alarm(one)
    answers = await asyncio.gather(
        *(store.do(ChangeAlarm("key", "acknowledge", by=Actor("ada", "code"))) for store in (one, other) * 5)
    )
    assert [answer.refused for answer in answers if answer is not None].count(None) == 1


# telling


async def test_an_alarm_is_told_when_it_opens_and_again_after_a_while(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    assert await first_to_tell(store.database, APP) == 0
    assert [(one.key, one.told) for one in await tell(store)] == [("key", 0)]
    assert await tell(store) == []
    assert await first_to_tell(store.database, APP) == duration("4h")
    clock.move("4h")
    assert [(one.key, one.told) for one in await tell(store)] == [("key", 1)]
    alarm = await the_alarm(store)
    assert (alarm["told"], alarm["told_at"]) == (2, to_text(clock.now()))


async def test_each_telling_is_an_event_of_its_own(member: Member, clock: VirtualClock):
    await raise_alarm(member.store)
    await tell(member.store)
    clock.move("4h")
    await tell(member.store)
    await change(member.store, "resolve")
    await tell(member.store)
    await member.renew_in_thread()
    claims = await member.claim(TELLER)
    events = (await reader(member.store).events())["events"]
    assert sorted(event["id"] for event in events) == ["1.1", "1.2", "1.3"]
    assert len(claims) == 3


async def test_an_alarm_that_is_not_told_by_an_event_is_marked_all_the_same(store: DatabaseStore):
    await raise_alarm(store)
    told = await store.do(TellAlarms(APP, TELLER, 10, duration("4h"), lambda _: None))
    assert [one.text for one in told] == ["something broke"]
    assert (await reader(store).events())["events"] == []
    assert (await the_alarm(store))["told"] == 1


async def test_one_that_is_acknowledged_is_told_no_more_until_it_resolves(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    await tell(store)
    await change(store, "acknowledge")
    clock.move("1d")
    await raise_alarm(store)
    assert await tell(store) == []
    await store.do(ResolveAlarms(["key"]))
    assert [one.state for one in await tell(store)] == ["resolved"]
    assert await tell(store) == []
    assert await first_to_tell(store.database, APP) is None


async def test_one_that_nobody_heard_of_resolves_in_silence(store: DatabaseStore):
    await raise_alarm(store)
    await store.do(ResolveAlarms(["key"]))
    assert await tell(store) == []


async def test_a_muted_one_is_told_when_that_time_is_over(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    await change(store, "mute", span=duration("2h"))
    clock.move("1h")
    assert await tell(store) == []
    clock.move("1h")
    assert [one.key for one in await tell(store)] == ["key"]


async def test_how_long_it_is_muted_outlives_that_it_resolves_and_comes_back(store: DatabaseStore, clock: VirtualClock):
    await raise_alarm(store)
    await change(store, "mute", span=duration("2h"))
    await store.do(ResolveAlarms(["key"]))
    clock.move("1h")
    await raise_alarm(store)
    assert await tell(store) == []
    await raise_alarm(store, key="other", loud=True)
    assert [one.key for one in await tell(store)] == ["other"]
    clock.move("1h")
    assert [(one.key, one.incident) for one in await tell(store)] == [("key", 2)]


async def test_alarms_of_another_app_are_left_alone(store: DatabaseStore):
    await store.do(RaiseAlarm(Alarm("another", "key", "something broke")))
    assert await first_to_tell(store.database, APP) is None
    assert await tell(store) == []


async def test_many_tellers_at_once_tell_each_alarm_once(stores: OpenStore, store_url: str):
    tellers = [await stores(store_url) for _ in range(4)]
    for number in range(20):
        await raise_alarm(tellers[0], key=f"key-{number}")
    told: list[StoredAlarm] = []
    while await first_to_tell(tellers[0].database, APP) == 0:
        for some in await asyncio.gather(*(tell(store) for store in tellers)):
            told += some
    assert sorted(one.key for one in told) == sorted(f"key-{number}" for number in range(20))
    assert len((await reader(tellers[0]).events())["events"]) == 20


@pytest.mark.parametrize("point", ["before", "within"])
async def test_what_was_marked_by_a_process_that_died_is_told_by_the_next(
    stores: OpenStore, store_url: str, point: str
):
    """The mark and the event are one transaction: either both are there, or neither."""
    dying = await stores(store_url, probe=dies_at(point))
    await raise_alarm(dying)
    asked = asyncio.ensure_future(tell(dying))
    other = await stores(store_url)
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
    asked.cancel()
    assert [one.key for one in await tell(other)] == ["key"]
    assert len((await reader(other).events())["events"]) == 1


async def test_what_was_told_by_a_process_that_died_is_not_told_again(stores: OpenStore, store_url: str):
    dying = await stores(store_url, probe=dies_at("after"))
    await raise_alarm(dying)
    asked = asyncio.ensure_future(tell(dying))
    other = await stores(store_url)
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
    asked.cancel()
    assert await tell(other) == []
    assert len((await reader(other).events())["events"]) == 1


def dies_at(point: str) -> Probe:
    def probe(where: str, requests: Sequence[Any]) -> None:
        if where == point and any(isinstance(one, TellAlarms) for one in requests):
            raise Died

    return probe


# dead letters


async def die(member: Member, identifier: str, streak: Streak | None = None, key: str = DEAD) -> Claim:
    """A run that ends as a dead letter."""
    await accept(member.store, an_arrival(identifier))
    claim = await member.claim_one()
    alarm = Alarm(APP, key, "a dead letter", claim.agent)
    await member.finish(claim, "dead", alarm=alarm, streak=streak)
    return claim


async def test_the_alarm_of_dead_letters_is_over_with_the_last_of_them(member: Member):
    first, second = await die(member, "1"), await die(member, "2")
    await die(member, "3", key="dead/app/agent/another")
    await member.store.do(RedoRun(first.id, discard=True, by=Actor("ada", "code")))
    assert await states(member.store) == {DEAD: "open", "dead/app/agent/another": "open"}
    await member.store.do(RedoRun(second.id, by=Actor("ada", "code")))
    assert await states(member.store) == {DEAD: "resolved", "dead/app/agent/another": "open"}


async def test_all_of_them_at_once(member: Member):
    dead = [await die(member, str(number)) for number in range(3)]
    await do_all(member.store, [RedoRun(one.id, discard=True, by=Actor("ada", "code")) for one in dead])
    assert await states(member.store) == {DEAD: "resolved"}


async def test_a_replay_that_dies_again_opens_it_again(member: Member):
    dead = await die(member, "1")
    await member.store.do(RedoRun(dead.id, by=Actor("ada", "code")))
    claim = await member.claim_one()
    await member.finish(claim, "dead", alarm=Alarm(APP, DEAD, "again"))
    alarm = await the_alarm(member.store)
    assert (alarm["state"], alarm["incident"]) == ("open", 2)


async def test_a_letter_that_dies_while_the_last_one_is_replayed_keeps_it_open(stores: OpenStore, store_url: str):
    """Whichever of the two is stored last sees the other."""
    one, other = await join(await stores(store_url), "one"), await join(await stores(store_url), "other")
    dead = await die(one, "1")
    await accept(one.store, an_arrival("2"))
    claim = await other.claim_one()
    await asyncio.gather(
        one.store.do(RedoRun(dead.id, discard=True, by=Actor("ada", "code"))),
        other.finish(claim, "dead", alarm=Alarm(APP, DEAD, "a dead letter")),
    )
    assert await states(one.store) == {DEAD: "open"}


async def states(store: DatabaseStore) -> dict[str, str]:
    return {one["key"]: one["state"] for one in (await reader(store).alarms())["alarms"]}


# failing in a row

STREAK = Streak(alarm_after=3, pause_after=5, words="ValueError: no", owner="platform")
FAILING, PAUSED = failing_alarm(APP, "agent"), paused_alarm(APP, "agent")


async def fail(member: Member, *identifiers: object, streak: Streak = STREAK) -> list[Claim]:
    return [await die(member, str(one), streak) for one in identifiers]


async def go_well(member: Member, identifier: str) -> None:
    await accept(member.store, an_arrival(identifier))
    asked = await member.ask(most=1)
    await member.finish(asked.claims[0], well_again="agent" in asked.failing)


async def test_an_agent_that_fails_in_a_row_raises_an_alarm(member: Member):
    await fail(member, 1, 2)
    assert FAILING not in await states(member.store)
    await fail(member, 3)
    alarm = await reader(member.store).alarm(FAILING)
    assert alarm is not None
    assert (alarm["state"], alarm["agent"], alarm["owner"]) == ("open", "agent", "platform")
    assert "3 runs in a row" in alarm["text"]


async def test_one_that_goes_well_ends_the_row(member: Member):
    await fail(member, 1, 2)
    await go_well(member, "3")
    await fail(member, 4, 5)
    assert FAILING not in await states(member.store)


async def test_the_alarm_is_over_with_the_next_that_goes_well(member: Member):
    await fail(member, 1, 2, 3)
    await go_well(member, "4")
    assert (await states(member.store))[FAILING] == "resolved"
    assert (await member.ask()).failing == frozenset()


async def test_whoever_claims_learns_which_agents_fail(member: Member):
    assert (await member.ask()).failing == frozenset()
    await fail(member, 1)
    assert (await member.ask()).failing == {"agent"}


async def test_too_many_in_a_row_pause_the_agent(member: Member):
    await fail(member, 1, 2, 3, 4, 5)
    (pause,) = await reader(member.store).pauses()
    assert (pause["agent"], pause["paused"], pause["by"]) == ("agent", True, "wakeful")
    assert "5 runs in a row" in pause["note"]
    alarm = await reader(member.store).alarm(PAUSED)
    assert alarm is not None
    assert (alarm["state"], alarm["loud"], alarm["owner"]) == ("open", True, "platform")
    await accept(member.store, an_arrival("6"))
    assert await member.claim() == []


async def test_resuming_it_is_heard_and_it_is_counted_anew(member: Member):
    await fail(member, 1, 2, 3, 4, 5)
    await member.store.do(ChangePause(APP, "agent", paused=False, by=Actor("ada", "code")))
    assert (await states(member.store))[PAUSED] == "resolved"
    await fail(member, 6, 7, 8, 9)
    assert await reader(member.store).pauses() == []
    await fail(member, 10)
    assert [one["agent"] for one in await reader(member.store).pauses()] == ["agent"]
    assert (await states(member.store))[FAILING] == "open"


async def test_after_it_is_resumed_a_run_that_goes_well_resolves_what_is_left(member: Member):
    await fail(member, 1, 2, 3, 4, 5)
    await member.store.do(ChangePause(APP, "agent", paused=False, by=Actor("ada", "code")))
    await go_well(member, "6")
    assert (await states(member.store))[FAILING] == "resolved"


async def test_a_run_that_a_person_replays_counts_once(member: Member):
    dead = await fail(member, 1, 2)
    for _ in range(3):
        await member.store.do(RedoRun(dead[0].id, by=Actor("ada", "code")))
        claim = await member.claim_one()
        await member.finish(claim, "dead", alarm=Alarm(APP, DEAD, "again"), streak=STREAK)
    assert FAILING not in await states(member.store)


async def test_a_repetition_after_a_lost_answer_counts_once(member: Member):
    claims = await fail(member, 1, 2)
    await member.finish(claims[1], "dead", alarm=Alarm(APP, DEAD, "a dead letter"), streak=STREAK)
    assert FAILING not in await states(member.store)


async def test_one_that_is_to_be_told_of_nothing_is_told_of_nothing(member: Member):
    await fail(member, *range(12), streak=Streak(None, None, "ValueError: no"))
    assert set(await states(member.store)) == {DEAD}
    assert await reader(member.store).pauses() == []


async def test_one_that_a_person_has_paused_already_stays_so(member: Member, store_url: str):
    await fail(member, 1, 2, 3, 4)
    await accept(member.store, an_arrival("5"))
    claim = await member.claim_one()
    await member.store.do(ChangePause(APP, "agent", paused=True, by=Actor("ada", "code"), note="mine"))
    await member.finish(claim, "dead", alarm=Alarm(APP, DEAD, "a dead letter"), streak=STREAK)
    (pause,) = await reader(member.store).pauses()
    assert (pause["by"], pause["note"]) == ("ada", "mine")
    assert PAUSED not in await states(member.store)
    assert await query(store_url, "select count from wakeful_failing") == [(5,)]


async def test_many_processes_that_fail_at_once_are_counted_together(stores: OpenStore, store_url: str):
    members = [await join(await stores(store_url), f"process-{number}") for number in range(3)]
    await accept(members[0].store, *(an_arrival(str(number)) for number in range(6)))
    claims = [(member, claim) for member in members for claim in await member.claim(most=2)]
    assert len(claims) == 6
    await asyncio.gather(
        *(
            member.finish(claim, "dead", alarm=Alarm(APP, DEAD, "a dead letter"), streak=STREAK)
            for member, claim in claims
        )
    )
    assert await query(store_url, "select count from wakeful_failing") == [(6,)]
    assert [one["agent"] for one in await reader(members[0].store).pauses()] == ["agent"]
