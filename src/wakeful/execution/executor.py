"""One attempt of one run, as a pipeline: may it start? → read the data → run the handler → check what it returned →
commit → release what it staged; and whatever goes wrong on the way is settled. A run that is to stop takes another way,
from wherever it is: → undo what it did → over.

Each ending is one request to the store (finish, or leave), and each request is one transition. Nothing is decided
here: `retry.decide` says what to do after a failure, this carries it out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import structlog
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable, seconds
from wakeful.clock import to_text as time_text
from wakeful.errors import (
    CancelAsked,
    CancelledInside,
    ClaimLost,
    DeadlineExceeded,
    InvalidData,
    InvalidKey,
    PayloadTampered,
    Persistent,
    StateChanged,
    Stuck,
    TooManyCrashes,
    UnfinishedCalls,
    describe,
    in_one_line,
    words_of,
)
from wakeful.execution.call import call, is_async
from wakeful.execution.checkpoint import ERRORS_SHOWN, failed_steps
from wakeful.execution.data import edit, read_events
from wakeful.execution.effects import failed_check
from wakeful.execution.failing import note_of, noted, take_note, trouble_before
from wakeful.execution.options import UNKNOWN_ATTEMPTS, AgentOptions
from wakeful.execution.retry import Again, decide, signature
from wakeful.execution.run import Run
from wakeful.execution.state import FACT as STATE_FACT
from wakeful.execution.surroundings import Cancellable, Surroundings
from wakeful.execution.tampering import refuse_tampered_claim
from wakeful.execution.versions import Change, change_of, is_note, not_asked_for, version_of
from wakeful.intake.flow import FlowPlan
from wakeful.model import ON_FAILURE, VERIFIED, WENT_WELL, Claim, Decision, Effect, Event, Outcome, Step, digest
from wakeful.output.checks import Verdict, check_output
from wakeful.stores.base import (
    Alarm,
    Cancelled,
    CancelRun,
    CloseRun,
    CommitRun,
    FinishCancelled,
    FinishRun,
    LeaveRun,
    NoteChange,
    Streak,
    held_alarm,
)
from wakeful.stores.request import Actor
from wakeful.stores.tampered import WHAT_TO_DO, Tampered
from wakeful.telemetry.logger import logger_of
from wakeful.values import to_text


class Handler(Protocol):
    """What the executor needs to know of an agent."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def options(self) -> AgentOptions: ...
    @property
    def takes_data(self) -> bool: ...
    @property
    def data_model(self) -> TypeAdapter[Any] | None: ...
    @property
    def returns(self) -> TypeAdapter[Any] | None: ...
    @property
    def flow(self) -> FlowPlan: ...


class SettlingStore(Protocol):
    """Where an attempt's ending goes."""

    async def finish(self, request: FinishRun) -> None: ...

    async def commit(self, request: CommitRun) -> None: ...

    async def close_run(self, request: CloseRun) -> None: ...

    async def leave(self, request: LeaveRun) -> None: ...

    async def note_change(self, request: NoteChange) -> None: ...

    async def cancel(self, request: CancelRun) -> Cancelled | None: ...

    async def effects_to_undo(self, claim: Claim) -> list[Effect]: ...

    async def failed_with(self, claim: Claim) -> str | None: ...

    async def finish_cancelled(self, request: FinishCancelled) -> None: ...


@dataclass(slots=True)
class Ended:
    """What became of an attempt: `delay` says when the run is due again, None that it is not."""

    delay: Microseconds | None = None


class Executor:
    """Executes claims."""

    def __init__(self, store: SettlingStore, surroundings: Surroundings, read_event: Callable[[str], Event]) -> None:
        self._store = store
        self._around = surroundings
        self._read_event = read_event
        self.failing: set[str] = set()  # agents whose last runs ended dead: the next that goes well is good news
        self._log = logger_of(part="executor")

    async def execute(self, claim: Claim, agent: Handler, on_run: Callable[[Run], None]) -> Ended:
        """The whole attempt. Never raises for what the handler did; ClaimLost ends it without a trace. Somebody may want the
        run to stop at any time, or may have wanted that before: then what it did is undone.
        """
        if self._around.codec is not None:
            try:
                refuse_tampered_claim(claim, self._around.codec)
            except PayloadTampered as error:
                return await self._hold_tampered(claim, error)
        if claim.steps:
            claim.failing = take_note(claim)
        claim.once = agent.flow.once is not None
        try:
            if claim.cancelled is not None and claim.crashes < agent.options.max_crashes:
                raise CancelAsked(claim.id, *claim.cancelled)
            return await self._do(claim, agent, on_run)
        except CancelAsked as asked:
            claim.cancelled = (asked.by, asked.note)
        try:
            return await self._undo(claim, agent, on_run)
        except ClaimLost as error:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(error))
            return Ended()

    async def _hold_tampered(self, claim: Claim, error: PayloadTampered, steps: Sequence[Step] = ()) -> Ended:
        """What it would act on was not stored by Wakeful: it is neither executed nor given up, until a person has looked."""
        reason = words_of(error).removesuffix(f". {WHAT_TO_DO}")  # the commands that show the run tell it
        self._log.error("held for a person: tampered with", run=claim.id, reason=reason)
        held = self._held_alarm(claim, "tampering", reason)
        try:
            await self._store.leave(
                LeaveRun(claim, "held", "held", reason=reason, steps=list(steps), alarm=held, by_itself=True)
            )
        except ClaimLost as lost:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(lost))
        return Ended()

    async def _do(self, claim: Claim, agent: Handler, on_run: Callable[[Run], None]) -> Ended:
        event = self._read_event(claim.envelope)
        events = [self._read_event(envelope) for envelope in claim.events] or [event]
        misfit: InvalidData | None = None
        if claim.data is not None:
            try:
                edit(events, from_json(claim.data), agent)
            except InvalidData as error:
                misfit = error
        event = events[0]
        run: Run | None = None
        structlog.contextvars.bind_contextvars(run=claim.id, agent=claim.agent, trace=event.traceparent)
        try:
            if (refusal := self._refuse_start(claim, agent)) is not None:
                await (self._finish_dead(refusal) if refusal.state == "dead" else self._store.finish(refusal))
                return Ended()
            if misfit is not None:
                return await self._settle_failure(claim, agent, misfit)
            change = None if claim.first_start else change_of(claim, version_of(agent.function, agent.options))
            if change is not None and not await self._met(claim, agent, change):
                return Ended()
            run = Run(claim, event, self._around, state_model=agent.options.state, events=events)
            run.asked = None if change is None else set()
            on_run(run)
            run._task = asyncio.current_task()  # noqa: SLF001 the run is interrupted by cancelling this task
            return await self._attempt(run, claim, agent, change)
        except ClaimLost as error:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(error))
            return Ended()
        except CancelAsked:
            raise
        except Exception as error:
            # Not the handler's doing: settling it failed. It counts as a failure, so that it cannot go on for ever.
            self._log.exception("the executor failed")
            return await self._settle_failure(claim, agent, error)
        finally:
            if run is not None and run.locks_in_use:  # it has none any more, now that it is not running
                self._around.lock_news.tell()

    def _refuse_start(self, claim: Claim, agent: Handler) -> FinishRun | None:
        """Runs that must not start: expired before their first start, or crashed too often."""
        if claim.first_start and claim.expires_at is not None and claim.expires_at <= claim.claimed_at:
            reason = f"expired at {time_text(claim.expires_at)}, before it could start"
            return FinishRun(claim, "cancelled", reason=reason, outcome=Outcome("cancelled"), expired=True)
        if claim.crashes >= agent.options.max_crashes:
            error = TooManyCrashes(
                f"in flight in {claim.crashes} processes that died, {agent.options.max_crashes} allowed"
            )
            return self._dead(claim, error, "crashed too often", agent)
        if claim.committed is not None:  # its work is done, and what it staged is promised
            return None
        if agent.options.deadline is not None and claim.started_at + agent.options.deadline <= claim.claimed_at:
            return self._past_deadline(claim, agent)
        return None

    def _past_deadline(self, claim: Claim, agent: Handler) -> FinishRun:
        limit = readable(agent.options.deadline)
        error = DeadlineExceeded(f"not finished {limit} after its first start, the deadline of agent {agent.name}")
        return self._dead(claim, error, "deadline passed", agent)

    async def _met(self, claim: Claim, agent: Handler, change: Change) -> bool:
        """A run meets other code than it began with: may it go on, and with which of its records?"""
        claim.steps = [step for step in claim.steps if not is_note(step)]
        if change.noted:
            return True
        now = self._around.clock.now()
        way = "continue" if change.agreed else agent.options.on_change
        reason = None if change.agreed else change.why_held(way, now)
        if reason is not None:
            self._log.warning("held for a person: its code changed", run=claim.id, was=change.was, now=change.now)
            held = self._held_alarm(claim, "version", reason)
            await self._store.leave(LeaveRun(claim, "held", "held", reason=reason, alarm=held, by_itself=True))
            return False
        restart = way == "restart"
        alarm = self._again_alarm(claim, change) if restart and change.before else None
        fact = change.fact(now, restarted=restart)
        await self._store.note_change(NoteChange(claim, fact, change.now, restart, alarm))
        if restart:
            self._log.warning("its code changed: it starts from the top", run=claim.id, was=change.was, now=change.now)
            claim.steps = []
        return True

    def _again_alarm(self, claim: Claim, change: Change) -> Alarm:
        """One restart is what was asked for. More of the same run may be two versions that take turns."""
        key = f"change/{self._around.app}/{claim.agent}"
        text = f"agent {claim.agent}: run {claim.id} {change.again()}; `wakeful why {claim.id}` tells each change"
        return Alarm(self._around.app, key, text, claim.agent, self._around.owners.get(claim.agent))

    async def _report(self, run: Run, claim: Claim, change: Change) -> None:
        """Recorded steps that the new code never asked for: whatever they found out was not used."""
        names = not_asked_for(claim.steps, run.asked or ())
        if not names:
            return
        shown = ", ".join(names)
        text = (
            f"agent {claim.agent}: run {claim.id} came to its end without asking for what it had recorded: {shown}. "
            f"Its code changed meanwhile, version {change.was} to {change.now}"
        )
        self._log.warning("its code changed: some recorded steps were never asked for", steps=shown, was=change.was)
        key = f"change/{self._around.app}/{claim.agent}"
        alarm = Alarm(self._around.app, key, text, claim.agent, self._around.owners.get(claim.agent))
        fact = change.unasked(names, self._around.clock.now())
        await self._store.note_change(NoteChange(claim, fact, alarm=alarm))

    async def _attempt(self, run: Run, claim: Claim, agent: Handler, change: Change | None) -> Ended:
        timer = self._start_deadline(run, claim, agent)
        try:
            if claim.effects:
                await run.settle_effects()
            if claim.committed is None:
                ending = await self._handle(run, claim, agent)
                if ending is None:  # it swallowed the cancellation
                    return await self._settle_interrupted(run, claim, agent)
                if change is not None:
                    await self._report(run, claim, change)
                if isinstance(ending, FinishRun):
                    ending.well_again = self._is_well_again(claim, done=ending.state == "done")
                    await self._store.finish(ending)
                    return Ended()
                ending.well_again = self._is_well_again(claim, done=ending.then == "done")
                await self._commit(ending)
                if ending.then != "running":
                    return Ended()
                claim.committed, claim.output = ending.outcome, ending.output
            await run.release()
            outcome = replace(claim.committed, execution="ok")
            well_again = self._is_well_again(claim, done=True)
            await self._store.close_run(CloseRun(claim, outcome, claim.output, well_again=well_again))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            if (
                run.interrupted is None and run.to_stop is None
            ):  # the handler awaited something cancelled, or cancelled itself
                inside = CancelledInside("the handler was cancelled from inside")
                inside.__cause__ = error
                return await self._settle_failure(claim, agent, inside, run.pending_steps)
            return await self._settle_interrupted(run, claim, agent)
        except (ClaimLost, CancelAsked):
            raise
        except PayloadTampered as error:
            return await self._hold_tampered(claim, error, run.pending_steps)
        except StateChanged as error:
            self._log.info("the state changed meanwhile; the run goes again", error=str(error))
            await self._store.leave(LeaveRun(claim, "ready", "waited", reason=str(error), clear=[STATE_FACT]))
            return Ended(0)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() in a handler, or worse, ends its attempt and not the worker
            if run.interrupted is not None or run.to_stop is not None:
                return await self._settle_interrupted(run, claim, agent)
            return await self._settle_failure(claim, agent, error, run.pending_steps)
        finally:
            if timer is not None:
                timer.cancel()
        return Ended()

    async def _undo(self, claim: Claim, agent: Handler, on_run: Callable[[Run], None]) -> Ended:
        """What the run did is undone, in a new attempt of the same claim: what is left of the old one can do nothing more."""
        await calm()
        run = Run(claim, self._read_event(claim.envelope), self._around)
        run._task = asyncio.current_task()  # noqa: SLF001 as in _do
        on_run(run)
        by, note = claim.cancelled or ("", None)
        failed = await self._store.failed_with(claim)
        if failed is not None and isinstance(failed, Tampered):
            return await self._hold_tampered(claim, PayloadTampered(str(failed.finding)))
        what = "cancelled" if failed is None else "failed for good"
        self._log.info(f"{what}; undoing what it did", run=claim.id, by=by, note=note)
        try:
            became = await run.undo(await self._store.effects_to_undo(claim))
            if failed is not None:
                await self._die_undone(claim, agent, from_json(failed), became)
                return Ended()
            reason = f"cancelled by {by}" + (f": {note}" if note else "") + became
            outcome = replace(claim.committed or Outcome(), execution="cancelled")
            await self._store.finish_cancelled(FinishCancelled(claim, self._around.app, reason, outcome))
        except asyncio.CancelledError:
            await calm()
            if run.interrupted is not None:
                return await self._settle_interrupted(run, claim, agent)
            return await self._settle_failure(claim, agent, CancelledInside("an undo was cancelled from inside"))
        except ClaimLost:
            raise
        except PayloadTampered as error:
            return await self._hold_tampered(claim, error)
        except Exception as error:
            self._log.exception("undoing failed")
            return await self._settle_failure(claim, agent, error)
        return Ended()

    async def _die_undone(self, claim: Claim, agent: Handler, failed: dict[str, Any], became: str) -> None:
        """It ends with what it failed for before its effects were undone."""
        request = self._dead_of(claim, from_json(failed["error"]), f"{failed['reason']}{became}", agent)
        request.undone = True
        await self._finish_dead(request)

    async def _handle(self, run: Run, claim: Claim, agent: Handler) -> FinishRun | CommitRun | None:
        """Run the handler, and check what it returned: how the run goes on from there."""
        if agent.flow.key is not None or agent.flow.priority is not None or agent.flow.once is not None:
            refuse_without_key(claim, run.event, agent)
        arguments = (run, read_events(run.events, agent)) if agent.takes_data else (run,)
        try:
            if is_async(agent.function):
                output = await agent.function(*arguments)
            else:
                output = await call(agent.function, arguments, {}, what=f"agent {agent.name}")
            if not run.in_flight:
                await run.settle_cut_off()
        finally:
            unfinished = run.in_flight
            await run.end()
        if run.interrupted is not None or run.to_stop is not None:
            return None
        if unfinished:
            message = (
                f"agent {agent.name} returned while {unfinished} run.* call(s) were in flight: "
                "await them all, or use run.map or asyncio.gather"
            )
            raise UnfinishedCalls(message)
        return await self._verify(run, claim, agent, output)

    async def _verify(self, run: Run, claim: Claim, agent: Handler, output: Any) -> FinishRun | CommitRun:
        """Nothing unchecked goes out: what does not pass is held as it is, with all that would have left with it."""
        await run.save_passed()
        verdict = await check_output(output, agent.returns, agent.options.checks)
        text = self._output_text(verdict, agent)
        if agent.options.deliver is not None and output is not None:
            run.put_out(agent.options.deliver, from_json(text))
        for effect in run.outgoing.effects:
            action = run.outgoing.actions[effect.id]
            arguments, keywords = action.read(effect.arguments)
            if (objection := await failed_check(action, arguments, keywords)) is not None:
                run.outgoing.objections.append(f"{action.name}: {objection}")
        change = run.state_change()
        dropped = run.ledger.dropped()
        silent = agent.options.deliver is not None and output is None and not run.outgoing.deliveries
        if verdict.objection is None and not run.outgoing and change is None and not dropped:
            if silent:
                told = Outcome("ok", verdict.verification, "committed", silent_by_choice=True)
                return FinishRun(claim, "done", output=text, outcome=told)
            outcome = WENT_WELL if verdict.verification == "none" else VERIFIED
            return FinishRun(claim, "done", output=text, outcome=outcome)
        run.object_to_changes()
        outgoing = run.outgoing
        objections = [*([] if verdict.objection is None else [verdict.objection]), *outgoing.objections]
        if objections:
            reason = "; ".join(objections)
            outcome = Outcome("ok", "failed", "held")
            return CommitRun(
                claim,
                self._around.app,
                text,
                outcome,
                "held",
                outgoing.deliveries,
                outgoing.effects,
                change,
                reason,
                self._held_alarm(claim, "output", reason),
                dropped,
            )
        then: Literal["done", "running"] = "running" if outgoing.effects else "done"
        return CommitRun(
            claim,
            self._around.app,
            text,
            Outcome("ok", verdict.verification, "committed", silent_by_choice=silent),
            then,
            outgoing.deliveries,
            outgoing.effects,
            change,
            alarm=outgoing.alarm,
            dropped=dropped,
            resolves=outgoing.resolves,
        )

    @staticmethod
    def _output_text(verdict: Verdict, agent: Handler) -> str:
        """As it is stored. One that is held is shown to a person even if it is of a kind that cannot be."""
        try:
            return to_text(verdict.output, what=f"the output of agent {agent.name}")
        except Persistent:
            if verdict.objection is None:
                raise
            return to_text(repr(verdict.output)[:ERRORS_SHOWN], what=f"the output of agent {agent.name}")

    async def _commit(self, request: CommitRun) -> None:
        await self._store.commit(request)
        if request.then == "held":
            self._log.warning("held for a person: its output did not pass", reason=request.reason)
        elif request.deliveries:
            self._around.sent({delivery.channel for delivery in request.deliveries})

    def _held_alarm(self, claim: Claim, what: str, reason: str) -> Alarm:
        """Of all runs of the agent that are held because of `what`: an action, their output, their version."""
        text = f"agent {claim.agent}: run {claim.id} is held for a person: {reason}"
        key = held_alarm(self._around.app, claim.agent, what)
        return Alarm(self._around.app, key, text, claim.agent, self._around.owners.get(claim.agent))

    def _start_deadline(self, run: Run, claim: Claim, agent: Handler) -> Cancellable | None:
        """The deadline counts from the run's first start, over all its attempts."""
        limit = agent.options.deadline
        if limit is None or claim.committed is not None:
            return None
        left = claim.started_at + limit - claim.claimed_at
        return self._around.later(max(0.0, seconds(left)), lambda: run.interrupt("deadline"))

    def _before_deadline(self, claim: Claim, agent: Handler, delay: Microseconds) -> Microseconds:
        """No wait goes on past the run's deadline: it comes back by then, to be told that it is over."""
        if agent.options.deadline is None or claim.committed is not None or claim.cancelled is not None:
            return delay
        return max(0, min(delay, claim.started_at + agent.options.deadline - self._around.clock.now()))

    async def _settle_interrupted(self, run: Run, claim: Claim, agent: Handler) -> Ended:
        if run.to_stop is not None and run.interrupted not in {"lost", "released"}:
            raise run.to_stop
        match run.interrupted:
            case "waiting":
                due = run.earliest_wait
                delay = self._before_deadline(claim, agent, max(0, (due or 0) - self._around.clock.now()))
                steps = run.pending_steps
                await self._store.leave(
                    LeaveRun(
                        claim,
                        "waiting",
                        "waited",
                        delay=delay,
                        reason=run.waits_for,
                        steps=steps,
                        waits=run.awaited,
                        matches=self._around.matches,
                        clear=noted(claim),
                        follows=[holder for holder, _ in run.ledger.follows.values()],
                    )
                )
                return Ended(delay)
            case "deadline":
                limit = readable(agent.options.deadline)
                error = DeadlineExceeded(
                    f"not finished {limit} after its first start, the deadline of agent {agent.name}"
                )
                await self._finish_dead(self._dead(claim, error, "deadline passed", agent, failed=True))
            case "held":
                reason = run.held_for or "held for a person"
                self._log.warning("held for a person", reason=reason)
                # What it is held for begins with the name of its action: runs that are held for one share an alarm.
                alarm = self._held_alarm(claim, reason.partition(": ")[0] if run.held_for else "run", reason)
                await self._store.leave(
                    LeaveRun(
                        claim, "held", "held", reason=reason, steps=run.pending_steps, alarm=alarm, clear=noted(claim)
                    )
                )
            case "parked":
                shut = run.parked_for
                place = None if shut is None else (self._around.app, shut.dependency)
                why = None if shut is None else shut.reason
                self._log.warning("parked", reason=why)
                steps = run.pending_steps
                await self._store.leave(
                    LeaveRun(claim, "parked", "parked", reason=why, steps=steps, parked_for=place, clear=noted(claim))
                )
            case "stuck":
                limit, where = readable(agent.options.stuck_after), run.stuck_in or "?"
                stuck = Stuck(f"no progress for {limit}, the stuck_after of agent {agent.name}: {where}")
                # What it staged is promised; and what it did is undone before it is over, however long that takes.
                if agent.options.on_stuck == "retry" or claim.committed is not None or claim.cancelled is not None:
                    return await self._settle_failure(claim, agent, stuck, run.pending_steps)
                self._log.warning("cancelled: it was stuck", reason=words_of(stuck))
                asked = CancelAsked(claim.id, 'on_stuck="cancel"', words_of(stuck))
                await self._store.cancel(
                    CancelRun(claim.id, claim=claim, by=Actor(asked.by, "worker"), note=asked.note)
                )
                raise asked
            case "released" if run.cut_off is not None:
                return await self._settle_failure(claim, agent, run.cut_off, run.pending_steps)
            case "released":
                steps = run.pending_steps
                await self._store.leave(LeaveRun(claim, "ready", "released", reason="its worker stopped", steps=steps))
            case "lost" | "cancelled" | None:
                pass
        return Ended()

    async def _settle_failure(
        self, claim: Claim, agent: Handler, error: BaseException, steps: Sequence[Step] = ()
    ) -> Ended:
        options, now = agent.options, self._around.clock.now()
        trouble = trouble_before(claim.failing, claim).more(error, now)
        decision = decide(
            error,
            failures=claim.attempts + 1,
            attempts=options.attempts,
            backoff=options.backoff,
            chance=self._around.chance,
            unknown_attempts=UNKNOWN_ATTEMPTS,
            trouble=trouble,
            now=now,
        )
        if isinstance(decision, Again):
            delay = self._before_deadline(claim, agent, decision.delay)
            words = f"{type(error).__name__}: {words_of(error)}"
            self._log.warning(
                "the run failed; trying again", error=words, again_in=readable(delay), why=decision.reason
            )
            note = note_of(trouble, claim, error, now, options.attempts)
            await self._store.leave(
                LeaveRun(
                    claim,
                    "waiting",
                    "retried" if decision.counts else "waited",
                    delay=delay,
                    reason=decision.reason,
                    error=to_json(describe(error)).decode(),
                    failed=decision.counts,
                    steps=[*steps, note],
                    clear=sorted(failed_steps(error)),
                )
            )
            return Ended(delay)
        if decision.denied:
            self._log.warning("the run was denied", reason=words_of(error))
            await self._store.finish(
                FinishRun(
                    claim,
                    "denied",
                    error=to_json(describe(error)).decode(),
                    reason=words_of(error),
                    outcome=replace(claim.committed or Outcome(), execution="denied"),
                    decision=Decision("deny", rule="the agent's own code", reason=words_of(error)),
                )
            )
        else:
            await self._finish_dead(self._dead(claim, error, decision.reason, agent, failed=True))
        return Ended()

    def _dead(
        self, claim: Claim, error: BaseException, reason: str, agent: Handler, *, failed: bool = False
    ) -> FinishRun:
        described = describe(error)
        request = self._dead_of(claim, described, reason, agent)
        request.failed = failed
        if agent.options.on_failure == "undo" and claim.cancelled is None:
            request.undo = CancelAsked(
                claim.id, ON_FAILURE, signature(described["type"], in_one_line(described["message"]))
            )
        return request

    def _dead_of(self, claim: Claim, described: dict[str, Any], reason: str, agent: Handler) -> FinishRun:
        """A dead letter, by the error that it ends with."""
        blocks = claim.key is not None and agent.flow.key is not None and agent.options.on_dead == "block"
        kind = signature(described["type"], described["message"])
        words = signature(described["type"], in_one_line(described["message"]))
        text = f"agent {claim.agent}: run {claim.id} is a dead letter ({words}); {reason}"
        if blocks:
            text += f". Runs of key {claim.key!r} wait behind it: `wakeful replay {claim.id}` or `wakeful dead discard {claim.id}`"
        options, key = agent.options, f"dead/{self._around.app}/{claim.agent}/{digest(kind, size=5)}"
        return FinishRun(
            claim,
            "dead",
            error=to_json(described).decode(),
            reason=reason,
            outcome=replace(claim.committed or Outcome(), execution="failed"),
            alarm=Alarm(self._around.app, key, text, claim.agent, options.owner),
            streak=Streak(options.alarm_after, options.pause_after, words, options.owner),
        )

    async def _finish_dead(self, request: FinishRun) -> None:
        """CancelAsked, if what it did is to be undone first, or a person wants it to stop."""
        error = from_json(request.error or "{}")
        words = f"{error.get('type')}: {error.get('message')}"
        self.failing.add(request.claim.agent)
        try:
            await self._store.finish(request)
        except CancelAsked as asked:
            if asked.by == ON_FAILURE:
                self._log.warning("failed for good; what it did is undone first", error=words, reason=request.reason)
            raise
        self._log.error("dead letter: given up until a person acts", error=words, reason=request.reason)

    def _is_well_again(self, claim: Claim, *, done: bool) -> bool:
        """Is this the good news about its agent? Said once, as long as nothing of it dies again."""
        if not done or claim.agent not in self.failing:
            return False
        self.failing.discard(claim.agent)
        return True


def refuse_without_key(claim: Claim, event: Event, agent: Handler) -> None:
    """The door takes in what it cannot tell the key or the priority of; here it is refused, so that a person sees it. One that
    a person has mended by other data goes, out of the order, unless what its agent keeps for the key would be needed.
    """
    agent.flow.priority_of(event)
    agent.flow.refuse_exhausted(event)
    if agent.flow.key is None or claim.key is not None:
        return
    key = agent.flow.key_of(event)
    if agent.options.state is not None:
        message = (
            f"agent {agent.name} keeps a state for each key, and run {claim.id} was accepted without one. "
            f"Its key would be {key!r} now: send the event again under a new id, and discard this run"
        )
        raise InvalidKey(message)


async def calm() -> None:
    """A cancellation of this task that is on its way arrives here, and is over."""
    task = asyncio.current_task()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task is not None and task.cancelling():
        task.uncancel()
