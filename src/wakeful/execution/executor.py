"""One attempt of one run, as a pipeline: check that it may start → read the data → run the handler → check its output →
commit → release its staged effects. Every failure on the way becomes an ending. A cancelled run takes another way, from
any point: → undo its effects → end.

Each ending is one request to the store, and each request is one transition: `verifying` makes the request of a handler
that returned, `endings` those of attempts that were interrupted or failed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from pydantic_core import from_json

from wakeful.clock import to_text as time_text
from wakeful.errors import (
    CancelAsked,
    CancelledInside,
    ClaimLost,
    InvalidData,
    PayloadTampered,
    StateChanged,
    TooManyCrashes,
    UnfinishedCalls,
)
from wakeful.execution.acting import abandon_effects, settle_effects
from wakeful.execution.attempt import CURRENT, Attempt
from wakeful.execution.changed_code import ChangedCode
from wakeful.execution.compensation import compensate
from wakeful.execution.data import edit, read_events
from wakeful.execution.deadline import DeadlineTimer, time_left
from wakeful.execution.endings import AttemptEnd, Endings
from wakeful.execution.failing import take_note
from wakeful.execution.handler import Handler, refuse_without_key
from wakeful.execution.release import release
from wakeful.execution.run import Run
from wakeful.execution.state import FACT as STATE_FACT
from wakeful.execution.surroundings import Cancellable, RunSurroundings
from wakeful.execution.tampering import refuse_tampered_claim
from wakeful.execution.verifying import verify
from wakeful.execution.versions import NewCode, change_of, version_of
from wakeful.functions.call import call, is_async
from wakeful.model import Claim, Event, RunOutcome
from wakeful.stores.tampered import Tampered
from wakeful.stores.verbs.cancel import FinishCancelled, failed_with
from wakeful.stores.verbs.commit import CloseRun, CommitRun
from wakeful.stores.verbs.effects import effects_to_undo
from wakeful.stores.verbs.outbox import lanes_of
from wakeful.stores.verbs.progress import FinishRun, LeaveRun
from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore


class Executor:
    """Executes claims."""

    def __init__(self, store: DatabaseStore, surroundings: RunSurroundings, read_event: Callable[[str], Event]) -> None:
        self._store = store
        self._around = surroundings
        self._read_event = read_event
        self._endings = Endings(store, surroundings)
        self._changed = ChangedCode(store, surroundings)
        self.failing = self._endings.failing
        self._log = logger_of(part="executor")

    async def execute(self, claim: Claim, agent: Handler, on_attempt: Callable[[Attempt], None]) -> AttemptEnd:
        """Run the whole attempt. Never raises an error of the handler; ClaimLost ends it without a record. The run may
        be cancelled at any time, also before the attempt: then its effects are undone.
        """
        if self._around.codec is not None:
            try:
                refuse_tampered_claim(claim, self._around.codec)
            except PayloadTampered as error:
                return await self._endings.tampered(claim, error)
        if claim.steps:
            claim.failing = take_note(claim)
        claim.once = agent.flow.once is not None
        try:
            if claim.cancelled is not None and claim.crashes < agent.options.max_crashes:
                raise CancelAsked(claim.id, *claim.cancelled)
            return await self._do(claim, agent, on_attempt)
        except CancelAsked as asked:
            claim.cancelled = (asked.by, asked.note)
        try:
            return await self._undo(claim, agent, on_attempt)
        except ClaimLost as error:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(error))
            return AttemptEnd()

    async def _do(self, claim: Claim, agent: Handler, on_attempt: Callable[[Attempt], None]) -> AttemptEnd:
        event = self._read_event(claim.envelope)
        events = [self._read_event(envelope) for envelope in claim.events] or [event]
        misfit: InvalidData | None = None
        if claim.data is not None:
            try:
                edit(events, from_json(claim.data), agent)
            except InvalidData as error:
                misfit = error
        event = events[0]
        attempt: Attempt | None = None
        structlog.contextvars.bind_contextvars(run=claim.id, agent=claim.agent, trace=event.traceparent)
        try:
            if (refusal := self._refuse_start(claim, agent)) is not None:
                await (self._endings.finish_dead(refusal) if refusal.state == "dead" else self._store.do(refusal))
                return AttemptEnd()
            if misfit is not None:
                return await self._endings.failed(claim, agent, misfit)
            change = None if claim.first_start else change_of(claim, version_of(agent.function, agent.options))
            if change is not None and not await self._changed.met(claim, agent, change):
                return AttemptEnd()
            attempt = Attempt(claim, event, self._around, state_model=agent.options.state, events=events)
            attempt.record.asked = None if change is None else set()
            on_attempt(attempt)
            attempt.task = asyncio.current_task()
            CURRENT.set(attempt)
            return await self._attempt(attempt, claim, agent, change)
        except ClaimLost as error:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(error))
            return AttemptEnd()
        except CancelAsked:
            raise
        except Exception as error:
            # Not the handler's error: ending the attempt failed. It counts as a failure, so that it cannot go on for
            # ever.
            self._log.exception("the executor failed")
            return await self._endings.failed(claim, agent, error)
        finally:
            if attempt is not None:
                # The task's context holds the attempt: keeping both would leave a cycle to the garbage collector.
                attempt.task = None
                if attempt.locks_in_use:  # its locks are free now that it is not running
                    self._around.lock_news.tell()

    def _refuse_start(self, claim: Claim, agent: Handler) -> FinishRun | None:
        """The ending of a run that must not start: expired before its first start, crashed too often, or past its
        deadline.
        """
        if claim.first_start and claim.expires_at is not None and claim.expires_at <= claim.claimed_at:
            reason = f"expired at {time_text(claim.expires_at)}, before it could start"
            return FinishRun(claim, "cancelled", reason=reason, outcome=RunOutcome("cancelled"), expired=True)
        if claim.crashes >= agent.options.max_crashes:
            error = TooManyCrashes(
                f"in flight in {claim.crashes} processes that died, {agent.options.max_crashes} allowed"
            )
            return self._endings.dead(claim, error, "crashed too often", agent)
        if claim.committed is not None:  # its work is done, and its staged effects are promised
            return None
        if agent.options.deadline is not None and time_left(claim, agent.options.deadline, claim.claimed_at) <= 0:
            return self._endings.past_deadline(claim, agent)
        return None

    async def _attempt(self, attempt: Attempt, claim: Claim, agent: Handler, change: NewCode | None) -> AttemptEnd:
        timer = self._start_deadline(attempt, claim, agent)
        try:
            if claim.effects and (left := attempt.ledger.to_settle()):
                await settle_effects(attempt, left)
            if claim.committed is None:
                ending = await self._handle(attempt, claim, agent)
                if ending is None:  # the handler swallowed the cancellation
                    return await self._endings.interrupted(attempt, agent)
                if change is not None:
                    await self._changed.report(attempt, change)
                if isinstance(ending, FinishRun):
                    ending.well_again = self._endings.is_well_again(claim, done=ending.state == "done")
                    await self._store.do(ending)
                    return AttemptEnd()
                ending.well_again = self._endings.is_well_again(claim, done=ending.then == "done")
                await self._commit(ending)
                if ending.then != "running":
                    return AttemptEnd()
                claim.committed, claim.output = ending.outcome, ending.output
            await release(attempt)
            outcome = replace(claim.committed, execution="ok")
            well_again = self._endings.is_well_again(claim, done=True)
            await self._store.do(CloseRun(claim, outcome, claim.output, well_again=well_again))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            if (
                attempt.interrupted is None and attempt.to_stop is None
            ):  # the handler awaited something that was cancelled, or cancelled itself
                inside = CancelledInside("the handler was cancelled from inside")
                inside.__cause__ = error
                return await self._endings.failed(claim, agent, inside, attempt.record.pending())
            return await self._endings.interrupted(attempt, agent)
        except (ClaimLost, CancelAsked):
            raise
        except PayloadTampered as error:
            return await self._endings.tampered(claim, error, attempt.record.pending())
        except StateChanged as error:
            self._log.info("the state changed meanwhile; the run is retried", error=str(error))
            await self._store.do(LeaveRun(claim, "ready", "waited", reason=str(error), clear=[STATE_FACT]))
            return AttemptEnd(0)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() in a handler, or worse, ends the attempt and not the worker
            if attempt.interrupted is not None or attempt.to_stop is not None:
                return await self._endings.interrupted(attempt, agent)
            return await self._endings.failed(claim, agent, error, attempt.record.pending())
        finally:
            if timer is not None:
                timer.cancel()
        return AttemptEnd()

    async def _undo(self, claim: Claim, agent: Handler, on_attempt: Callable[[Attempt], None]) -> AttemptEnd:
        """Undo the run's effects, in a new attempt of the same claim: what is left of the old attempt can do nothing
        more.
        """
        await calm()
        attempt = Attempt(claim, self._read_event(claim.envelope), self._around)
        attempt.task = asyncio.current_task()
        on_attempt(attempt)
        by, note = claim.cancelled or ("", None)
        failed = await self._store.patiently(lambda: failed_with(self._store.database, claim))
        if failed is not None and isinstance(failed, Tampered):
            return await self._endings.tampered(claim, PayloadTampered(str(failed.finding)))
        what = "cancelled" if failed is None else "failed for good"
        self._log.info(f"{what}; undoing its effects", run=claim.id, by=by, note=note)
        try:
            became = await compensate(
                attempt, await self._store.patiently(lambda: effects_to_undo(self._store.database, claim))
            )
            if failed is not None:
                await self._endings.dead_after_undo(claim, agent, from_json(failed), became)
                return AttemptEnd()
            reason = f"cancelled by {by}" + (f": {note}" if note else "") + became
            outcome = replace(claim.committed or RunOutcome(), execution="cancelled")
            await self._store.do(FinishCancelled(claim, self._around.app, reason, outcome))
        except asyncio.CancelledError:
            await calm()
            if attempt.interrupted is not None:
                return await self._endings.interrupted(attempt, agent)
            return await self._endings.failed(claim, agent, CancelledInside("an undo was cancelled from inside"))
        except ClaimLost:
            raise
        except PayloadTampered as error:
            return await self._endings.tampered(claim, error)
        except Exception as error:
            self._log.exception("undoing failed")
            return await self._endings.failed(claim, agent, error)
        return AttemptEnd()

    async def _handle(self, attempt: Attempt, claim: Claim, agent: Handler) -> FinishRun | CommitRun | None:
        """Run the handler and check its output. Returns the request that ends the run, or None if it was interrupted."""
        if agent.flow.key is not None or agent.flow.priority is not None or agent.flow.once is not None:
            refuse_without_key(claim, attempt.event, agent)
        attempt.handles = True
        run = Run(attempt)
        arguments = (run, read_events(attempt.events, agent)) if agent.takes_data else (run,)
        try:
            if is_async(agent.function):
                output = await agent.function(*arguments)
            else:
                output = await call(agent.function, arguments, {}, what=f"agent {agent.name}")
            if attempt.ledger.cut and not attempt.in_flight and (left := attempt.ledger.take_cut_off()):
                await settle_effects(attempt, left)
            if claim.effects and not attempt.in_flight and (given_up := attempt.ledger.given_up()):
                await abandon_effects(attempt, given_up)
        finally:
            unfinished = attempt.in_flight
            await attempt.end()
        if attempt.interrupted is not None or attempt.to_stop is not None:
            return None
        if unfinished:
            message = (
                f"agent {agent.name} returned while {unfinished} run.* call(s) were in flight: "
                "await them all, or use run.map or asyncio.gather"
            )
            raise UnfinishedCalls(message)
        return await verify(attempt, agent, output)

    async def _commit(self, request: CommitRun) -> None:
        await self._store.do(request)
        if request.then == "held":
            self._log.warning("held for a person: its output did not pass its checks", reason=request.reason)
        elif request.deliveries:
            self._around.sent(lanes_of(request.deliveries))

    def _start_deadline(self, attempt: Attempt, claim: Claim, agent: Handler) -> Cancellable | None:
        """Start the timer of the deadline, which counts from the run's first start over all its attempts."""
        limit = agent.options.deadline
        if limit is None or claim.committed is not None:
            return None
        around = self._around
        return DeadlineTimer(claim, limit, lambda: attempt.interrupt("deadline"), around.clock.now, around.later)


async def calm() -> None:
    """Let a cancellation of this task that is on its way arrive here, and clear it."""
    task = asyncio.current_task()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task is not None and task.cancelling():
        task.uncancel()
