"""redo and feed: what people do to runs that were over and to events that were stored, many in one transaction."""

from __future__ import annotations

import asyncio

from support.stores import (
    APP,
    Member,
    OpenStore,
    a_step,
    accept,
    an_arrival,
    an_event,
    count,
    do_all,
    join,
    reader,
    state_of,
)
from wakeful.clock import VirtualClock, from_datetime, to_datetime
from wakeful.model import Decision, Effect, run_id
from wakeful.operations.redo import Choice, plan_redo
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.stores.alarm import Alarm, held_alarm
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.stored import EventToFeed
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import SettleEffect

ERROR = '{"type": "Persistent", "message": "broken"}'


async def dead_letters(member: Member, number: int) -> list[str]:
    await accept(member.store, *(an_arrival(str(one)) for one in range(number)))
    claims = await member.claim(most=number)
    await asyncio.gather(*(member.finish(claim, "dead", error=ERROR, failed=True) for claim in claims))
    return [run_id(APP, "agent", "/test", str(one)) for one in range(number)]


async def states(store: DatabaseStore) -> dict[str, int]:
    return await reader(store).counts()


# redo


async def test_many_share_a_transaction_and_each_is_refused_by_itself(member: Member):
    dead = await dead_letters(member, 50)
    store = member.store
    await store.do(RedoRun(dead[7], by=Actor("bob", "code")))
    before = store.journal.transactions
    redone = await do_all(store, [RedoRun(one, by=Actor("ada", "code"), note="mended") for one in [*dead, "nothing"]])
    assert store.journal.transactions == before + 1
    assert [one.run for one in redone[:-1] if one is not None] == dead
    assert redone[-1] is None
    refused = {one.run: one.refused for one in redone if one is not None and one.refused is not None}
    assert refused == {dead[7]: "is ready: only a run that has ended can be replayed"}
    assert await states(store) == {"ready": 50}
    run = await state_of(store, dead[0])
    assert (run["reason"], run["attempts"], run["error"]) == ("replayed by ada: mended", 0, None)
    (remedy,) = run["remedies"]
    assert (remedy["verb"], remedy["operator"], remedy["error"]["message"]) == ("replay", "ada", "broken")


async def test_of_two_who_ask_for_the_same_at_once_the_first_is_heard(member: Member):
    (dead,) = await dead_letters(member, 1)
    discarded, replayed, second = await do_all(
        member.store,
        [
            RedoRun(dead, discard=True, by=Actor("ada", "code")),
            RedoRun(dead, by=Actor("bob", "code")),
            RedoRun(dead, discard=True, by=Actor("eve", "code")),
        ],
    )
    assert discarded is not None
    assert replayed is not None
    assert second is not None
    assert (discarded.was, discarded.refused) == ("dead", None)
    assert (replayed.was, replayed.refused) == ("cancelled", None)
    assert second.refused == "is ready: only a dead letter can be discarded"
    run = await state_of(member.store, dead)
    assert run["state"] == "ready"
    assert [(one["verb"], one["operator"]) for one in run["remedies"]] == [("discard", "ada"), ("replay", "bob")]


async def test_two_processes_replay_the_same_letters_and_each_goes_once(
    stores: OpenStore, store_url: str, member: Member
):
    dead = await dead_letters(member, 40)
    other = await stores(store_url)
    both = await asyncio.gather(
        do_all(member.store, [RedoRun(one, by=Actor("ada", "code")) for one in dead]),
        do_all(other, [RedoRun(one, by=Actor("bob", "code")) for one in reversed(dead)]),
    )
    assert sum(one is not None and one.refused is None for redone in both for one in redone) == 40
    assert await count(store_url, "wakeful_remedy") == 40


async def test_again_and_again_are_further_ones_of_the_family(member: Member):
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    await member.finish(claim)
    for number in (1, 2, 3):
        redone = await member.store.do(RedoRun(claim.id, data=str(number), again=True, by=Actor("ada", "code")))
        assert redone is not None
        assert redone.run == f"{claim.id}.{number}"
        run = await state_of(member.store, redone.run)
        assert (run["root"], run["state"], run["remedies"][0]["verb"]) == (claim.id, "ready", "again")
        (again,) = await member.claim()
        assert again.data == str(number)
        beside = await member.store.do(RedoRun(claim.id, again=True, by=Actor("ada", "code")))
        assert beside is not None
        assert beside.refused is not None, "they share their effects: one at a time"
        await member.finish(again)


async def test_no_error_is_lost_by_a_replay(member: Member):
    """Steps and effects that failed are tried again. What they failed with stays beside the remedy."""
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    failed = a_step("ship:", state="failed", result=None, error='{"type": "Persistent", "message": "no ship"}')
    await member.save(claim, a_step("fetch:"), failed)
    effect = Effect("x", "charge", "m:charge", "idempotent", "intent", "[]")
    await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
    effect.state, effect.error = "failed", '{"type": "Persistent", "message": "no money"}'
    await member.store.do(SaveEffect(claim, effect))
    await member.finish(claim, "dead", error=ERROR, failed=True)
    await member.store.do(RedoRun(claim.id, by=Actor("ada", "code")))
    run = await state_of(member.store, claim.id)
    assert [step["name"] for step in run["steps"]] == ["fetch"]
    assert run["effects"][0]["state"] == "retrying"
    error = run["remedies"][0]["error"]
    assert error["message"] == "broken"
    assert [(one["name"], one["error"]["message"]) for one in error["steps"]] == [("ship", "no ship")]
    assert [(one["action"], one["error"]["message"]) for one in error["effects"]] == [("charge", "no money")]


async def test_what_was_replayed_can_be_claimed_at_once(member: Member):
    dead = await dead_letters(member, 3)
    await do_all(member.store, [RedoRun(one, data='{"edited": true}', by=Actor("ada", "code")) for one in dead])
    claims = await member.claim()
    assert sorted(claim.id for claim in claims) == sorted(dead)
    assert {claim.data for claim in claims} == {'{"edited": true}'}
    assert not any(claim.first_start for claim in claims)


async def test_dead_letters_are_listed_with_what_they_did_outside(member: Member):
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    for name in ("x", "y", "z"):
        effect = Effect(name, "mail" if name == "z" else "charge", "m:f", "idempotent", "intent", "[]")
        await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
        effect.state = "confirmed"
        await member.store.do(SaveEffect(claim, effect))
    await member.finish(claim, "dead", error=ERROR, failed=True)
    (letter,) = (await plan_redo(reader(member.store), Choice())).letters
    assert letter["confirmed"] == {"charge": 2, "mail": 1}
    assert letter["error"] == {"type": "Persistent", "message": "broken"}
    assert (await plan_redo(reader(member.store), Choice("nobody"))).letters == []


# held runs and their alarms


async def hold(member: Member, *, settle_first: bool = False) -> None:
    """A run that is held for a person, with its alarm."""
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    effect = Effect("x", "charge", "m:charge", "at_most_once", "held", "[]", reason="no answer")
    await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
    if settle_first:
        await member.store.do(SettleEffect("x", "confirmed", by=Actor("ada", "code")))
    alarm = Alarm(APP, held_alarm(APP, "agent", claim.id), "held")
    await member.store.do(LeaveRun(claim, "held", "held", alarm=alarm))


async def test_the_alarm_of_a_held_run_is_resolved_by_the_word_that_lets_it_go_on(member: Member, clock: VirtualClock):
    await hold(member)
    (alarm,) = (await reader(member.store).alarms())["alarms"]
    assert alarm["state"] == "open"
    clock.move("1h")
    await member.store.do(SettleEffect("x", "retrying", by=Actor("ada", "code")))
    (alarm,) = (await reader(member.store).alarms())["alarms"]
    assert alarm["state"] == "resolved"
    assert await states(member.store) == {"ready": 1}


async def test_a_word_that_came_before_the_run_was_put_aside_leaves_no_alarm(member: Member):
    await hold(member, settle_first=True)
    assert (await reader(member.store).alarms())["alarms"] == []
    assert await states(member.store) == {"ready": 1}


# feed


async def stored(store: DatabaseStore, agent: str = "later") -> list[tuple[int, str]]:
    """Every stored event, and the run that it is to an agent."""
    events = await to_feed(store, agent)
    return [(event.seq, run_id(event.app, agent, event.source, event.id)) for event in events]


async def feed(store: DatabaseStore, agent: str = "later") -> int:
    return await store.do(
        FeedEvents(APP, agent, "replayed by ada", await stored(store, agent), by=Actor("ada", "code"))
    )


async def admissions(store: DatabaseStore, identifier: str) -> dict[str, tuple[str, str | None]]:
    event = await reader(store).event(identifier)
    assert event is not None
    return {one["agent"]: (one["state"], one["reason"]) for one in event["admissions"]}


async def test_an_agent_gets_events_that_were_stored_before_it_was_there(member: Member):
    store = member.store
    await accept(store, an_arrival("1"), an_arrival("2", agents=(), state="unmatched", reason="nobody"))
    assert await feed(store) == 2
    claims = await member.claim("later")
    assert {claim.id for claim in claims} == {run_id(APP, "later", "/test", one) for one in ("1", "2")}
    assert (await admissions(store, "1"))["later"] == ("started", "replayed by ada")
    assert {event["id"]: event["state"] for event in (await reader(store).events())["events"]} == {
        "1": "accepted",
        "2": "accepted",
    }


async def test_fed_again_it_is_the_same_run(member: Member, store_url: str):
    await accept(member.store, *(an_arrival(str(one)) for one in range(5)))
    assert await feed(member.store) == 5
    assert await feed(member.store) == 0
    assert await feed(member.store, "agent") == 0
    assert await count(store_url, "wakeful_run") == 10
    (receipt,) = await accept(member.store, an_arrival("1", agents=("agent", "later")))
    assert receipt.status == "duplicate"
    assert len(receipt.runs) == 2


async def test_two_who_feed_at_once_make_one_run_of_each_event(stores: OpenStore, store_url: str, store: DatabaseStore):
    await accept(store, *(an_arrival(str(one)) for one in range(20)))
    other = await stores(store_url)
    assert sum(await asyncio.gather(feed(store), feed(other), feed(store))) == 20
    assert await count(store_url, "wakeful_run") == 40


async def test_what_an_agent_did_nothing_with_can_be_fed_to_it_but_not_what_it_was_denied(member: Member):
    store = member.store
    await accept(store, an_arrival("skipped", state="unmatched", admission="skipped", reason="no"))
    await accept(store, an_arrival("denied", admission="denied", reason="no"))
    await accept(store, an_arrival("expired", state="expired", admission="expired", reason="late"))
    assert await feed(store, "agent") == 2
    assert await admissions(store, "skipped") == {"agent": ("started", "replayed by ada")}
    assert await admissions(store, "expired") == {"agent": ("started", "replayed by ada")}
    assert await admissions(store, "denied") == {"agent": ("denied", "no")}
    expired = await reader(store).event("expired")
    assert expired is not None
    assert expired["state"] == "expired"


async def test_an_event_that_expired_meanwhile_runs_even_so(store: DatabaseStore, clock: VirtualClock):
    event = an_event("1")
    event.expirytime = to_datetime(clock.now() + 60_000_000)
    await accept(store, an_arrival(event=event))
    clock.move("1h")
    await feed(store)
    member = await join(store)
    claim = await member.claim_one("later")
    assert claim.expires_at is None
    (late,) = await member.claim("agent")
    assert late.expires_at == from_datetime(event.expirytime)


async def test_a_run_that_expired_before_its_start_counts_as_had(member: Member):
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    await member.finish(claim, "cancelled", reason="expired", expired=True)
    assert await feed(member.store, "agent") == 0
    assert (await admissions(member.store, "1"))["agent"][0] == "expired"


async def test_what_policy_denies_is_written_down(store: DatabaseStore):
    await accept(store, an_arrival())
    ((seq, _),) = await stored(store)
    decision = Judgement(Decision("deny", "night", "it is night"))
    assert (
        await store.do(FeedEvents(APP, "later", "replayed by ada", [], [(seq, decision)], by=Actor("ada", "code"))) == 0
    )
    assert (await admissions(store, "1"))["later"] == ("denied", "night: it is night")
    event = await reader(store).event("1")
    assert event is not None
    assert [(one["agent"], one["answer"]) for one in event["decisions"]] == [("later", "deny")]


async def test_a_resting_claim_hears_of_what_was_fed(store: DatabaseStore):
    member = await join(store)
    await accept(store, an_arrival())
    resting = asyncio.ensure_future(store.do(member.wanting("later", rests=True)))
    await feed(store)
    claimed = await resting
    assert [claim.agent for claim in claimed.claims] == ["later"]


async def test_only_events_of_the_type_the_time_and_the_app(store: DatabaseStore, clock: VirtualClock):
    began = clock.now()
    for number, kind in enumerate(["ticket.created", "ticket.closed", "order.paid", "ticket%created"]):
        await accept(store, an_arrival(event=an_event(str(number), type=kind)))
        clock.move("1h")
    await accept(store, an_arrival("q", state="quarantined", agents=()))
    await accept(store, an_arrival(event=an_event("other", type="ticket.created"), app="other"), app="other")

    async def found(prefix: str = "", hours: tuple[int, int] = (0, 9), app: str | None = APP) -> list[str]:
        since, until = (began + hour * 3_600_000_000 for hour in hours)
        events = await to_feed(store, "agent", prefix, app=app, since=since, until=until)
        return [event.id for event in events]

    assert await found() == ["0", "1", "2", "3"]
    assert await found("ticket.") == ["0", "1"]
    assert await found(hours=(1, 3)) == ["1", "2"]
    assert await found("ticket.created", app=None) == ["0", "other"]
    events = await to_feed(store, "agent", after=1, most=1, whole=True)
    assert [(event.id, event.admission, event.envelope is not None) for event in events] == [("1", "started", True)]


async def to_feed(
    store: DatabaseStore,
    agent: str,
    prefix: str = "",
    *,
    app: str | None = APP,
    since: int = 0,
    until: int = 2**62,
    after: int = 0,
    most: int = 500,
    whole: bool = False,
) -> list[EventToFeed]:
    """Stored events that can be fed to an agent."""
    window = (app, prefix, since, until, agent, after, most, int(whole))
    return [EventToFeed(*row) for row in await reader(store).fetch("list_events_to_feed", *window)]
