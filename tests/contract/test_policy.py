"""Policy in the store: which version is in force, what is judged in the transaction, and runs that wait for a person to begin."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import AGENT, APP, Member, OpenStore, accept, an_arrival, join, query, reader
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import PolicyMoved
from wakeful.model import Admission, Arrival, Claim, Decision, Effect, Flow, HeldAdmission
from wakeful.policy.judgement import Counted, Judgement
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.operation_keys import OpenOnce
from wakeful.stores.verbs.policies import ApplyPolicy, PolicyApplied, policy_in_force, policy_texts

ADA = Actor("ada", "code")
ALLOW = Decision("allow", "all", "fine")
DENY = Decision("deny", "none", "no")
HOLD = Decision("hold", "large", "above 100")
HOUR = 3600 * SECOND


async def apply(store: DatabaseStore, version: str, *, only_unseen: bool = False) -> PolicyApplied:
    texts = [("policy.yaml", f"text of {version}")]
    return await store.do(ApplyPolicy(APP, version, texts, only_unseen=only_unseen, by=ADA))


def an_effect(name: str = "pay", **more: Any) -> Effect:
    return Effect(name, "pay", "m:pay", "idempotent", "intent", "[]", **more)


async def a_claim(member: Member, identifier: str = "1") -> Claim:
    await accept(member.store, an_arrival(identifier))
    return await member.claim_one()


async def open_effect(
    member: Member, claim: Claim, judgement: Judgement, name: str = "pay", **more: Any
) -> Effect | Decision:
    return await member.store.do(OpenEffect(claim, APP, an_effect(name, **more), judgement))


class TestVersions:
    async def test_one_is_in_force(self, store: DatabaseStore):
        assert await policy_in_force(store.database, APP) is None
        assert await apply(store, "one") == PolicyApplied("one", None, seen=False, changed=True)
        assert await apply(store, "two") == PolicyApplied("two", "one", seen=False, changed=True)
        assert await apply(store, "two") == PolicyApplied("two", "two", seen=True, changed=False)
        assert await policy_in_force(store.database, APP) == "two"
        assert await policy_in_force(store.database, "other") is None
        assert await policy_texts(store.database, APP, "one") == [("policy.yaml", "text of one")]

    async def test_an_older_text_comes_back_by_a_person_only(self, store: DatabaseStore):
        await apply(store, "one")
        await apply(store, "two")
        assert await apply(store, "one", only_unseen=True) == PolicyApplied("one", "two", seen=True, changed=False)
        assert await policy_in_force(store.database, APP) == "two"
        assert (await apply(store, "one")).changed
        assert await policy_in_force(store.database, APP) == "one"

    async def test_what_was_judged_by_another_version_does_not_begin(self, member: Member, store_url: str):
        claim = await a_claim(member)
        await apply(member.store, "two")
        with pytest.raises(PolicyMoved, match="two"):
            await open_effect(member, claim, Judgement(ALLOW, "one"))
        with pytest.raises(PolicyMoved):
            await open_effect(member, claim, Judgement(ALLOW))
        assert await query(store_url, "select count(*) from wakeful_effect") == [(0,)]
        opened = await open_effect(member, claim, Judgement(replace(ALLOW, version="two"), "two"))
        assert isinstance(opened, Effect)
        assert (opened.state, opened.rule, opened.policy) == ("intent", "all", "two")

    async def test_nor_is_it_called_again(self, member: Member):
        claim = await a_claim(member)
        effect = await open_effect(member, claim, Judgement(ALLOW))
        assert isinstance(effect, Effect)
        await apply(member.store, "one")
        with pytest.raises(PolicyMoved):
            await member.store.do(SaveEffect(claim, effect, Judgement(ALLOW)))
        assert await member.store.do(SaveEffect(claim, effect, Judgement(ALLOW, "one"))) is None

    async def test_with_a_business_key_too(self, member: Member):
        claim = await a_claim(member)
        await apply(member.store, "one")
        with pytest.raises(PolicyMoved):
            await member.store.do(OpenOnce(claim, APP, an_effect(once="k"), Judgement(ALLOW), span=HOUR))
        opened = await member.store.do(OpenOnce(claim, APP, an_effect(once="k"), Judgement(ALLOW, "one"), span=HOUR))
        assert isinstance(opened, Effect)
        assert opened.state == "intent"

    async def test_its_neighbours_in_the_batch_go_on(self, member: Member):
        claim = await a_claim(member)
        await apply(member.store, "one")
        old, new = await asyncio.gather(
            open_effect(member, claim, Judgement(ALLOW), "a"),
            open_effect(member, claim, Judgement(ALLOW, "one"), "b"),
            return_exceptions=True,
        )
        assert isinstance(old, PolicyMoved)
        assert isinstance(new, Effect)


class TestAnswers:
    async def test_a_denial_is_stored_and_nothing_begins(self, member: Member, store_url: str):
        claim = await a_claim(member)
        assert await open_effect(member, claim, Judgement(DENY)) == DENY
        assert await query(store_url, "select count(*) from wakeful_effect") == [(0,)]
        stored = await query(
            store_url, "select app, place, answer, rule, action, effect_id, mode from wakeful_decision"
        )
        assert stored == [(APP, "effect", "deny", "none", "pay", "pay", None)]

    async def test_what_a_person_must_decide_is_held(self, member: Member, store_url: str):
        claim = await a_claim(member)
        held = await open_effect(member, claim, Judgement(HOLD))
        assert isinstance(held, Effect)
        assert (held.state, held.reason, held.rule) == ("held", "large: above 100", "large")
        assert await query(store_url, "select state from wakeful_effect") == [("held",)]
        assert await query(store_url, "select answer from wakeful_decision") == [("hold",)]

    async def test_a_denied_undo_is_held(self, member: Member):
        claim = await a_claim(member)
        undo = await open_effect(member, claim, Judgement(DENY), "undo", undoes="pay")
        assert isinstance(undo, Effect)
        assert undo.state == "held"

    async def test_a_rule_that_watches_is_recorded_and_not_applied(self, member: Member, store_url: str):
        claim = await a_claim(member)
        opened = await open_effect(member, claim, Judgement(ALLOW, watched=(replace(DENY, mode="watch"),)))
        assert isinstance(opened, Effect)
        assert opened.state == "intent"
        assert await query(store_url, "select answer, rule, mode from wakeful_decision") == [("deny", "none", "watch")]

    async def test_a_call_that_is_refused_leaves_the_effect_as_it_was(self, member: Member, store_url: str):
        claim = await a_claim(member)
        effect = await open_effect(member, claim, Judgement(ALLOW))
        assert isinstance(effect, Effect)
        effect.state = "retrying"
        await member.store.do(SaveEffect(claim, effect))
        again = replace(effect, state="intent", tries=2)
        assert await member.store.do(SaveEffect(claim, again, Judgement(DENY))) == DENY
        assert await query(store_url, "select state from wakeful_effect") == [("retrying",)]
        assert await query(store_url, "select answer, effect_id from wakeful_decision") == [("deny", "pay")]

    async def test_no_call_without_a_judgement(self, member: Member):
        claim = await a_claim(member)
        effect = await open_effect(member, claim, Judgement(ALLOW))
        assert isinstance(effect, Effect)
        with pytest.raises(ValueError, match="without a judgement"):
            await member.store.do(SaveEffect(claim, effect))


def counted(most: int = 2, subject: str = "", decision: Decision = HOLD) -> Judgement:
    return Judgement(ALLOW, counted=(Counted("many", subject, most, HOUR, decision),))


class TestCounts:
    async def test_a_counted_rule_applies_beyond_its_count(self, member: Member, clock: VirtualClock):
        claim = await a_claim(member)

        async def state_of(name: str) -> str:
            effect = await open_effect(member, claim, counted(), name)
            return effect.state if isinstance(effect, Effect) else effect.answer

        assert [await state_of(name) for name in "abc"] == ["intent", "intent", "held"]
        clock.move("1h")
        other = await join(member.store)
        claim = await a_claim(other, "2")
        late = await open_effect(other, claim, counted(), "d")
        assert isinstance(late, Effect)
        assert late.state == "intent"

    async def test_those_of_one_batch_count_for_each_other(self, member: Member):
        claim = await a_claim(member)
        effects = await asyncio.gather(*(open_effect(member, claim, counted(3), str(number)) for number in range(5)))
        states = sorted(one.state for one in effects if isinstance(one, Effect))
        assert states == ["held", "held", "intent", "intent", "intent"]

    async def test_each_subject_counts_for_itself(self, member: Member):
        claim = await a_claim(member)
        found = [await open_effect(member, claim, counted(1, subject), subject) for subject in "ab"]
        assert [one.state for one in found if isinstance(one, Effect)] == ["intent", "intent"]

    async def test_an_effect_counts_once(self, member: Member, store_url: str):
        claim = await a_claim(member)
        for _ in range(3):
            opened = await open_effect(member, claim, counted(1))
            assert isinstance(opened, Effect)
            assert opened.state == "intent"
        assert await query(store_url, "select count(*) from wakeful_policy_use") == [(1,)]

    async def test_what_is_refused_does_not_count(self, member: Member, store_url: str):
        claim = await a_claim(member)
        assert await open_effect(member, claim, replace(counted(), decision=DENY)) == DENY
        assert await query(store_url, "select count(*) from wakeful_policy_use") == [(0,)]

    async def test_two_processes_count_together(self, stores: OpenStore, store_url: str):
        members = [await join(await stores(store_url)) for _ in range(2)]
        claims = [await a_claim(member, str(number)) for number, member in enumerate(members)]
        effects = await asyncio.gather(
            *(
                open_effect(member, claim, counted(5), f"{number} {claim.id}")
                for number in range(6)
                for member, claim in zip(members, claims, strict=True)
            )
        )
        states = [one.state for one in effects if isinstance(one, Effect)]
        assert sorted(states) == ["held"] * 7 + ["intent"] * 5


class TestWatchedCounts:
    WATCHED = Decision("deny", "many", "too many", mode="watch")

    async def test_a_watched_rule_is_recorded_beyond_its_count_and_not_applied(self, member: Member, store_url: str):
        claim = await a_claim(member)
        for number in range(4):
            effect = await open_effect(member, claim, counted(2, decision=self.WATCHED), str(number))
            assert isinstance(effect, Effect)
            assert effect.state == "intent"
        rows = await query(store_url, "select rule, answer, mode from wakeful_decision")
        assert rows == [("many", "deny", "watch")] * 2

    async def test_at_admission_too(self, member: Member, store_url: str):
        judgement = counted(2, decision=self.WATCHED)
        arrivals = [an_arrival(str(number)) for number in range(3)]
        await accept(
            member.store,
            *(replace(one, admissions=[replace(one.admissions[0], judgement=judgement)]) for one in arrivals),
        )
        assert len(await member.claim()) == 3
        rows = await query(store_url, "select rule, answer, mode from wakeful_decision")
        assert rows == [("many", "deny", "watch")]


def held_arrival(identifier: str = "1", flow: Flow | None = None) -> Arrival:
    arrival = an_arrival(identifier, decision=HOLD)
    (one,) = arrival.admissions
    held = Admission(one.agent, "started", one.run_id, flow=flow, held=HeldAdmission(HOLD, "ops"))
    return replace(arrival, admissions=[held])


async def the_approval(store: DatabaseStore) -> dict[str, Any]:
    (found,) = (await reader(store).approvals(state="open"))["approvals"]
    return dict(found)


async def answer(store: DatabaseStore, approval: dict[str, Any], answer: str) -> None:
    await store.do(AnswerApproval(approval["id"], answer, approval["run"], by=ADA))


class TestHeldAdmissions:
    async def test_a_run_waits_for_a_person_and_begins(self, member: Member):
        (receipt,) = await accept(member.store, held_arrival())
        assert receipt.status == "accepted"
        assert await member.claim() == []
        approval = await the_approval(member.store)
        assert (approval["kind"], approval["rule"], approval["run"]) == ("run", "large", receipt.runs[0])
        assert "May agent agent handle event 1 (thing.happened)? large: above 100" in approval["question"]
        assert [one["key"] for one in (await reader(member.store).alarms())["alarms"]] == [
            f"ask/{APP}/{AGENT}/{approval['id']}"
        ]
        await answer(member.store, approval, "true")
        assert [claim.id for claim in await member.claim()] == receipt.runs
        assert (await reader(member.store).alarms(state="open"))["alarms"] == []

    async def test_a_no_denies_it(self, member: Member, store_url: str):
        await accept(member.store, held_arrival())
        await answer(member.store, await the_approval(member.store), "false")
        assert await member.claim() == []
        assert await query(store_url, "select state, reason from wakeful_run") == [("denied", "ada said no")]

    async def test_the_first_answer_stands(self, member: Member, store_url: str):
        await accept(member.store, held_arrival())
        approval = await the_approval(member.store)
        await asyncio.gather(answer(member.store, approval, "false"), answer(member.store, approval, "true"))
        ((state,),) = await query(store_url, "select state from wakeful_run")
        ((answered,),) = await query(store_url, "select answer from wakeful_approval")
        assert (state, answered) in {("denied", "false"), ("ready", "true")}

    async def test_it_keeps_its_place_in_the_order_of_its_key(self, member: Member):
        flow = Flow(key="k")
        (first,) = await accept(member.store, held_arrival("1", flow))
        second = an_arrival("2")
        second = replace(second, admissions=[replace(second.admissions[0], flow=flow)])
        (later,) = await accept(member.store, second)
        assert await member.claim() == []
        await answer(member.store, await the_approval(member.store), "true")
        claim = await member.claim_one()
        assert claim.id == first.runs[0]
        await member.finish(claim)
        assert (await member.claim_one()).id == later.runs[0]

    async def test_a_no_lets_the_next_of_its_key_go(self, member: Member):
        flow = Flow(key="k")
        await accept(member.store, held_arrival("1", flow))
        second = an_arrival("2")
        second = replace(second, admissions=[replace(second.admissions[0], flow=flow)])
        (later,) = await accept(member.store, second)
        await answer(member.store, await the_approval(member.store), "false")
        assert (await member.claim_one()).id == later.runs[0]

    async def test_a_counted_rule_decides_in_the_transaction(self, member: Member, store_url: str):
        arrivals = [an_arrival(str(number)) for number in range(4)]
        judged = [
            replace(one, admissions=[replace(one.admissions[0], judgement=counted(2, decision=DENY))])
            for one in arrivals
        ]
        await accept(member.store, *judged)
        rows = await query(store_url, "select state, count(*) from wakeful_admission group by state order by state")
        assert rows == [("denied", 2), ("started", 2)]
        assert len(await member.claim()) == 2


@pytest.mark.postgres
class TestTwoProcesses:
    async def test_apply_waits_for_an_effect_that_is_being_opened(self, stores: OpenStore, postgres_url: str):
        """Once `apply` has returned, no effect begins by the version before."""
        first, second = await join(await stores(postgres_url)), await join(await stores(postgres_url))
        claim = await a_claim(first)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():  # keeps the transaction that opens the effect from going on
                await connection.execute("lock table wakeful_effect in share mode")
                opening = asyncio.create_task(open_effect(first, claim, Judgement(ALLOW)))
                await waiting_for_a_lock(postgres_url, like="%insert into wakeful_effect%")
                applying = asyncio.create_task(apply(second.store, "one"))
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
                assert not applying.done()
        finally:
            await connection.close()
        assert isinstance(await opening, Effect)
        await applying
        with pytest.raises(PolicyMoved):
            await open_effect(first, claim, Judgement(ALLOW), "late")

    async def test_apply_waits_for_a_retry_that_is_being_stored(self, stores: OpenStore, postgres_url: str):
        """Once `apply` has returned, no effect is called again by the version before."""
        first, second = await join(await stores(postgres_url)), await join(await stores(postgres_url))
        claim = await a_claim(first)
        effect = await open_effect(first, claim, Judgement(ALLOW))
        assert isinstance(effect, Effect)
        await first.store.do(SaveEffect(claim, replace(effect, state="retrying")))
        again = SaveEffect(claim, replace(effect, tries=2), Judgement(ALLOW))
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table wakeful_effect in share mode")
                calling = asyncio.create_task(first.store.do(again))
                await waiting_for_a_lock(postgres_url, like="%update wakeful_effect%")
                applying = asyncio.create_task(apply(second.store, "one"))
                await waiting_for_a_lock(postgres_url, like="%pg_advisory_xact_lock(%")
                assert not applying.done()
        finally:
            await connection.close()
        assert await calling is None
        await applying
        with pytest.raises(PolicyMoved):
            await first.store.do(SaveEffect(claim, replace(effect, tries=3), Judgement(ALLOW)))
