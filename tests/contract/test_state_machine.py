"""The store's verbs against a model of a few dozen lines: whatever the order of events, both must tell the same story.

Hypothesis makes up histories: events that come once and again, processes that join, claim, write, are declared dead and
write on as zombies, leases that run out and are renewed, time that passes, restarts. After every move everything that is
stored is compared with the model, and with what was stored before:

    one run per event and agent        a run has at most one owner        tokens never fall
    what is finished never changes     states move along RUN_TRANSITIONS  nothing disappears
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.stores import APP, Onlooker, a_step, an_arrival, emptied
from wakeful.clock import SECOND, Microseconds, VirtualClock
from wakeful.errors import ClaimLost, StoreUnavailable
from wakeful.model import CLAIMABLE_RUN_STATES, Claim, RunState, run_id
from wakeful.stores.opening import open_database
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import ClaimRuns, ForgetRuns, Wanted
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess, RetireProcess
from wakeful.stores.verbs.progress import FinishRun, LeaveRun, SaveSteps
from wakeful.transitions import RUN_TRANSITIONS

LEASE = 15 * SECOND
AGENTS = ("bill", "ship")
ALONE = 2  # crashes after which a run is claimed alone
TABLES = (
    "event",
    "conflict",
    "admission",
    "run",
    "step",
    "attempt",
    "decision",
    "alarm",
    "idempotency",
    "process",
    "operation",
)


@dataclass
class ModelRun:
    agent: str
    due: Microseconds
    state: RunState = "ready"
    token: int = 0
    owner: str | None = None
    attempts: int = 0
    crashes: int = 0
    steps: dict[str, tuple[str, str]] = field(default_factory=dict)

    def give_back(self, now: Microseconds) -> None:
        self.state, self.owner, self.due = "ready", None, now
        self.token += 1


@dataclass
class ModelProcess:
    lease_until: Microseconds
    state: Literal["alive", "stopped", "dead"] = "alive"


@dataclass
class ModelEvent:
    content: int
    agents: tuple[str, ...]
    duplicates: int = 0
    conflicts: set[int] = field(default_factory=set)


identifiers = st.integers(0, 7)
contents = st.sampled_from([0, 0, 0, 1, 2])
step_names = st.sampled_from(["fetch", "judge", "write"])
some_agents = st.sampled_from([("bill",), AGENTS, AGENTS])
rarely = st.sampled_from([False] * 9 + [True])


class StoreMachine(RuleBasedStateMachine):
    """One history. `url` is set on a subclass for each database."""

    url = ""
    processes: Bundle[str] = Bundle("processes")
    claims: Bundle[Claim] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        self.events: dict[str, ModelEvent] = {}
        self.runs: dict[str, ModelRun] = {}
        self.members: dict[str, ModelProcess] = {}
        self.names = itertools.count(1)
        self.current: dict[str, Claim] = {}
        self.before: dict[str, tuple[RunState, int]] = {}
        self.finished: dict[tuple[str, str], str] = {}
        self.store = self.run(self.open())
        self.onlooker = Onlooker(self.url)
        self.renewer = self.store.database.renewer()
        self.look(emptied(self.url, TABLES))

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
        self.run(asyncio.to_thread(self.renewer.close))
        self.run(self.onlooker.close())
        self.run(self.store.close())
        self.runner.close()

    def submit(self, request: Any) -> Any:
        """Straight to the journal: a writer whose lease ran out is told, instead of waiting for a renewal."""

        async def hand_in() -> Any:
            return await self.store.journal.submit(request)

        return self.run(hand_in())

    # what the model says

    @property
    def now(self) -> Microseconds:
        return self.clock.now()

    def refusal(self, process: str) -> type[Exception] | None:
        member = self.members[process]
        if member.state != "alive":
            return ClaimLost
        return StoreUnavailable if member.lease_until <= self.now else None

    def refused(self, claim: Claim) -> type[Exception] | None:
        """Why a write under this claim must be refused, if it must."""
        if (refusal := self.refusal(claim.process)) is not None:
            return refusal
        run = self.runs[claim.id]
        return None if run.state == "running" and run.token == claim.token else ClaimLost

    def due(self, agents: tuple[str, ...]) -> list[ModelRun]:
        return [
            run
            for run in self.runs.values()
            if run.agent in agents and run.state in CLAIMABLE_RUN_STATES and run.due <= self.now
        ]

    # events

    @rule(identifier=identifiers, content=contents, agents=some_agents, times=st.sampled_from([1, 1, 3]))
    def accept(self, identifier: int, content: int, agents: tuple[str, ...], times: int) -> None:
        """An event comes, perhaps several times at once, perhaps again, perhaps with other content."""
        key = str(identifier)
        known = self.events.get(key)
        agents = known.agents if known is not None else agents

        async def deliver() -> list[Any]:
            arrivals = [an_arrival(key, agents=agents, data=content) for _ in range(times)]
            return await asyncio.gather(*(self.store.do(AcceptEvents(APP, [arrival])) for arrival in arrivals))

        receipts = [receipt for (receipt,) in self.run(deliver())]
        repeats = times
        if known is None:
            known = self.events[key] = ModelEvent(content, agents)
            for agent in agents:
                self.runs[run_id(APP, agent, "/test", key)] = ModelRun(agent, self.now)
            repeats -= 1
        known.duplicates += repeats
        if known.content != content:
            known.conflicts.add(content)
        expected = [run_id(APP, agent, "/test", key) for agent in sorted(agents)]
        assert sorted(receipt.status for receipt in receipts) == sorted(
            ["accepted"] * (times - repeats) + ["duplicate"] * repeats
        )
        assert all(sorted(receipt.runs) == sorted(expected) for receipt in receipts)
        assert all(
            receipt.conflict == (known.content != content) for receipt in receipts if receipt.status == "duplicate"
        )

    # processes

    @initialize(target=processes)
    def begin(self) -> Any:
        """Two processes, and some work that came at different times."""
        for identifier in range(4):
            self.accept(identifier, 0, AGENTS, 1)
            self.clock.move("1s")
        return multiple(self.enter(), self.enter())

    @precondition(lambda self: len(self.living()) < 3)
    @rule(target=processes)
    def join(self) -> str:
        return self.enter()

    def living(self) -> list[str]:
        return [name for name, member in self.members.items() if member.state == "alive"]

    def mostly_owning(self, process: str, anyone: bool) -> str:
        owners = sorted({run.owner for run in self.runs.values() if run.owner is not None})
        return process if anyone or process in owners or not owners else owners[0]

    def mostly_current(self, claim: Claim, anyone: bool) -> Claim:
        """The claim under which that run is held now, unless a stale one will do."""
        return claim if anyone else self.current.get(claim.id, claim)

    def mostly_living(self, process: str, anyone: bool) -> str:
        """Histories in which everybody is dead tell little: somebody who lives takes the place, unless `anyone` will do."""
        living = self.living()
        return process if anyone or process in living or not living else living[0]

    def enter(self) -> str:
        name = f"process {next(self.names)}"
        self.run(self.store.register(RegisterProcess(name, "host", 1, LEASE)))
        self.members[name] = ModelProcess(self.now + LEASE)
        return name

    @rule(process=processes)
    def renew(self, process: str) -> None:
        member = self.members[process]
        alive = self.run(asyncio.to_thread(self.renewer.renew, process, LEASE))
        assert alive == (member.state == "alive")
        if alive:
            member.lease_until = self.now + LEASE

    @precondition(lambda self: len(self.living()) > 1)
    @rule(process=processes, anyone=rarely, certain=st.sampled_from([False, True, True]))
    def bury(self, process: str, anyone: bool, certain: bool) -> None:
        process = self.mostly_owning(process, anyone)
        member = self.members[process]
        dies = member.state == "alive" and (certain or member.lease_until <= self.now)
        owned = [run for run in self.runs.values() if run.owner == process]
        assert self.submit(BuryProcess(process, certain=certain)) == (len(owned) if dies else 0)
        if dies:
            member.state = "dead"
            for run in owned:
                run.give_back(self.now)
                run.crashes += 1

    @precondition(lambda self: len(self.living()) > 2)
    @rule(process=processes, anyone=rarely)
    def retire(self, process: str, anyone: bool) -> None:
        process = self.mostly_owning(process, anyone)
        self.run(self.store.retire(RetireProcess(process)))
        member = self.members[process]
        if member.state == "alive":
            member.state = "stopped"
            for run in self.runs.values():
                if run.owner == process:
                    run.give_back(self.now)

    @rule(by=st.sampled_from([1, SECOND, 60 * SECOND]), forgetful=rarely)
    def pass_time(self, by: Microseconds, forgetful: bool) -> None:
        """Those who live renew their leases meanwhile, unless they are forgetful."""
        self.clock.move(by / SECOND)
        for process in [] if forgetful else self.living():
            self.renew(process)

    @rule()
    def restart(self) -> None:
        """The process of the test itself; those of the model go on."""
        self.run(self.store.close())
        self.store = self.run(self.open())

    # runs

    @rule(target=claims, process=processes, anyone=rarely, agents=some_agents, most=st.sampled_from([1, 2, 5]))
    def claim(self, process: str, anyone: bool, agents: tuple[str, ...], most: int) -> Any:
        process = self.mostly_living(process, anyone)
        request = ClaimRuns(APP, process, lambda: Wanted([(agent, most) for agent in agents]))
        if (refusal := self.refusal(process)) is not None:
            with pytest.raises(refusal):
                self.submit(request)
            return multiple()
        due = self.due(agents)
        dangerous = [run for run in due if run.crashes >= ALONE]
        claimed = self.submit(request).claims
        taken = [self.runs[claim.id] for claim in claimed]
        if dangerous:
            assert len(taken) == 1
            assert taken[0] in dangerous
        else:
            for agent in agents:
                mine = [run for run in due if run.agent == agent]
                got = [run for run in taken if run.agent == agent]
                assert len(got) == min(most, len(mine))
                left = [run.due for run in mine if run not in got]
                assert all(run.due <= other for run in got for other in left), "not the oldest first"
            assert all(run in due for run in taken)
        for claim, run in zip(claimed, taken, strict=True):
            run.state, run.owner = "running", process
            run.token += 1
            assert (claim.token, claim.attempts, claim.crashes) == (run.token, run.attempts, run.crashes)
            assert claim.first_start == (run.token == 1)
            assert {step.key: (step.state, step.result) for step in claim.steps} == run.steps
            self.current[claim.id] = claim
        return multiple(*claimed)

    @rule(
        claim=claims,
        anyone=st.booleans(),
        name=step_names,
        state=st.sampled_from(["done", "done", "failed", "retrying"]),
        value=st.integers(0, 9),
    )
    def save_step(self, claim: Claim, anyone: bool, name: str, state: Any, value: int) -> None:
        claim = self.mostly_current(claim, anyone)
        key, result = f"{name}:", str(value)
        if self.runs[claim.id].steps.get(key, ("",))[0] == "done" and self.refused(claim) is None:
            state, result = self.runs[claim.id].steps[key]  # its owner knows that it is done, and at most repeats it
        request = SaveSteps(claim, [a_step(key, state=state, result=result)])
        if (refusal := self.refused(claim)) is not None:
            with pytest.raises(refusal):
                self.submit(request)
            return
        self.submit(request)
        self.runs[claim.id].steps[key] = (state, result)

    @rule(some=st.lists(claims, min_size=2, max_size=5, unique_by=lambda claim: claim.id), value=st.integers(0, 9))
    def save_together(self, some: list[Claim], value: int) -> None:
        """Several at once, some of them stale: each has its own answer."""
        key = f"together {value}:"

        async def write() -> list[Any]:
            return await asyncio.gather(
                *(self.store.journal.submit(SaveSteps(claim, [a_step(key, result=str(value))])) for claim in some),
                return_exceptions=True,
            )

        for claim, answer in zip(some, self.run(write()), strict=True):
            refusal = self.refused(claim)
            assert type(answer) is (refusal or type(None))
            if refusal is None:
                self.runs[claim.id].steps[key] = ("done", str(value))

    @rule(claim=claims, anyone=st.booleans(), state=st.sampled_from(["done", "dead", "denied", "cancelled"]))
    def finish(self, claim: Claim, anyone: bool, state: Any) -> None:
        claim = self.mostly_current(claim, anyone)
        request = FinishRun(claim, state, output="1", failed=state == "dead")
        run = self.runs[claim.id]
        refusal = self.refused(claim)
        if refusal is ClaimLost and self.is_repetition(claim):
            self.submit(request)
            return
        if refusal is not None:
            with pytest.raises(refusal):
                self.submit(request)
            return
        self.submit(request)
        run.state, run.owner = state, None
        run.attempts += state == "dead"

    @rule(
        claim=claims,
        anyone=rarely,
        delay=st.sampled_from([0, SECOND, 60 * SECOND]),
        failed=st.booleans(),
        clear=st.booleans(),
    )
    def leave(self, claim: Claim, anyone: bool, delay: Microseconds, failed: bool, clear: bool) -> None:
        claim = self.mostly_current(claim, anyone)
        run = self.runs[claim.id]
        request = LeaveRun(
            claim,
            "waiting" if delay else "ready",
            "retried" if failed else "released",
            delay=delay,
            failed=failed,
            clear=sorted(run.steps) if clear else [],
        )
        refusal = self.refused(claim)
        if refusal is ClaimLost and self.is_repetition(claim):
            self.submit(request)
            return
        if refusal is not None:
            with pytest.raises(refusal):
                self.submit(request)
            return
        self.submit(request)
        run.state, run.owner, run.due = "waiting" if delay else "ready", None, self.now + delay
        run.attempts += failed
        if clear:
            run.steps = {key: step for key, step in run.steps.items() if step[0] != "failed"}

    def is_repetition(self, claim: Claim) -> bool:
        """The holder itself has ended this claim, and nobody has claimed since: its write comes again, and is welcome."""
        run = self.runs[claim.id]
        return self.refusal(claim.process) is None and run.token == claim.token and run.state != "running"

    @rule(process=processes, known=st.lists(claims, max_size=3))
    def forget(self, process: str, known: list[Claim]) -> None:
        request = ForgetRuns(process, frozenset(claim.id for claim in known))
        if (refusal := self.refusal(process)) is not None:
            with pytest.raises(refusal):
                self.submit(request)
            return
        forgotten = [
            run for identifier, run in self.runs.items() if run.owner == process and identifier not in request.known
        ]
        assert self.submit(request) == len(forgotten)
        for run in forgotten:
            run.give_back(self.now)

    @precondition(lambda self: any(member.state != "alive" for member in self.members.values()))
    @rule(claim=consumes(claims))
    def zombie(self, claim: Claim) -> None:
        """Everything that one who was declared dead, or said goodbye, might still try to write."""
        if self.members[claim.process].state == "alive":
            return
        for request in (
            SaveSteps(claim, [a_step("zombie:")]),
            FinishRun(claim, "done"),
            LeaveRun(claim, "ready", "released", steps=[a_step("zombie:")]),
            AcceptEvents(APP, [an_arrival("from a zombie")], claim=claim, step=a_step("zombie:")),
        ):
            with pytest.raises(ClaimLost):
                self.submit(request)

    # what must always hold

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        rows = self.look("select id, agent, state, token, owner, attempts, crashes, due_at, seq from wakeful_run")
        stored = {row[0]: row for row in rows}
        assert len(rows) == len(stored), "a run twice"
        assert stored.keys() == self.runs.keys(), "a run appeared, or disappeared"
        for identifier, run in self.runs.items():
            _, agent, state, token, owner, attempts, crashes, due, _ = stored[identifier]
            assert (agent, state, token, owner, attempts, crashes) == (
                run.agent, run.state, run.token, run.owner, run.attempts, run.crashes,
            )  # fmt: skip
            if state in CLAIMABLE_RUN_STATES:
                assert due == run.due
            assert (owner is not None) == (state == "running")
            assert owner is None or self.members[owner].state == "alive"
        self.compare_steps({row[8]: row[0] for row in rows})
        self.compare_with_before({row[0]: (row[2], row[3]) for row in rows})

    def compare_steps(self, runs: dict[int, str]) -> None:
        rows = self.look("select run_seq, key, state, result from wakeful_step")
        stored = {(runs[row[0]], row[1]): (row[2], row[3]) for row in rows}
        assert stored == {
            (identifier, key): step for identifier, run in self.runs.items() for key, step in run.steps.items()
        }
        for place, result in self.finished.items():
            assert stored[place] == ("done", result), "a finished step changed"
        self.finished.update({place: result for place, (state, result) in stored.items() if state == "done"})

    def compare_with_before(self, now: dict[str, tuple[RunState, int]]) -> None:
        for identifier, (state, token) in now.items():
            old_state, old_token = self.before.get(identifier, (None, 0))
            assert token >= old_token, "a token fell"
            assert state == old_state or state in RUN_TRANSITIONS[old_state], f"{old_state} → {state}"
        assert self.before.keys() <= now.keys()
        self.before = now

    @invariant()
    def every_event_is_there_once(self) -> None:
        rows = self.look("select id, state, duplicates, seq from wakeful_event")
        assert {row[0]: (row[1], row[2]) for row in rows} == {
            key: ("accepted", event.duplicates) for key, event in self.events.items()
        }
        assert len(rows) == len(self.events)
        conflicts = self.look("select event_seq, count(*) from wakeful_conflict group by event_seq")
        seqs = {row[3]: row[0] for row in rows}
        assert {seqs[seq]: count for seq, count in conflicts} == {
            key: len(event.conflicts) for key, event in self.events.items() if event.conflicts
        }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_any_history_is_told_the_same_by_the_store_and_the_model(store_url: str, dialect: str):
    class Machine(StoreMachine):
        url = store_url

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60 if dialect == "sqlite" else 35,  # as many as fit into the same time
            stateful_step_count=25,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
