"""Halts: once a halt is stored, nothing of its app, agent or action is claimed, called or delivered, until it is lifted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import AGENT, APP, Member, OpenStore, accept, an_arrival, join, query, reader, state_of
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import Halted
from wakeful.model import ON_FAILURE, ON_OVERLAP, ON_STUCK, WENT_WELL, Claim, Decision, Delivery, Effect
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.commit import CommitRun
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.halts import Call, ChangeHalt, HaltChanged
from wakeful.stores.verbs.operation_keys import OpenOnce, SaveOnce
from wakeful.stores.verbs.outbox import Delivered, WorkLane, first_delivery
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.progress import LeaveRun

ADA = Actor("ada", "code")
YES = Judgement(ALLOWED)
OWN = "wakeful.tell"


async def halt(
    store: DatabaseStore, agent: str = "", action: str = "", *, note: str | None = "wrong prices"
) -> HaltChanged:
    return await store.do(ChangeHalt(APP, agent, action, by=ADA, note=note))


async def lift(store: DatabaseStore, agent: str = "", action: str = "") -> HaltChanged:
    return await store.do(ChangeHalt(APP, agent, action, halted=False, by=ADA))


async def a_claim(member: Member, identifier: str = "1", agent: str = AGENT) -> Claim:
    await accept(member.store, an_arrival(identifier, agents=(agent,)))
    return await member.claim_one(agent)


def an_effect(name: str = "1", action: str = "pay", **more: Any) -> Effect:
    return Effect(name, action, f"m:{action}", "idempotent", "intent", "[]", **more)


async def open_effect(member: Member, claim: Claim, name: str = "1", **more: Any) -> Effect | Decision:
    return await member.store.do(OpenEffect(claim, APP, an_effect(name, **more), YES))


async def opened(member: Member, claim: Claim, name: str = "1", **more: Any) -> Effect:
    effect = await open_effect(member, claim, name, **more)
    assert isinstance(effect, Effect)
    return effect


async def park(member: Member, claim: Claim, agent: str = "", action: str = "") -> None:
    place = (APP, agent, action)
    await member.store.do(LeaveRun(claim, "parked", "parked", reason="halted by ada", halted_for=place))


class TestClaims:
    async def test_nothing_of_a_halted_agent_is_claimed(self, member: Member):
        await accept(member.store, an_arrival(agents=("a", "b")))
        assert await halt(member.store, "a") == HaltChanged(None)
        claimed = await member.ask("a", "b")
        assert [claim.agent for claim in claimed.claims] == ["b"]
        assert claimed.next_due is None
        assert await lift(member.store, "a") == HaltChanged(("ada", "wrong prices"))
        assert [claim.agent for claim in await member.claim("a", "b")] == ["a"]

    async def test_all_of_an_app_except_for_wakefuls_own_agents(self, member: Member):
        await accept(member.store, an_arrival(agents=("a", OWN)))
        await accept(member.store, an_arrival(app="other"), app="other")
        await halt(member.store)
        assert [claim.agent for claim in await member.claim("a", OWN)] == [OWN]
        assert len(await member.claim(app="other")) == 1
        await lift(member.store)
        assert len(await member.claim("a", OWN)) == 1

    async def test_nor_are_these_paused(self, member: Member):
        await accept(member.store, an_arrival(agents=("a", OWN)))
        await member.store.do(ChangePause(APP, "", paused=True, by=ADA))
        assert [claim.agent for claim in await member.claim("a", OWN)] == [OWN]

    async def test_an_action_stops_no_claim(self, member: Member):
        await accept(member.store, an_arrival())
        await halt(member.store, action="pay")
        assert len(await member.claim()) == 1

    async def test_a_halt_of_one_stays_when_all_is_lifted(self, member: Member):
        await accept(member.store, an_arrival(agents=("a", "b")))
        await halt(member.store, "a")
        await halt(member.store)
        await lift(member.store)
        assert [claim.agent for claim in await member.claim("a", "b")] == ["b"]

    async def test_a_second_halt_keeps_the_first(self, member: Member, clock: VirtualClock, store_url: str):
        await halt(member.store, AGENT)
        clock.move("1h")
        again = await member.store.do(ChangeHalt(APP, AGENT, by=Actor("bob", "code"), note="me too"))
        assert again.was == ("ada", "wrong prices")
        (listed,) = await reader(member.store).halts()
        assert listed == {
            "app": APP,
            "agent": AGENT,
            "action": None,
            "by": "ada",
            "note": "wrong prices",
            "since": "2026-01-01T00:00:00Z",
            "parked": 0,
        }
        await lift(member.store, AGENT)
        assert (await lift(member.store, AGENT)).was is None
        rows = await query(store_url, "select operator, verb, app, target, detail from wakeful_operation order by seq")
        assert [tuple(row) for row in rows] == [
            ("ada", "halt", APP, "agent agent", "wrong prices"),
            ("ada", "halt lift", APP, "agent agent", None),
        ]


class TestEffects:
    @pytest.mark.parametrize("place", [("", ""), (AGENT, ""), ("", "pay")])
    async def test_none_begins(self, member: Member, store_url: str, place: tuple[str, str]):
        claim = await a_claim(member)
        await halt(member.store, *place)
        with pytest.raises(Halted, match=r"^halted by ada: wrong prices$") as refused:
            await open_effect(member, claim)
        assert refused.value.place == (APP, *place)
        with pytest.raises(Halted):
            await member.store.do(OpenOnce(claim, APP, an_effect("2", once="k"), YES, span=SECOND))
        assert await query(store_url, "select count(*) from wakeful_effect") == [(0,)]
        assert await query(store_url, "select count(*) from wakeful_decision") == [(0,)]
        await lift(member.store, *place)
        assert (await opened(member, claim)).state == "intent"

    async def test_none_is_called_again(self, member: Member, store_url: str):
        claim = await a_claim(member)
        effect = await opened(member, claim)
        once = await member.store.do(OpenOnce(claim, APP, an_effect("2", once="k"), YES, span=SECOND))
        assert isinstance(once, Effect)
        effect.state = once.state = "retrying"
        await member.store.do(SaveEffect(claim, effect))
        await member.store.do(SaveOnce(claim, APP, once))
        await halt(member.store, AGENT)
        with pytest.raises(Halted):
            await member.store.do(SaveEffect(claim, replace(effect, state="intent", tries=2), YES))
        with pytest.raises(Halted):
            await member.store.do(SaveOnce(claim, APP, replace(once, state="intent", tries=2), YES))
        assert await query(store_url, "select distinct state from wakeful_effect") == [("retrying",)]
        effect.state = "confirmed"  # a result that is known by now is stored
        await member.store.do(SaveEffect(claim, effect))

    async def test_a_staged_one_is_not_released(self, member: Member, store_url: str):
        claim = await a_claim(member)
        staged = an_effect(staged=True)
        staged.state = "staged"
        await member.store.do(CommitRun(claim, APP, "1", WENT_WELL, then="running", effects=[staged]))
        await halt(member.store, AGENT)
        with pytest.raises(Halted):
            await open_effect(member, claim, staged=True)
        assert await query(store_url, "select state from wakeful_effect") == [("staged",)]

    async def test_an_action_stops_only_its_own(self, member: Member):
        claim = await a_claim(member)
        await halt(member.store, action="pay")
        pay, mail = await asyncio.gather(
            open_effect(member, claim), open_effect(member, claim, "2", action="mail"), return_exceptions=True
        )
        assert isinstance(pay, Halted)
        assert isinstance(mail, Effect)

    async def test_wakefuls_own_agents_go_on(self, member: Member):
        claim = await a_claim(member, agent=OWN)
        await halt(member.store)
        await halt(member.store, action="pay")
        assert (await opened(member, claim)).state == "intent"

    @pytest.mark.parametrize("place", [("", ""), (AGENT, ""), ("", "pay")])
    async def test_an_undo_by_a_person_goes_on_and_no_other(self, member: Member, place: tuple[str, str]):
        claim = await a_claim(member)
        done = await opened(member, claim)
        done.state = "confirmed"
        await member.store.do(SaveEffect(claim, done))
        await halt(member.store, *place)
        for author in (ON_FAILURE, ON_STUCK, ON_OVERLAP, "run 5f, which failed"):
            claim.cancelled = (author, None)
            with pytest.raises(Halted):
                await open_effect(member, claim, "undo", action="undo pay", undoes="1")
        claim.cancelled = ("ada", None)
        assert (await opened(member, claim, "undo", action="undo pay", undoes="1")).state == "intent"
        with pytest.raises(Halted):  # the action itself is not called, even in a run that a person cancelled
            await open_effect(member, claim, "2")


class TestParkedRuns:
    @pytest.mark.parametrize("place", [("", ""), (AGENT, ""), ("", "pay")])
    async def test_are_ready_with_the_lift(self, member: Member, clock: VirtualClock, place: tuple[str, str]):
        claim = await a_claim(member)
        await halt(member.store, *place)
        await park(member, claim, *place)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["attempts"], run["reason"]) == ("parked", 0, "halted by ada")
        assert [one["parked"] for one in await reader(member.store).halts()] == [1]
        assert await member.claim() == []
        clock.move("10s")
        assert (await lift(member.store, *place)).came_back == 1
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["reason"]) == ("ready", "the halt was lifted by ada")
        again = await member.claim_one()
        assert again.started_at == claim.started_at + 10 * SECOND  # its deadline does not come nearer meanwhile

    async def test_of_another_halt_stay(self, member: Member):
        claim = await a_claim(member)
        await halt(member.store, action="pay")
        await halt(member.store, action="mail")
        await park(member, claim, action="pay")
        assert (await lift(member.store, action="mail")).came_back == 0
        assert await member.claim() == []

    async def test_one_whose_halt_was_lifted_meanwhile_is_ready(self, member: Member):
        claim = await a_claim(member)
        await halt(member.store, AGENT)
        await lift(member.store, AGENT)
        await park(member, claim, AGENT)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["reason"]) == ("ready", "the halt was lifted meanwhile")
        assert len(await member.claim()) == 1

    async def test_one_that_a_person_cancelled_is_claimed_to_be_undone(self, member: Member):
        claims = [await a_claim(member, str(number)) for number in range(3)]
        for claim in claims:
            done = await opened(member, claim, claim.id)
            done.state = "confirmed"
            await member.store.do(SaveEffect(claim, done))
        await halt(member.store, AGENT)
        for claim in claims[:2]:
            await park(member, claim, AGENT)
        assert await member.claim() == []
        stopped = await member.store.do(CancelRun(claims[0].id, by=ADA))
        assert stopped is not None
        assert stopped.now == "ready"
        (undoing,) = await member.claim()
        assert (undoing.id, undoing.cancelled) == (claims[0].id, ("ada", None))

    @pytest.mark.parametrize("author", [ON_FAILURE, ON_STUCK, ON_OVERLAP, "run 5f, which failed"])
    async def test_one_that_undoes_by_itself_is_not_claimed(self, member: Member, store_url: str, author: str):
        claim = await a_claim(member)
        await halt(member.store, AGENT)
        await member.store.do(CancelRun(claim.id, claim=claim, by=Actor(author, "worker")))
        claim.cancelled = (author, None)
        await park(member, claim, AGENT)
        await lift(member.store, AGENT)
        await halt(member.store, AGENT)
        assert await member.claim() == []
        assert await query(store_url, "select state from wakeful_run") == [("ready",)]
        await lift(member.store, AGENT)
        assert len(await member.claim()) == 1


async def send(member: Member, identifier: str, agent: str = AGENT) -> None:
    claim = await a_claim(member, identifier, agent)
    deliveries = [Delivery(f"{claim.root}-0", "ops", f'"{identifier}"')]
    await member.store.do(CommitRun(claim, APP, "1", WENT_WELL, deliveries=deliveries))


def lane(member: Member, **more: Any) -> WorkLane:
    return WorkLane(APP, "ops", member.process, more.pop("most", 10), **more)


async def taken(member: Member) -> list[str]:
    return [one.message for one in (await member.store.do(lane(member))).deliveries]


class TestDeliveries:
    async def test_those_of_a_halted_agent_stay(self, member: Member):
        await send(member, "1", "a")
        await send(member, "2", "b")
        await halt(member.store, "a")
        assert await taken(member) == ['"2"']
        assert await first_delivery(member.store.database, APP, "ops") == 0
        await lift(member.store, "a")
        assert await taken(member) == ['"1"', '"2"']

    async def test_all_but_those_of_wakefuls_own_agents(self, member: Member):
        await send(member, "1")
        await halt(member.store)
        assert await first_delivery(member.store.database, APP, "ops") is None
        assert await taken(member) == []
        await send(member, "2", OWN)
        assert await taken(member) == ['"2"']

    async def test_an_action_stops_none(self, member: Member):
        await send(member, "1")
        await halt(member.store, action="pay")
        assert await taken(member) == ['"1"']

    async def test_one_that_is_under_way_is_told_of_and_its_end_is_stored(self, member: Member, store_url: str):
        await send(member, "1")
        got = await member.store.do(lane(member))
        assert (await halt(member.store, AGENT)).deliveries == {"ops": 1}
        results = [Delivered(got.deliveries[0].seq, "delivered", 1)]
        assert (await member.store.do(lane(member, token=got.token, results=results))).deliveries == []
        assert await query(store_url, "select state from wakeful_delivery") == [("delivered",)]
        assert (await halt(member.store, AGENT)).deliveries == {}


class TestCallsUnderWay:
    async def test_are_the_answer(self, member: Member, clock: VirtualClock):
        claim, own = await a_claim(member), await a_claim(member, "2", OWN)
        await opened(member, claim)
        over = await opened(member, claim, "over", action="mail")
        over.state = "confirmed"
        await member.store.do(SaveEffect(claim, over))
        await opened(member, own, "own")
        call = Call(claim.id, AGENT, "pay", "1", clock.now())
        assert (await halt(member.store)).calls == [call]
        assert (await halt(member.store, AGENT)).calls == [call]
        assert (await halt(member.store, "other")).calls == []
        assert (await halt(member.store, action="pay")).calls == [call]
        assert (await halt(member.store, action="mail")).calls == []

    async def test_a_call_whose_process_died_is_not(self, member: Member):
        victim = await join(member.store)
        claim = await a_claim(victim)
        await opened(victim, claim)
        await member.bury(victim)
        assert (await halt(member.store)).calls == []


@asynccontextmanager
async def lock_on(url: str, table: str, mode: str = "share"):
    """Keeps other transactions from writing to a table for the length of the block."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(f"lock table {table} in {mode} mode")
            yield
    finally:
        await connection.close()


@pytest.mark.postgres
class TestTwoProcesses:
    """The order is forced by locks of a third session, and seen by who waits for what."""

    @pytest.fixture
    async def worker(self, stores: OpenStore, postgres_url: str) -> Member:
        return await join(await stores(postgres_url))

    @pytest.fixture
    async def person(self, stores: OpenStore, postgres_url: str) -> DatabaseStore:
        return await stores(postgres_url)

    @pytest.mark.parametrize("place", [("", ""), (AGENT, ""), ("", "pay")])
    async def test_a_halt_waits_for_an_effect_that_is_being_opened_and_tells_of_it(
        self, worker: Member, person: DatabaseStore, postgres_url: str, place: tuple[str, str]
    ):
        claim = await a_claim(worker)
        async with lock_on(postgres_url, "wakeful_effect"):
            opening = asyncio.create_task(open_effect(worker, claim))
            await waiting_for_a_lock(postgres_url, like="%insert into wakeful_effect%")
            halting = asyncio.create_task(halt(person, *place))
            await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
            assert not halting.done()
        assert isinstance(await opening, Effect)
        assert [(one.run, one.effect) for one in (await halting).calls] == [(claim.id, "1")]
        with pytest.raises(Halted):
            await open_effect(worker, claim, "late")

    @pytest.mark.parametrize("place", [("", ""), (AGENT, ""), ("", "pay")])
    async def test_an_effect_waits_for_a_halt_that_is_being_stored_and_sees_it(
        self, worker: Member, person: DatabaseStore, postgres_url: str, place: tuple[str, str]
    ):
        claim = await a_claim(worker)
        async with lock_on(postgres_url, "wakeful_halt"):
            halting = asyncio.create_task(halt(person, *place))
            await waiting_for_a_lock(postgres_url, like="%insert into wakeful_halt%")
            opening = asyncio.create_task(open_effect(worker, claim))
            await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock_shared(%")
        assert (await halting).calls == []
        with pytest.raises(Halted):
            await opening

    async def test_a_call_that_is_made_again(self, worker: Member, person: DatabaseStore, postgres_url: str):
        claim = await a_claim(worker)
        effect = await opened(worker, claim)
        effect.state = "retrying"
        await worker.store.do(SaveEffect(claim, effect))
        again = SaveEffect(claim, replace(effect, state="intent", tries=2), YES)
        async with lock_on(postgres_url, "wakeful_halt"):
            halting = asyncio.create_task(halt(person, AGENT))
            await waiting_for_a_lock(postgres_url, like="%insert into wakeful_halt%")
            calling = asyncio.create_task(worker.store.do(again))
            await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock_shared(%")
        await halting
        with pytest.raises(Halted):
            await calling

    async def test_a_halt_waits_for_deliveries_that_are_being_taken(
        self, worker: Member, person: DatabaseStore, postgres_url: str
    ):
        await send(worker, "1")
        async with lock_on(postgres_url, "wakeful_lane"):
            taking = asyncio.create_task(worker.store.do(lane(worker)))
            await waiting_for_a_lock(postgres_url, like="%insert into wakeful_lane%")
            halting = asyncio.create_task(halt(person, AGENT))
            await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
        assert len((await taking).deliveries) == 1
        assert (await halting).deliveries == {"ops": 1}

    async def test_deliveries_wait_for_a_halt_that_is_being_stored(
        self, worker: Member, person: DatabaseStore, postgres_url: str
    ):
        await send(worker, "1")
        async with lock_on(postgres_url, "wakeful_halt"):
            halting = asyncio.create_task(halt(person, AGENT))
            await waiting_for_a_lock(postgres_url, like="%insert into wakeful_halt%")
            taking = asyncio.create_task(worker.store.do(lane(worker)))
            await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock_shared(%")
        assert (await halting).deliveries == {}
        assert (await taking).deliveries == []

    async def test_a_lift_waits_for_a_run_that_is_being_parked(
        self, worker: Member, person: DatabaseStore, postgres_url: str
    ):
        """Otherwise it would be parked for a halt that nobody can lift any more."""
        claim = await a_claim(worker)
        await halt(person, action="pay")
        async with lock_on(postgres_url, "wakeful_run"):
            parking = asyncio.create_task(park(worker, claim, action="pay"))
            await waiting_for_a_lock(postgres_url, like="%update wakeful_run%")
            lifting = asyncio.create_task(lift(person, action="pay"))
            await waiting_for_a_lock(postgres_url, like="%delete from wakeful_halt%")
        await parking
        assert (await lifting).came_back == 1
        assert await query(postgres_url, "select state from wakeful_run") == [("ready",)]

    async def test_a_run_that_is_parked_waits_for_a_lift(
        self, worker: Member, person: DatabaseStore, postgres_url: str
    ):
        claim = await a_claim(worker)
        await halt(person, action="pay")
        async with lock_on(postgres_url, "wakeful_run"):
            lifting = asyncio.create_task(lift(person, action="pay"))
            await waiting_for_a_lock(postgres_url, like="%update wakeful_run%")
            parking = asyncio.create_task(park(worker, claim, action="pay"))
            await waiting_for_a_lock(postgres_url, like="%from wakeful_halt%for key share%")
        assert (await lifting).came_back == 0
        await parking
        assert await query(postgres_url, "select state from wakeful_run") == [("ready",)]
