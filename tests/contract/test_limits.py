"""Limits for all processes together: how many at once, how many within a time, and to each its share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from support.locks import waiting_for_a_lock
from support.stores import AGENT, APP, Member, Onlooker, OpenStore, accept, an_arrival, join, query
from wakeful.clock import SECOND, VirtualClock
from wakeful.model import Claim
from wakeful.rate import Rate
from wakeful.stores.journal import left_over, unclaimed
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.claim import Claimed, Share
from wakeful.stores.verbs.limits import Limit
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.processes import RegisterProcess, peers_of
from wakeful.stores.verbs.progress import FinishRun


async def arrive(store: DatabaseStore, count: int, *, agents: tuple[str, ...] = (AGENT,), first: int = 0) -> None:
    await accept(store, *(an_arrival(str(first + number), agents=agents) for number in range(count)))


async def ask(
    member: Member,
    *agents: str,
    most: int = 10,
    limit: Limit | None = None,
    room: int | None = None,
    shares: dict[str, Share] | None = None,
) -> Claimed:
    request = member.wanting(*agents, most=most, room=room, shares=shares or {})
    request.limits = dict.fromkeys(agents or (AGENT,), limit) if limit is not None else {}
    return await member.store.do(request)


class TestConcurrency:
    LIMIT = Limit(3)

    async def test_counts_what_all_processes_run(self, stores: OpenStore, store_url: str):
        first, second = [await join(await stores(store_url)) for _ in range(2)]
        await arrive(first.store, 10)
        assert len((await ask(first, limit=self.LIMIT, most=2)).claims) == 2
        assert len((await ask(second, limit=self.LIMIT)).claims) == 1
        assert (await ask(first, limit=self.LIMIT)).claims == []

    async def test_a_run_that_ended_or_left_makes_room(self, member: Member):
        await arrive(member.store, 10)
        done, waiting, _ = (await ask(member, limit=self.LIMIT)).claims
        await member.finish(done)
        assert len((await ask(member, limit=self.LIMIT)).claims) == 1
        await member.leave(waiting, "waiting", delay=SECOND)
        assert len((await ask(member, limit=self.LIMIT)).claims) == 1
        assert (await ask(member, limit=self.LIMIT)).claims == []

    async def test_the_runs_of_a_dead_process_count_no_more(self, store: DatabaseStore):
        dead, alive = await join(store), await join(store)
        await arrive(store, 3)
        assert len((await ask(dead, limit=self.LIMIT)).claims) == 3
        await alive.bury(dead)
        assert len((await ask(alive, limit=self.LIMIT)).claims) == 3

    async def test_one_that_must_go_alone_counts_too(self, store: DatabaseStore):
        survivor = await join(store)
        await arrive(store, 1)
        for _ in range(2):
            victim = await join(store)
            assert len(await victim.claim()) == 1
            await survivor.bury(victim)
        await arrive(store, 3, first=1)
        busy = await join(store)
        request = busy.wanting(alone=False)
        request.limits = {AGENT: self.LIMIT}
        assert len((await store.do(request)).claims) == 3
        claimed = await ask(survivor, limit=self.LIMIT)
        assert claimed.claims == []
        assert not claimed.solo_waiting  # nobody is to stop its other work for it

    @pytest.mark.postgres
    async def test_two_that_claim_at_the_same_moment(self, stores: OpenStore, postgres_url: str):
        """Both wait for the same lock; whoever comes second counts what the first has taken."""
        members = [await join(await stores(postgres_url)) for _ in range(2)]
        await arrive(members[0].store, 10)
        await ask(members[0], "nobody", limit=self.LIMIT)
        for member in members:  # both have the row of the limit, and a plan
            await ask(member, limit=Limit(0))
        connection = await asyncpg.connect(postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("select * from wakeful_limit for update")
                claims = [asyncio.ensure_future(ask(member, limit=self.LIMIT)) for member in members]
                await waiting_for_a_lock(postgres_url, like="%wakeful_limit%", sessions=2)
            results = await asyncio.gather(*claims)
        finally:
            await connection.close()
        assert sum(len(one.claims) for one in results) == 3
        running = await query(postgres_url, "select count(*) from wakeful_run where state = 'running'")
        assert running == [(3,)]


class TestRate:
    LIMIT = Limit(rate=Rate.read("3/10s"))

    async def test_no_more_starts_within_the_time(self, stores: OpenStore, store_url: str, clock: VirtualClock):
        first, second = [await join(await stores(store_url), lease="1h") for _ in range(2)]
        await arrive(first.store, 10)
        assert len((await ask(first, limit=self.LIMIT, most=2)).claims) == 2
        clock.move("4s")
        claimed = await ask(second, limit=self.LIMIT)
        assert len(claimed.claims) == 1
        assert claimed.next_due == 6 * SECOND
        clock.move("5s")
        assert (await ask(first, limit=self.LIMIT)).next_due == SECOND
        clock.move("1s")
        claimed = await ask(first, limit=self.LIMIT)
        assert len(claimed.claims) == 2
        assert claimed.next_due == 4 * SECOND

    async def test_what_has_started_before_goes_on(self, member: Member, clock: VirtualClock):
        await arrive(member.store, 10)
        one, two, three = (await ask(member, limit=self.LIMIT)).claims
        await member.leave(one)
        await member.leave(two, "waiting", delay=SECOND)
        again = (await ask(member, limit=self.LIMIT)).claims
        assert [claim.id for claim in again] == [one.id]
        clock.move("1s")
        assert [claim.id for claim in (await ask(member, limit=self.LIMIT)).claims] == [two.id]
        await member.finish(three)
        assert (await ask(member, limit=self.LIMIT)).claims == []

    async def test_what_nobody_looks_at_any_more_is_forgotten(
        self, member: Member, clock: VirtualClock, store_url: str
    ):
        await arrive(member.store, 10)
        await ask(member, limit=self.LIMIT)
        clock.move("10s")
        await ask(member, limit=self.LIMIT)
        assert await query(store_url, "select count(*) from wakeful_start") == [(3,)]

    async def test_together_with_how_many_at_once(self, member: Member, clock: VirtualClock):
        limit = Limit(2, Rate.read("3/10s"))
        await arrive(member.store, 10)
        claims = (await ask(member, limit=limit)).claims
        assert len(claims) == 2
        for claim in claims:
            await member.finish(claim)
        assert len((await ask(member, limit=limit)).claims) == 1

    async def test_an_agent_with_a_state(self, member: Member, clock: VirtualClock):
        limit = Limit(rate=Rate.read("1/10s"))
        await arrive(member.store, 3)

        async def claim() -> list[Claim]:
            request = member.wanting()
            request.limits, request.serial = {AGENT: limit}, frozenset({AGENT})
            return (await member.store.do(request)).claims

        (first,) = await claim()
        await member.leave(first)
        (again,) = await claim()
        assert again.id == first.id
        await member.finish(again)
        assert await claim() == []
        clock.move("10s")
        assert len(await claim()) == 1


class TestNothingIsWrittenWhenNothingMayGo:
    """On a SQLite file a write would wake all other processes, whose claims would then wake this one."""

    @pytest.fixture
    async def others(self, sqlite_url: str) -> AsyncIterator[Onlooker]:
        onlooker = Onlooker(sqlite_url)
        yield onlooker
        await onlooker.close()

    @pytest.mark.parametrize("limit", [Limit(1), Limit(rate=Rate.read("1/h")), Limit(1, Rate.read("1/h"))], ids=str)
    @pytest.mark.parametrize("serial", [False, True])
    async def test_at_a_limit(self, stores: OpenStore, sqlite_url: str, others: Onlooker, limit: Limit, serial: bool):
        member = await join(await stores(sqlite_url))
        await arrive(member.store, 5)

        async def claim() -> list[Claim]:
            request = member.wanting(most=1)
            request.limits, request.serial = {AGENT: limit}, frozenset({AGENT} if serial else ())
            return (await member.store.do(request)).claims

        (first,) = await claim()
        if limit.concurrency is None:
            await member.finish(first)
        before = await others.query("pragma data_version")
        for _ in range(3):
            assert await claim() == []
        assert await others.query("pragma data_version") == before

    async def test_of_what_is_paused(self, stores: OpenStore, sqlite_url: str, others: Onlooker):
        member = await join(await stores(sqlite_url))
        await arrive(member.store, 5)
        await member.store.do(ChangePause(APP, AGENT, paused=True, by=Actor("ada", "code")))
        before = await others.query("pragma data_version")
        assert (await ask(member, limit=Limit(1))).claims == []
        assert await others.query("pragma data_version") == before

    async def test_of_what_is_left_to_others(self, stores: OpenStore, sqlite_url: str, others: Onlooker):
        member = await join(await stores(sqlite_url))
        await arrive(member.store, 4)
        await ask(member, most=64, shares={AGENT: Share(2, 0)})
        before = await others.query("pragma data_version")
        assert (await ask(member, most=62, shares={AGENT: Share(2, 2)})).left == {AGENT}
        assert await others.query("pragma data_version") == before


class TestPriorities:
    async def test_the_longest_due_of_all_agents_go_first(self, member: Member, store_url: str, clock: VirtualClock):
        await accept(member.store, *(an_arrival(str(number), agents=("low",)) for number in range(4)))
        clock.move("1s")
        await accept(member.store, *(an_arrival(str(number), agents=("high",)) for number in range(10, 14)))
        await query(store_url, "update wakeful_run set due_at = due_at - 1800000000 where agent = 'high' and seq < 7")
        claimed = await ask(member, "low", "high", most=3, room=3)
        assert sorted(claim.agent for claim in claimed.claims) == ["high", "high", "low"]
        assert dict(claimed.asked) == {"low": 1, "high": 2}  # there is more of both
        claimed = await ask(member, "low", "high", most=10, room=10)
        assert sorted(claim.agent for claim in claimed.claims) == ["high", "high", "low", "low", "low"]

    async def test_an_agent_at_its_limit_takes_no_room(self, member: Member):
        await arrive(member.store, 4, agents=("free", "full"))
        request = member.wanting("free", "full", most=3, room=3)
        request.limits = {"full": Limit(1)}
        claims = (await member.store.do(request)).claims
        assert sorted(claim.agent for claim in claims) in (["free", "free", "free"], ["free", "free", "full"])
        await member.claim("full", most=1)
        request = member.wanting("free", "full", most=3, room=3)
        request.limits = {"full": Limit(1)}
        claimed = await member.store.do(request)
        assert {claim.agent for claim in claimed.claims} == {"free"}
        assert ("full", 0) not in claimed.asked  # or it would be asked for again and again


class TestShares:
    async def test_each_takes_its_part_of_little(self, stores: OpenStore, store_url: str):
        first, second = [await join(await stores(store_url)) for _ in range(2)]
        await arrive(first.store, 20)
        claimed = await ask(first, most=64, shares={AGENT: Share(2, 0)})
        assert len(claimed.claims) == 10
        assert claimed.left == {AGENT}
        assert len((await ask(first, most=54, shares={AGENT: Share(2, 10)})).claims) == 0
        claimed = await ask(second, most=64, shares={AGENT: Share(2, 0)})
        assert len(claimed.claims) == 10
        assert claimed.left == frozenset()

    async def test_and_all_that_it_has_room_for_where_there_is_plenty(self, member: Member):
        await arrive(member.store, 40)
        claimed = await ask(member, most=20, shares={AGENT: Share(2, 44)})
        assert len(claimed.claims) == 20
        assert claimed.left == frozenset()

    async def test_a_single_run_is_left_to_nobody(self, member: Member):
        await arrive(member.store, 1)
        assert len((await ask(member, most=64, shares={AGENT: Share(8, 0)})).claims) == 1

    async def test_places_of_a_limited_agent_are_shared(self, member: Member):
        await arrive(member.store, 100)
        claimed = await ask(member, most=64, limit=Limit(4), shares={AGENT: Share(2, 0)})
        assert len(claimed.claims) == 2
        assert claimed.left == {AGENT}

    async def test_who_shares(self, stores: OpenStore, store_url: str, clock: VirtualClock):
        store = await stores(store_url)
        for name, app, agents in (("a", APP, ["x", "y"]), ("b", APP, ["y"]), ("c", "other", ["x"])):
            await store.register(RegisterProcess(name, "host", 1, 15 * SECOND, app, agents))
        await store.register(RegisterProcess("gone", "host", 1, SECOND, APP, ["x"]))
        clock.move("2s")
        assert await peers_of(store.database, APP, "a") == {"y": 1}
        assert await peers_of(store.database, APP, "b") == {"x": 1, "y": 1}


class TestWhatOthersAreTold:
    """On PostgreSQL a word goes to the other processes with the commit."""

    def a_claim(self, limited: bool = True) -> Claim:
        return Claim(1, "1", "1", AGENT, 1, "p", 0, 0, 0, 0, 0, True, None, "{}", app=APP, limited=limited)

    def claimed(self, *claims: Claim, left: frozenset[str] = frozenset()) -> Claimed:
        return Claimed(list(claims), [], None, solo_waiting=False, left=left)

    def test_a_place_that_is_free(self):
        assert unclaimed([FinishRun(self.a_claim(), "done")], [None]) == f"{APP} {AGENT}"

    def test_not_one_that_was_never_limited(self):
        assert unclaimed([FinishRun(self.a_claim(limited=False), "done")], [None]) is None

    def test_not_one_that_was_taken_at_once(self, any_request: Any):
        requests = [FinishRun(self.a_claim(), "done"), any_request]
        assert unclaimed(requests, [None, self.claimed(self.a_claim())]) is None

    def test_what_was_left_to_them(self, any_request: Any):
        assert left_over([any_request], [self.claimed(self.a_claim(), left=frozenset({AGENT}))]) == [(APP, AGENT)]

    def test_but_not_without_having_taken_something(self, any_request: Any):
        """Two that leave everything to each other would talk about it for ever."""
        assert left_over([any_request], [self.claimed(left=frozenset({AGENT}))]) == []

    def test_one_that_joined(self):
        assert unclaimed([RegisterProcess("p", "host", 1, 1, APP, [AGENT])], [None]) == APP

    @pytest.fixture
    def any_request(self) -> Any:
        return Member(None, "p").wanting()  # type: ignore[arg-type]  # nobody asks the store
