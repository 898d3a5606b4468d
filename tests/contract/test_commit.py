"""The commit of a run, the lanes of the outbox, and states: one transition each, fenced, and the same when repeated."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import AGENT, APP, Member, Onlooker, OpenStore, accept, an_arrival, join, query, reader, state_of
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import ClaimLost, StateChanged
from wakeful.model import Claim, Delivery, Effect, RunOutcome
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.claim import ClaimRuns, Wanted
from wakeful.stores.verbs.commit import CloseRun, CommitRun, ReleaseRun, StateChange
from wakeful.stores.verbs.outbox import Delivered, WorkLane, first_delivery
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.state import ChangeState

WELL = RunOutcome("ok", "passed", "committed")


async def claimed(member: Member, identifier: str = "1") -> Claim:
    await accept(member.store, an_arrival(identifier))
    return await member.claim_one()


def a_commit(claim: Claim, **more: Any) -> CommitRun:
    more.setdefault("deliveries", [Delivery(f"{claim.root}-{n}", "ops", f'"{n}"', position=n) for n in range(3)])
    more.setdefault("outcome", WELL)
    return CommitRun(claim, APP, '"output"', **more)


def an_effect(name: str = "a") -> Effect:
    return Effect(f"operation-{name}", "book", "module:book", "idempotent", "staged", f'["{name}"]', staged=True)


async def stored(member: Member, claim: Claim) -> tuple[str, list[str], list[str]]:
    run = await state_of(member.store, claim.id)
    return run["state"], [one["message"] for one in run["deliveries"]], [one["state"] for one in run["effects"]]


def lane(member: Member, **more: Any) -> WorkLane:
    return WorkLane(APP, "ops", member.process, more.pop("most", 10), **more)


class TestCommit:
    async def test_all_of_it_is_stored(self, member: Member):
        claim = await claimed(member)
        await member.store.do(a_commit(claim, then="running", effects=[an_effect("a"), an_effect("b")]))
        assert await stored(member, claim) == ("running", ["0", "1", "2"], ["staged", "staged"])
        await member.store.do(CloseRun(claim, WELL))
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["output"], run["outcome"]["commit"]) == ("done", "output", "committed")

    @pytest.mark.parametrize("then", ["done", "running", "held"])
    async def test_repeating_it_is_the_same(self, member: Member, then: Any):
        """As after a COMMIT whose answer was lost."""
        claim = await claimed(member)
        change = StateChange(APP, AGENT, "", 0, '{"count":1}')
        await member.store.do(ChangeState(APP, AGENT, "", None, by=Actor("somebody", "code")))
        change.version = 1
        request = a_commit(claim, then=then, effects=[an_effect()] if then != "done" else [], state=change)
        await member.store.do(request)
        before = await query_all(member)
        await member.store.do(request)
        assert await query_all(member) == before
        assert len((await state_of(member.store, claim.id))["deliveries"]) == 3

    @pytest.mark.parametrize("then", ["done", "running", "held"])
    async def test_a_stale_holder_stores_nothing(self, member: Member, then: Any):
        claim = await claimed(member)
        other = await join(member.store, "other")
        await other.bury(member)
        (taken,) = await other.claim()
        assert taken.id == claim.id
        before = await query_all(other)
        with pytest.raises(ClaimLost):
            await member.store.do(a_commit(claim, then=then, effects=[an_effect()]))
        stale = Claim(**{name: getattr(claim, name) for name in Claim.__slots__})
        stale.process = other.process  # alive, but with an old token
        with pytest.raises(ClaimLost):
            await member.store.do(a_commit(stale, then=then, effects=[an_effect()]))
        assert await query_all(other) == before

    async def test_a_committed_run_is_claimed_as_that(self, member: Member):
        claim = await claimed(member)
        await member.store.do(a_commit(claim, then="running", effects=[an_effect()]))
        other = await join(member.store, "other")
        await other.bury(member)
        (again,) = await other.claim()
        assert again.committed == WELL
        assert [(effect.state, effect.staged) for effect in again.effects] == [("staged", True)]
        assert again.sent == {f"{claim.root}-{n}" for n in range(3)}

    async def test_a_held_one_is_released_once(self, member: Member):
        claim = await claimed(member)
        outcome = RunOutcome("ok", "failed", "held")
        await member.store.do(a_commit(claim, then="held", outcome=outcome, reason="no", effects=[an_effect()]))
        assert (await member.store.do(lane(member))).deliveries == []
        assert (await released(member, claim)) is None
        assert await released(member, claim) == "is ready: only a held output can be released"
        assert len((await member.store.do(lane(member))).deliveries) == 3
        (again,) = await member.claim()
        assert again.committed == RunOutcome("ok", "failed", "committed")

    async def test_a_further_run_of_the_family_knows_what_was_sent(self, member: Member):
        claim = await claimed(member)
        await member.store.do(a_commit(claim))
        await member.store.do(RedoRun(claim.id, again=True, by=Actor("me", "code")))
        (again,) = await member.claim()
        assert (again.root, again.committed) == (claim.root, None)
        assert again.sent == {f"{claim.root}-{n}" for n in range(3)}


async def released(member: Member, claim: Claim) -> str | None:
    answer = await member.store.do(ReleaseRun(claim.id, by=Actor("me", "code")))
    assert answer is not None
    return answer.refused


async def query_all(member: Member) -> list[Any]:
    database: Any = member.store.database
    url = f"sqlite:///{database.path}" if member.store.dialect == "sqlite" else database.connections.dsn
    tables = ("wakeful_run", "wakeful_delivery", "wakeful_effect", "wakeful_state", "wakeful_attempt")
    return [sorted(map(str, await query(url, f"select * from {table}"))) for table in tables]


class TestLanes:
    async def test_in_order_and_what_must_wait_lets_the_others_wait(self, member: Member, clock: VirtualClock):
        claim = await claimed(member)
        await member.store.do(a_commit(claim))
        first = await member.store.do(lane(member, most=2))
        assert [one.message for one in first.deliveries] == ['"0"', '"1"']
        results = [
            Delivered(first.deliveries[0].seq, "delivered", 1),
            Delivered(first.deliveries[1].seq, "pending", 1, delay=5 * SECOND, error="{}"),
        ]
        second = await member.store.do(lane(member, token=first.token, results=results))
        assert (second.deliveries, second.next_due) == ([], 5 * SECOND)
        clock.move("5s")
        third = await member.store.do(lane(member))
        assert [(one.message, one.tries) for one in third.deliveries] == [('"1"', 1), ('"2"', 0)]

    async def test_one_process_at_a_time(self, member: Member):
        other = await join(member.store, "other")
        claim = await claimed(member)
        await member.store.do(a_commit(claim))
        mine = await member.store.do(lane(member, most=1))
        assert (await member.store.do(lane(other))).busy
        await other.bury(member)
        taken = await member.store.do(lane(other))
        assert len(taken.deliveries) == 3
        with pytest.raises(ClaimLost):
            await member.store.do(lane(member, token=mine.token))

    async def test_an_old_token_stores_nothing(self, member: Member):
        claim = await claimed(member)
        await member.store.do(a_commit(claim))
        first = await member.store.do(lane(member))
        again = await member.store.do(lane(member))  # the answer to the first was lost
        assert again.token != first.token
        results = [Delivered(one.seq, "delivered", 1) for one in first.deliveries]
        late = await member.store.do(lane(member, token=first.token, results=results))
        assert late.lost
        assert {one["state"] for one in (await state_of(member.store, claim.id))["deliveries"]} == {"pending"}

    async def test_a_process_that_leaves_leaves_its_lanes(self, member: Member):
        from wakeful.stores.verbs.processes import RetireProcess

        other = await join(member.store, "other")
        claim = await claimed(member)
        await member.store.do(a_commit(claim))
        await member.store.do(lane(member))
        await member.store.retire(RetireProcess(member.process))
        assert len((await member.store.do(lane(other))).deliveries) == 3

    async def test_looking_writes_nothing(self, member: Member, store_url: str):
        assert await first_delivery(member.store.database, APP, "ops") is None
        assert await query(store_url, "select * from wakeful_lane") == []


class TestStates:
    def serial(self, member: Member) -> ClaimRuns:
        return ClaimRuns(APP, member.process, lambda: Wanted([(AGENT, 10)]), serial=frozenset({AGENT}))

    async def test_a_claim_that_finds_nothing_writes_nothing(self, member: Member, store_url: str, dialect: str):
        """On a SQLite file every write wakes all other processes, and their claims would wake this one again."""
        # PostgreSQL has no such version; there the row tells which transaction wrote it last.
        sql = "pragma data_version" if dialect == "sqlite" else "select xmin::text, holder from wakeful_state"
        onlooker = Onlooker(store_url)
        try:

            async def unchanged() -> None:
                before = await onlooker.query(sql)
                assert (await member.store.do(self.serial(member))).claims == []
                assert await onlooker.query(sql) == before

            await unchanged()
            assert await onlooker.query("select * from wakeful_state") == []
            await accept(member.store, an_arrival("1"), an_arrival("2"))
            (first,) = (await member.store.do(self.serial(member))).claims
            await unchanged()
            await member.leave(first, "waiting", delay=60 * SECOND)
            await unchanged()
        finally:
            await onlooker.close()

    async def test_one_run_at_a_time_has_it(self, member: Member):
        await accept(member.store, an_arrival("1"), an_arrival("2"))
        (first,) = (await member.store.do(self.serial(member))).claims
        other = await join(member.store, "other")
        assert (await member.store.do(self.serial(other))).claims == []
        await member.store.do(a_commit(first, state=StateChange(APP, AGENT, "", 0, '{"count":1}')))
        (second,) = (await member.store.do(self.serial(other))).claims
        assert second.state is not None
        assert (second.state.value, second.state.version) == ('{"count":1}', 1)

    async def test_a_dead_process_s_run_keeps_it(self, member: Member):
        await accept(member.store, an_arrival("1"), an_arrival("2"))
        (first,) = (await member.store.do(self.serial(member))).claims
        other = await join(member.store, "other")
        await other.bury(member)
        (again,) = (await member.store.do(self.serial(other))).claims
        assert again.id == first.id

    async def test_whoever_read_an_old_version_saves_nothing(self, member: Member):
        await accept(member.store, an_arrival("1"))
        (claim,) = (await member.store.do(self.serial(member))).claims
        await member.store.do(ChangeState(APP, AGENT, "", '{"count":9}', by=Actor("me", "code")))
        before = await query_all(member)
        with pytest.raises(StateChanged):
            await member.store.do(a_commit(claim, state=StateChange(APP, AGENT, "", 0, '{"count":1}')))
        assert await query_all(member) == before
        (state,) = await reader(member.store).states(AGENT)
        assert (state["value"], state["version"], state["changed_by"]) == ({"count": 9}, 1, "me")


async def test_processes_that_deliver_at_once_deliver_all_of_it_once(stores: OpenStore, store_url: str):
    """Two processes take turns on one lane, and nothing is taken by both."""
    members = [await join(await stores(store_url), name) for name in ("one", "two")]
    store: DatabaseStore = members[0].store
    await accept(store, *(an_arrival(str(number)) for number in range(20)))
    for claim in await members[0].claim(most=20):
        await store.do(a_commit(claim))
    taken: list[int] = []
    tokens: list[int | None] = [None, None]
    done: list[list[Delivered]] = [[], []]
    turns = 0
    while turns < 200:
        number = turns % 2
        turns += 1
        answer = await members[number].store.do(
            lane(members[number], most=7, token=tokens[number], results=done[number])
        )
        tokens[number], done[number] = answer.token, []
        for one in answer.deliveries:
            taken.append(one.seq)
            done[number].append(Delivered(one.seq, "delivered", 1))
    assert taken == sorted(taken)
    assert len(taken) == 60
