"""Order and limits against whatever may happen: hypothesis makes up histories of two processes on one store.

Events of several keys come, runs are claimed, end well or badly, wait, are given back by processes that die, are replayed, forked,
cancelled and discarded. After every move, and at the end, once all that may run has run:

    never more runs of a key at once than it may have      they start in the order of their acceptance
    every event has exactly one admission                  what joined, gave way or was skipped says so
    nobody starves: only what is behind a dead letter that keeps its place is left, and never behind one of its own family
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.stores import APP, Onlooker, an_arrival, emptied
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import CancelAsked
from wakeful.model import WENT_WELL, Claim, Effect, Flow, RunOutcome, Step
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.cancel import CancelRun, FinishCancelled
from wakeful.stores.verbs.claim import ClaimRuns, Wanted
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess
from wakeful.stores.verbs.progress import FinishRun, LeaveRun, SaveSteps
from wakeful.stores.verbs.redo import RedoRun

LEASE = 10**9 * SECOND
FLOWS: dict[str, Flow] = {
    "block": Flow(),
    "pass": Flow(blocks=False),
    "two": Flow(per_key=2, blocks=False),
    "skip": Flow(overlap="skip", blocks=False),
    "replace": Flow(overlap="replace", blocks=False),
    "debounce": Flow(debounce=(5 * SECOND, 12 * SECOND), blocks=False),
    "batch": Flow(batch=(3, 5 * SECOND), blocks=False),
    "loose": Flow(per_key=None, batch=(3, 5 * SECOND), blocks=False),
    "ranked": Flow(priority=3),
}
TABLES = ("event", "admission", "run", "attempt", "process", "key", "batch", "remedy", "alarm", "step", "effect")
OPEN = ("ready", "running", "waiting", "held", "parked")

agents = st.sampled_from(sorted(FLOWS))
keys = st.sampled_from(["a", "b"])


def flow_of(agent: str, key: str) -> Flow:
    flow = FLOWS[agent]
    return Flow(
        "" if agent == "loose" else key,
        flow.per_key,
        flow.blocks,
        flow.overlap,
        flow.debounce,
        flow.batch,
        flow.priority,
        flow.expires,
    )


class OrderMachine(RuleBasedStateMachine):
    """One history. `url` is set on a subclass for each database."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        self.numbers = itertools.count(1)
        self.stores = [self.run(self.open()), self.run(self.open())]
        self.onlooker = Onlooker(self.url)
        self.look(emptied(self.url, TABLES))
        self.processes = ["", ""]
        self.claims: dict[str, Claim] = {}
        self.accepted: dict[str, tuple[str, str]] = {}  # event: its agent and key
        self.begun: dict[tuple[str, str], list[int]] = {}  # by agent and key: the places of first starts

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def open(self) -> DatabaseStore:
        store = DatabaseStore(open_database(self.url, self.clock))
        await store.open(migrate=store.dialect == "sqlite")
        return store

    def look(self, sql: str) -> list[Any]:
        rows: list[Any] = self.run(self.onlooker.query(sql))
        return rows

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self.run(self.onlooker.close())
            for store in self.stores:
                self.run(store.close())
            self.runner.close()

    # what happens

    @initialize()
    def begin(self) -> None:
        for number in range(2):
            self.enter(number)

    def enter(self, number: int) -> None:
        self.processes[number] = f"process {next(self.numbers)}"
        self.run(self.stores[number].register(RegisterProcess(self.processes[number], "host", 1, LEASE)))

    @rule(agent=agents, key=keys, many=st.sampled_from([1, 1, 2, 5]), at=st.integers(0, 1))
    def accept(self, agent: str, key: str, many: int, at: int) -> None:
        """Several events of one key, in one request or each in its own."""
        arrivals = []
        for _ in range(many):
            identifier = str(next(self.numbers))
            arrival = an_arrival(identifier, agents=[agent])
            arrival.admissions[0].flow = flow_of(agent, key)
            self.accepted[identifier] = (agent, key)
            arrivals.append(arrival)
        receipts = self.run(self.stores[at].do(AcceptEvents(APP, arrivals)))
        assert [receipt.status for receipt in receipts] == ["accepted"] * many

    @rule(agent=agents, most=st.sampled_from([1, 3, 10]), at=st.integers(0, 1))
    def claim(self, agent: str, most: int, at: int) -> None:
        self.take(agent, most, at)

    def take(self, agent: str, most: int, at: int) -> int:
        self.clock.move("1ms")  # as it does: two that become due in the same microsecond have no order
        request = ClaimRuns(APP, self.processes[at], lambda: Wanted([(agent, most)]))
        places = {row[0]: (row[1], row[2]) for row in self.look("select id, key, place from wakeful_run")}
        claims = self.run(self.stores[at].do(request)).claims
        for claim in sorted(claims, key=lambda one: places[one.id][1] or 0):
            key, place = places[claim.id]
            assert claim.id not in self.claims
            self.claims[claim.id] = claim
            assert len(claim.events) == (claim.gathered if claim.gathered > 1 else 0)
            if claim.first_start and place is not None:
                begun = self.begun.setdefault((claim.agent, key), [])
                assert all(before < place for before in begun), "a later one started first"
                begun.append(place)
        return len(claims)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), state=st.sampled_from(["done", "done", "dead", "denied"]))
    def finish(self, data: Any, state: Literal["done", "dead", "denied"]) -> None:
        claim = self.claims.pop(data.draw(st.sampled_from(sorted(self.claims))))
        self.end(claim, state)

    def end(self, claim: Claim, state: Literal["done", "dead", "denied"]) -> None:
        """One that was asked to stop, to make room for a newer event, cannot end otherwise."""
        outcome = WENT_WELL if state == "done" else RunOutcome("failed")
        try:
            if claim.cancelled is None:
                if state == "dead":
                    self.leave_traces(claim)
                self.run(self.of(claim).do(FinishRun(claim, state, outcome=outcome)))
                return
        except CancelAsked as asked:
            claim.cancelled = (asked.by, asked.note)
        stopped = FinishCancelled(claim, APP, "stopped", RunOutcome("cancelled"))
        self.run(self.of(claim).do(stopped))

    def leave_traces(self, claim: Claim) -> None:
        """Somewhere to fork from; and of every other run something that is done outside, for a cancel to undo."""
        store = self.of(claim)
        self.run(store.do(SaveSteps(claim, [Step("fetch", "fetch", "done", "1")])))
        if claim.seq % 2:
            effect = Effect(f"effect {claim.id}", "charge", "m:charge", "idempotent", "intent", "[]")
            self.run(store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED))))
            effect.state, effect.tries = "confirmed", 1
            self.run(store.do(SaveEffect(claim, effect)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), state=st.sampled_from(["ready", "waiting"]))
    def leave(self, data: Any, state: Literal["ready", "waiting"]) -> None:
        claim = self.claims.pop(data.draw(st.sampled_from(sorted(self.claims))))
        delay = 3 * SECOND if state == "waiting" else 0
        try:
            self.run(self.of(claim).do(LeaveRun(claim, state, "waited", delay=delay)))
        except CancelAsked:
            self.end(claim, "done")

    def of(self, claim: Claim) -> DatabaseStore:
        return self.stores[self.processes.index(claim.process)]

    @rule(at=st.integers(0, 1))
    def die(self, at: int) -> None:
        """A process dies with what it has; another one buries it and it comes back under another name."""
        gone = self.processes[at]
        self.run(self.stores[1 - at].do(BuryProcess(gone, certain=True)))
        self.claims = {run: claim for run, claim in self.claims.items() if claim.process != gone}
        self.enter(at)

    @rule(data=st.data(), discard=st.booleans(), at=st.integers(0, 1))
    def redo(self, data: Any, discard: bool, at: int) -> None:
        dead = sorted(row[0] for row in self.look("select id from wakeful_run where state = 'dead'"))
        if dead:
            request = RedoRun(data.draw(st.sampled_from(dead)), discard=discard, by=Actor("ada", "code"))
            self.run(self.stores[at].do(request))

    @rule(data=st.data(), at=st.integers(0, 1))
    def cancel(self, data: Any, at: int) -> None:
        """A dead letter: over at once, or ready to undo what it did, in its place or at the end."""
        dead = sorted(row[0] for row in self.look("select id from wakeful_run where state = 'dead'"))
        if dead:
            self.run(self.stores[at].do(CancelRun(data.draw(st.sampled_from(dead)), by=Actor("ada", "code"))))

    @rule(data=st.data(), at=st.integers(0, 1))
    def fork(self, data: Any, at: int) -> None:
        """A dead letter, or one of its family that is over in any other way, begins in the middle."""
        dead = "select root from wakeful_run where state = 'dead'"
        over = sorted(
            row[0]
            for row in self.look(
                f"select run.id from wakeful_run run join wakeful_step step on step.run_seq = run.seq where root in ({dead})"
            )
        )
        if over:
            request = ForkRun(data.draw(st.sampled_from(over)), "fetch", "fetch", by=Actor("ada", "code"))
            self.run(self.stores[at].do(request))

    @rule(seconds=st.sampled_from([1, 4, 13]))
    def wait(self, seconds: int) -> None:
        self.clock.move(f"{seconds}s")

    # what must be so

    @invariant()
    def never_more_at_once_than_may_be(self) -> None:
        rows = self.look("select agent, key from wakeful_run where state = 'running' and key is not null")
        for (agent, _), count in Counter((row[0], row[1]) for row in rows).items():
            assert count <= (FLOWS[agent].per_key or count)

    @invariant()
    def a_family_has_one_place(self) -> None:
        """So none of it waits behind a dead letter of its own."""
        rows = self.look("select root from wakeful_run where place is not null")
        assert max(Counter(row[0] for row in rows).values(), default=0) <= 1

    @invariant()
    def every_event_is_accounted_for(self) -> None:
        rows = self.look(
            "select event.id, admission.state, admission.run_id, run.state, admission.reason,"
            " (select count(*) from wakeful_batch member join wakeful_run first on first.seq = member.run_seq"
            "   where member.event_seq = event.seq and first.id = first.root), run.event_seq = event.seq"
            " from wakeful_event event join wakeful_admission admission on admission.event_seq = event.seq"
            " left join wakeful_run run on run.id = admission.run_id"
        )
        assert sorted(row[0] for row in rows) == sorted(self.accepted)
        for event, state, run, run_state, reason, member_of, first in rows:
            batched = FLOWS[self.accepted[event][0]].batch is not None
            assert member_of == int(batched)
            match state:
                case "started":
                    assert run_state is not None
                    assert first
                case "joined":
                    assert batched
                    assert not first
                case "superseded":
                    assert run is None or run_state == "cancelled"
                    assert reason
                case "skipped":
                    assert run is None
                    assert reason
                case other:
                    pytest.fail(f"event {event} is {other}")

    def come_to_rest(self) -> None:
        """Everything that may run does, and only what waits behind a dead letter is left."""
        idle = 0
        while idle < 3:
            for run in sorted(self.claims):
                claim = self.claims.pop(run)
                self.end(claim, "done")
            claimed = sum(self.take(agent, 10, 0) for agent in sorted(FLOWS))
            self.never_more_at_once_than_may_be()
            idle = 0 if claimed else idle + 1
            self.clock.move("20s")
        self.every_event_is_accounted_for()
        rows = self.look("select agent, key, place, state from wakeful_run where state <> 'done'")
        stuck = {(row[0], row[1]): row[2] for row in rows if row[3] == "dead" and row[2] is not None}
        for agent, key, place, state in rows:
            if state in OPEN:
                assert state == "ready"
                assert place > stuck[agent, key]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_order_and_limits_hold_whatever_happens(store_url: str, dialect: str):
    class Machine(OrderMachine):
        url = store_url

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=30 if dialect == "sqlite" else 12,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
