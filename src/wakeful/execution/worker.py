"""The worker: claims runs while there is room, and passes them to the executor.

No polling: a claim rests in the journal until a transaction makes runs ready, another process says so, or the next due
time comes. `_hot` holds the agents that may have runs due. A claim that returns fewer runs than asked removes its
agent, and every hint adds it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from wakeful.clock import seconds
from wakeful.errors import CancelAsked, ClaimLost, StoreUnavailable
from wakeful.execution.attempt import TURNS_BEFORE_LEAVING, Attempt
from wakeful.execution.endings import AttemptEnd
from wakeful.execution.executor import Executor
from wakeful.execution.handler import Handler
from wakeful.execution.versions import version_of
from wakeful.model import OWN_AGENTS, Claim
from wakeful.stores.glance import Glance
from wakeful.stores.request import Ready
from wakeful.stores.verbs.cancel import cancelled_runs
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, ForgetRuns, Share, Wanted
from wakeful.stores.verbs.limits import Limit
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

AFTER_AN_ERROR = 0.25
LOOK_ANYWAY_EVERY = 300.0  # beside the lookout, which looks every few seconds
# uvloop makes no timer for delays below half of this, and such a handle cannot be asked when it is due.
SOONEST_LOOK = 0.001
GIVING_BACK_TAKES = 1.0
SOLO_PATIENCE = 5.0
CANCELLED_TIMES = 3
LEFT_TO_OTHERS_FOR = 0.1  # if the others have not taken the runs by then, they are too busy or gone
LET_GO_WITHIN = 5.0  # a run that has not ended by then is released all the same, and its writes are refused


def limits_of(agents: Mapping[str, Handler]) -> dict[str, Limit | None]:
    """The limits of each agent over all processes. An agent with one state runs one at a time anyway."""
    return {
        name: None
        if (concurrency := None if agent.options.state and agent.options.key is None else agent.options.concurrency)
        is None
        and agent.options.rate is None
        else Limit(concurrency, agent.options.rate)
        for name, agent in agents.items()
    }


def versions_of(agents: Mapping[str, Handler]) -> dict[str, str]:
    """The version of each agent's code."""
    return {name: version_of(one.function, one.options) for name, one in agents.items()}


class Worker:
    """Claims and executes runs of one app, at most `limit` at a time."""

    def __init__(
        self,
        app: str,
        agents: Mapping[str, Handler],
        store: DatabaseStore,
        executor: Executor,
        process: Callable[[], str],
        *,
        limit: int = 64,
        time_passes: bool = True,
    ) -> None:
        self._app = app
        self._agents = agents
        self._store = store
        self._executor = executor
        self._process = process
        self._limit = limit
        self._time_passes = time_passes  # False under a virtual clock: the test that moves it says when to look
        keeping = {
            name: agent.options.key is not None for name, agent in agents.items() if agent.options.state is not None
        }
        self._serial = frozenset(name for name, by_key in keeping.items() if not by_key)
        self._keeps_by_key = frozenset(name for name, by_key in keeping.items() if by_key)
        self._replacing = frozenset(name for name, agent in agents.items() if agent.options.overlap == "replace")
        # If every version continues with what another one recorded, older code may too.
        self._drains = {name: one.options.drain for name, one in agents.items()}
        self._limits = {name: limit for name, limit in limits_of(agents).items() if limit is not None}
        self._has_priorities = any(agent.options.priority is not None for agent in agents.values())
        self._left: dict[str, float] = {}  # agents whose runs were left to other processes, and since when
        self._left_timer: asyncio.TimerHandle | None = None
        self.peers: Mapping[str, int] = {}  # how many other processes have each agent
        self._versions: dict[str, str] = {}  # of the agents' code; read on start, not on declaration
        self._hot: dict[str, None] = dict.fromkeys(agents)
        self._aside = frozenset(name for name in agents if name.startswith(OWN_AGENTS))
        self._hinted: set[str] = set()  # since the current claim was made: it may not have seen these
        self._running: dict[str, int] = dict.fromkeys(agents, 0)
        self._attempts: dict[str, Attempt] = {}
        self._to_stop: dict[str, CancelAsked] = {}  # runs of this process that were cancelled
        self._asking_who: asyncio.Task[None] | None = None
        self._ask_again = False
        self._owned: set[str] = set()  # from the return of the claim, before the run has begun
        self._tasks: set[asyncio.Task[AttemptEnd]] = set()
        self._alone = False
        self._solo_waiting = False
        self._solo_since: float | None = None
        self._stopping = False
        self._orphans_possible = False
        self._loop_task: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._anyway: asyncio.TimerHandle | None = None
        self._looked = asyncio.Event()
        self._looked_at = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self._log = logger_of(part="worker")
        self.finished = 0
        self.on_finished: Callable[[], None] = lambda: None

    # life

    async def start(self) -> None:
        if self._loop_task is None:
            self._stopping = False
            self._looked_at = time.monotonic()
            self._versions = versions_of(self._agents)
            self._loop_task = asyncio.create_task(self._loop(), name="wakeful worker")
            self._look_anyway()

    def claim_nothing_more(self) -> None:
        """Claim nothing from now on, while other parts still stop."""
        self._stopping = True

    async def stop(self, grace: float = 10.0) -> None:
        """Claim nothing more, let runs finish within `grace` seconds, and release the rest."""
        self.claim_nothing_more()
        task, self._loop_task = self._loop_task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._cancel_timers()
        if self._tasks and grace > 0:
            self._log.info("stopping: waiting for runs to finish", runs=len(self._tasks), at_most=grace)
            await asyncio.wait(list(self._tasks), timeout=grace)
        await self._release()

    async def _release(self) -> None:
        if self._tasks:
            self._log.info("stopping: releasing runs", runs=len(self._tasks))
            for attempt in list(self._attempts.values()):
                attempt.interrupt("released")
            await asyncio.wait(list(self._tasks), timeout=LET_GO_WITHIN)
        if self._asking_who is not None:
            self._asking_who.cancel()
        with contextlib.suppress(StoreUnavailable, ClaimLost):
            await self._store.do(ForgetRuns(self._process(), frozenset(self._owned)))

    async def die(self) -> None:
        """Drop all runs at once and release none, like a killed process. For tests."""
        self.claim_nothing_more()
        self.drop_all()
        tasks = [*self._tasks, *([self._loop_task] if self._loop_task is not None else [])]
        self._loop_task = None
        if self._asking_who is not None:
            self._asking_who.cancel()
        self._cancel_timers()
        # An attempt that is cancelled while it commits wants to store that as its failure, and waits for it in vain.
        for _ in range(CANCELLED_TIMES):
            for task in tasks:
                task.cancel()
            for _ in range(TURNS_BEFORE_LEAVING):
                await asyncio.sleep(0)
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_WITHIN)

    def _cancel_timers(self) -> None:
        for timer in (self._next_look, self._anyway, self._left_timer):
            if timer is not None:
                timer.cancel()
        self._next_look = self._anyway = self._left_timer = None

    def drop_all(self) -> None:
        """The process lost its lease: all runs in flight belong to other processes now."""
        for attempt in list(self._attempts.values()):
            attempt.interrupt("lost")

    @property
    def in_flight(self) -> list[Attempt]:
        """The runs in flight."""
        return list(self._attempts.values())

    @property
    def silent_for(self) -> float:
        """Seconds since its last claim. Zero while there is no room, or while it is stopped."""
        if self._loop_task is None or self._stopping:
            return 0.0
        if self._loop_task.done():
            return math.inf
        return time.monotonic() - self._looked_at if self._wants() else 0.0

    async def idle(self) -> None:
        """Wait until no run is in flight."""
        await self._idle.wait()

    async def drained(self) -> None:
        """Wait until no run is in flight and none that is due is left to claim."""
        while self._tasks or self._wants() or (self._left and not self._stopping):
            if self._tasks:
                await asyncio.wait(list(self._tasks), return_when=asyncio.FIRST_COMPLETED)
            else:
                await self._looked.wait()
            self._looked.clear()

    def note_peers(self, peers: Mapping[str, int]) -> None:
        """How many other processes have each agent."""
        self.peers = peers

    # hints

    def hint(self, ready: Ready) -> None:
        """Runs may be ready: of these agents, or of any."""
        if ready.app is not None and ready.app != self._app:
            return
        for agent in ready.agents or self._agents:
            if agent in self._agents:
                self._hot[agent] = None
                self._hinted.add(agent)
        if self._owned and not self._replacing.isdisjoint(ready.agents):
            self.look_who_is_to_stop()  # a newer event may have superseded a run

    def glanced(self, seen: Glance) -> None:
        """The lookout saw runs: look for those that are due, and set the timer for the next."""
        due = frozenset(agent for agent, wait in seen.runs.items() if wait <= 0 and agent in self._agents)
        if due:
            self.look(Ready(self._app, due))
        later = [wait for wait in seen.runs.values() if wait > 0]
        if later:
            self._look_later(seconds(min(later)))
        self.look_who_is_to_stop()

    def look(self, ready: Ready | None = None) -> None:
        """Take a hint and look now."""
        self.hint(ready or Ready())
        if self._hot:
            self._store.journal.poke()

    def _look_later(self, delay: float) -> None:
        """Look when the next run is due. One timer for the earliest is enough: that look finds the next."""
        if not self._time_passes:
            return
        loop = asyncio.get_running_loop()
        if self._next_look is not None:
            if self._next_look.when() <= loop.time() + delay:
                return
            self._next_look.cancel()
        self._next_look = loop.call_later(max(delay, SOONEST_LOOK), self._look_due)

    def _look_due(self) -> None:
        self._next_look = None
        self.look()

    def _look_anyway(self) -> None:
        """The safety net under all hints."""
        self.look()
        self.look_who_is_to_stop()
        self._anyway = asyncio.get_running_loop().call_later(LOOK_ANYWAY_EVERY, self._look_anyway)

    def _leave_to_others(self, left: frozenset[str]) -> None:
        """Look again for runs that were left to other processes. By real time: a virtual clock stands still meanwhile."""
        loop = asyncio.get_running_loop()
        for agent in left:
            self._left.setdefault(agent, loop.time())
        if self._left and self._left_timer is None and not self._stopping:
            self._left_timer = loop.call_at(min(self._left.values()) + LEFT_TO_OTHERS_FOR, self._look_at_left)

    def _look_at_left(self) -> None:
        self._left_timer = None
        self.look(Ready(self._app, frozenset(self._left)))

    # stopping runs

    def look_who_is_to_stop(self, asked: CancelAsked | None = None) -> None:
        """Runs of this process may have been cancelled: ask which, besides the one that is known. One query at a time,
        repeated once if another request came before the answer.
        """
        if asked is not None and (attempt := self._attempts.get(asked.run)) is not None:
            attempt.stop(asked)
        if not self._owned or self._asking_who is not None:
            self._ask_again = self._asking_who is not None
            return
        self._asking_who = asyncio.get_running_loop().create_task(self._stop_some(), name="wakeful who is to stop")
        self._asking_who.add_done_callback(self._asked_who)

    async def _stop_some(self) -> None:
        try:
            found = await cancelled_runs(self._store.database, self._app, self._process())
        except StoreUnavailable:
            return  # the safety net asks again
        self._to_stop = {run: CancelAsked(run, by, note) for run, by, note in found}
        for identifier, asked in self._to_stop.items():
            if (attempt := self._attempts.get(identifier)) is not None:
                attempt.stop(asked)

    def _asked_who(self, task: asyncio.Task[None]) -> None:
        self._asking_who = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("cannot see which runs were cancelled; trying again", error=repr(error))
        if self._ask_again:
            self._ask_again = False
            self.look_who_is_to_stop()

    # claiming

    async def _loop(self) -> None:
        while not self._stopping:
            try:
                if self._orphans_possible:
                    await self._forget_orphans()
                claimed = await self._store.do(self._request())
            except Exception as error:
                if isinstance(error, StoreUnavailable):
                    note_outage(self._log, "cannot claim; trying again", error, again_in=AFTER_AN_ERROR)
                elif isinstance(error, ClaimLost):
                    self._log.warning("cannot claim; trying again", error=str(error), again_in=AFTER_AN_ERROR)
                else:
                    self._log.exception("cannot claim; trying again", again_in=AFTER_AN_ERROR)
                self._orphans_possible = True
                self.hint(Ready())
                await asyncio.sleep(AFTER_AN_ERROR)
                continue
            self._take(claimed)
            self._looked.set()

    async def _forget_orphans(self) -> None:
        """A claim whose answer was lost may have been committed: release the runs that we own without knowing."""
        count = await self._store.do(ForgetRuns(self._process(), frozenset(self._owned)))
        self._orphans_possible = False
        if count:
            self._log.warning("released claims whose answer was lost", runs=count)

    def _request(self) -> ClaimRuns:
        return ClaimRuns(
            self._app,
            self._process(),
            self._look_at_room,
            serial=self._serial,
            keeps_by_key=self._keeps_by_key,
            limits=self._limits,
            versions=self._versions,
            drains=self._drains,
            rests=not self._wants(),
        )

    def _look_at_room(self) -> Wanted:
        """The runs that a claim asks for, at the moment when its transaction is put together."""
        self._hinted.clear()
        wants = self._wants()
        room = self._limit - len(self._tasks) if self._has_priorities else None
        return Wanted(wants, not self._tasks, self._shares(wants), room)

    def _shares(self, wants: list[tuple[str, int]]) -> dict[str, Share]:
        """The shares of agents that other processes also serve, unless they already had their chance."""
        patient_since = asyncio.get_running_loop().time() - LEFT_TO_OTHERS_FOR
        return {
            agent: Share(self.peers[agent] + 1, self._running[agent])
            for agent, _ in wants
            if self.peers.get(agent) and self._left.get(agent, patient_since + 1) > patient_since
        }

    def _wants(self) -> list[tuple[str, int]]:
        """How many runs of which agents there is room for now."""
        if self._stopping or self._alone or (self._tasks and self._solo_has_waited_long()):
            return []
        room = self._limit - len(self._tasks)
        # Wakeful's own work (an alarm, a reminder) runs one at a time beside the others: it neither waits for them nor
        # takes a share of their room.
        wants = [(agent, 1) for agent in self._hot if agent in self._aside and not self._running[agent]]
        hot = [agent for agent in self._hot if agent not in self._aside]
        for place, agent in enumerate(hot):
            if room <= 0:
                break
            options = self._agents[agent].options
            concurrency = 1 if agent in self._serial else options.concurrency
            free = room if concurrency is None else min(room, concurrency - self._running[agent])
            if self._has_priorities:  # which runs go first is only known once they are read
                if free > 0:
                    wants.append((agent, free))
                continue
            share = max(1, room // max(1, len(hot) - place))
            if free > 0:
                most = min(free, share)
                wants.append((agent, most))
                room -= most
        return wants

    def _solo_has_waited_long(self) -> bool:
        """Whether a run that must go alone has waited long. If no pause comes by itself, claiming stops to make one."""
        if self._solo_since is None:
            return False
        return asyncio.get_running_loop().time() - self._solo_since > SOLO_PATIENCE

    def _take(self, claimed: Claimed) -> None:
        if claimed.failing:
            self._executor.failing |= claimed.failing
        self._looked_at = time.monotonic()
        self._solo_waiting = claimed.solo_waiting
        if not claimed.solo_waiting:
            self._solo_since = None
        elif self._solo_since is None:
            self._solo_since = asyncio.get_running_loop().time()
        counts: dict[str, int] = {}
        for claim in claimed.claims:
            counts[claim.agent] = counts.get(claim.agent, 0) + 1
        for agent, most in claimed.asked:
            self._hot.pop(agent, None)
            if counts.get(agent, 0) >= most or agent in self._hinted:
                self._hot[agent] = None  # there may be more; now behind the other agents
            if agent not in claimed.left:
                self._left.pop(agent, None)
        self._leave_to_others(claimed.left)
        if claimed.next_due is not None:
            self._look_later(seconds(claimed.next_due))
        for claim in claimed.claims:
            self._launch(claim)
        if claimed.solo_waiting and not claimed.alone and not self._tasks:
            self.hint(Ready())  # what it waited for ended while the claim was in flight: nothing else would say so

    # executing

    def _launch(self, claim: Claim) -> None:
        self._idle.clear()
        self._alone = claim.crashes >= 2
        self._running[claim.agent] += 1
        self._owned.add(claim.id)
        attempt = self._executor.execute(claim, self._agents[claim.agent], self._enter)
        task = asyncio.get_running_loop().create_task(attempt)
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, claim))

    def _enter(self, attempt: Attempt) -> None:
        self._attempts[attempt.id] = attempt
        if (asked := self._to_stop.get(attempt.id)) is not None:
            attempt.stop(asked)

    def _done(self, claim: Claim, task: asyncio.Task[AttemptEnd]) -> None:
        self._tasks.discard(task)
        self._attempts.pop(claim.id, None)
        self._owned.discard(claim.id)
        self._to_stop.pop(claim.id, None)
        self._running[claim.agent] -= 1
        self.finished += 1
        self._looked_at = time.monotonic()  # there is room again
        self.on_finished()
        if not self._tasks:
            self._alone = False
            self._idle.set()
        if not task.cancelled():
            if (error := task.exception()) is not None:
                self._log.error("the executor failed; the run stays claimed until this process ends", error=repr(error))
                self._orphans_possible = True
            elif (delay := task.result().delay) is not None and not self._stopping:
                self._look_later(seconds(delay) + 0.001)
        if claim.agent in self._serial or claim.limited:
            self._hot[claim.agent] = None  # the next run may take the state, or the slot: nothing else would say so
        if (self._hot or self._solo_waiting) and not self._stopping:
            if self._solo_waiting:
                self.hint(Ready())
            self._store.journal.poke()
