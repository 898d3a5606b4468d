"""cancel: whoever is first wins, the one that ends the run or the one that wants it to stop; and what was prepared is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import APP, Member, OpenStore, accept, an_arrival, count, join, query, reader, state_of
from wakeful.clock import SECOND
from wakeful.errors import CancelAsked, ClaimLost
from wakeful.model import WENT_WELL, Claim, Delivery, Effect, RunOutcome
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import Cancelled, CancelRun, FinishCancelled, cancelled_runs
from wakeful.stores.verbs.claim import ClaimRuns, Wanted
from wakeful.stores.verbs.commit import CloseRun, CommitRun, StateChange
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect, effects_to_undo
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.redo import RedoRun

Ending = Callable[[Member, Claim], Awaitable[object]]


def a_commit(claim: Claim, **more: Any) -> CommitRun:
    return CommitRun(claim, APP, '"out"', WENT_WELL, deliveries=[Delivery("d", "log", '"m"')], **more)


def an_effect(name: str = "charge", **more: Any) -> Effect:
    return Effect(name, name, f"m:{name}", "idempotent", "intent", "[]", **more)


async def did(member: Member, claim: Claim, name: str = "charge", state: Any = "confirmed", **more: Any) -> Effect:
    effect = an_effect(name, **more)
    await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
    effect.state, effect.tries = state, 1
    await member.store.do(SaveEffect(claim, effect, Judgement(ALLOWED) if state == "intent" else None))
    return effect


ENDINGS: dict[str, Ending] = {
    "finish": lambda member, claim: member.finish(claim, output='"out"'),
    "die": lambda member, claim: member.finish(claim, "dead", error="{}"),
    "commit": lambda member, claim: member.store.do(a_commit(claim)),
    "commit and stay": lambda member, claim: member.store.do(a_commit(claim, then="running")),
    "hold the output": lambda member, claim: member.store.do(a_commit(claim, then="held")),
    "close": lambda member, claim: member.store.do(CloseRun(claim, WENT_WELL)),
    "wait": lambda member, claim: member.leave(claim, "waiting", delay=SECOND),
    "hold": lambda member, claim: member.store.do(LeaveRun(claim, "held", "held", by_itself=True)),
}
every_ending = pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())


async def claimed(member: Member) -> Claim:
    await accept(member.store, an_arrival())
    return await member.claim_one()


async def cancel(member: Member, run: str) -> Cancelled:
    cancelled = await member.store.do(CancelRun(run, by=Actor("ada", "code"), note="no more"))
    assert cancelled is not None
    return cancelled


class TestAfterACancel:
    @every_ending
    async def test_nothing_is_committed(self, member: Member, store_url: str, ending: Ending):
        claim = await claimed(member)
        assert await cancel(member, claim.id) == Cancelled(claim.id, "running", "running")
        with pytest.raises(CancelAsked, match="cancelled by ada: no more") as caught:
            await ending(member, claim)
        assert (caught.value.by, caught.value.note) == ("ada", "no more")
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["output"], run["outcome"]) == ("running", None, None)
        assert await count(store_url, "wakeful_delivery") == 0
        assert await count(store_url, "wakeful_attempt") == 0

    async def test_the_worker_that_stops_can_give_it_back(self, member: Member):
        claim = await claimed(member)
        await cancel(member, claim.id)
        await member.leave(claim)
        again = await member.claim_one()
        assert again.cancelled == ("ada", "no more")

    async def test_no_effect_begins(self, member: Member, store_url: str):
        claim = await claimed(member)
        await cancel(member, claim.id)
        with pytest.raises(CancelAsked):
            await member.store.do(OpenEffect(claim, APP, an_effect(), Judgement(ALLOWED)))
        assert await count(store_url, "wakeful_effect") == 0

    async def test_an_effect_that_had_begun_is_recorded(self, member: Member):
        claim = await claimed(member)
        effect = an_effect()
        await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
        await cancel(member, claim.id)
        effect.state, effect.tries = "confirmed", 1
        await member.store.do(SaveEffect(claim, effect))
        assert (await state_of(member.store, claim.id))["effects"][0]["state"] == "confirmed"

    async def test_a_stale_owner_is_told_that_it_lost_its_claim(self, member: Member):
        claim = await claimed(member)
        await cancel(member, claim.id)
        await member.leave(claim)
        await member.claim_one()
        with pytest.raises(ClaimLost):
            await member.finish(claim)

    async def test_one_attempt_is_meant_and_another_is_left_alone(self, member: Member, store_url: str):
        first = await claimed(member)
        await member.leave(first)
        second = await member.claim_one()
        with pytest.raises(ClaimLost):
            await member.store.do(CancelRun(first.id, claim=first, by=Actor("on_stuck", "code")))
        assert (await state_of(member.store, first.id))["cancel"] is None
        assert await count(store_url, "wakeful_remedy") == 0
        cancelled = await member.store.do(CancelRun(second.id, claim=second, by=Actor("on_stuck", "code")))
        assert cancelled is not None
        assert cancelled.now == "running"
        again = await member.store.do(CancelRun(second.id, claim=second, by=Actor("on_stuck", "code")))
        assert again is not None, "as after a COMMIT whose answer was lost"

    async def test_an_attempt_whose_process_is_buried_cancels_nothing(
        self, member: Member, stores: OpenStore, store_url: str
    ):
        claim = await claimed(member)
        await (await join(await stores(store_url))).bury(member)
        with pytest.raises(ClaimLost):
            await member.store.do(CancelRun(claim.id, claim=claim, by=Actor("on_stuck", "code")))
        assert (await state_of(member.store, claim.id))["cancel"] is None

    async def test_its_process_is_told_which_runs_are_to_stop(self, member: Member):
        await accept(member.store, an_arrival("a"), an_arrival("b"))
        first, _ = await member.claim()
        await cancel(member, first.id)
        other = await join(member.store)
        assert await cancelled_runs(member.store.database, APP, member.process) == [(first.id, "ada", "no more")]
        assert await cancelled_runs(member.store.database, APP, other.process) == []


class TestWhoeverIsFirst:
    async def test_what_was_committed_first_is_done(self, member: Member):
        claim = await claimed(member)
        await member.finish(claim, output='"out"')
        cancelled = await cancel(member, claim.id)
        assert cancelled == Cancelled(
            claim.id, "done", "done", "is done: only a run that has not ended can be cancelled"
        )
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["output"], run["remedies"]) == ("done", "out", [])

    async def test_in_one_transaction_there_is_one_winner(self, member: Member):
        claim = await claimed(member)
        finished, cancelled = await asyncio.gather(
            member.finish(claim), member.store.do(CancelRun(claim.id, by=Actor("ada", "code"))), return_exceptions=True
        )
        run = await state_of(member.store, claim.id)
        assert isinstance(cancelled, Cancelled)
        if finished is None:
            assert (run["state"], cancelled.was) == ("done", "done")
        else:
            assert isinstance(finished, CancelAsked)
            assert (run["state"], cancelled.now) == ("running", "running")

    @pytest.mark.postgres
    @every_ending
    async def test_an_ending_waits_for_a_cancel_that_is_under_way(
        self, stores: OpenStore, postgres_url: str, ending: Ending
    ):
        """Under READ COMMITTED both see the run as it was: the second must look again once the first is through."""
        member = await join(await stores(postgres_url))
        claim = await claimed(member)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute(
                    "update wakeful_run set cancel_at = 1, cancel_by = 'eve' where seq = $1", claim.seq
                )
                ends = asyncio.ensure_future(ending(member, claim))
                await waiting_for_a_lock(postgres_url)
        finally:
            await connection.close()
        with pytest.raises(CancelAsked, match="eve"):
            await ends
        assert (await state_of(member.store, claim.id))["state"] == "running"
        assert await count(postgres_url, "wakeful_delivery") == 0

    @pytest.mark.postgres
    async def test_a_cancel_waits_for_an_ending_that_is_under_way(self, stores: OpenStore, postgres_url: str):
        member = await join(await stores(postgres_url))
        claim = await claimed(member)
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute(
                    "update wakeful_run set state = 'done', owner = null where seq = $1", claim.seq
                )
                cancels = asyncio.ensure_future(cancel(member, claim.id))
                await waiting_for_a_lock(postgres_url)
        finally:
            await connection.close()
        assert (await cancels).refused == "is done: only a run that has not ended can be cancelled"
        assert await count(postgres_url, "wakeful_remedy") == 0

    @pytest.mark.postgres
    async def test_a_state_that_was_saved_before_the_cancel_came_through_is_taken_back(
        self, stores: OpenStore, postgres_url: str
    ):
        member = await join(await stores(postgres_url))
        await accept(member.store, an_arrival("other"), an_arrival("with a state"))
        asked = ClaimRuns(APP, member.process, lambda: Wanted([("agent", 10)]))
        other, claim = (await member.store.do(asked)).claims
        await query(postgres_url, "insert into wakeful_state (app, agent, key) values ('app', 'agent', '')")
        change = StateChange(APP, "agent", "", 0, '"changed"')
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute(
                    "update wakeful_run set cancel_at = 1, cancel_by = 'eve' where seq = $1", claim.seq
                )
                both = asyncio.gather(
                    member.store.do(CommitRun(claim, APP, '"out"', WENT_WELL, state=change)),
                    member.store.do(a_commit(other)),
                    return_exceptions=True,
                )
                await waiting_for_a_lock(postgres_url, like="%for update of run%")
        finally:
            await connection.close()
        refused, committed = await both
        assert isinstance(refused, CancelAsked)
        assert committed is None, "a neighbour in the same transaction is not harmed"
        assert await query(postgres_url, "select value, version from wakeful_state") == [(None, 0)]
        assert (await state_of(member.store, other.id))["state"] == "done"


class TestWhatWasPrepared:
    async def test_is_dropped_with_a_run_that_did_nothing(self, member: Member, store_url: str):
        claim = await claimed(member)
        await query(
            store_url,
            "insert into wakeful_approval (id, app, agent, run_seq, key, question, state, asked_at)"
            " values ('q', 'app', 'agent', $1, 'ask', 'may I?', 'open', 1)",
            claim.seq,
        )
        for key, event in (("open", None), ("answered", 1)):
            await query(
                store_url,
                "insert into wakeful_wait (run_seq, key, app, type, event_seq, registered_at)"
                " values ($1, $2, 'app', 't', $3, 1)",
                claim.seq,
                key,
                event,
            )
        await query(store_url, "update wakeful_run set key = 'k', place = 3 where seq = $1", claim.seq)
        await member.leave(claim, "waiting", delay=SECOND)
        assert (await cancel(member, claim.id)).now == "cancelled"
        assert await query(store_url, "select state, note from wakeful_approval") == [
            ("withdrawn", "cancelled by ada: no more")
        ]
        assert await query(store_url, "select key from wakeful_wait") == [("answered",)]
        assert await query(store_url, "select place, due_at from wakeful_run") == [(None, None)]

    @pytest.mark.parametrize("state", ["confirmed", "unknown", "intent"])
    async def test_waits_until_what_it_did_is_undone(self, member: Member, state: str):
        claim = await claimed(member)
        await did(member, claim, state=state)
        await member.leave(claim, "waiting", delay=SECOND)
        assert (await cancel(member, claim.id)).now == "ready"
        again = await member.claim_one()
        assert again.cancelled == ("ada", "no more")
        assert [effect.id for effect in await effects_to_undo(member.store.database, again)] == ["charge"]

    @pytest.mark.parametrize("state", ["retrying", "failed"])
    async def test_is_nothing_to_undo_if_it_was_certainly_not_done(self, member: Member, state: str):
        claim = await claimed(member)
        await did(member, claim, state=state)
        await member.leave(claim, "waiting", delay=SECOND)
        assert (await cancel(member, claim.id)).now == "cancelled"
        assert (await state_of(member.store, claim.id))["effects"][0]["state"] == "failed"

    async def test_the_latest_is_undone_first_and_both_change_together(self, member: Member):
        claim = await claimed(member)
        await did(member, claim, "first")
        await did(member, claim, "second")
        await cancel(member, claim.id)
        claim.cancelled = ("ada", None)
        assert [one.id for one in await effects_to_undo(member.store.database, claim)] == ["second", "first"]
        await did(member, claim, "undo second", undoes="second")
        effects = {one["action"]: one["state"] for one in (await state_of(member.store, claim.id))["effects"]}
        assert effects == {"first": "confirmed", "second": "undone", "undo second": "confirmed"}

    async def test_an_end_that_is_told_twice_is_one(self, member: Member, store_url: str):
        claim = await claimed(member)
        await cancel(member, claim.id)
        claim.cancelled = ("ada", None)
        request = FinishCancelled(claim, APP, "cancelled by ada", RunOutcome("cancelled"))
        await member.store.do(request)
        await member.store.do(request)  # after the answer to its COMMIT was lost
        assert (await state_of(member.store, claim.id))["state"] == "cancelled"
        assert await count(store_url, "wakeful_attempt") == 1


class TestRunsThatItCalled:
    async def test_are_cancelled_with_it_and_theirs_too(self, member: Member, store_url: str):
        await accept(member.store, *(an_arrival(name) for name in ("parent", "child", "grandchild", "done child")))
        claims = {str(claim.envelope): claim for claim in await member.claim()}
        parent, child, grandchild, done = sorted(claims.values(), key=lambda claim: claim.seq)
        for one, of in ((child, parent), (grandchild, child), (done, parent)):
            await query(store_url, "update wakeful_run set parent_seq = $1 where seq = $2", of.seq, one.seq)
        await member.finish(done)
        await member.leave(parent, "waiting", delay=SECOND)
        await member.leave(child, "waiting", delay=SECOND)
        await cancel(member, parent.id)
        assert (await state_of(member.store, parent.id))["state"] == "cancelled"
        shown = await state_of(member.store, child.id)
        assert (shown["state"], shown["reason"]) == (
            "cancelled",
            f"cancelled by ada: run {parent.id}, which called it, was cancelled",
        )
        assert (await state_of(member.store, grandchild.id))["cancel"]["by"] == "ada"
        assert (await state_of(member.store, done.id))["state"] == "done"


class TestAReplay:
    async def test_of_a_cancelled_run_is_not_cancelled_any_more(self, member: Member):
        claim = await claimed(member)
        await member.leave(claim)
        await cancel(member, claim.id)
        await member.store.do(RedoRun(claim.id, by=Actor("ada", "code")))
        again = await member.claim_one()
        assert again.cancelled is None
        await member.finish(again)
        assert (await reader(member.store).counts()) == {"done": 1}

    async def test_of_one_that_died_while_it_was_undone_goes_on_undoing(self, member: Member):
        claim = await claimed(member)
        await cancel(member, claim.id)
        claim.cancelled = ("ada", "no more")
        await member.finish(claim, "dead", error="{}")
        await member.store.do(RedoRun(claim.id, by=Actor("ada", "code")))
        assert (await member.claim_one()).cancelled == ("ada", "no more")
