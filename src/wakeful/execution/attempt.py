"""One attempt of a run: one try, under one claim. The executor drives it, and every part that works for the run uses
it. The handler gets a `Run` instead.

Two numbers decide when a run can leave memory: calls that do something (`active`) and calls that only wait for time
(`_waits`). Once only waits are left, the attempt is interrupted by cancelling its task, never by raising through user
code, and the run goes back to the store until its earliest wait is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Literal, NoReturn

from wakeful.clock import Microseconds, seconds
from wakeful.connect.rows.causes import cause_of
from wakeful.errors import CancelAsked, ClaimLost, Halted, Persistent
from wakeful.execution.circuits import CircuitOpen
from wakeful.execution.facts import RunFacts
from wakeful.execution.ledger import EffectLedger
from wakeful.execution.locks import locks_held
from wakeful.execution.outgoing import Outgoing
from wakeful.execution.record import Record
from wakeful.execution.runlog import RunLog
from wakeful.execution.state import AgentState
from wakeful.execution.surroundings import RunSurroundings
from wakeful.functions.retry import WAITS_IN_PLACE
from wakeful.model import Claim, Event, Step
from wakeful.policy.loops import depth_of, next_link
from wakeful.stores.verbs.waits import Wait

Interruption = Literal["waiting", "deadline", "released", "lost", "held", "parked", "stuck", "cancelled"]

# The result of a call may still be on its way to the handler through tasks, gathers and groups, each taking a turn of
# the event loop. What follows from it (the next call, or an error) must come before the run leaves memory.
TURNS_BEFORE_LEAVING = 25
BRANCHES_END_WITHIN = 1.0
CURRENT: contextvars.ContextVar[Attempt] = contextvars.ContextVar("wakeful_attempt")
_inside_step: contextvars.ContextVar[str | None] = contextvars.ContextVar("wakeful_inside_step", default=None)
inside_transaction: contextvars.ContextVar[bool] = contextvars.ContextVar("wakeful_inside_transaction", default=False)


def current_attempt() -> Attempt:
    """The attempt that this code belongs to, for Wakeful's own handlers. LookupError outside of one."""
    return CURRENT.get()


class Attempt:
    """The state of one try of a run."""

    __slots__ = (  # a dict of so many names would take 2 kB for each run in flight
        "_branches",
        "_calls",
        "_cause",
        "_log",
        "_random",
        "_resting",
        "_under_way",
        "_waits",
        "active",
        "agent",
        "app",
        "claim",
        "clock",
        "cut_off",
        "event",
        "events",
        "facts",
        "halted",
        "handles",
        "held_for",
        "id",
        "interrupted",
        "ledger",
        "locks_in_use",
        "number",
        "outgoing",
        "over",
        "parked_for",
        "progress_at",
        "record",
        "releasing",
        "state",
        "stuck_in",
        "surroundings",
        "task",
        "to_stop",
    )

    def __init__(
        self,
        claim: Claim,
        event: Event,
        surroundings: RunSurroundings,
        *,
        state_model: type[Any] | None = None,
        events: list[Event] | None = None,
    ) -> None:
        self.claim = claim
        self.id = claim.id
        self.agent = claim.agent
        self.number = claim.attempts + 1
        self.event = event
        self.events = [event] if events is None else events
        self.surroundings = surroundings
        self.app = surroundings.app
        self.clock = surroundings.clock
        self.record = Record(claim, surroundings)
        self.ledger = EffectLedger(claim.effects)
        self.facts: RunFacts | None = None  # what its handler told policy
        self.handles = False  # its handler has begun
        self.outgoing = Outgoing()
        self.state = (
            None if state_model is None or claim.committed is not None else AgentState(self.record, state_model, claim)
        )
        self.progress_at = surroundings.clock.now()
        self.active = 0
        self.interrupted: Interruption | None = None
        self.held_for: str | None = None
        self.parked_for: CircuitOpen | None = None
        self.halted: Halted | None = None
        self.stuck_in: str | None = None
        self.cut_off: Exception | None = None  # the interruption ended work that must not be repeated without a person
        self.to_stop: CancelAsked | None = None
        self.releasing = False
        self.locks_in_use: set[str] = set()  # held or requested by a branch of the handler
        self.over = False
        self._calls = 0  # calls of actions in flight
        self._resting = 0  # active calls that wait in place
        self._waits: list[Microseconds] = []
        self._branches: set[asyncio.Task[Any]] = set()  # other tasks of the handler that are inside a call
        self._under_way: list[str] = []  # steps, actions and transactions in flight
        self._random: Random | None = None
        self._log: RunLog | None = None
        self._cause: str | None = None
        self.task: asyncio.Task[Any] | None = None  # cancelled to interrupt the attempt

    # facts

    @property
    def root(self) -> str:
        """The first run of its replays and forks; itself if there are none."""
        return self.claim.root

    @property
    def caused_by(self) -> Event:
        """The event that everything from this run goes back to: of several, the one deepest in its chain."""
        return self.event if len(self.events) == 1 else max(self.events, key=depth_of)

    @property
    def cause(self) -> str:
        """A text that identifies this run. A change that comes back as an event is traced by it."""
        if self._cause is None:
            self._cause = cause_of(self.caused_by, app=self.app, agent=self.agent, run=self.id)
        return self._cause

    @property
    def log(self) -> RunLog:
        if self._log is None:
            self._log = RunLog(self)
        return self._log

    @property
    def random(self) -> Random:
        """The run's own generator, the same in every attempt."""
        if self._random is None:
            self._random = Random(self.claim.root)
        return self._random

    @property
    def chance(self) -> Random:
        """The source of jitter."""
        return self.surroundings.chance

    def inherited(self) -> dict[str, Any]:
        """The attributes that a new event inherits from the event of this run."""
        cause = self.caused_by
        return {
            "causationid": cause.id,
            "correlationid": cause.correlationid or cause.id,
            "traceparent": cause.traceparent,
            **next_link(cause, self.app, self.agent),
        }

    def name_of_agent(self, agent: Any) -> str | None:
        """The name of an agent of the app, by its name or its function; None if there is none."""
        agents = self.surroundings.agents
        if isinstance(agent, str):
            return agent if agent in agents else None
        return next((name for name, function in agents.items() if function is agent), None)

    def stand_in(self, declared: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function to call for a step, an action or its find: its own, unless a test replaced it."""
        stand_in = self.surroundings.stand_in
        return function if stand_in is None else stand_in(declared, function)

    # progress

    def progress(self) -> None:
        """Mark progress: the stuck timer restarts."""
        self.progress_at = self.clock.now()

    @property
    def whereabouts(self) -> str:
        """Where the handler is, in words."""
        names = list(self._under_way)
        return f"in {', '.join(names)}" if names else "outside of all steps"

    def interrupt_stuck(self, since: Microseconds, where: str) -> None:
        """End this attempt, unless it has made progress since."""
        if self.progress_at == since:
            self.stuck_in = where
            self.interrupt("stuck")

    # calls of the handler

    @property
    def in_flight(self) -> int:
        """How many `run.*` calls have not returned yet."""
        return self.active + len(self._waits)

    def enter(self, *, marked: bool = True) -> None:
        """Begin a call. Without `marked` the caller marks progress itself."""
        if self.interrupted is not None or self.over or self.to_stop is not None:
            raise asyncio.CancelledError
        if inside_transaction.get():
            message = "run.* inside run.transaction: the function may only use its db. Do this before or after it"
            raise Persistent(message)
        self.active += 1
        if marked:
            self.progress_at = self.clock.now()
        task = asyncio.current_task()
        if task is not self.task and task is not None:
            self._branches.add(task)

    def exit(self) -> None:
        """End a call."""
        self.active -= 1
        self.progress_at = self.clock.now()
        if self._branches:
            self._branches.discard(asyncio.current_task())
        if self.to_stop is not None:
            self._stop_if_quiet()
        if self._waits:
            self._consider_leaving()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """A call is in flight for the length of the block."""
        self.enter()
        try:
            yield
        except ClaimLost:
            self.interrupt("lost")  # the handler may catch this error; it must still do nothing more
            raise
        finally:
            self.exit()

    @contextlib.contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """Like at_work, for a call that may wait for long."""
        self.refuse_inside(call)
        self._refuse_lock(call)
        self.enter()
        try:
            yield
        except ClaimLost:
            self.interrupt("lost")
            raise
        finally:
            self.exit()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """A call waits in place for the length of the block. A run that is being cancelled need not wait for it."""
        self._resting += 1
        try:
            self._stop_if_quiet()
            yield
        finally:
            self._resting -= 1

    def refuse_inside(self, call: str) -> None:
        """Raise Persistent inside a step: a step does not run again on resume, so the calls after it would shift."""
        self.progress_at = self.clock.now()
        name = _inside_step.get()
        if name is not None and inside_transaction.get():
            message = f"{call} inside run.transaction: its value would differ on resume. Pass it in as an argument"
            raise Persistent(message)
        if name is not None:
            message = f"{call} inside step {name}: its value would differ on resume. Pass it in as an argument"
            raise Persistent(message)

    def refuse_when_over(self) -> None:
        """For calls that do not wait: an attempt that is over accepts nothing more."""
        if self.interrupted is not None or self.over:
            raise asyncio.CancelledError

    def _refuse_lock(self, call: str) -> None:
        """Refuse a durable wait inside a lock: a waiting run leaves memory and cannot hold a lock."""
        held = locks_held(self.claim)
        if held:
            message = (
                f'{call} inside run.lock("{held[-1].name}") of agent {self.agent}: a waiting run leaves memory and would '
                "lose the lock. Wait before the block, or after it"
            )
            raise Persistent(message)

    def inside(self, name: str) -> contextvars.Token[str | None]:
        """Mark that from here on a step's or a transaction's own code runs, until `outside`. The caller marks progress,
        because it knows the time.
        """
        self._under_way.append(name)
        return _inside_step.set(name)

    def outside(self, token: contextvars.Token[str | None]) -> None:
        name = _inside_step.get()
        under_way = self._under_way
        if under_way and under_way[-1] == name:
            under_way.pop()
        elif name in under_way:
            under_way.remove(name)
        _inside_step.reset(token)

    def action_begins(self) -> None:
        self._calls += 1

    def action_ends(self) -> None:
        """End the call of an action. An attempt that is to be held or parked lets actions in flight finish first."""
        self._calls -= 1
        if self._calls == 0 and self.interrupted in {"held", "parked"} and self.task is not None and not self.over:
            self.task.cancel()

    # waits

    async def rest(self, step: Step, until: Microseconds, *, wait: Wait | None = None, in_place: bool = False) -> None:
        """Wait until a time. If nothing else goes on, the run leaves memory, unless the wait is short and `in_place` is
        allowed.
        """
        delay = until - self.clock.now()
        if delay <= 0:
            return
        if in_place and delay <= WAITS_IN_PLACE:
            await self.surroundings.sleep(seconds(delay))
            return
        self.record.waiting[step.key] = step
        if wait is not None:
            self.record.awaited[step.key] = wait
        self._waits.append(until)
        self.active -= 1
        self._consider_leaving()
        try:
            await self.surroundings.sleep(seconds(delay))
        finally:
            self.active += 1
            self._waits.remove(until)
            if self.interrupted is None:  # its time has come, or the handler stopped waiting for it
                self.record.waiting.pop(step.key, None)
                self.record.awaited.pop(step.key, None)

    async def wait_until(self, moment: Microseconds, step: Step) -> None:
        """Wait until a time. A short wait happens in place; a longer one is durable: if nothing else goes on, the run
        leaves memory.
        """
        if moment - self.clock.now() > WAITS_IN_PLACE:
            self.record.retrying[step.key] = step
        await self._pause(moment)
        self.record.retrying.pop(step.key, None)

    async def wait_for_effect(self, identifier: str, moment: Microseconds) -> None:
        """Like wait_until, for an effect, whose state is already stored."""
        self.ledger.due[identifier] = moment
        await self._pause(moment)
        self.ledger.due.pop(identifier, None)

    async def _pause(self, moment: Microseconds) -> None:
        delay = moment - self.clock.now()
        if delay <= WAITS_IN_PLACE:
            if delay > 0:
                with self.resting():
                    await self.surroundings.sleep(seconds(delay))
            return
        self._waits.append(moment)
        self.active -= 1
        self._stop_if_quiet()
        self._consider_leaving()
        try:
            await self.surroundings.sleep(seconds(delay))
        finally:
            self.active += 1
            self._waits.remove(moment)

    # dependencies

    async def may_call(self, dependency: str | None) -> CircuitOpen | None:
        """None if a dependency may be called now; CircuitOpen if its circuit is open."""
        circuits = self.surroundings.circuits
        return None if dependency is None or circuits is None else await circuits.ask(dependency, self.claim.seq)

    async def called(self, dependency: str | None, error: BaseException | None = None) -> CircuitOpen | None:
        """Report how a call of a dependency ended. CircuitOpen if it must not be called again now."""
        circuits = self.surroundings.circuits
        if dependency is None or circuits is None or self.interrupted is not None:
            return None
        if error is not None and self.surroundings.time_for_calls() <= 0:  # our own fault: the lease is over
            return None
        return await circuits.report(dependency, self.claim.seq, error)

    async def park(self, shut: CircuitOpen, step: Step | None = None) -> None:
        """End this attempt until the circuit lets the run come back. A failed step is stored with it. Does not return."""
        if step is not None:
            self.record.retrying[step.key] = step
        self.parked_for = self.parked_for or shut
        self.interrupt("parked")
        await asyncio.get_running_loop().create_future()  # the cancellation arrives here

    async def park_halted(self, halted: Halted) -> NoReturn:
        """End this attempt until the halt is lifted."""
        self.halted = self.halted or halted
        self.interrupt("parked")
        await asyncio.get_running_loop().create_future()  # the cancellation arrives here
        raise AssertionError

    # endings

    def hold_from_outside(self, reason: str) -> None:
        """End this attempt and hold the run for a person."""
        self.held_for = self.held_for or reason
        self.interrupt("held")

    async def hold(self, reason: str) -> None:
        """Like hold_from_outside, for a call of the handler. Does not return."""
        self.hold_from_outside(reason)
        await asyncio.get_running_loop().create_future()  # the cancellation arrives here

    def stop(self, asked: CancelAsked) -> None:
        """Cancel the run: calls in flight finish, no new call begins, and waits are cut short."""
        if self.to_stop is None and self.claim.cancelled is None:  # otherwise this attempt already undoes its effects
            self.to_stop = asked
            self._stop_if_quiet()

    def _stop_if_quiet(self) -> None:
        if self.to_stop is not None and self.active <= self._resting:
            self.interrupt("cancelled")

    async def begin_nothing_more(self) -> None:
        """A new call in a run that is being cancelled: wait for the cancellation, which comes once all other calls have
        ended.
        """
        self._stop_if_quiet()
        await asyncio.get_running_loop().create_future()

    def _consider_leaving(self) -> None:
        """Leave memory if only waits are left, and still so after all other tasks had their turn."""
        if self._waits and self.active == 0:
            self._leave_if_idle(TURNS_BEFORE_LEAVING)

    def _leave_if_idle(self, turns: int) -> None:
        if self._waits and self.active == 0 and self.interrupted is None:
            if turns:
                asyncio.get_running_loop().call_soon(self._leave_if_idle, turns - 1)
            else:
                self.interrupt("waiting")

    def interrupt(self, why: Interruption) -> None:
        """End this attempt by cancelling its task. Every later `run.*` call of it is cancelled too."""
        if self.interrupted is None and (self.releasing or not self.over):
            self.interrupted = why
            if self.task is not None and not (why in {"held", "parked"} and self._calls):
                self.task.cancel()

    async def end(self) -> None:
        """The handler has ended. From here on nothing interrupts the attempt. Branches that the handler left behind are
        cancelled: they would work for a run that may soon have another owner. If the run is being cancelled, their
        calls finish first.
        """
        if self.to_stop is not None and self.interrupted is None and self._branches:
            await asyncio.wait(list(self._branches))
        self.over = True
        if self._branches:
            branches = list(self._branches)
            for branch in branches:
                branch.cancel()
            await asyncio.wait(branches, timeout=BRANCHES_END_WITHIN)
