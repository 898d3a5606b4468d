"""A process on PostgreSQL that is not connected any more: what others may take over before its lease is, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from support.session_pooler import SessionPooler
from support.stores import APP, Member, OpenStore, a_step, accept, an_arrival, join, query, reader
from wakeful.clock import SECOND, SystemClock, VirtualClock
from wakeful.errors import ClaimLost
from wakeful.execution.lease import Membership, Presence
from wakeful.execution.reaper import Reaper
from wakeful.model import Claim, Effect
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.stores.opening import open_database
from wakeful.stores.postgres_presence import PostgresPresence
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.processes import TakeOver
from wakeful.testing.postgres_server import PostgresServer
from wakeful.testing.waiting import until

pytestmark = pytest.mark.postgres

GUARD = 4_711
SERVER = "cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint)"


@dataclass
class Two:
    """A process that is gone, or looks so, and one that looks. The first has two runs: one in the middle of a call."""

    url: str
    first: Member
    second: Member
    calls: Claim
    works: Claim
    effect: Effect

    async def guard(self, guard: int | None = GUARD, server: str = SERVER) -> None:
        await query(
            self.url,
            f"update wakeful_process set guard = $1, guard_server = {server} where id = $2",
            guard,
            self.first.process,
        )

    async def take_over(self, guard: int = GUARD) -> int:
        return await self.second.store.do(TakeOver(self.first.process, guard))

    async def runs(self) -> dict[str, tuple[str, int]]:
        found = [await reader(self.second.store).run(claim.id) for claim in (self.calls, self.works)]
        return {
            name: (run["state"], run["crashes"]) for name, run in zip(("calls", "works"), found, strict=True) if run
        }


@pytest.fixture
async def two(stores: OpenStore, postgres_url: str) -> Two:
    first, second = await join(await stores(postgres_url), "first"), await join(await stores(postgres_url), "second")
    await accept(first.store, an_arrival("1"), an_arrival("2"))
    calls, works = await first.claim()
    effect = Effect("x", "charge", "m:charge", "idempotent", "intent", "[]")
    await first.store.do(OpenEffect(calls, APP, effect, Judgement(ALLOWED)))
    return Two(postgres_url, first, second, calls, works, effect)


class TestTakingOver:
    async def test_runs_without_a_call_under_way_at_once_and_the_others_after_the_lease(
        self, two: Two, clock: VirtualClock
    ):
        await two.guard()
        assert await two.take_over() == 1
        assert await two.runs() == {"calls": ("running", 0), "works": ("ready", 1)}
        reaper = Reaper(two.second.store, lambda: two.second.process)
        await reaper.run_once()
        assert await two.runs() == {"calls": ("running", 0), "works": ("ready", 1)}, "its lease is good"
        assert await two.second.renew_in_thread("60s")
        clock.move("15s")
        await reaper.run_once()
        assert await two.runs() == {"calls": ("ready", 1), "works": ("ready", 1)}
        clock.move("15s")
        await reaper.run_once()
        assert await two.runs() == {"calls": ("ready", 1), "works": ("ready", 1)}, "it was buried twice"

    async def test_from_then_on_its_writes_are_refused(self, two: Two):
        await two.guard()
        await two.take_over()
        for claim in (two.calls, two.works):
            with pytest.raises(ClaimLost):
                await two.first.save(claim, a_step("late:"))
            with pytest.raises(ClaimLost):
                await two.first.finish(claim)
        with pytest.raises(ClaimLost):
            await two.first.store.do(OpenEffect(two.works, APP, two.effect, Judgement(ALLOWED)))
        two.effect.state, two.effect.tries = "confirmed", 1
        with pytest.raises(ClaimLost):
            await two.first.store.do(SaveEffect(two.calls, two.effect))
        assert not await two.first.renew_in_thread()
        (claim,) = await two.second.claim()
        assert (claim.id, claim.steps) == (two.works.id, [])

    async def test_a_write_that_waits_meanwhile_is_refused_too(self, two: Two):
        """It began before, and would see what was true then."""
        await two.guard()
        connection = await asyncpg.connect(two.url)
        try:
            burial = connection.transaction()
            await burial.start()
            await connection.execute("select 1 from wakeful_process where id = $1 for update", two.first.process)
            late = asyncio.create_task(two.first.save(two.works, a_step("late:")))
            await until(lambda: waits(two.url))
            await connection.execute("update wakeful_process set state = 'dead' where id = $1", two.first.process)
            await connection.execute(
                "update wakeful_run set token = token + 1, owner = null, state = 'ready' where seq = $1", two.works.seq
            )
            await burial.commit()
            with pytest.raises(ClaimLost):
                await late
        finally:
            await connection.close()

    async def test_not_while_its_lock_is_held(self, two: Two):
        await two.guard()
        connection = await asyncpg.connect(two.url)
        try:
            await connection.execute("select pg_advisory_lock($1)", GUARD)
            assert await two.take_over() == 0
        finally:
            await connection.close()
        assert await two.runs() == {"calls": ("running", 0), "works": ("running", 0)}

    @pytest.mark.parametrize("what", ["another", "none", "server"])
    async def test_not_by_a_lock_that_it_does_not_have(self, two: Two, what: str):
        """It has connected again meanwhile; or it never had one; or the server was restarted, and all locks are free."""
        match what:
            case "another":
                await two.guard(GUARD + 1)
            case "none":
                await two.guard(None)
            case _:
                await two.guard(server=f"{SERVER} - 1")
        assert await two.take_over() == 0
        assert await two.runs() == {"calls": ("running", 0), "works": ("running", 0)}

    async def test_only_once(self, two: Two):
        await two.guard()
        await asyncio.gather(*(two.take_over() for _ in range(4)))
        assert await two.take_over() == 0
        assert await two.runs() == {"calls": ("running", 0), "works": ("ready", 1)}


async def waits(url: str) -> list[Any]:
    return list(
        await query(
            url, "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
    )


@pytest.fixture
async def present(stores: OpenStore, postgres_url: str) -> Member:
    return await join(await stores(postgres_url, clock=SystemClock()), "present", lease="1h")


@pytest.fixture
def presence(present: Member) -> Iterator[Any]:
    found = present.store.database.presence()
    yield found
    found.close()


class TestPresence:
    async def test_it_has_a_lock_which_is_free_when_it_is_gone(
        self, stores: OpenStore, postgres_url: str, present: Member
    ):
        looking = await join(await stores(postgres_url, clock=SystemClock()), "looking", lease="1h")

        def look() -> tuple[list[Any], list[Any]]:
            first, second = present.store.database.presence(), looking.store.database.presence()
            assert isinstance(first, Presence)
            assert isinstance(second, Presence)
            try:
                assert first.renew(present.process, 3600 * SECOND)
                assert second.renew(looking.process, 3600 * SECOND)
                assert second.looks
                held = second.gone(looking.process)
                first.close()
                while not (free := second.gone(looking.process)):
                    pass  # the server notices in a moment
                return held, free
            finally:
                second.close()

        held, free = await asyncio.to_thread(look)
        ((guard,),) = await query(postgres_url, "select guard from wakeful_process where id = $1", present.process)
        assert (held, free) == ([], [(present.process, guard)])

    async def test_nobody_looks_who_is_alone(self, present: Member, presence: PostgresPresence):
        assert await asyncio.to_thread(presence.renew, present.process, 3600 * SECOND)
        assert not presence.looks

    async def test_behind_a_pooler_it_lives_by_its_lease(
        self, present: Member, postgres_url: str, postgres_server: PostgresServer
    ):
        async with SessionPooler("127.0.0.1", postgres_server.port) as pooler:
            through = postgres_server.dsn(postgres_url.rpartition("/")[2], port=pooler.port)
            database = open_database(postgres_url, SystemClock(), listen=through)

            def renew() -> None:
                presence = database.presence()
                assert presence.renew(present.process, 3600 * SECOND)
                assert presence.renew(present.process, 3600 * SECOND)
                presence.close()

            await asyncio.to_thread(renew)
            assert await query(postgres_url, "select guard from wakeful_process") == [(None,)]
            assert await query(postgres_url, "select 1 from pg_locks where locktype = 'advisory'") == []

    async def test_it_ends_at_once_however_long_its_lease_is(self, postgres_url: str, present: Member):
        membership = Membership(present.store, present.store.database.presence, lease=3600 * SECOND)
        await membership.join()
        await until(lambda: query(postgres_url, "select 1 from wakeful_process where guard is not null"))
        async with asyncio.timeout(30):
            await membership.leave()
