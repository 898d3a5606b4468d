"""The worker: takes runs as long as there is room, and lets the executor have them.

No polling: a claim rests in the journal until a transaction makes runs ready, another process says so, or the next
due time comes. `_hot` holds the agents that may have something due; a claim that comes back short takes its agent out,
and every hint puts it in again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import structlog

from wakeful.clock import seconds
from wakeful.errors import ClaimLost, StoreUnavailable
from wakeful.execution.executor import Ended, Executor, Handler
from wakeful.execution.run import TURNS_BEFORE_LEAVING, Run
from wakeful.model import Claim
from wakeful.stores.base import Claimed, ClaimRuns, ForgetRuns, Ready

AFTER_AN_ERROR = 0.25
LOOK_ANYWAY_EVERY = 5.0
GIVING_BACK_TAKES = 1.0
SOLO_PATIENCE = 5.0
CANCELLED_TIMES = 3
LET_GO_WITHIN = 5.0  # what does not end then is given back all the same, and its writes are refused


class ClaimingStore(Protocol):
    """What the worker needs of the store."""

    async def claim(self, request: ClaimRuns, *, now: bool) -> Claimed: ...

    async def forget(self, request: ForgetRuns) -> int: ...

    def poke(self) -> None: ...


class Worker:
    """Claims and executes runs of one app, at most `limit` at a time."""

    def __init__(
        self,
        app: str,
        agents: Mapping[str, Handler],
        store: ClaimingStore,
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
        self._time_passes = time_passes  # under a virtual clock it does not: whoever moves that says when to look
        keeping = {
            name: agent.options.key is not None for name, agent in agents.items() if agent.options.state is not None
        }
        self._serial = frozenset(name for name, by_key in keeping.items() if not by_key)
        self._keeps_by_key = frozenset(name for name, by_key in keeping.items() if by_key)
        self._hot: dict[str, None] = dict.fromkeys(agents)
        self._hinted: set[str] = set()  # since the claim that is under way was put together: it may not have seen these
        self._running: dict[str, int] = dict.fromkeys(agents, 0)
        self._runs: dict[str, Run] = {}
        self._owned: set[str] = set()  # from the moment a claim comes back, before its run has begun
        self._tasks: set[asyncio.Task[Ended]] = set()
        self._alone = False
        self._solo_waiting = False
        self._solo_since: float | None = None
        self._stopping = False
        self._orphans_possible = False
        self._loop_task: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._anyway: asyncio.TimerHandle | None = None
        self._looked = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._log = structlog.get_logger("wakeful").bind(part="worker")
        self.finished = 0
        self.on_finished: Callable[[], None] = lambda: None

    # life

    async def start(self) -> None:
        if self._loop_task is None:
            self._stopping = False
            self._loop_task = asyncio.create_task(self._loop(), name="wakeful worker")
            self._look_anyway()

    def claim_nothing_more(self) -> None:
        """From now on, while others still have to be stopped."""
        self._stopping = True

    async def stop(self, grace: float = 10.0) -> None:
        """Claim nothing more; let what runs finish within `grace` seconds; give the rest back."""
        self.claim_nothing_more()
        task, self._loop_task = self._loop_task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for timer in (self._next_look, self._anyway):
            if timer is not None:
                timer.cancel()
        self._next_look = self._anyway = None
        if self._tasks and grace > 0:
            self._log.info("stopping: waiting for runs to finish", runs=len(self._tasks), at_most=grace)
            await asyncio.wait(list(self._tasks), timeout=grace)
        await self._release()

    async def _release(self) -> None:
        if self._tasks:
            self._log.info("stopping: giving runs back", runs=len(self._tasks))
            for run in list(self._runs.values()):
                run.interrupt("released")
            await asyncio.wait(list(self._tasks), timeout=LET_GO_WITHIN)
        with contextlib.suppress(StoreUnavailable, ClaimLost):
            await self._store.forget(ForgetRuns(self._process(), frozenset(self._owned)))

    async def die(self) -> None:
        """Drop everything at once and give nothing back, as if the process were gone. For tests."""
        self.claim_nothing_more()
        self.drop_all()
        tasks = [*self._tasks, *([self._loop_task] if self._loop_task is not None else [])]
        self._loop_task = None
        for timer in (self._next_look, self._anyway):
            if timer is not None:
                timer.cancel()
        self._next_look = self._anyway = None
        # An attempt that is told so while it commits wants to store that as its failure, and waits for that in vain.
        for _ in range(CANCELLED_TIMES):
            for task in tasks:
                task.cancel()
            for _ in range(TURNS_BEFORE_LEAVING):
                await asyncio.sleep(0)
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_WITHIN)

    def drop_all(self) -> None:
        """The process lost its lease: everything in flight belongs to others now."""
        for run in list(self._runs.values()):
            run.interrupt("lost")

    @property
    def in_flight(self) -> list[Run]:
        """What runs now."""
        return list(self._runs.values())

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await self._idle.wait()

    async def settled(self) -> None:
        """Wait until nothing runs and nothing that is due is left to claim."""
        while self._tasks or self._wants():
            if self._tasks:
                await asyncio.wait(list(self._tasks), return_when=asyncio.FIRST_COMPLETED)
            else:
                await self._looked.wait()
            self._looked.clear()

    # hints

    def hint(self, ready: Ready) -> None:
        """Runs may be ready: of these agents, or of any."""
        if ready.app is not None and ready.app != self._app:
            return
        for agent in ready.agents or self._agents:
            if agent in self._agents:
                self._hot[agent] = None
                self._hinted.add(agent)

    def look(self, ready: Ready | None = None) -> None:
        """Take a hint and look now."""
        self.hint(ready or Ready())
        if self._hot:
            self._store.poke()

    def _look_later(self, delay: float) -> None:
        """Look when the next run is due. One timer, for the earliest: whoever looks then learns of the next."""
        if not self._time_passes:
            return
        loop = asyncio.get_running_loop()
        if self._next_look is not None:
            if self._next_look.when() <= loop.time() + delay:
                return
            self._next_look.cancel()
        self._next_look = loop.call_later(delay, self._look_due)

    def _look_due(self) -> None:
        self._next_look = None
        self.look()

    def _look_anyway(self) -> None:
        """The safety net under all hints."""
        self.look()
        self._anyway = asyncio.get_running_loop().call_later(LOOK_ANYWAY_EVERY, self._look_anyway)

    # claiming

    async def _loop(self) -> None:
        while not self._stopping:
            try:
                if self._orphans_possible:
                    await self._forget_orphans()
                claimed = await self._store.claim(
                    ClaimRuns(
                        self._app,
                        self._process(),
                        self._ask,
                        self._may_go_solo,
                        serial=self._serial,
                        keeps_by_key=self._keeps_by_key,
                    ),
                    now=bool(self._wants()),
                )
            except Exception as error:
                if isinstance(error, StoreUnavailable | ClaimLost):
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
        """A claim whose answer was lost may have been committed: give back what we own without knowing."""
        count = await self._store.forget(ForgetRuns(self._process(), frozenset(self._owned)))
        self._orphans_possible = False
        if count:
            self._log.warning("claims whose answer was lost were given back", runs=count)

    def _ask(self) -> list[tuple[str, int]]:
        """What a claim asks for, at the moment it is put together."""
        self._hinted.clear()
        return self._wants()

    def _wants(self) -> list[tuple[str, int]]:
        """How many runs of which agents there is room for now."""
        if self._stopping or self._alone or (self._tasks and self._solo_has_waited_long()):
            return []
        room = self._limit - len(self._tasks)
        wants = []
        for place, agent in enumerate(list(self._hot)):
            if room <= 0:
                break
            options = self._agents[agent].options
            concurrency = 1 if agent in self._serial else options.concurrency
            free = room if concurrency is None else min(room, concurrency - self._running[agent])
            share = max(1, room // max(1, len(self._hot) - place))
            if free > 0:
                most = min(free, share)
                wants.append((agent, most))
                room -= most
        return wants

    def _solo_has_waited_long(self) -> bool:
        """A run that must go alone waits for a lull; when none comes, one is made by claiming nothing more."""
        if self._solo_since is None:
            return False
        return asyncio.get_running_loop().time() - self._solo_since > SOLO_PATIENCE

    def _may_go_solo(self) -> bool:
        return not self._tasks

    def _take(self, claimed: Claimed) -> None:
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
                self._hot[agent] = None  # there may be more; behind the others now
        if claimed.next_due is not None:
            self._look_later(seconds(claimed.next_due))
        for claim in claimed.claims:
            self._launch(claim)
        if claimed.solo_waiting and not claimed.alone and not self._tasks:
            self.hint(Ready())  # what it had to wait for ended while the claim was under way: nobody else would say so

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

    def _enter(self, run: Run) -> None:
        self._runs[run.id] = run

    def _done(self, claim: Claim, task: asyncio.Task[Ended]) -> None:
        self._tasks.discard(task)
        self._runs.pop(claim.id, None)
        self._owned.discard(claim.id)
        self._running[claim.agent] -= 1
        self.finished += 1
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
        if claim.agent in self._serial:
            self._hot[claim.agent] = None  # the next one may have the state now: nobody else would say so
        if (self._hot or self._solo_waiting) and not self._stopping:
            if self._solo_waiting:
                self.hint(Ready())
            self._store.poke()
