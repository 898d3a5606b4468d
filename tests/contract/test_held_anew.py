"""A run that is held at admission never begins by a policy that is no longer in force: races of apply, answers and the judgement anew."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from contract.test_policy import ADA, ALLOW, DENY, HOLD, answer, apply, held_arrival, the_approval
from support.locks import waiting_for_a_lock
from support.stores import APP, Member, OpenStore, accept, join, query
from wakeful.errors import ClaimLost, PolicyMoved
from wakeful.model import Decision
from wakeful.policy.judgement import Judgement
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.held_anew import HeldRun, JudgedRun, JudgeHeld


async def to_judge(store: DatabaseStore, version: str) -> list[HeldRun]:
    return [HeldRun(*row) for row in await store.database.fetch("held_runs_to_judge", APP, version, 0, 100)]


async def judge_held(member: Member, version: str, decision: Decision, runs: list[HeldRun] | None = None) -> None:
    held = await to_judge(member.store, version) if runs is None else runs
    judged = [JudgedRun(one, "ops", Judgement(decision, version)) for one in held]
    await member.store.do(JudgeHeld(APP, member.process, version, judged))


async def two(stores: OpenStore, url: str) -> tuple[Member, Member]:
    return await join(await stores(url), "first"), await join(await stores(url), "second")


async def state(url: str) -> str:
    ((found,),) = await query(url, "select state from wakeful_run")
    return str(found)


async def test_the_version_in_force_counts(member: Member, store_url: str):
    await accept(member.store, held_arrival())
    assert await to_judge(member.store, "one") != []
    await apply(member.store, "one")
    held = await to_judge(member.store, "one")
    await apply(member.store, "two")
    with pytest.raises(PolicyMoved, match="two"):
        await judge_held(member, "one", ALLOW, held)
    assert await state(store_url) == "held"
    await judge_held(member, "two", ALLOW)
    assert await state(store_url) == "ready"
    assert await to_judge(member.store, "three") == []


async def test_the_first_process_counts(member: Member, store_url: str):
    """The same judgement again, as by another process or after a commit whose answer was lost, changes nothing."""
    await accept(member.store, held_arrival())
    await apply(member.store, "one")
    held = await to_judge(member.store, "one")
    other = Decision("ask", "other", "look")
    for _ in range(2):
        await judge_held(member, "one", other, held)
    await judge_held(member, "one", DENY, held)
    assert await to_judge(member.store, "one") == []
    assert await state(store_url) == "held"
    rows = await query(store_url, "select rule, state, policy from wakeful_approval order by seq")
    assert rows == [("large", "withdrawn", None), ("other", "open", "one")]
    assert await query(store_url, "select rule from wakeful_decision order by seq") == [("large",), ("other",)]


async def test_a_process_that_lost_its_lease_judges_nothing(member: Member, store_url: str):
    await accept(member.store, held_arrival())
    await apply(member.store, "one")
    held = await to_judge(member.store, "one")
    other = await join(member.store, "other")
    await other.bury(member)
    with pytest.raises(ClaimLost):
        await judge_held(member, "one", ALLOW, held)
    assert await state(store_url) == "held"


@pytest.mark.parametrize(("decision", "expected"), [(ALLOW, "ready"), (DENY, "denied"), (HOLD, "ready")])
async def test_a_yes_together_with_the_judgement(member: Member, store_url: str, decision: Decision, expected: str):
    await accept(member.store, held_arrival())
    await apply(member.store, "one")
    approval, held = await the_approval(member.store), await to_judge(member.store, "one")
    await asyncio.gather(answer(member.store, approval, "true"), judge_held(member, "one", decision, held))
    assert await state(store_url) == expected


@pytest.mark.postgres
class TestTwoProcesses:
    async def test_apply_waits_for_a_yes_that_begins_a_run(self, stores: OpenStore, postgres_url: str):
        """Once `apply` has returned, no held run begins by the version before."""
        first, second = await two(stores, postgres_url)
        await accept(first.store, held_arrival())
        approval = await the_approval(first.store)
        says = AnswerApproval(approval["id"], "true", approval["run"], app=APP, by=ADA)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():  # keeps the transaction that begins the run from going on
                await connection.execute("lock table wakeful_vote in share mode")
                answering = asyncio.create_task(first.store.do(says))
                await waiting_for_a_lock(postgres_url, like="%insert into wakeful_vote%")
                applying = asyncio.create_task(apply(second.store, "one"))
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
                assert not applying.done()
        finally:
            await connection.close()
        said = await answering
        assert said is not None
        assert said.state == "answered"
        await applying
        assert await state(postgres_url) == "ready"

    async def test_a_yes_waits_for_apply(self, stores: OpenStore, postgres_url: str):
        first, second = await two(stores, postgres_url)
        await accept(first.store, held_arrival())
        approval = await the_approval(first.store)
        says = AnswerApproval(approval["id"], "true", approval["run"], app=APP, by=ADA)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table wakeful_policy in share mode")
                applying = asyncio.create_task(apply(second.store, "one"))
                await waiting_for_a_lock(postgres_url, like="%wakeful_policy%")
                answering = asyncio.create_task(first.store.do(says))
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock_shared(%")
        finally:
            await connection.close()
        await applying
        said = await answering
        assert said is not None
        assert (said.state, said.votes) == ("open", 1)
        assert await state(postgres_url) == "held"
        await judge_held(second, "one", HOLD)
        assert await state(postgres_url) == "ready"

    @pytest.mark.parametrize("answers_first", [True, False])
    async def test_a_no_and_the_judgement_wait_for_each_other(
        self, stores: OpenStore, postgres_url: str, answers_first: bool
    ):
        first, second = await two(stores, postgres_url)
        await accept(first.store, held_arrival())
        await apply(first.store, "one")
        approval, held = await the_approval(first.store), await to_judge(first.store, "one")
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("select 1 from wakeful_approval for update")
                both = [answer(first.store, approval, "false"), judge_held(second, "one", ALLOW, held)]
                tasks = []
                for waiting, one in enumerate(both if answers_first else both[::-1], start=1):
                    tasks.append(asyncio.create_task(one))
                    await waiting_for_a_lock(postgres_url, sessions=waiting)
        finally:
            await connection.close()
        await asyncio.gather(*tasks)
        assert await state(postgres_url) == ("denied" if answers_first else "ready")
