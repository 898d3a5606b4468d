"""What the owner of a run writes is fenced: a stale holder, or one that was declared dead, can commit nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from support.locks import waiting_for_a_lock
from support.stores import Member, OpenStore, a_step, accept, an_arrival, join, query, reader, state_of, steps_of
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import ClaimLost, StoreUnavailable
from wakeful.model import WENT_WELL, Claim
from wakeful.stores.alarm import Alarm
from wakeful.stores.journal import whole
from wakeful.stores.postgres import session_name
from wakeful.stores.request import Request
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import ClaimRuns, ForgetRuns, Wanted
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.progress import FinishRun, LeaveRun, SaveSteps

Write = Callable[[Member, Claim], Awaitable[object]]

WRITES: dict[str, Write] = {
    "save": lambda member, claim: member.save(claim, a_step("late:")),
    "finish": lambda member, claim: member.finish(claim),
    "leave": lambda member, claim: member.leave(claim, "waiting", delay=SECOND, steps=[a_step("late:")]),
    "emit": lambda member, claim: member.store.do(
        AcceptEvents("app", [an_arrival("emitted")], claim=claim, step=a_step("late:"))
    ),
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


async def claimed(member: Member) -> Claim:
    await accept(member.store, an_arrival())
    return await member.claim_one()


class TestOwner:
    async def test_steps_are_stored(self, member: Member):
        claim = await claimed(member)
        await member.save(claim, a_step("one:", result="1"), a_step("two:", result="2"))
        await member.save(claim, a_step("three:", result="3"))
        assert await steps_of(member.store, claim.id) == {"one:": 1, "two:": 2, "three:": 3}

    async def test_a_step_that_was_tried_again_becomes_done(self, member: Member):
        claim = await claimed(member)
        await member.save(claim, a_step(state="retrying", result="17", error='{"message": "not yet"}'))
        await member.save(claim, a_step(result='"done"', tries=2))
        (step,) = (await state_of(member.store, claim.id))["steps"]
        assert (step["state"], step["result"], step["tries"], step["error"]) == ("done", "done", 2, None)

    async def test_a_finished_run_tells_how_it_ended(self, member: Member, clock: VirtualClock):
        claim = await claimed(member)
        clock.move("3s")
        await member.finish(claim, output='{"answer": 42}', outcome=WENT_WELL)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["output"], run["owner"], run["error"]) == ("done", {"answer": 42}, None, None)
        assert run["outcome"] == {
            "execution": "ok",
            "verification": "none",
            "commit": "committed",
            "delivery": "none",
            "silent_by_choice": False,
        }
        assert run["history"] == []

    @pytest.mark.parametrize("state", ["dead", "denied", "cancelled"])
    async def test_an_unhappy_end_is_an_attempt_with_its_error(self, member: Member, state):
        claim = await claimed(member)
        await member.finish(claim, state, error='{"message": "no"}', reason="because", failed=state == "dead")
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["error"], run["reason"]) == (state, {"message": "no"}, "because")
        (attempt,) = run["history"]
        assert (attempt["outcome"], attempt["error"], attempt["process"], attempt["claim"]) == (
            state, {"message": "no"}, member.process, 1,
        )  # fmt: skip

    async def test_a_dead_letter_opens_its_alarm_in_the_same_transaction(self, member: Member):
        claim = await claimed(member)
        before = member.store.journal.transactions
        await member.finish(claim, "dead", alarm=Alarm("app", "dead/app/agent/x", "a run is dead"))
        assert member.store.journal.transactions == before + 1
        (alarm,) = (await reader(member.store).alarms())["alarms"]
        assert (alarm["key"], alarm["state"], alarm["text"], alarm["count"]) == (
            "dead/app/agent/x", "open", "a run is dead", 1,
        )  # fmt: skip

    async def test_an_expired_end_is_shown_on_the_admission(self, member: Member):
        claim = await claimed(member)
        await member.finish(claim, "cancelled", expired=True, reason="too late")
        event = await reader(member.store).event("1")
        assert event is not None
        (admission,) = event["admissions"]
        assert (admission["state"], admission["reason"], admission["run"]) == ("expired", "too late", claim.id)

    async def test_leaving_counts_failures_only_where_told(self, member: Member):
        claim = await claimed(member)
        await member.leave(claim)
        await member.leave(await member.claim_one(), "ready", outcome="retried", failed=True, error='{"message": "no"}')
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["attempts"]) == ("ready", 1)
        assert [attempt["outcome"] for attempt in run["history"]] == ["released", "retried"]

    async def test_leaving_forgets_the_failed_steps_it_names_and_no_others(self, member: Member):
        claim = await claimed(member)
        await member.save(
            claim,
            a_step("done:", result="1"),
            a_step("caught:", state="failed", result=None, error='{"message": "a"}'),
            a_step("fatal:", state="failed", result=None, error='{"message": "b"}'),
        )
        await member.leave(claim, clear=["fatal:", "done:"], failed=True)
        steps = {step["key"] for step in (await state_of(member.store, claim.id))["steps"]}
        assert steps == {"done:", "caught:"}

    async def test_a_lost_claim_concerns_one_caller_and_never_its_neighbours(self, member: Member):
        await accept(member.store, *(an_arrival(str(number)) for number in range(4)))
        claims = await member.claim()
        for claim in claims[:2]:
            await member.leave(claim)
        await member.claim()  # under new tokens: the first two claims are stale
        before = member.store.journal.transactions
        answers = await asyncio.gather(*(member.save(claim, a_step()) for claim in claims), return_exceptions=True)
        assert [type(answer) for answer in answers] == [ClaimLost, ClaimLost, type(None), type(None)]
        assert member.store.journal.transactions == before + 1


class TestStale:
    @every_write
    async def test_an_old_token_commits_nothing(self, member: Member, write: Write):
        old = await claimed(member)
        await member.leave(old)
        new = await member.claim_one()
        await member.save(new, a_step("kept:", result="1"))
        with pytest.raises(ClaimLost):
            await write(member, old)
        run = await state_of(member.store, new.id)
        assert (run["state"], run["token"], run["owner"]) == ("running", new.token, member.process)
        assert await steps_of(member.store, new.id) == {"kept:": 1}
        assert await reader(member.store).event("emitted") is None
        await member.finish(new)

    @every_write
    async def test_a_buried_process_commits_nothing(self, member: Member, write: Write):
        zombie = await join(member.store, "zombie")
        claim = await claimed(zombie)
        assert await member.bury(zombie) == 1
        with pytest.raises(ClaimLost, match="declared dead"):
            await write(zombie, claim)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["steps"]) == ("ready", [])
        assert await reader(member.store).event("emitted") is None

    @every_write
    async def test_a_buried_process_commits_nothing_after_another_took_over(self, member: Member, write: Write):
        zombie = await join(member.store, "zombie")
        claim = await claimed(zombie)
        await member.bury(zombie)
        taken = await member.claim_one()
        assert taken.token > claim.token
        with pytest.raises(ClaimLost):
            await write(zombie, claim)
        await member.finish(taken, output="1")
        with pytest.raises(ClaimLost):
            await write(zombie, claim)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["output"], run["steps"]) == ("done", 1, [])

    async def test_a_buried_process_claims_nothing(self, member: Member):
        zombie = await join(member.store, "zombie")
        await member.bury(zombie)
        await accept(member.store, an_arrival())
        with pytest.raises(ClaimLost):
            await zombie.claim()
        assert len(await member.claim()) == 1

    async def test_a_process_that_never_joined_claims_nothing(self, member: Member):
        await accept(member.store, an_arrival())
        with pytest.raises(ClaimLost):
            await Member(member.store, "nobody").claim()

    async def test_a_run_that_does_not_exist_is_a_lost_claim(self, member: Member):
        claim = await claimed(member)
        claim.seq += 1000
        with pytest.raises(ClaimLost):
            await member.save(claim, a_step())


class TestLeaseRunOut:
    """A lease that ran out while nobody noticed may still be renewed: such a writer waits, and loses nothing."""

    REQUESTS: tuple[tuple[str, Callable[[Member, Claim], object]], ...] = (
        ("save", lambda _, claim: SaveSteps(claim, [a_step()])),
        ("finish", lambda _, claim: FinishRun(claim, "done")),
        ("leave", lambda _, claim: LeaveRun(claim, "ready", "released")),
        ("forget", lambda member, _: ForgetRuns(member.process, frozenset())),
        ("claim", lambda member, _: ClaimRuns("app", member.process, lambda: Wanted([("agent", 1)]))),
    )

    @pytest.mark.parametrize("request_of", [make for _, make in REQUESTS], ids=[name for name, _ in REQUESTS])
    async def test_the_write_is_refused_as_unavailable_and_stores_nothing(
        self, member: Member, clock: VirtualClock, request_of
    ):
        claim = await claimed(member)
        await accept(member.store, an_arrival("2"))
        clock.move("15s")
        with pytest.raises(StoreUnavailable, match="lease"):
            await member.store.journal.submit(request_of(member, claim))
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["owner"], run["steps"]) == ("running", member.process, [])

    async def test_a_run_in_flight_waits_for_the_renewal_and_goes_on(self, member: Member, clock: VirtualClock):
        claim = await claimed(member)
        clock.move("15s")
        with capture_logs() as logs:
            saving = asyncio.ensure_future(member.save(claim, a_step(result="1")))
            while not logs:  # until it has been refused once and said that it waits
                await asyncio.sleep(0)
            assert not saving.done()
            assert await member.renew_in_thread()
            await saving
        assert await steps_of(member.store, claim.id) == {"fetch:": 1}

    async def test_the_waiting_writer_is_refused_for_good_once_its_process_is_buried(
        self, member: Member, clock: VirtualClock
    ):
        claim = await claimed(member)
        clock.move("15s")
        other = await join(member.store, "other")
        with capture_logs() as logs:
            saving = asyncio.ensure_future(member.save(claim, a_step()))
            while not logs:
                await asyncio.sleep(0)
            assert await other.bury(member, certain=False) == 1
            with pytest.raises(ClaimLost):
                await saving
        assert not await member.renew_in_thread()


class TestRepeated:
    """After a connection lost in COMMIT the same write comes again: it has the same result, once."""

    async def test_a_step(self, member: Member):
        claim = await claimed(member)
        for _ in range(2):
            await member.save(claim, a_step(result="1"))
        assert await steps_of(member.store, claim.id) == {"fetch:": 1}

    async def test_a_finish(self, member: Member):
        claim = await claimed(member)
        alarm = Alarm("app", "dead", "dead")
        for _ in range(2):
            await member.finish(claim, "dead", failed=True, reason="no", alarm=alarm)
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["attempts"], len(run["history"])) == ("dead", 1, 1)
        (raised,) = (await reader(member.store).alarms())["alarms"]
        assert raised["count"] == 1

    async def test_a_leave(self, member: Member, clock: VirtualClock):
        claim = await claimed(member)
        for _ in range(2):
            await member.leave(claim, "waiting", delay=60 * SECOND, failed=True, outcome="retried")
            clock.move("1s")
        run = await state_of(member.store, claim.id)
        assert (run["state"], run["attempts"], len(run["history"])) == ("waiting", 1, 1)
        assert (await member.ask()).next_due == 58 * SECOND

    async def test_a_leave_after_which_another_took_the_run_is_a_lost_claim(self, member: Member):
        claim = await claimed(member)
        await member.leave(claim)
        other = await join(member.store, "other")
        taken = await other.claim_one()
        with pytest.raises(ClaimLost):
            await member.leave(claim)
        await other.finish(taken)

    async def test_an_accept(self, member: Member):
        first = await accept(member.store, an_arrival())
        second = await accept(member.store, an_arrival())
        assert (first[0].status, second[0].status) == ("accepted", "duplicate")
        assert first[0].runs == second[0].runs

    async def test_an_emit_of_a_run(self, member: Member):
        claim = await claimed(member)
        request = AcceptEvents("app", [an_arrival("emitted")], claim=claim, step=a_step("emit:"))
        first = await member.store.do(request)
        second = await member.store.do(request)
        assert first[0].runs == second[0].runs
        assert len(await member.claim()) == 1

    async def test_a_burial(self, member: Member):
        victim = await join(member.store, "victim")
        claim = await claimed(victim)
        assert await member.bury(victim) == 1
        assert await member.bury(victim) == 0
        assert (await state_of(member.store, claim.id))["crashes"] == 1

    async def test_a_claim_whose_answer_was_lost_is_forgotten_and_claimed_again(self, member: Member):
        known = await claimed(member)
        await accept(member.store, an_arrival("2"))
        lost = await member.claim_one()
        assert await member.forget(known.id) == 1
        with pytest.raises(ClaimLost):
            await member.save(lost, a_step())
        again = await member.claim_one()
        assert (again.id, again.crashes, again.attempts) == (lost.id, 0, 0)
        assert again.token > lost.token
        await member.save(known, a_step())


@pytest.mark.postgres
class TestForcedOrder:
    """Two transactions in an order that the test dictates: the first is open on a connection of the test's own."""

    @pytest.fixture
    async def open_transaction(self, postgres_url: str):
        connection = await asyncpg.connect(postgres_url)
        transaction = connection.transaction()
        await transaction.start()

        async def carry_out(store: DatabaseStore, *requests: Request[Any]) -> Callable[[], Awaitable[None]]:
            """Carry requests out as the journal would, up to the COMMIT, which is returned."""
            database: Any = store.database
            await database.drive(connection, lambda now: whole(now, list(requests), notifies=False))
            return transaction.commit

        yield carry_out
        await connection.close()

    async def test_a_burial_passes_over_one_that_has_passed_the_fence_until_its_commit(
        self, stores: OpenStore, postgres_url: str, open_transaction
    ):
        """The owner's write has passed the fence and is not committed: it is not buried before, and the write is found."""
        member = await join(await stores(postgres_url))
        other = await join(await stores(postgres_url), "other")
        claim = await claimed(member)
        commit = await open_transaction(member.store, SaveSteps(claim, [a_step("first:", result="1")]))
        assert await other.bury(member) == 0
        await commit()
        assert await other.bury(member) == 1
        (taken,) = await other.claim()
        assert [(step.key, step.result) for step in taken.steps] == [("first:", "1")]

    async def test_one_that_was_stopped_in_the_middle_of_a_transaction_has_its_session_ended(
        self, stores: OpenStore, postgres_url: str
    ):
        """It holds the lock on its own lease, and will not let go by itself: what it has not committed is gone."""
        member = await join(await stores(postgres_url))
        other = await join(await stores(postgres_url), "other")
        claim = await claimed(member)
        stopped = await asyncpg.connect(
            postgres_url, server_settings={"application_name": session_name(member.process)}
        )
        try:
            await stopped.execute("begin")
            database: Any = member.store.database
            await database.drive(stopped, lambda now: whole(now, [SaveSteps(claim, [a_step()])], notifies=False))
            assert await other.bury(member) == 0
            assert await other.store.database.end_sessions(member.process) >= 1
            while await other.bury(member) == 0:
                pass  # the server takes a moment to end it
        finally:
            stopped.terminate()
        assert [step.key for step in (await other.claim_one()).steps] == []

    async def test_a_write_waits_for_the_burial_that_came_first_and_is_refused(
        self, stores: OpenStore, postgres_url: str, open_transaction
    ):
        """Another has declared the owner dead and not committed: under READ COMMITTED a plain look would still pass."""
        member = await join(await stores(postgres_url))
        claim = await claimed(member)
        commit = await open_transaction(member.store, BuryProcess(member.process, certain=True))
        saving = asyncio.ensure_future(member.save(claim, a_step()))
        await waiting_for_a_lock(postgres_url, like="%wakeful_process%")
        assert not saving.done()
        await commit()
        with pytest.raises(ClaimLost):
            await saving
        assert await query(postgres_url, "select count(*) from wakeful_step") == [(0,)]

    async def test_a_claim_waits_for_the_burial_of_its_process_and_is_refused(
        self, stores: OpenStore, postgres_url: str, open_transaction
    ):
        member = await join(await stores(postgres_url))
        await accept(member.store, an_arrival())
        commit = await open_transaction(member.store, BuryProcess(member.process, certain=True))
        claiming = asyncio.ensure_future(member.claim())
        await waiting_for_a_lock(postgres_url, like="%wakeful_process%")
        await commit()
        with pytest.raises(ClaimLost):
            await claiming
        assert await query(postgres_url, "select state, owner from wakeful_run") == [("ready", None)]

    async def test_of_two_that_bury_the_second_leaves_it_to_the_first(
        self, stores: OpenStore, postgres_url: str, open_transaction
    ):
        member = await join(await stores(postgres_url))
        other = await join(await stores(postgres_url), "other")
        claim = await claimed(member)
        commit = await open_transaction(other.store, BuryProcess(member.process, certain=True))
        assert await other.bury(member) == 0
        await commit()
        assert await other.bury(member) == 0
        assert (await state_of(other.store, claim.id))["crashes"] == 1

    async def test_a_renewal_does_not_wait_for_the_owners_own_writes(
        self, stores: OpenStore, postgres_url: str, clock: VirtualClock, open_transaction
    ):
        """A long transaction of a process must not cost it its lease."""
        member = await join(await stores(postgres_url))
        claim = await claimed(member)
        commit = await open_transaction(member.store, SaveSteps(claim, [a_step()]))
        clock.move("10s")
        assert await member.renew_in_thread()
        await commit()
        clock.move("10s")
        await member.save(claim, a_step("second:"))

    async def test_a_burial_passes_over_one_that_is_renewing_and_then_finds_the_lease_good(
        self, stores: OpenStore, postgres_url: str, clock: VirtualClock
    ):
        member = await join(await stores(postgres_url))
        clock.move("15s")
        other = await join(await stores(postgres_url), "other")
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(
                "update wakeful_process set lease_until = $2 where id = $1", member.process, clock.now() + 15 * SECOND
            )
            assert await other.bury(member, certain=False) == 0
            await transaction.commit()
            assert await other.bury(member, certain=False) == 0
        finally:
            await connection.close()
        assert await member.renew_in_thread()

    async def test_two_processes_that_bury_each_other_both_get_an_answer(self, stores: OpenStore, postgres_url: str):
        one = await join(await stores(postgres_url), "one")
        other = await join(await stores(postgres_url), "other")
        answers = await asyncio.gather(one.bury(other), other.bury(one))
        assert answers == [0, 0]
        states = await query(postgres_url, "select state from wakeful_process")
        assert states == [("dead",), ("dead",)]


async def test_a_session_whose_answer_was_lost_is_ended_before_anything_is_read_postgres(
    postgres_url: str, stores: OpenStore
):
    """A statement may still be on its way there. Here it waits, and would go on once the way is free."""
    store = await stores(postgres_url)
    database: Any = store.database
    member = await join(store, "member")
    claim = await claimed(member)
    lost = await asyncpg.connect(postgres_url, server_settings={"application_name": session_name(member.process)})
    database._lost.add(lost.get_server_pid())
    store.journal._in_doubt = True
    await member.save(claim, a_step("after:"))
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await lost.execute("select 1")
    assert not database._lost
