"""Processes: their leases, what becomes of the runs of one that died, and how that is noticed."""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
import sys
import textwrap
import threading
from typing import Any

import apsw
import pytest

from support.stores import APP, Member, OpenStore, a_step, accept, an_arrival, join, query, reader, state_of
from wakeful.clock import SECOND, VirtualClock, duration
from wakeful.errors import ClaimLost, StoreUnavailable
from wakeful.execution.lease import Membership
from wakeful.execution.reaper import LOOK_AGAIN_AFTER, Reaper
from wakeful.model import run_id
from wakeful.stores.database import Renewer
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess, RetireProcess, other_processes

RUN = run_id(APP, "agent", "/test", "1")


class TestBurial:
    async def test_its_runs_are_ready_again_and_the_crash_is_counted(self, member: Member, clock: VirtualClock):
        victim = await join(member.store, "victim")
        await accept(member.store, an_arrival())
        claim = await victim.claim_one()
        await victim.save(claim, a_step(result="1"))
        clock.move("5s")
        assert await member.bury(victim) == 1
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["crashes"], run["attempts"], run["owner"]) == ("ready", 1, 0, None)
        assert run["token"] > claim.token
        assert run["reason"] == "its process died"
        (attempt,) = run["history"]
        assert (attempt["outcome"], attempt["process"], attempt["claim"]) == ("crashed", victim.process, claim.token)
        again = await member.claim_one()
        assert again.token > claim.token
        assert (again.crashes, again.attempts, again.first_start) == (1, 0, False)
        assert [step.result for step in again.steps] == ["1"]

    async def test_it_touches_only_the_runs_in_that_processs_hands(self, member: Member):
        victim = await join(member.store, "victim")
        await accept(member.store, *(an_arrival(str(number)) for number in range(6)))
        mine = await member.claim(most=2)
        his = await victim.claim(most=2)
        await victim.finish(his[0])
        assert await member.bury(victim) == 1
        states = {run["id"]: run["state"] for run in (await reader(member.store).runs())["runs"]}
        assert sorted(states.values()) == ["done", "ready", "ready", "ready", "running", "running"]
        assert all(states[claim.id] == "running" for claim in mine)
        assert states[his[1].id] == "ready"

    async def test_many_that_bury_at_once_count_one_crash(self, stores: OpenStore, store_url: str):
        members = [await join(await stores(store_url)) for _ in range(3)]
        victim = await join(await stores(store_url), "victim")
        await accept(victim.store, an_arrival())
        await victim.claim_one()
        counts = await asyncio.gather(*(member.bury(victim) for member in members))
        assert sorted(counts) == [0, 0, 1]
        assert (await state_of(members[0].store, RUN))["crashes"] == 1

    async def test_the_same_burial_twice_in_one_transaction_counts_once(self, member: Member):
        victim = await join(member.store, "victim")
        await accept(member.store, an_arrival())
        await victim.claim_one()
        await asyncio.gather(member.bury(victim), member.bury(victim))
        assert (await state_of(member.store, RUN))["crashes"] == 1

    async def test_a_lease_that_is_good_protects_unless_the_death_is_certain(self, member: Member, clock: VirtualClock):
        other = await join(member.store, "other")
        clock.move("14s")
        assert await member.bury(other, certain=False) == 0
        assert await other.renew_in_thread()
        clock.move("14s")
        assert await member.bury(other, certain=False) == 0
        assert await other.renew_in_thread()
        await member.bury(other, certain=True)
        assert not await other.renew_in_thread()

    async def test_one_that_said_goodbye_is_not_buried(self, member: Member):
        other = await join(member.store, "other")
        await member.store.retire(RetireProcess(other.process))
        assert await member.bury(other) == 0
        states = {process["id"]: process["state"] for process in await reader(member.store).processes()}
        assert states == {member.process: "alive", other.process: "stopped"}
        with pytest.raises(ClaimLost):
            await other.claim()

    async def test_one_that_said_goodbye_is_not_among_the_others(self, member: Member):
        other = await join(member.store, "other")
        gone = await join(member.store, "gone")
        await member.store.retire(RetireProcess(gone.process))
        assert [process for process, _, _ in await other_processes(member.store.database, member.process)] == [
            other.process
        ]


class TestForget:
    async def test_what_is_known_is_kept(self, member: Member):
        await accept(member.store, an_arrival("1"), an_arrival("2"))
        known, unknown = await member.claim()
        assert await member.forget(known.id) == 1
        assert (await state_of(member.store, known.id))["state"] == "running"
        run = await state_of(member.store, unknown.id)
        assert (run["state"], run["crashes"], run["attempts"], run["history"]) == ("ready", 0, 0, [])
        assert await member.forget(known.id) == 0

    async def test_it_touches_only_its_own(self, member: Member):
        other = await join(member.store, "other")
        await accept(member.store, an_arrival())
        await other.claim_one()
        assert await member.forget() == 0
        assert (await state_of(member.store, RUN))["owner"] == other.process

    async def test_a_buried_process_forgets_nothing(self, member: Member):
        other = await join(member.store, "other")
        await member.bury(other)
        with pytest.raises(ClaimLost):
            await other.forget()


class TestReaper:
    async def test_it_buries_whose_lease_ran_out_and_says_when_to_look_again(
        self, stores: OpenStore, postgres_url: str, clock: VirtualClock
    ):
        member = await join(await stores(postgres_url), lease="60s")
        other = await join(await stores(postgres_url), "other", lease="3s")
        await accept(member.store, an_arrival())
        await other.claim_one()
        reaper = Reaper(member.store, lambda: member.process)
        assert await reaper.run_once() == pytest.approx(3.02)
        clock.move("3s")
        assert await reaper.run_once() == LOOK_AGAIN_AFTER  # is it gone?
        assert await reaper.run_once() == 5.0
        assert (await state_of(member.store, RUN))["crashes"] == 1
        assert await other_processes(member.store.database, member.process) == []

    async def test_it_never_buries_itself(self, member: Member, clock: VirtualClock):
        clock.move("60s")
        await Reaper(member.store, lambda: member.process).run_once()
        assert await member.renew_in_thread()


class HeldRenewer:
    """A renewer that tells when it is asked, and answers what the test says."""

    def __init__(self, inner: Renewer) -> None:
        self.inner = inner
        self.renewed = threading.Semaphore(0)
        self.unavailable = 0

    def renew(self, process: str, lease: int) -> bool:
        if self.unavailable:
            self.unavailable -= 1
            self.renewed.release()
            raise StoreUnavailable("gone")
        alive = self.inner.renew(process, lease)
        self.renewed.release()
        return alive

    def write(self, name: str, *parameters: object) -> None:
        self.inner.write(name, *parameters)

    def close(self) -> None:
        self.inner.close()

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.renewed.acquire, timeout=30)


class TestLeaseKeeper:
    """A thread of its own renews the lease, whatever the event loop and the journal are doing."""

    async def test_it_renews_while_the_event_loop_is_blocked(
        self, store: DatabaseStore, store_url: str, clock: VirtualClock
    ):
        renewer = HeldRenewer(store.database.renewer())
        membership = Membership(store, lambda: renewer, lease=duration("30ms"))
        await membership.join()
        try:
            ((before,),) = await query(store_url, "select lease_until from wakeful_process")
            clock.move("1s")
            assert renewer.renewed.acquire(timeout=30)  # no await here: the event loop stands still
            assert renewer.renewed.acquire(timeout=30)
            ((after,),) = await query(store_url, "select lease_until from wakeful_process")
            assert after == before + SECOND
        finally:
            await membership.leave()
        assert [process["state"] for process in await reader(store).processes()] == ["stopped"]

    async def test_its_own_deadline_is_counted_from_before_the_renewal_was_sent(self, store: DatabaseStore):
        membership = Membership(store, store.database.renewer, lease=duration("60s"))
        await membership.join()
        try:
            assert 0 < membership.left() <= 60
        finally:
            await membership.leave()

    async def test_it_goes_on_after_the_store_was_unavailable(self, store: DatabaseStore):
        renewer = HeldRenewer(store.database.renewer())
        renewer.unavailable = 2
        membership = Membership(store, lambda: renewer, lease=duration("30ms"))
        await membership.join()
        try:
            for _ in range(3):
                await renewer.wait()
            assert renewer.unavailable == 0
        finally:
            await membership.leave()

    async def test_one_that_was_declared_dead_is_told(self, store: DatabaseStore):
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        membership = Membership(store, store.database.renewer, lease=duration("30ms"), on_lost=lost.set_result)
        await membership.join()
        try:
            await store.do(BuryProcess(membership.process, certain=True))
            assert await lost == membership.process
        finally:
            await membership.leave()

    async def test_every_join_is_under_a_new_identity(self, store: DatabaseStore):
        membership = Membership(store, store.database.renewer)
        seen = set()
        for _ in range(3):
            await membership.join()
            seen.add(membership.process)
            await membership.leave()
        assert len(seen) == 3


class TestFileLock:
    """On SQLite a process holds a file lock, which the kernel lets go when it dies: a restart takes over at once."""

    CHILD = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from wakeful.clock import SystemClock
        from wakeful.stores.verbs.claim import ClaimRuns, Wanted
        from wakeful.stores.verbs.processes import RegisterProcess
        from wakeful.stores.sqlite import SqliteBackend
        from wakeful.stores.store import DatabaseStore

        async def main():
            store = DatabaseStore(SqliteBackend(Path(sys.argv[1]), SystemClock()))
            await store.open(migrate=True)
            await store.register(RegisterProcess("child", "host", 1, 3_600_000_000))
            claimed = await store.do(ClaimRuns("app", "child", lambda: Wanted([("agent", 1)])))
            print("holding", len(claimed.claims), flush=True)
            sys.stdin.read()

        asyncio.run(main())
        """
    )

    async def test_the_runs_of_a_killed_process_are_taken_over_at_once(
        self, stores: OpenStore, sqlite_url: str, tmp_path
    ):
        from wakeful.clock import SystemClock

        store = await stores(sqlite_url, clock=SystemClock())
        await accept(store, an_arrival())
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            self.CHILD,
            str(tmp_path / "wakeful.db"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"holding 1\n"
            member = await join(store)
            reaper = Reaper(store, lambda: member.process)
            await reaper.run_once()
            assert [certain for _, _, certain in await other_processes(store.database, member.process)] == [False]
            child.kill()
            await child.wait()
            await reaper.run_once()  # its lease is good for an hour
            assert [claim.crashes for claim in await member.claim()] == [1]
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()

    async def test_a_process_that_lives_is_seen_through_another_store_in_this_process(
        self, stores: OpenStore, sqlite_url: str
    ):
        one, other = await join(await stores(sqlite_url)), await join(await stores(sqlite_url))
        assert [certain for _, _, certain in await other_processes(one.store.database, one.process)] == [False]
        database: Any = other.store.database
        database.locks.let_go(other.process)  # as the kernel does when it dies
        assert [certain for _, _, certain in await other_processes(one.store.database, one.process)] == [True]

    async def test_a_death_stays_certain_until_it_is_written_down(self, stores: OpenStore, sqlite_url: str, tmp_path):
        """Whoever saw it first may die before it has buried anybody."""
        first, second, dead = [await join(await stores(sqlite_url)) for _ in range(3)]
        database: Any = dead.store.database
        database.locks.let_go(dead.process)
        for member in (first, second):
            seen = {
                process: certain for process, _, certain in await other_processes(member.store.database, member.process)
            }
            assert seen[dead.process] is True
        await second.store.do(BuryProcess(dead.process, certain=True))
        await other_processes(second.store.database, second.process)
        left = {path.name for path in (tmp_path / "wakeful.db-processes").iterdir()}
        assert left == {first.process, second.process}, "a lock is of no use once its process is buried"

    async def test_a_process_that_could_not_say_goodbye_is_known_to_be_gone(
        self, stores: OpenStore, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        one, other = await join(await stores(sqlite_url)), await join(await stores(sqlite_url))

        async def fail(_: Any) -> None:
            raise StoreUnavailable

        monkeypatch.setattr(other.store.journal, "submit", fail)
        with pytest.raises(StoreUnavailable):
            await other.store.retire(RetireProcess(other.process))
        await other.store.database.close()
        assert [certain for _, _, certain in await other_processes(one.store.database, one.process)] == [True]

    async def test_who_tidies_up_does_not_take_the_lock_of_one_that_is_about_to_hold_it(
        self, stores: OpenStore, sqlite_url: str, tmp_path, monkeypatch: pytest.MonkeyPatch
    ):
        one, joining = await join(await stores(sqlite_url)), await stores(sqlite_url)
        lock, tidied = fcntl.flock, []

        def tidy_first(handle: int, how: int) -> None:
            if how == fcntl.LOCK_EX and not tidied:
                tidied.append(handle)
                tidying: Any = one.store.database
                tidying.tidy_locks({one.process})
            lock(handle, how)

        monkeypatch.setattr(fcntl, "flock", tidy_first)
        await joining.register(RegisterProcess("joining", "host", 1, SECOND))
        assert tidied
        assert (tmp_path / "wakeful.db-processes" / "joining").exists()
        assert [certain for _, _, certain in await other_processes(one.store.database, one.process)] == [False]

    async def test_a_lock_that_somebody_tidied_away_is_no_sign_of_death(
        self, stores: OpenStore, sqlite_url: str, tmp_path
    ):
        one, other = await join(await stores(sqlite_url)), await join(await stores(sqlite_url))
        (tmp_path / "wakeful.db-processes" / other.process).unlink()
        assert await other_processes(one.store.database, one.process) == [(other.process, duration("15s"), False)]

    async def test_no_lock_is_left_behind(self, stores: OpenStore, sqlite_url: str, tmp_path):
        member = await join(await stores(sqlite_url))
        assert (tmp_path / "wakeful.db-processes").exists()
        await member.store.retire(RetireProcess(member.process))
        assert not (tmp_path / "wakeful.db-processes").exists()

    async def test_a_failed_registration_holds_no_lock(self, stores: OpenStore, sqlite_url: str, tmp_path):
        store = await stores(sqlite_url)
        with pytest.raises(apsw.ConstraintError):
            await store.register(RegisterProcess("bad", "host", "not a number", 1))  # type: ignore[arg-type]
        assert not (tmp_path / "wakeful.db-processes" / "bad").exists()
