"""Grants in the store: a person's yes in advance turns an ask into an allow, and is counted where the effect begins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import AGENT, APP, Member, OpenStore, accept, an_arrival, join, query, reader
from wakeful.clock import SECOND, VirtualClock
from wakeful.model import Claim, Decision, Effect
from wakeful.policy.judgement import Counted, Judgement
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.grants import AddGrant, RevokeGrant, grants_for
from wakeful.stores.verbs.operation_keys import OpenOnce

ADA = Actor("ada", "code")
ASK = Decision("ask", "large", "above 100")
HOUR = 3600 * SECOND


async def grant(
    store: DatabaseStore, name: str = "g-one", *, agent: str = "", action: str = "pay", most: int = 2, **more: Any
) -> bool:
    until = more.pop("until", 1 << 60)
    return await store.do(AddGrant(name, APP, agent, action, more.pop("where", None), until, most, by=ADA, **more))


async def revoke(store: DatabaseStore, name: str = "g-one") -> bool:
    return await store.do(RevokeGrant(name, APP, by=Actor("bob", "code")))


async def a_claim(member: Member, identifier: str = "1") -> Claim:
    await accept(member.store, an_arrival(identifier))
    return await member.claim_one()


def asked(*grants: str, decision: Decision = ASK, **more: Any) -> Judgement:
    return Judgement(decision, grants=grants or ("g-one",), **more)


def an_effect(name: str) -> Effect:
    return Effect(name, "pay", "m:pay", "idempotent", "intent", "[]")


async def begins(member: Member, claim: Claim, name: str, judgement: Judgement | None = None) -> bool:
    opened = await member.store.do(OpenEffect(claim, APP, an_effect(name), judgement or asked()))
    return isinstance(opened, Effect) and opened.state == "intent"


async def decisions(url: str) -> list[tuple[Any, ...]]:
    rows = await query(url, "select answer, rule, reason, effect_id from wakeful_decision order by seq")
    return [tuple(row) for row in rows]


async def used(url: str, name: str = "g-one") -> int:
    ((count,),) = await query(url, f"select used from wakeful_grant where id = '{name}'")
    return int(count)


class TestServing:
    async def test_an_ask_is_allowed_and_counted_with_its_decision(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store)
        opened = await member.store.do(OpenEffect(claim, APP, an_effect("a"), asked()))
        assert isinstance(opened, Effect)
        assert (opened.state, opened.rule, opened.policy) == ("intent", "large", "1")
        assert await decisions(store_url) == [("allow", "large", "grant g-one by ada", "a")]
        assert await used(store_url) == 1

    async def test_no_more_often_than_granted(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store)
        assert [await begins(member, claim, name) for name in "abc"] == [True, True, False]
        assert await used(store_url) == 2

    async def test_those_of_one_batch_count_for_each_other(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store, most=3)
        begun = await asyncio.gather(*(begins(member, claim, str(number)) for number in range(5)))
        assert sum(begun) == 3
        assert await used(store_url) == 3

    @pytest.mark.parametrize("answer", ["hold", "deny", "shadow"])
    async def test_it_serves_asks_only(self, member: Member, store_url: str, answer: Any):
        claim = await a_claim(member)
        await grant(member.store)
        assert not await begins(member, claim, "a", asked(decision=replace(ASK, answer=answer)))
        assert await used(store_url) == 0

    async def test_nor_what_becomes_a_denial_in_the_transaction(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store)
        over = Counted("many", "", 0, HOUR, Decision("deny", "many", "too many"))
        assert not await begins(member, claim, "a", asked(counted=(over,)))
        assert await used(store_url) == 0

    async def test_what_becomes_an_ask_in_the_transaction_is_served(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store)
        over = Counted("many", "", 0, HOUR, replace(ASK, rule="many"))
        allowed = Judgement(Decision("allow", "all", "fine"), counted=(over,), grants=("g-one",))
        assert await begins(member, claim, "a", allowed)
        assert await decisions(store_url) == [("allow", "many", "grant g-one by ada", "a")]

    async def test_the_next_one_serves_if_the_first_is_used_up(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store, most=1)
        await grant(member.store, "g-two", most=1)
        both = asked("g-one", "g-two")
        assert [await begins(member, claim, name, both) for name in "abc"] == [True, True, False]
        assert [reason for _, _, reason, _ in await decisions(store_url)][:2] == [
            "grant g-one by ada",
            "grant g-two by ada",
        ]

    async def test_with_a_business_key_too(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store)
        effect = replace(an_effect("a"), once="k")
        opened = await member.store.do(OpenOnce(claim, APP, effect, asked(), span=HOUR))
        assert isinstance(opened, Effect)
        assert opened.state == "intent"
        follower = replace(an_effect("b"), once="k")  # it is not called, so it uses nothing
        opened = await member.store.do(OpenOnce(claim, APP, follower, asked(), span=HOUR))
        assert isinstance(opened, Effect)
        assert opened.state == "retrying"
        assert await used(store_url) == 1


class TestOnce:
    async def retry(self, member: Member, claim: Claim, effect: Effect, judgement: Judgement) -> Any:
        await member.store.do(SaveEffect(claim, replace(effect, state="retrying")))
        return await member.store.do(SaveEffect(claim, replace(effect, state="intent", tries=2), judgement))

    async def test_a_call_that_is_made_again_does_not_count_again(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await grant(member.store, most=1)
        assert await begins(member, claim, "a")
        for _ in range(2):
            assert await self.retry(member, claim, an_effect("a"), asked()) is None
        assert await begins(member, claim, "a")  # opened again, as after a crash
        assert await used(store_url) == 1
        assert len(await decisions(store_url)) == 1

    async def test_a_first_use_by_a_call_that_is_made_again_counts(self, member: Member, store_url: str):
        claim = await a_claim(member)
        assert await begins(member, claim, "a", Judgement(Decision("allow", "all", "fine")))
        await grant(member.store)
        assert await self.retry(member, claim, an_effect("a"), asked()) is None
        assert await used(store_url) == 1

    @pytest.mark.parametrize("end", ["revoked", "expired"])
    async def test_a_grant_that_is_over_serves_not_even_that(self, member: Member, clock: VirtualClock, end: str):
        claim = await a_claim(member)
        await grant(member.store, until=clock.now() + SECOND)
        assert await begins(member, claim, "a")
        if end == "revoked":
            assert await revoke(member.store)
        else:
            clock.move("1s")
        refused = await self.retry(member, claim, an_effect("a"), asked())
        assert isinstance(refused, Decision)
        assert refused.answer == "ask"
        assert not await begins(member, claim, "b")


class TestGrants:
    async def test_those_that_may_serve(self, store: DatabaseStore, clock: VirtualClock):
        now = clock.now()
        await grant(store, "g-late", until=now + 3 * HOUR)
        await grant(store, "g-soon", agent=AGENT, where="true", until=now + HOUR)
        await grant(store, "g-other", agent="other")
        await grant(store, "g-mail", agent=AGENT, action="mail")
        await grant(store, "g-gone")
        await revoke(store, "g-gone")
        assert await grants_for(store.database, APP, AGENT, "pay") == [("g-soon", "true"), ("g-late", None)]
        clock.move("1h")
        assert await grants_for(store.database, APP, AGENT, "pay") == [("g-late", None)]
        assert await grants_for(store.database, "other", AGENT, "pay") == []

    async def test_listed_with_their_state(self, member: Member, clock: VirtualClock):
        claim = await a_claim(member)
        await grant(member.store, most=1, until=clock.now() + HOUR, note="while I am away")
        await grant(member.store, "g-two", until=clock.now() + HOUR)
        await grant(member.store, "g-three", until=clock.now() + SECOND)
        await begins(member, claim, "a")
        await revoke(member.store, "g-two")
        clock.move("1s")
        assert await reader(member.store).grants() == []
        listed = {one["id"]: one for one in await reader(member.store).grants(whole=True)}
        states = {name: one["state"] for name, one in listed.items()}
        assert states == {"g-one": "used-up", "g-two": "revoked", "g-three": "expired"}
        assert listed["g-one"] == {
            "id": "g-one",
            "app": APP,
            "agent": None,
            "action": "pay",
            "where": None,
            "state": "used-up",
            "until": "2026-01-01T01:00:00Z",
            "most": 1,
            "used": 1,
            "granted_at": "2026-01-01T00:00:00Z",
            "by": "ada",
            "note": "while I am away",
            "revoked_at": None,
            "revoked_by": None,
        }
        assert listed["g-two"]["revoked_by"] == "bob"

    async def test_who_did_it_is_recorded_once(self, store: DatabaseStore, store_url: str):
        assert await grant(store, note="while I am away")
        assert not await grant(store)  # the id is taken
        assert await revoke(store)
        assert not await revoke(store)
        rows = await query(store_url, "select operator, verb, app, target, detail from wakeful_operation order by seq")
        assert [tuple(row) for row in rows] == [
            ("ada", "grants add", APP, "g-one", "while I am away"),
            ("bob", "grants revoke", APP, "g-one", None),
        ]


class TestTwoProcesses:
    async def test_the_last_use_goes_to_one(self, stores: OpenStore, store_url: str):
        members = [await join(await stores(store_url)) for _ in range(2)]
        claims = [await a_claim(member, str(number)) for number, member in enumerate(members)]
        await grant(members[0].store, most=5)
        begun = await asyncio.gather(
            *(
                begins(member, claim, f"{number} {claim.id}")
                for number in range(6)
                for member, claim in zip(members, claims, strict=True)
            )
        )
        assert sum(begun) == 5
        assert await used(store_url) == 5

    @pytest.mark.postgres
    async def test_the_second_waits_for_the_first_and_finds_nothing_left(self, stores: OpenStore, postgres_url: str):
        first, second = await join(await stores(postgres_url)), await join(await stores(postgres_url))
        claims = [await a_claim(first, "1"), await a_claim(second, "2")]
        await grant(first.store, most=1)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():  # the first stops where it would write, and has locked the grant
                await connection.execute("lock table wakeful_effect in share mode")
                one = asyncio.create_task(begins(first, claims[0], "a"))
                await waiting_for_a_lock(postgres_url, like="%insert into wakeful_effect%")
                other = asyncio.create_task(begins(second, claims[1], "b"))
                await waiting_for_a_lock(postgres_url, like="%from wakeful_grant where id = %for update%")
        finally:
            await connection.close()
        assert (await one, await other) == (True, False)
        assert await used(postgres_url) == 1

    @pytest.mark.postgres
    async def test_a_revocation_waits_for_an_effect_that_is_being_opened(self, stores: OpenStore, postgres_url: str):
        worker, person = await join(await stores(postgres_url)), await stores(postgres_url)
        claim = await a_claim(worker)
        await grant(person)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table wakeful_effect in share mode")
                opening = asyncio.create_task(begins(worker, claim, "a"))
                await waiting_for_a_lock(postgres_url, like="%insert into wakeful_effect%")
                revoking = asyncio.create_task(revoke(person))
                await waiting_for_a_lock(postgres_url, like="%update wakeful_grant%")
        finally:
            await connection.close()
        assert await opening
        assert await revoking
        assert not await begins(worker, claim, "b")
