"""The end of a wait against what it waited for, and the end of a run against those who called it: one of the two wins, and
nobody waits in a circle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from typing import Any

import asyncpg
import pytest
from pydantic_core import from_json

from support.locks import held_open, waiting_for_a_lock
from support.stores import APP, Member, OpenStore, a_step, accept, an_arrival, an_event, join, query, reader, state_of
from wakeful.clock import SECOND
from wakeful.errors import CancelAsked
from wakeful.model import WENT_WELL, Claim, RunOutcome, Step
from wakeful.stores.request import Actor
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.approvals import Approval, AskPerson
from wakeful.stores.verbs.cancel import CancelRun, FinishCancelled
from wakeful.stores.verbs.progress import FinishRun, LeaveRun
from wakeful.stores.verbs.waits import EndWait, Wait

LATE = '{"type": "TimedOut", "kind": "wakeful.errors:TimedOut", "message": "too late", "failure": "persistent"}'


def waiting_step(key: str, told: str = '{"until": 0}') -> Step:
    return a_step(key, state="waiting", result=told)


def news(identifier: str) -> AcceptEvents:
    event = an_event(identifier, type="news", data=identifier)
    return AcceptEvents(APP, [an_arrival(event=event, agents=(), state="unmatched")])


async def wait_for_news(member: Member, claim: Claim, key: str) -> None:
    leaving = LeaveRun(claim, "waiting", "waited", delay=0, steps=[waiting_step(key)], waits=[Wait(key, "news")])
    await member.store.do(leaving)


async def timed_out(member: Member, key: str = "first") -> tuple[Claim, EndWait]:
    """A run whose wait is registered and whose time is over: it was claimed again, to end it."""
    await accept(member.store, an_arrival("go"))
    await wait_for_news(member, await member.claim_one(), key)
    claim = await member.claim_one()
    return claim, EndWait(claim, waiting_step(key), LATE, Wait(key, "news"))


async def second_wait(member: Member, claim: Claim) -> Any:
    """What the run's next wait for the same gets: the event that is there already, or nothing."""
    await wait_for_news(member, claim, "second")
    shown = await state_of(member.store, claim.id)
    (step,) = [one for one in shown["steps"] if one["key"] == "second"]
    return None if step["result"] is None else step["result"]["data"]


class TestTimeRunsOutWhileItsEventIsBeingAccepted:
    async def test_the_event_first(self, member: Member):
        claim, ending = await timed_out(member)
        await member.store.journal.submit(news("spring"))
        step = await member.store.do(ending)
        assert (step.state, from_json(step.result or "null")["data"]) == ("done", "spring")
        assert await second_wait(member, claim) is None, "an event is taken by one wait of a run"

    async def test_the_end_first(self, member: Member):
        claim, ending = await timed_out(member)
        step = await member.store.do(ending)
        await member.store.journal.submit(news("spring"))
        assert (step.state, step.error) == ("failed", LATE)
        assert await second_wait(member, claim) == "spring"

    async def test_both_in_one_transaction(self, member: Member):
        claim, ending = await timed_out(member)
        step, _ = await asyncio.gather(member.store.do(ending), member.store.journal.submit(news("spring")))
        second = await second_wait(member, claim)
        assert (step.state, second) in {("done", None), ("failed", "spring")}

    @pytest.mark.postgres
    async def test_the_event_is_not_committed_yet_and_has_the_wait(self, stores: OpenStore, postgres_url: str):
        member = await join(await stores(postgres_url))
        claim, ending = await timed_out(member)
        async with held_open(await stores(postgres_url), postgres_url, news("spring")):
            ends = asyncio.ensure_future(member.store.do(ending))
            await waiting_for_a_lock(postgres_url)
        step = await ends
        assert (step.state, from_json(step.result or "null")["data"]) == ("done", "spring")
        assert await second_wait(member, claim) is None

    @pytest.mark.postgres
    async def test_the_end_is_not_committed_yet_and_has_the_wait(self, stores: OpenStore, postgres_url: str):
        member = await join(await stores(postgres_url))
        claim, ending = await timed_out(member)
        async with held_open(member.store, postgres_url, ending) as (step,):
            brings = asyncio.ensure_future((await stores(postgres_url)).journal.submit(news("spring")))
            await waiting_for_a_lock(postgres_url)
        (receipt,) = await brings
        assert (step.state, receipt.status) == ("failed", "unmatched"), "nobody took it"
        assert await second_wait(member, claim) == "spring"


async def family(member: Member, url: str, *names: str) -> list[Claim]:
    """Runs that called one another, each the next one, and all but the last wait for that."""
    await accept(member.store, *(an_arrival(name) for name in names))
    claims = sorted(await member.claim(), key=lambda claim: claim.seq)
    for caller, child in pairwise(claims):
        link = "update wakeful_run set parent_seq = $1, parent_key = 'call' where seq = $2"
        await query(url, link, caller.seq, child.seq)
        child.parent = (caller.seq, "call")
        told = f'{{"until": 0, "child": "{child.id}", "agent": "agent"}}'
        await member.store.do(
            LeaveRun(caller, "waiting", "waited", delay=60 * SECOND, steps=[waiting_step("call", told)])
        )
    return claims


class TestACallerIsCancelledWhileItsChildEnds:
    async def test_the_end_first(self, member: Member, store_url: str):
        parent, child = await family(member, store_url, "parent", "child")
        await member.finish(child, output='"grown"')
        await member.store.do(CancelRun(parent.id, by=Actor("ada", "code")))
        assert (await state_of(member.store, child.id))["state"] == "done"
        assert (await state_of(member.store, parent.id))["state"] == "cancelled"

    async def test_the_cancel_first(self, member: Member, store_url: str):
        parent, child = await family(member, store_url, "parent", "child")
        await member.store.do(CancelRun(parent.id, by=Actor("ada", "code")))
        with pytest.raises(CancelAsked):
            await member.finish(child, output='"grown"')
        assert (await state_of(member.store, parent.id))["state"] == "cancelled"

    async def test_both_in_one_transaction(self, member: Member, store_url: str):
        parent, child = await family(member, store_url, "parent", "child")
        finished, _ = await asyncio.gather(
            member.finish(child, output='"grown"'),
            member.store.do(CancelRun(parent.id, by=Actor("ada", "code"))),
            return_exceptions=True,
        )
        ended = (await state_of(member.store, child.id))["state"]
        assert (ended, finished) == ("done", None) or (ended, type(finished)) == ("running", CancelAsked)
        assert (await state_of(member.store, parent.id))["state"] == "cancelled"

    @pytest.mark.postgres
    async def test_the_end_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        member = await join(await stores(postgres_url))
        parent, child = await family(member, postgres_url, "parent", "child")
        ending = FinishRun(child, "done", output='"grown"', outcome=WENT_WELL)
        async with held_open(member.store, postgres_url, ending):
            cancels = asyncio.ensure_future(
                (await stores(postgres_url)).do(CancelRun(parent.id, by=Actor("ada", "code")))
            )
            await waiting_for_a_lock(postgres_url)
        assert (await cancels) is not None
        assert (await state_of(member.store, child.id))["state"] == "done"
        shown = await state_of(member.store, parent.id)
        assert (shown["state"], shown["steps"][0]["result"]) == ("cancelled", "grown")

    @pytest.mark.postgres
    async def test_the_cancel_is_not_committed_yet(self, stores: OpenStore, postgres_url: str):
        member = await join(await stores(postgres_url))
        parent, child = await family(member, postgres_url, "parent", "child")
        async with held_open(await stores(postgres_url), postgres_url, CancelRun(parent.id, by=Actor("ada", "code"))):
            ends = asyncio.ensure_future(member.finish(child, output='"grown"'))
            await waiting_for_a_lock(postgres_url)
        with pytest.raises(CancelAsked):
            await ends
        assert (await state_of(member.store, parent.id))["state"] == "cancelled"


@pytest.mark.postgres
class TestOneOrderForEverybody:
    """Whoever brings something has what is named first, and wants what is named second: two who take them in turn would wait
    in a circle, until the database ends one of them.
    """

    @pytest.fixture
    async def member(self, stores: OpenStore, postgres_url: str) -> Member:
        return await join(await stores(postgres_url))

    async def in_order(self, url: str, first: str, second: str, request: Awaitable[Any]) -> None:
        """While somebody has the first, the request waits for it, and has not the second."""
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await connection.fetch(f"select * from {first} for update")
                task = asyncio.ensure_future(request)
                await waiting_for_a_lock(url)
                await connection.fetch(f"select * from {second} for update nowait")
            await task
        finally:
            await connection.close()

    async def test_the_wait_and_its_step_when_time_runs_out(self, member: Member, postgres_url: str):
        _, ending = await timed_out(member)
        await self.in_order(postgres_url, "wakeful_wait", "wakeful_step", member.store.do(ending))

    async def test_the_wait_and_its_step_when_a_run_waits_on(self, member: Member, postgres_url: str):
        claim, _ = await timed_out(member)
        await self.in_order(postgres_url, "wakeful_wait", "wakeful_step", wait_for_news(member, claim, "first"))

    async def test_the_wait_and_its_run_when_that_is_cancelled(self, member: Member, postgres_url: str):
        await accept(member.store, an_arrival("go"))
        claim = await member.claim_one()
        await wait_for_news(member, claim, "first")
        cancel = member.store.do(CancelRun(claim.id, by=Actor("ada", "code")))
        await self.in_order(postgres_url, "wakeful_wait", "wakeful_run", cancel)

    async def test_the_question_and_its_step_when_nobody_answers(self, member: Member, postgres_url: str):
        claim, step = await self.asking(member)
        ending = member.store.do(EndWait(claim, step, LATE))
        await self.in_order(postgres_url, "wakeful_approval", "wakeful_step", ending)

    async def test_the_question_and_its_run_when_that_is_cancelled(self, member: Member, postgres_url: str):
        claim, step = await self.asking(member)
        await member.store.do(LeaveRun(claim, "waiting", "waited", delay=60 * SECOND, steps=[step]))
        cancel = member.store.do(CancelRun(claim.id, by=Actor("ada", "code")))
        await self.in_order(postgres_url, "wakeful_approval", "wakeful_run", cancel)

    async def asking(self, member: Member) -> tuple[Claim, Step]:
        await accept(member.store, an_arrival("go"))
        claim = await member.claim_one()
        step = waiting_step("ask", '{"until": 0, "question": "?", "to": null, "approval": "q"}')
        await member.store.do(AskPerson(claim, APP, step, Approval("q", "?", None, None, 0)))
        return claim, step

    @pytest.mark.parametrize("names", [("parent", "child"), ("parent", "child", "grandchild")])
    async def test_the_child_and_its_caller_when_that_is_cancelled(
        self, member: Member, postgres_url: str, names: tuple[str, ...]
    ):
        claims = await family(member, postgres_url, *names)
        last = f"(select * from wakeful_run where seq = {claims[-1].seq} for update) as last"
        others = f"(select * from wakeful_run where seq < {claims[-1].seq} for update nowait) as others"
        cancel = member.store.do(CancelRun(claims[0].id, by=Actor("ada", "code")))
        await self.in_order(postgres_url, last, others, cancel)

    async def test_the_child_and_its_caller_when_that_has_stopped(self, member: Member, postgres_url: str):
        await accept(member.store, an_arrival("parent"), an_arrival("child"))
        parent, child = sorted(await member.claim(), key=lambda claim: claim.seq)
        await member.store.do(CancelRun(parent.id, by=Actor("ada", "code")))
        await query(postgres_url, "update wakeful_run set parent_seq = $1 where seq = $2", parent.seq, child.seq)
        parent.cancelled = ("ada", None)
        last = f"(select * from wakeful_run where seq = {child.seq} for update) as last"
        first = f"(select * from wakeful_run where seq = {parent.seq} for update nowait) as first"
        stopped = FinishCancelled(parent, APP, "cancelled by ada", RunOutcome("cancelled"))
        await self.in_order(postgres_url, last, first, member.store.do(stopped))
        assert (await reader(member.store).run(child.id) or {})["cancel"]["by"] == "ada"
