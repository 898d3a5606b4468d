"""Locks in the store: one holder, a token that only rises, and a row that is locked by what is committed inside."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import APP, Member, OpenStore, a_step, accept, an_arrival, join, query, steps_of
from wakeful.errors import ClaimLost, LockLost
from wakeful.model import Claim
from wakeful.stores.verbs.locks import FreeLock, HeldLock, LockHolder, TakeLock
from wakeful.stores.verbs.progress import SaveSteps


async def claims(member: Member, count: int = 2) -> list[Claim]:
    await accept(member.store, *[an_arrival(str(number)) for number in range(count)])
    return await member.claim()


async def take(member: Member, claim: Claim, name: str = "till", *, gives_up: bool = False) -> HeldLock | LockHolder:
    return await member.store.do(TakeLock(claim, APP, name, gives_up))


async def held(member: Member, claim: Claim, name: str = "till") -> HeldLock:
    lock = await take(member, claim, name)
    assert isinstance(lock, HeldLock)
    return lock


async def save(member: Member, claim: Claim, lock: HeldLock, key: str = "late:") -> None:
    await member.store.do(SaveSteps(claim, [a_step(key)], (lock,)))


class TestTaking:
    async def test_one_has_it_and_others_are_told_who(self, member: Member):
        first, second = await claims(member)
        lock = await held(member, first)
        assert lock == HeldLock(APP, "till", 1)
        holder = await take(member, second)
        assert isinstance(holder, LockHolder)
        assert (holder.run, holder.agent) == (first.id, "agent")
        await member.store.do(FreeLock(first, APP, "till"))
        assert await held(member, second) == HeldLock(APP, "till", 2)

    async def test_both_at_once_in_one_transaction(self, member: Member):
        first, second = await claims(member)
        answers = await asyncio.gather(take(member, first), take(member, second))
        assert [type(answer) for answer in answers] == [HeldLock, LockHolder]

    async def test_a_repetition_after_a_lost_answer_is_the_same_holder_under_a_new_token(self, member: Member):
        claim, _ = await claims(member)
        before = await held(member, claim)
        after = await held(member, claim)
        assert (before.token, after.token) == (1, 2)
        await save(member, claim, after)
        with pytest.raises(LockLost):
            await save(member, claim, before, "other:")

    @pytest.mark.parametrize("leaves", ["finishes", "waits", "dies"])
    async def test_it_is_free_once_its_run_does_not_run_any_more(self, member: Member, leaves: str):
        other = await join(member.store, "other")
        (first,) = await claims(member, 1)
        lock = await held(member, first)
        match leaves:
            case "finishes":
                await member.finish(first)
            case "waits":
                await member.leave(first, "waiting", delay=1)
            case _:
                await other.bury(member)
                (again,) = await other.claim()
                assert await held(other, again) == HeldLock(APP, "till", lock.token + 1)
                with pytest.raises(ClaimLost):
                    await save(member, first, lock)
                return
        await accept(member.store, an_arrival("next"))
        second = next(claim for claim in await member.claim() if claim.id != first.id)
        assert await held(member, second) == HeldLock(APP, "till", lock.token + 1)

    async def test_a_run_that_is_lost_takes_nothing(self, member: Member):
        other = await join(member.store, "other")
        (claim,) = await claims(member, 1)
        await member.forget()
        await other.claim()
        with pytest.raises(ClaimLost):
            await take(member, claim)

    async def test_letting_go_what_another_has_leaves_it(self, member: Member):
        first, second = await claims(member)
        lock = await held(member, first)
        await member.store.do(FreeLock(second, APP, "till"))
        await save(member, first, lock)

    async def test_who_waits_is_noted_until_it_gives_up(self, member: Member, store_url: str):
        first, second = await claims(member)
        await held(member, first)
        await take(member, second)
        await take(member, second)
        assert await query(store_url, "select run_seq, name from wakeful_lock_wait") == [(second.seq, "till")]
        await take(member, second, gives_up=True)
        assert await query(store_url, "select run_seq, name from wakeful_lock_wait") == []


class TestInside:
    async def test_only_who_lost_the_lock_is_refused(self, member: Member):
        first, second = await claims(member)
        lost = await held(member, first, "a")
        await member.store.do(FreeLock(first, APP, "a"))
        good = await held(member, second, "b")
        outcomes = await asyncio.gather(
            save(member, first, lost),
            save(member, second, good),
            member.save(first, a_step("plain:")),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [LockLost, type(None), type(None)]
        assert set(await steps_of(member.store, first.id)) == {"plain:"}
        assert set(await steps_of(member.store, second.id)) == {"late:"}


@pytest.mark.postgres
class TestTwoProcesses:
    async def test_taking_waits_for_what_is_being_committed_inside(self, stores: OpenStore, postgres_url: str):
        one, two = await join(await stores(postgres_url), "one"), await join(await stores(postgres_url), "two")
        first, second = await claims(one)
        lock = await held(one, first)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("select from wakeful_lock where name = 'till' for key share")
                await one.store.do(FreeLock(first, APP, "till"))
                taking = asyncio.ensure_future(two.store.do(TakeLock(second, APP, "till")))
                await waiting_for_a_lock(postgres_url, like="%wakeful_lock%")
                assert not taking.done()
        finally:
            await connection.close()
        assert await taking == HeldLock(APP, "till", lock.token + 1)

    async def test_who_was_first_has_it(self, stores: OpenStore, postgres_url: str):
        """The second has looked before the first took it, and finds out once it has the row."""
        one, two = await join(await stores(postgres_url), "one"), await join(await stores(postgres_url), "two")
        first, second = await claims(one)
        await held(one, first)
        await one.store.do(FreeLock(first, APP, "till"))
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("select from wakeful_lock where name = 'till' for update")
                taking = asyncio.ensure_future(two.store.do(TakeLock(second, APP, "till")))
                await waiting_for_a_lock(postgres_url, like="%wakeful_lock%")
                await connection.execute(
                    "update wakeful_lock set token = 2, run_seq = $1, run_token = $2", first.seq, first.token
                )
        finally:
            await connection.close()
        answer = await taking
        assert isinstance(answer, LockHolder)
        assert answer.run == first.id
