"""claim: due runs get one owner each, oldest first, as many as were wanted."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from support.stores import APP, Member, OpenStore, a_step, accept, an_arrival, join, query, state_of
from wakeful.clock import SECOND, SystemClock, VirtualClock
from wakeful.model import Claim, run_id
from wakeful.stores.store import DatabaseStore
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, Wanted, claim_runs


def identity(number: int | str, agent: str = "agent") -> str:
    return run_id(APP, agent, "/test", str(number))


async def crash(member: Member, times: int, *, agent: str = "agent") -> None:
    """Let processes die with everything of an agent that is due in their hands."""
    for _ in range(times):
        victim = await join(member.store, "victim")
        while await victim.claim(agent):
            pass
        await member.bury(victim)


async def test_a_claim_tells_everything_about_the_run(member: Member, clock: VirtualClock):
    await accept(member.store, an_arrival(data={"a": 1}))
    created = clock.now()
    clock.move("1s")
    claim = await member.claim_one()
    assert (claim.id, claim.root, claim.agent) == (identity(1), identity(1), "agent")
    assert (claim.token, claim.process, claim.attempts, claim.crashes) == (1, member.process, 0, 0)
    assert (claim.created_at, claim.started_at, claim.claimed_at) == (created, clock.now(), clock.now())
    assert claim.first_start
    assert claim.steps == []
    assert '"data":{"a":1}' in claim.envelope
    run = await state_of(member.store, claim.id)
    assert (run["state"], run["owner"], run["token"]) == ("running", member.process, 1)


async def test_the_oldest_come_first(member: Member, clock: VirtualClock):
    for number in (3, 1, 2):
        await accept(member.store, an_arrival(str(number)))
        clock.move("1s")
    assert [claim.id for claim in await member.claim(most=2)] == [identity(3), identity(1)]
    assert [claim.id for claim in await member.claim(most=2)] == [identity(2)]
    assert await member.claim() == []


async def test_what_becomes_due_while_a_claim_is_under_way_is_not_overlooked(stores: OpenStore, postgres_url: str):
    """On PostgreSQL each statement has its own time: the claim came too early for it, and the look at what comes next too late."""
    member = await join(await stores(postgres_url, clock=SystemClock()), "first")
    await accept(member.store, an_arrival())
    request = ClaimRuns(APP, member.process, lambda: Wanted([("agent", 1)]))
    request.wanted = request.wants()

    def slow(now: int | None) -> Transaction[list[Claimed]]:
        transaction = claim_runs(now, [request])
        operation = next(transaction)
        try:
            while True:
                if operation[0] == "next_due":  # type: ignore[index]  # a name and rows
                    yield "become_due", [()]
                operation = transaction.send((yield operation))
        except StopIteration as stop:
            return stop.value

    database: Any = member.store.database
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("update wakeful_run set due_at = (extract(epoch from now()) + 3600) * 1000000")
    try:
        async with connection.transaction():
            moment = "update wakeful_run set due_at = extract(epoch from clock_timestamp()) * 1000000 returning seq"
            database._queries["become_due"] = moment
            for known in (database.codec._given, database.codec._returned, database.codec.shown):
                known["become_due"] = ()
            (claimed,) = await database.drive(connection, slow)
    finally:
        await connection.close()
    assert claimed.claims == []
    assert claimed.next_due is not None
    assert claimed.next_due <= 0


async def test_only_the_agents_that_were_asked_for(member: Member):
    await accept(member.store, an_arrival(agents=("bill", "ship", "mail")))
    claims = await member.claim("bill", "mail")
    assert sorted(claim.agent for claim in claims) == ["bill", "mail"]
    assert (await state_of(member.store, identity(1, "ship")))["state"] == "ready"


async def test_only_runs_of_its_own_app(member: Member):
    await accept(member.store, an_arrival(app="other"), app="other")
    assert await member.claim() == []
    assert len(await member.claim(app="other")) == 1


async def test_each_agent_gets_at_most_what_was_wanted(member: Member):
    await accept(member.store, *(an_arrival(str(number), agents=("bill", "ship")) for number in range(5)))
    request = member.wanting()
    request.wants = lambda: Wanted([("bill", 2), ("ship", 3)])
    claimed = await member.store.do(request)
    assert sorted(claim.agent for claim in claimed.claims) == ["bill", "bill", "ship", "ship", "ship"]
    assert claimed.asked == [("bill", 2), ("ship", 3)]


async def test_what_is_due_later_is_left_until_then(member: Member, clock: VirtualClock):
    await accept(member.store, an_arrival())
    await member.leave(await member.claim_one(), "waiting", delay=10 * SECOND)
    claimed = await member.ask()
    assert claimed.claims == []
    assert claimed.next_due == 10 * SECOND
    clock.move("9s")
    assert (await member.ask()).next_due == SECOND
    clock.move("1s")
    assert [claim.id for claim in await member.claim()] == [identity(1)]


async def test_the_next_due_time_is_the_earliest_of_the_agents_asked_for(member: Member):
    await accept(member.store, an_arrival(agents=("bill", "ship", "mail")))
    for agent, seconds in (("bill", 30), ("ship", 20), ("mail", 10)):
        await member.leave(await member.claim_one(agent), "waiting", delay=seconds * SECOND)
    assert (await member.ask("bill", "ship")).next_due == 20 * SECOND
    assert (await member.ask("unknown")).next_due is None


async def test_a_resumed_claim_brings_its_steps_and_counts(member: Member, clock: VirtualClock):
    await accept(member.store, an_arrival())
    first = await member.claim_one()
    await member.save(first, a_step("one:", result="1"), a_step("two:", result="2", position=1))
    await member.leave(first, "waiting", failed=True, delay=SECOND, error='{"message": "no"}')
    clock.move("1s")
    second = await member.claim_one()
    assert (second.token, second.attempts, second.first_start) == (2, 1, False)
    assert second.started_at == first.started_at
    assert second.claimed_at == first.claimed_at + SECOND
    assert [(step.key, step.name, step.state, step.result) for step in second.steps] == [
        ("one:", "one", "done", "1"),
        ("two:", "two", "done", "2"),
    ]


async def test_steps_come_to_their_own_runs(member: Member):
    await accept(member.store, *(an_arrival(str(number)) for number in range(5)))
    for claim in await member.claim():
        await member.save(claim, a_step(result=f'"{claim.id}"'))
        await member.leave(claim)
    for claim in await member.claim():
        assert [step.result for step in claim.steps] == [f'"{claim.id}"']


@pytest.mark.parametrize("ended", ["done", "dead", "denied", "cancelled"])
async def test_what_has_ended_is_never_claimed(member: Member, clock: VirtualClock, ended):
    await accept(member.store, an_arrival())
    await member.finish(await member.claim_one(), ended)
    clock.move("365d")
    await member.renew_in_thread()
    assert await member.claim() == []


async def test_what_somebody_owns_is_not_claimed(member: Member):
    await accept(member.store, an_arrival())
    await member.claim_one()
    assert await member.claim() == []
    assert await (await join(member.store)).claim() == []


class TestAlone:
    """A run that was in flight in two processes that died is claimed with nothing beside it."""

    async def test_a_run_that_died_once_is_claimed_with_the_others(self, member: Member):
        await accept(member.store, an_arrival("poison"))
        await crash(member, 1)
        await accept(member.store, an_arrival("good"))
        assert sorted(claim.crashes for claim in await member.claim()) == [0, 1]

    async def test_it_comes_alone_and_before_the_others(self, member: Member):
        await accept(member.store, an_arrival("poison"))
        await crash(member, 2)
        await accept(member.store, *(an_arrival(str(number)) for number in range(3)))
        claimed = await member.ask()
        assert [(claim.id, claim.crashes) for claim in claimed.claims] == [(identity("poison"), 2)]
        await member.finish(claimed.claims[0])
        assert len(await member.claim()) == 3

    async def test_two_of_them_come_one_after_the_other(self, member: Member):
        await accept(member.store, an_arrival("1"), an_arrival("2"))
        await crash(member, 1)
        # the first two deaths were shared; now each is alone
        victim = await join(member.store, "victim")
        assert len(await victim.claim()) == 2
        await member.bury(victim)
        first = await member.claim()
        second = await member.claim()
        assert len(first) == len(second) == 1
        assert {first[0].id, second[0].id} == {identity(1), identity(2)}

    async def test_a_busy_worker_gets_others_and_is_told_that_one_waits_to_go_alone(self, member: Member):
        await accept(member.store, an_arrival("poison"))
        await crash(member, 2)
        await accept(member.store, an_arrival("good"))
        claimed = await member.ask(alone=False)
        assert ([claim.crashes for claim in claimed.claims], claimed.solo_waiting) == ([0], True)
        claimed = await member.ask(alone=True)
        assert (len(claimed.claims), claimed.solo_waiting) == (1, False)

    async def test_it_does_not_hold_up_agents_that_are_not_asked_for(self, member: Member):
        await accept(member.store, an_arrival("poison", agents=("bill",)))
        await crash(member, 2, agent="bill")
        await accept(member.store, an_arrival("good", agents=("ship",)))
        assert [claim.agent for claim in await member.claim("ship", alone=False)] == ["ship"]

    async def test_it_waits_for_its_time_and_holds_up_nobody_until_then(self, member: Member, clock: VirtualClock):
        await accept(member.store, an_arrival("poison"))
        await crash(member, 2)
        await member.leave(await member.claim_one(), "waiting", delay=60 * SECOND)
        await accept(member.store, an_arrival("good"))
        assert [claim.id for claim in await member.claim(alone=False)] == [identity("good")]
        clock.move("60s")
        await member.renew_in_thread()
        assert [claim.id for claim in await member.claim()] == [identity("poison")]


class TestResting:
    """A claim that rests goes along with the transaction that makes something ready."""

    async def test_it_is_answered_in_the_transaction_of_an_accept(self, member: Member):
        resting = asyncio.ensure_future(member.store.do(member.wanting(rests=True)))
        await asyncio.sleep(0)
        before = member.store.journal.transactions
        await accept(member.store, an_arrival())
        assert [claim.id for claim in (await resting).claims] == [identity(1)]
        assert member.store.journal.transactions == before + 1

    async def test_it_is_answered_in_the_transaction_of_a_run_that_is_given_back(self, member: Member):
        await accept(member.store, an_arrival())
        claim = await member.claim_one()
        resting = asyncio.ensure_future(member.store.do(member.wanting(rests=True)))
        await asyncio.sleep(0)
        before = member.store.journal.transactions
        await member.leave(claim)
        assert [again.token for again in (await resting).claims] == [2]
        assert member.store.journal.transactions == before + 1

    async def test_it_rests_on_when_nothing_is_wanted(self, member: Member):
        request = member.wanting(rests=True)
        wanted: list[tuple[str, int]] = []
        request.wants = lambda: Wanted(wanted)
        resting = asyncio.ensure_future(member.store.do(request))
        await accept(member.store, an_arrival())
        member.store.journal.poke()
        await accept(member.store, an_arrival("2"))
        assert not resting.done()
        wanted.append(("agent", 5))
        member.store.journal.poke()
        assert len((await resting).claims) == 2

    async def test_an_unmatched_event_does_not_wake_it(self, member: Member):
        resting = asyncio.ensure_future(member.store.do(member.wanting(rests=True)))
        await accept(member.store, an_arrival(agents=(), state="unmatched"))
        assert not resting.done()
        member.store.journal.poke()
        assert (await resting).claims == []

    async def test_a_poke_makes_it_look(self, member: Member):
        resting = asyncio.ensure_future(member.store.do(member.wanting(rests=True)))
        await asyncio.sleep(0)
        member.store.journal.poke()
        assert (await resting).claims == []


class TestTogether:
    async def test_claimants_of_many_processes_never_share_a_run(self, stores: OpenStore, store_url: str):
        members = [await join(await stores(store_url)) for _ in range(4)]
        runs = {identity(number) for number in range(120)}
        await accept(members[0].store, *(an_arrival(str(number)) for number in range(120)))

        async def take_all(member: Member) -> list[Claim]:
            taken: list[Claim] = []
            while claims := await member.claim(most=7):
                taken += claims
            return taken

        taken = [
            claim for some in await asyncio.gather(*(take_all(member) for member in members * 2)) for claim in some
        ]
        assert len(taken) == len(runs)
        assert {claim.id for claim in taken} == runs
        assert {claim.token for claim in taken} == {1}
        owners = {row[0]: row[1] for row in await query(store_url, "select id, owner from wakeful_run")}
        assert owners == {claim.id: claim.process for claim in taken}

    async def test_claim_and_give_back_by_many_loses_nothing_and_tokens_only_rise(
        self, stores: OpenStore, store_url: str
    ):
        members = [await join(await stores(store_url)) for _ in range(3)]
        await accept(members[0].store, *(an_arrival(str(number)) for number in range(10)))
        tokens: dict[str, list[int]] = {}

        async def juggle(member: Member) -> None:
            for _ in range(15):
                for claim in await member.claim(most=3):
                    tokens.setdefault(claim.id, []).append(claim.token)
                    await member.leave(claim)

        await asyncio.gather(*(juggle(member) for member in members))
        assert all(len(set(some)) == len(some) for some in tokens.values())
        assert await query(store_url, "select count(*) from wakeful_run where state = 'ready' and owner is null") == [
            (10,)
        ]

    @pytest.mark.postgres
    async def test_a_claimant_passes_over_what_another_is_just_claiming(self, stores: OpenStore, postgres_url: str):
        """Forced in order: the row of the oldest run is locked by somebody else's transaction that has not ended."""
        member = await join(await stores(postgres_url))
        await accept(member.store, an_arrival("1"), an_arrival("2"))
        other = await asyncpg.connect(postgres_url)
        try:
            async with other.transaction():
                await other.execute("select 1 from wakeful_run where id = $1 for update", identity(1))
                assert [claim.id for claim in await member.claim(most=2)] == [identity(2)]
            assert [claim.id for claim in await member.claim(most=2)] == [identity(1)]
        finally:
            await other.close()


@pytest.mark.postgres
async def test_postgresql_uses_the_databases_own_clock(stores: OpenStore, postgres_url: str):
    from wakeful.clock import SystemClock

    class Wrong(SystemClock):
        """The clock of a machine that is an hour ahead."""

        def now(self) -> int:
            return super().now() + 3600 * SECOND

    member = await join(await stores(postgres_url, clock=Wrong()))
    await accept(member.store, an_arrival())
    claim = await member.claim_one()
    ((now,),) = await query(postgres_url, "select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)")
    assert claim.claimed_at <= now
    assert claim.created_at <= claim.claimed_at


async def test_the_claim_of_an_agent_nobody_has_brings_nothing(store: DatabaseStore):
    member = await join(store)
    assert await member.claim("nobody") == []
