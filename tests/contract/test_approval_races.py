"""Approvals when two things happen at the same moment: one of them is first, the other is told, and no effect begins without the yes that
it needs.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from support.locks import held_open, waiting_for_a_lock
from support.stores import AGENT, APP, Member, OpenStore, a_step, accept, an_arrival, do_all, join, query
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import ClaimLost, PolicyMoved
from wakeful.model import Admission, Claim, Decision, Effect, HeldAdmission, digest
from wakeful.policy.approvers import Person
from wakeful.policy.asking import Ask, digest_of_what
from wakeful.policy.judgement import Judgement
from wakeful.policy.people import Entry
from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.consent import AbandonEffect, AwaitsApproval, EffectQuestion, SettleEdit
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.persons import ApplyPeople
from wakeful.stores.verbs.policies import ApplyPolicy
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.tending import TendApprovals
from wakeful.stores.verbs.waits import EndWait

ADA, BOB, EVE = Actor("ada", "http", proved=True), Actor("bob", "http", proved=True), Actor("eve", "cli")
ASKS = Decision("ask", "large", "above 100")
ASKED = Judgement(ASKS, asks=("large",))
ALLOWED = Judgement(Decision("allow", "all", "fine"))
HOUR = 3600 * SECOND
LATE = '{"type": "Denied", "kind": "wakeful.errors:Denied", "message": "too late", "failure": "persistent"}'
BEFORE, AFTER = '[{"**": {"amount": 150}}]', '[{"**": {"amount": 120}}]'


class Waiting:
    """An effect that waits for its approval, in a run that was put away and, unless left alone, claimed again."""

    def __init__(self, member: Member, claim: Claim, question: EffectQuestion) -> None:
        self.member = member
        self.claim = claim
        self.question = question
        self.id = question.id

    def votes(self, by: Actor, answer: str = "true", **more: Any) -> AnswerApproval:
        return AnswerApproval(self.id, answer, by=by, **more)

    def ends(self) -> EndWait:
        return EndWait(self.claim, self.question.step, LATE)

    def begins(self, judgement: Judgement = ASKED, effect: Effect | None = None) -> SaveEffect:
        """The call is about to be made."""
        again = replace(an_effect() if effect is None else effect, tries=1, approval=self.id, rule="large")
        return SaveEffect(self.claim, again, judgement, {"large": a_question(self.claim, again, self.question.ask, 1)})

    def edited(self, by: Actor, **more: Any) -> SettleEdit:
        """A worker has checked the arguments that this person edited."""
        told = {"until": 0, "approval": self.id}
        step = replace(self.question.step, result=to_json(told).decode())
        return SettleEdit(
            self.claim,
            an_effect(),
            step,
            self.id,
            by.name,
            by.proved,
            **{
                "said": the_edit(by),
                "executed": AFTER,
                "arguments": '{"amount": 120}',
                "digest": digest_of_what("pay", AFTER, "large"),
                "question": "May agent agent do pay(amount=120)?",
                "enough": self.question.ask.of <= 1,
                **more,
            },
        )

    async def is_claimed(self) -> Claim:
        self.claim = await self.member.claim_one()
        return self.claim


def the_edit(by: Actor) -> str:
    """The answer of a person who edits the arguments."""
    return to_json({"edit": {"arguments": {"amount": 120}, "by": by.name, "proved": by.proved, "note": None}}).decode()


def an_effect(**more: Any) -> Effect:
    return Effect("pay", "pay", "m:pay", "idempotent", "intent", BEFORE, **more)


def a_question(claim: Claim, effect: Effect, ask: Ask, number: int = 0) -> EffectQuestion:
    key = f"approve {effect.id}:{ask.rule}:{claim.token}.{number}"
    approval = digest(claim.id, key)
    step = a_step(key, state="waiting", result=to_json({"until": 0, "approval": approval}).decode())
    alarm = Alarm(APP, ask_alarm(APP, AGENT, approval), "May it?", AGENT, None)
    bound_to = digest_of_what(effect.action, effect.called_with, ask.rule)
    return EffectQuestion(ask, approval, step, "May it?", bound_to, '{"amount": 150}', alarm)


async def waiting(member: Member, *, put_away: bool = True, **terms: Any) -> Waiting:
    if terms.get("of", 1) > 1:
        entries = [Entry(Person(name)) for name in ("ada", "bob")]
        await member.store.do(ApplyPeople(APP, "1", entries, by=EVE))
    await accept(member.store, an_arrival("go"))
    claim = await member.claim_one()
    effect = an_effect()
    question = a_question(claim, effect, Ask("large", "above 100", within=HOUR, **terms))
    opened = await member.store.do(OpenEffect(claim, APP, effect, ASKED, {"large": question}))
    assert isinstance(opened, Effect)
    assert opened.state == "waiting"
    if put_away:
        await member.store.do(LeaveRun(claim, "waiting", "waited", delay=HOUR, steps=[question.step]))
    return Waiting(member, claim, question)


async def the_effect(url: str) -> tuple[str, str]:
    ((state, executed),) = await query(url, "select state, coalesce(executed, arguments) from wakeful_effect")
    return state, executed.strip()


async def approval(url: str) -> tuple[str, Any, Any]:
    ((state, answer, by),) = await query(url, "select state, answer, answered_by from wakeful_approval")
    return state, answer if answer is None else from_json(answer), by


async def run_state(url: str) -> str:
    ((state,),) = await query(url, "select state from wakeful_run")
    return str(state)


async def step_state(url: str) -> tuple[str, Any]:
    ((state, result),) = await query(url, "select state, result from wakeful_step where key like 'approve %'")
    return state, from_json(result or "null")


async def is_called(one: Waiting, *more: Any) -> bool:
    """Whether the call may be made now."""
    return await one.member.store.do(one.begins(*more)) is None


class TestTwoApprovers:
    async def test_both_count_where_two_must_agree(self, member: Member, store_url: str):
        one = await waiting(member, of=2)
        said = await do_all(member.store, [one.votes(ADA), one.votes(BOB)])
        assert [(each.first, each.state) for each in said if each] == [(True, "open"), (True, "answered")]
        assert await approval(store_url) == ("answered", True, "ada, bob")
        assert await run_state(store_url) == "ready"
        await one.is_claimed()
        assert await is_called(one)
        assert await query(store_url, "select count(*) from wakeful_vote") == [(2,)]

    async def test_the_second_is_told_where_one_is_enough(self, member: Member, store_url: str):
        one = await waiting(member)
        said = await do_all(member.store, [one.votes(ADA), one.votes(BOB)])
        assert [(each.first, each.answered_by) for each in said if each] == [(True, "ada"), (False, "ada")]
        assert await query(store_url, "select voter from wakeful_vote") == [("ada",)]

    async def test_one_person_twice_is_one_vote(self, member: Member, store_url: str):
        one = await waiting(member, of=2)
        said = await do_all(member.store, [one.votes(ADA), one.votes(ADA)])
        assert [each.refused.kind for each in said if each and each.refused] == ["twice"]
        assert (await approval(store_url))[0] == "open"

    @pytest.mark.postgres
    @pytest.mark.parametrize("of", [1, 2])
    async def test_the_first_is_not_committed_yet(self, stores: OpenStore, postgres_url: str, of: int):
        one = await waiting(await join(await stores(postgres_url)), of=of)
        async with held_open(await stores(postgres_url), postgres_url, one.votes(ADA)):
            second = asyncio.ensure_future((await stores(postgres_url)).do(one.votes(BOB)))
            await waiting_for_a_lock(postgres_url)
        said = await second
        assert said is not None
        assert said.first == (of == 2)
        assert (await approval(postgres_url)) == ("answered", True, "ada, bob" if of == 2 else "ada")
        assert await run_state(postgres_url) == "ready"

    @pytest.mark.postgres
    async def test_of_a_run_that_two_rules_ask_about(self, stores: OpenStore, postgres_url: str):
        """Each answer sees the other's approval open as long as that is not committed: the run begins all the same."""
        first, second = await asked_twice(await stores(postgres_url), postgres_url)
        async with held_open(await stores(postgres_url), postgres_url, AnswerApproval(first, "true", by=ADA)):
            other = asyncio.ensure_future((await stores(postgres_url)).do(AnswerApproval(second, "true", by=BOB)))
            await answered_or_waiting(other, postgres_url)
        assert (await other) is not None
        assert await run_state(postgres_url) == "ready"


async def asked_twice(store: DatabaseStore, url: str) -> list[str]:
    """A run that is held until two approvals are answered."""
    asks = (Ask("one", "first", within=HOUR), Ask("two", "second", within=HOUR))
    arrival = an_arrival("go")
    (admission,) = arrival.admissions
    held = HeldAdmission(replace(ASKS, asks=asks), "ops")
    await accept(
        store, replace(arrival, admissions=[Admission(admission.agent, "started", admission.run_id, held=held)])
    )
    return [row[0] for row in await query(url, "select id from wakeful_approval order by key")]


async def answered_or_waiting(answer: asyncio.Future[Any], url: str) -> None:
    """Until the answer is stored, or waits for the other transaction."""
    waits = asyncio.ensure_future(waiting_for_a_lock(url))
    await asyncio.wait({answer, waits}, return_when=asyncio.FIRST_COMPLETED)
    waits.cancel()
    await asyncio.wait({waits})


class TestAnswerAndExpiry:
    async def test_the_answer_first(self, member: Member, store_url: str):
        one = await waiting(member, put_away=False)
        said = await member.store.do(one.votes(ADA))
        assert said is not None
        assert said.first
        step = await member.store.do(one.ends())
        assert (step.state, step.result) == ("done", "true")
        assert await is_called(one)

    async def test_the_expiry_first(self, member: Member, store_url: str):
        one = await waiting(member, put_away=False)
        step = await member.store.do(one.ends())
        said = await member.store.do(one.votes(ADA))
        assert said is not None
        assert (step.state, said.first, said.state) == ("failed", False, "expired")
        assert not await is_called(one)
        assert await the_effect(store_url) == ("waiting", BEFORE)

    async def test_after_its_time_nobody_answers(self, member: Member, clock: VirtualClock, store_url: str):
        """Although the worker has not ended it so far."""
        one = await waiting(member)
        clock.move("1h")
        said = await member.store.do(one.votes(ADA))
        assert said is not None
        assert said.refused is not None
        assert said.refused.kind == "expired"
        assert (await approval(store_url))[0] == "open"

    async def test_both_in_one_transaction(self, member: Member, store_url: str):
        one = await waiting(member, put_away=False)
        said, step = await asyncio.gather(member.store.do(one.votes(ADA)), member.store.do(one.ends()))
        assert said is not None
        assert (said.first, step.state) in {(True, "done"), (False, "failed")}
        assert (await approval(store_url))[0] == ("answered" if said.first else "expired")

    @pytest.mark.postgres
    async def test_the_answer_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)), put_away=False)
        async with held_open(await stores(postgres_url), postgres_url, one.votes(ADA)):
            ends = asyncio.ensure_future(one.member.store.do(one.ends()))
            await waiting_for_a_lock(postgres_url)
        assert (await ends).state == "done"
        assert (await approval(postgres_url))[0] == "answered"

    @pytest.mark.postgres
    async def test_the_expiry_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)), put_away=False)
        async with held_open(one.member.store, postgres_url, one.ends()):
            answers = asyncio.ensure_future((await stores(postgres_url)).do(one.votes(ADA)))
            await waiting_for_a_lock(postgres_url)
        said = await answers
        assert said is not None
        assert (said.first, said.state) == (False, "expired")
        assert (await step_state(postgres_url))[0] == "failed"

    @pytest.mark.parametrize("expiry_first", [True, False])
    async def test_about_a_run(self, store: DatabaseStore, clock: VirtualClock, store_url: str, expiry_first: bool):
        first, second = await asked_twice(store, store_url)
        await store.do(AnswerApproval(first, "true", by=ADA))
        answer, tend = AnswerApproval(second, "true", by=BOB), TendApprovals(APP)
        if expiry_first:
            clock.move("1h")
            await store.do(tend)
            said = await store.do(answer)
            assert (said and said.first, await run_state(store_url)) == (False, "denied")
        else:
            await store.do(answer)
            clock.move("1h")
            await store.do(tend)
            assert await run_state(store_url) == "ready"

    @pytest.mark.postgres
    @pytest.mark.parametrize("expiry_first", [True, False])
    async def test_about_a_run_not_committed_yet(
        self, stores: OpenStore, clock: VirtualClock, postgres_url: str, expiry_first: bool
    ):
        mine, other = await stores(postgres_url), await stores(postgres_url)
        first, second = await asked_twice(mine, postgres_url)
        await mine.do(AnswerApproval(first, "true", by=ADA))
        requests: list[Any] = [TendApprovals(APP), AnswerApproval(second, "true", by=BOB)]
        if expiry_first:
            clock.move("1h")
        else:
            requests.reverse()
        async with held_open(mine, postgres_url, requests[0]):
            if not expiry_first:
                clock.move("1h")
            later = asyncio.ensure_future(other.do(requests[1]))
            await waiting_for_a_lock(postgres_url)
        await later
        assert await run_state(postgres_url) == ("denied" if expiry_first else "ready")
        states = await query(postgres_url, "select state from wakeful_approval order by key")
        assert states == [("answered",), ("expired" if expiry_first else "answered",)]


class TestEditAndVote:
    async def test_the_edit_first(self, member: Member, store_url: str):
        one = await waiting(member, of=2, edit=True)
        edit = one.votes(BOB, arguments='{"amount": 120}')
        said = await do_all(member.store, [edit, one.votes(ADA, digest=one.question.digest)])
        assert [each.first for each in said if each] == [True, False]
        await one.is_claimed()
        await member.store.do(one.edited(BOB))
        late = await member.store.do(one.votes(ADA, digest=one.question.digest))
        assert late is not None
        assert late.refused is not None
        assert late.refused.kind == "digest"
        assert not await is_called(one, ASKED, an_effect(executed=AFTER))

    async def test_the_vote_first(self, member: Member, store_url: str):
        """Votes for the old arguments are void."""
        one = await waiting(member, of=2, edit=True)
        await do_all(member.store, [one.votes(ADA), one.votes(BOB, arguments='{"amount": 120}')])
        await one.is_claimed()
        await member.store.do(one.edited(BOB))
        assert await query(store_url, "select voter from wakeful_vote") == [("bob",)]
        assert not await is_called(one, ASKED, an_effect(executed=AFTER))
        assert (await approval(store_url))[0] == "open"

    async def test_enough_votes_first(self, member: Member, store_url: str):
        one = await waiting(member, edit=True)
        said = await do_all(member.store, [one.votes(ADA), one.votes(BOB, arguments='{"amount": 120}')])
        assert [each.first for each in said if each] == [True, False]
        await one.is_claimed()
        assert await is_called(one)
        assert await the_effect(store_url) == ("intent", BEFORE)

    async def test_a_yes_to_the_old_arguments_serves_no_others(self, member: Member, store_url: str):
        one = await waiting(member)
        await member.store.do(one.votes(ADA))
        await one.is_claimed()
        assert not await is_called(one, ASKED, an_effect(executed=AFTER))

    async def test_an_edit_that_is_settled_twice_keeps_a_no(self, member: Member, store_url: str):
        """The answer to the commit was lost, so the same request comes again; meanwhile a person said no to the edited arguments."""
        one = await waiting(member, of=2, edit=True)
        await member.store.do(one.votes(BOB, arguments='{"amount": 120}'))
        await one.is_claimed()
        await member.store.do(one.edited(BOB))
        await member.store.do(one.votes(ADA, "false"))
        step = await member.store.do(one.edited(BOB))
        assert (step.state, step.result) == ("done", "false")
        assert await approval(store_url) == ("answered", False, "ada")
        assert await step_state(store_url) == ("done", False)

    async def test_an_edit_that_is_settled_twice_keeps_votes(self, member: Member, store_url: str):
        one = await waiting(member, of=3, edit=True)
        await member.store.do(one.votes(BOB, arguments='{"amount": 120}'))
        await one.is_claimed()
        await member.store.do(one.edited(BOB))
        await member.store.do(one.votes(ADA))
        await member.store.do(one.edited(BOB))
        assert await query(store_url, "select voter from wakeful_vote order by voter") == [("ada",), ("bob",)]

    async def test_an_edit_of_a_withdrawn_approval_is_not_settled(self, member: Member, store_url: str):
        one = await waiting(member, edit=True)
        await member.store.do(one.votes(BOB, arguments='{"amount": 120}'))
        old = await one.is_claimed()
        await member.store.do(AbandonEffect(old, an_effect(), "no longer asked for", "its run"))
        await member.store.do(one.edited(BOB))
        assert await the_effect(store_url) == ("abandoned", BEFORE)

    @pytest.mark.postgres
    async def test_the_edit_is_not_settled_yet(self, stores: OpenStore, postgres_url: str):
        """A vote that began while the approval was with the worker does not count without being looked at."""
        one = await waiting(await join(await stores(postgres_url)), of=2, edit=True)
        await one.member.store.do(one.votes(BOB, arguments='{"amount": 120}'))
        await one.is_claimed()
        async with held_open(one.member.store, postgres_url, one.edited(BOB)):
            votes = asyncio.ensure_future((await stores(postgres_url)).do(one.votes(EVE)))
            await answered_or_waiting(votes, postgres_url)
        said = await votes
        assert said is not None
        assert not said.first
        assert (await approval(postgres_url))[0] == "open"

    @pytest.mark.postgres
    async def test_the_edit_is_settled_between_two_looks_of_a_vote(
        self, stores: OpenStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        """A vote finds the approval with a worker, which opens it before the vote is stored."""
        one = await waiting(await join(await stores(postgres_url)), of=2, edit=True)
        await one.member.store.do(one.votes(BOB, arguments='{"amount": 120}'))
        await one.is_claimed()
        voter = await stores(postgres_url)
        database: Any = voter.database
        decode = database._decode

        async def after_the_first_look(connection: Any, name: str, *more: Any, **others: Any) -> Any:
            found = await decode(connection, name, *more, **others)
            if name == "find_approval" and found[0][5] == "answered":
                monkeypatch.setattr(database, "_decode", decode)
                await one.member.store.do(one.edited(BOB))
            return found

        monkeypatch.setattr(database, "_decode", after_the_first_look)
        said = await voter.do(one.votes(EVE))
        assert said is not None
        assert not said.first
        assert (await approval(postgres_url))[0] == "open"


class TestNoAndYes:
    @pytest.mark.parametrize("of", [1, 2])
    async def test_the_no_first(self, member: Member, store_url: str, of: int):
        one = await waiting(member, of=of)
        said = await do_all(member.store, [one.votes(ADA, "false"), one.votes(BOB), one.votes(ADA)])
        assert [each.first for each in said if each] == [True, False, False]
        assert await approval(store_url) == ("answered", False, "ada")
        await one.is_claimed()
        assert not await is_called(one)

    async def test_the_no_after_enough_yeses(self, member: Member, store_url: str):
        one = await waiting(member)
        said = await do_all(member.store, [one.votes(ADA), one.votes(BOB, "false")])
        assert [each.first for each in said if each] == [True, False]
        await one.is_claimed()
        assert await is_called(one)

    async def test_a_no_stands_although_nobody_would_be_asked_by_now(self, member: Member, store_url: str):
        """The run resumed, because the policy changed; the no came before its effect was judged anew."""
        one = await waiting(member, put_away=False)
        await member.store.do(one.votes(ADA, "false"))
        stored = await member.store.do(one.begins(ALLOWED))
        assert isinstance(stored, AwaitsApproval)
        assert stored.approval == one.id
        assert await the_effect(store_url) == ("waiting", BEFORE)

    @pytest.mark.postgres
    async def test_a_no_that_is_not_committed_yet_stands(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)), put_away=False)
        async with held_open(await stores(postgres_url), postgres_url, one.votes(ADA, "false")):
            begins = asyncio.ensure_future(one.member.store.do(one.begins(ALLOWED)))
            await waiting_for_a_lock(postgres_url)
        assert isinstance(await begins, AwaitsApproval)
        assert await the_effect(postgres_url) == ("waiting", BEFORE)

    @pytest.mark.postgres
    async def test_a_no_comes_too_late_for_a_call_that_is_stored(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)), put_away=False)
        async with held_open(one.member.store, postgres_url, one.begins(ALLOWED)):
            answers = asyncio.ensure_future((await stores(postgres_url)).do(one.votes(ADA, "false")))
            await waiting_for_a_lock(postgres_url)
        said = await answers
        assert said is not None
        assert (said.first, said.state) == (False, "withdrawn")
        assert await the_effect(postgres_url) == ("intent", BEFORE)

    @pytest.mark.postgres
    async def test_the_no_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)), of=2)
        await one.member.store.do(one.votes(ADA))
        async with held_open(await stores(postgres_url), postgres_url, one.votes(EVE_WITH_TOKEN, "false")):
            yes = asyncio.ensure_future((await stores(postgres_url)).do(one.votes(BOB)))
            await waiting_for_a_lock(postgres_url)
        said = await yes
        assert said is not None
        assert not said.first
        assert (await approval(postgres_url))[1] is False


EVE_WITH_TOKEN = Actor("eve", "http", proved=True)


async def apply(store: DatabaseStore, version: str) -> None:
    await store.do(ApplyPolicy(APP, version, [("policy.yaml", f"text of {version}")], by=ADA))


class TestApplyAndOpen:
    async def test_once_applied_the_yes_serves_no_longer(self, member: Member, store_url: str):
        one = await waiting(member)
        await member.store.do(one.votes(ADA))
        await one.is_claimed()
        await apply(member.store, "stricter")
        with pytest.raises(PolicyMoved):
            await member.store.do(one.begins())
        no = Decision("deny", "stop", "not today", version="stricter")
        assert await member.store.do(one.begins(Judgement(no, "stricter"))) == no
        assert await the_effect(store_url) == ("waiting", BEFORE)

    @pytest.mark.postgres
    async def test_apply_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        one = await waiting(await join(await stores(postgres_url)))
        await one.member.store.do(one.votes(ADA))
        await one.is_claimed()
        holder = await join(await stores(postgres_url))
        applied = ApplyPolicy(APP, "stricter", [("policy.yaml", "text")], by=ADA)
        async with held_open(await stores(postgres_url), postgres_url, one.votes(BOB)):
            await holder.store.do(applied)
            with pytest.raises(PolicyMoved):
                await one.member.store.do(one.begins())
        assert await the_effect(postgres_url) == ("waiting", BEFORE)


class TestAbandoned:
    async def test_each_of_a_batch_gets_its_own_result(self, member: Member, store_url: str):
        """One of two is lost, and only that one is told."""
        await accept(member.store, an_arrival("a"), an_arrival("b"))
        mine, lost = await member.claim()
        for claim, name in ((mine, "z"), (lost, "a")):
            effect = replace(an_effect(), id=name)
            question = a_question(claim, effect, Ask("large", "above 100", within=HOUR))
            await member.store.do(OpenEffect(claim, APP, effect, ASKED, {"large": question}))
        stale = replace(lost, token=lost.token - 1)
        requests = [
            AbandonEffect(claim, replace(an_effect(), id=name), "no", "ada")
            for claim, name in ((mine, "z"), (stale, "a"))
        ]
        results = await asyncio.gather(*(member.store.do(one) for one in requests), return_exceptions=True)
        assert [type(one) for one in results] == [type(None), ClaimLost]
        assert await query(store_url, "select id, state from wakeful_effect order by id") == [
            ("a", "waiting"),
            ("z", "abandoned"),
        ]
