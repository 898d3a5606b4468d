"""Limits and pauses against a model: two processes claim, finish, leave, die, and people pause and resume, in any order and
at the same time.

    never more at once than an agent may have       never more starts in any window than its rate
    nothing of what is paused is claimed            what comes back comes back no faster than it was told to
    at the end everything has run
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.stores import an_arrival
from wakeful.clock import SECOND, Microseconds, VirtualClock
from wakeful.model import WENT_WELL, Claim
from wakeful.rate import Rate
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import ClaimRuns, Wanted
from wakeful.stores.verbs.limits import Limit
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess
from wakeful.stores.verbs.progress import FinishRun, LeaveRun

LIMITS = {"few": Limit(2), "slow": Limit(rate=Rate.read("3/10s")), "both": Limit(1, Rate.read("2/5s"))}
AGENTS = (*LIMITS, "free")
LEASE = 10**9 * SECOND
MANY_LOOKS = 500

_numbers = itertools.count()
agents = st.sampled_from(AGENTS)
targets = st.sampled_from(["", *AGENTS])


class LimitsMachine(RuleBasedStateMachine):
    loop: ClassVar[asyncio.AbstractEventLoop]
    clock: ClassVar[VirtualClock]
    stores: ClassVar[list[DatabaseStore]]

    def __init__(self) -> None:
        super().__init__()
        self.app = f"app-{next(_numbers)}"  # each history has an app of its own
        self.members = ["", ""]
        self.held: list[dict[str, Claim]] = [{}, {}]
        self.events = 0
        self.starts: dict[str, list[Microseconds]] = {agent: [] for agent in AGENTS}
        self.paused: set[str] = set()
        self.rates: dict[str, tuple[Rate, list[Microseconds]]] = {}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        for number in (0, 1):
            self.join(number)
        for agent in AGENTS:
            self.accept(agent, 4)

    def join(self, number: int) -> None:
        self.members[number] = f"{self.app}-{next(_numbers)}"
        request = RegisterProcess(self.members[number], "host", 1, LEASE, self.app, AGENTS, LIMITS)
        self.run(self.stores[number].register(request))

    @rule(agent=agents, count=st.integers(1, 5))
    def accept(self, agent: str, count: int) -> None:
        arrivals = [an_arrival(str(self.events + number), app=self.app, agents=(agent,)) for number in range(count)]
        self.events += count
        self.run(self.stores[0].do(AcceptEvents(self.app, arrivals)))

    @rule(wanted=st.sets(agents, min_size=1), most=st.integers(1, 6), room=st.sampled_from([None, 3]))
    def both_claim(self, wanted: set[str], most: int, room: int | None) -> None:
        """At the same moment."""

        async def claim() -> list[Any]:
            return await asyncio.gather(*(self.claim(number, wanted, most, room) for number in (0, 1)))

        for number, claimed in enumerate(self.run(claim())):
            self.note(number, claimed.claims)

    async def claim(self, number: int, wanted: set[str], most: int, room: int | None) -> Any:
        asked = [(agent, most) for agent in sorted(wanted)]
        request = ClaimRuns(self.app, self.members[number], lambda: Wanted(asked, room=room), limits=LIMITS)
        return await self.stores[number].do(request)

    def note(self, number: int, claims: list[Claim]) -> None:
        now = self.clock.now()
        for claim in claims:
            assert not self.paused & {"", claim.agent}, f"{claim.agent} is paused"
            self.held[number][claim.id] = claim
            if claim.first_start:
                self.starts[claim.agent].append(now)
            for target in {"", claim.agent} & self.rates.keys():
                self.rates[target][1].append(now)
        for target, (rate, claimed) in self.rates.items():
            assert within(rate, claimed), f"{target or 'all'} came back faster than {rate}"

    @rule(number=st.integers(0, 1), count=st.integers(1, 4))
    def finish(self, number: int, count: int) -> None:
        for claim in list(self.held[number].values())[:count]:
            self.run(self.stores[number].do(FinishRun(claim, "done", outcome=WENT_WELL)))
            del self.held[number][claim.id]

    @rule(number=st.integers(0, 1), delay=st.sampled_from([0, SECOND]))
    def leave(self, number: int, delay: Microseconds) -> None:
        for claim in list(self.held[number].values())[:1]:
            state = "waiting" if delay else "ready"
            self.run(self.stores[number].do(LeaveRun(claim, state, "waited", delay=delay)))  # type: ignore[arg-type]
            del self.held[number][claim.id]

    @rule(number=st.integers(0, 1))
    def die(self, number: int) -> None:
        self.run(self.stores[1 - number].do(BuryProcess(self.members[number], certain=True)))
        self.held[number].clear()
        self.join(number)

    @rule(by=st.sampled_from([SECOND, 4 * SECOND, 10 * SECOND]))
    def pass_time(self, by: Microseconds) -> None:
        self.clock.move(by / SECOND)

    @rule(whom=targets, wanted=st.sets(agents, min_size=1))
    def pause_while_others_claim(self, whom: str, wanted: set[str]) -> None:
        """What comes with the pause came before it, or not at all: after it nothing does."""

        async def both() -> Any:
            request = ChangePause(self.app, whom, paused=True, by=Actor("ada", "code"))
            return await asyncio.gather(self.claim(0, wanted, 3, None), self.stores[1].do(request))

        claimed, _ = self.run(both())
        self.note(0, claimed.claims)
        self.paused.add(whom)
        self.rates.pop(whom, None)

    @rule(whom=targets, rate=st.sampled_from([None, "2/5s"]))
    def resume(self, whom: str, rate: str | None) -> None:
        self.run(self.stores[0].do(ChangePause(self.app, whom, paused=False, rate=rate, by=Actor("ada", "code"))))
        self.paused.discard(whom)
        self.rates.pop(whom, None)
        if rate is not None:
            self.rates[whom] = (Rate.read(rate), [])
        self.forget_lifted()

    @invariant()
    def limits_hold(self) -> None:
        running = Counter(claim.agent for held in self.held for claim in held.values())
        for agent, limit in LIMITS.items():
            assert limit.concurrency is None or running[agent] <= limit.concurrency, f"{running[agent]} of {agent}"
            assert limit.rate is None or within(limit.rate, self.starts[agent]), f"starts of {agent}"

    @invariant()
    def forget_lifted(self) -> None:
        """A rate ends by itself, once nothing is due any more."""
        if self.rates:
            pauses = self.run(self.stores[0].database.fetch("list_pauses"))
            there = {agent or "" for app, agent, _, rate, *_ in pauses if app == self.app and rate is not None}
            self.rates = {target: rate for target, rate in self.rates.items() if target in there}

    def teardown(self) -> None:
        """Nobody starves: with everything resumed, and time that passes, all of it runs."""
        if not self.members[0]:
            return
        for target in ["", *AGENTS]:
            self.resume(target, None)
        done = 0
        for _ in range(MANY_LOOKS):
            self.both_claim(set(AGENTS), 6, None)
            self.limits_hold()
            for number in (0, 1):
                self.finish(number, 1000)
            self.clock.move(1)
            left = self.run(self.left())
            if left == 0:
                done = 1
                break
        assert done, f"{left} runs never ran"

    async def left(self) -> int:
        rows = await self.stores[0].database.fetch("waiting_agents", self.app)
        return sum(row[1] for row in rows)


def within(rate: Rate, moments: list[Microseconds]) -> bool:
    """No window of this length has more than so many."""
    return all(later - earlier >= rate.within for earlier, later in zip(moments, moments[rate.most :], strict=False))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_history_goes_over_a_limit(store_url: str, dialect: str):
    loop, clock = asyncio.new_event_loop(), VirtualClock()
    stores = [DatabaseStore(open_database(store_url, clock)) for _ in range(2)]

    class Machine(LimitsMachine):
        pass

    Machine.loop, Machine.clock, Machine.stores = loop, clock, stores
    try:
        for store in stores:
            loop.run_until_complete(store.open(migrate=dialect == "sqlite"))
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=30 if dialect == "sqlite" else 20,  # as many as fit into the same time
                stateful_step_count=20,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for store in stores:
            loop.run_until_complete(store.close())
        loop.close()
