"""The endings of an attempt that did not finish: waiting, held, parked, released, retried, dead, denied. Each ending is
one request to the store, and each request is one transition. `retry.decide` decides after a failure; this module
carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable
from wakeful.errors import CancelAsked, ClaimLost, DeadlineExceeded, Denied, PayloadTampered, Stuck
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import failed_steps, place_of
from wakeful.execution.deadline import stands_still, time_left
from wakeful.execution.failing import note_of, noted, trouble_before
from wakeful.execution.handler import Handler
from wakeful.execution.surroundings import RunSurroundings
from wakeful.execution.why_waiting import earliest_wait, why_waiting
from wakeful.functions.options import UNKNOWN_ATTEMPTS
from wakeful.functions.retry import Retry, cause_of_dead, decide, signature
from wakeful.model import ON_FAILURE, ON_STUCK, Claim, Decision, RunOutcome, Step
from wakeful.stored_errors import by_wakeful, describe, in_one_line, words_of
from wakeful.stores.alarm import Alarm, held_alarm
from wakeful.stores.request import Actor, Doer
from wakeful.stores.tampered import WHAT_TO_DO
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.failing import Streak
from wakeful.stores.verbs.progress import FinishRun, LeaveRun
from wakeful.telemetry.logger import logger_of


@dataclass(slots=True)
class AttemptEnd:
    """The end of an attempt. `delay`: when the run is due again; None: not at all."""

    delay: Microseconds | None = None


class Endings:
    """Ends attempts. `failing`: agents whose last runs ended dead; their next success resolves the alarm."""

    def __init__(self, store: Doer, surroundings: RunSurroundings) -> None:
        self._store = store
        self._around = surroundings
        self.failing: set[str] = set()
        self._log = logger_of(part="executor")

    async def interrupted(self, attempt: Attempt, agent: Handler) -> AttemptEnd:
        """End an attempt that was interrupted. Raises CancelAsked if its run is being cancelled."""
        claim = attempt.claim
        if attempt.to_stop is not None and attempt.interrupted not in {"lost", "released"}:
            raise attempt.to_stop
        match attempt.interrupted:
            case "waiting":
                due = earliest_wait(attempt.record, attempt.ledger)
                delay = self._before_deadline(claim, agent, max(0, (due or 0) - self._around.clock.now()))
                steps = attempt.record.pending()
                await self._store.do(
                    LeaveRun(
                        claim,
                        "waiting",
                        "waited",
                        delay=delay,
                        reason=why_waiting(attempt.record, attempt.ledger),
                        steps=steps,
                        waits=list(attempt.record.awaited.values()),
                        matches=self._around.matches,
                        clear=noted(claim),
                        follows=[holder for holder, _ in attempt.ledger.follows.values()],
                    )
                )
                return AttemptEnd(delay)
            case "deadline":
                limit = readable(agent.options.deadline)
                error = DeadlineExceeded(
                    f"not finished {limit} after its first start, the deadline of agent {agent.name}"
                )
                await self.finish_dead(self.dead(claim, error, "deadline passed", agent, failed=True))
            case "held":
                reason = attempt.held_for or "held for a person"
                self._log.warning("held for a person", reason=reason)
                # The reason begins with the name of the action: all runs that are held for one action share an alarm.
                alarm = alarm_of_held(
                    self._around, claim, reason.partition(": ")[0] if attempt.held_for else "run", reason
                )
                await self._store.do(
                    LeaveRun(
                        claim,
                        "held",
                        "held",
                        reason=reason,
                        steps=attempt.record.pending(),
                        alarm=alarm,
                        clear=noted(claim),
                    )
                )
            case "parked":
                shut = attempt.parked_for
                place = None if shut is None else (self._around.app, shut.dependency)
                halt = attempt.halted if shut is None else None
                why = str(halt) if shut is None else shut.reason
                self._log.warning("parked", reason=why)
                await self._store.do(
                    LeaveRun(
                        claim,
                        "parked",
                        "parked",
                        reason=why,
                        steps=attempt.record.pending(),
                        parked_for=place,
                        halted_for=None if halt is None else halt.place,
                        clear=noted(claim),
                    )
                )
            case "stuck":
                limit, where = readable(agent.options.stuck_after), attempt.stuck_in or "?"
                stuck = Stuck(f"no progress for {limit}, the stuck_after of agent {agent.name}: {where}")
                # Its staged effects are promised, and its effects are undone before it is over, however long that
                # takes.
                if agent.options.on_stuck == "retry" or claim.committed is not None or claim.cancelled is not None:
                    return await self.failed(claim, agent, stuck, attempt.record.pending())
                self._log.warning("cancelled: it was stuck", reason=words_of(stuck))
                asked = CancelAsked(claim.id, ON_STUCK, words_of(stuck))
                await self._store.do(CancelRun(claim.id, claim=claim, by=Actor(asked.by, "worker"), note=asked.note))
                raise asked
            case "released" if attempt.cut_off is not None:
                return await self.failed(claim, agent, attempt.cut_off, attempt.record.pending())
            case "released":
                steps = attempt.record.pending()
                await self._store.do(LeaveRun(claim, "ready", "released", reason="its worker stopped", steps=steps))
            case "lost" | "cancelled" | None:
                pass
        return AttemptEnd()

    async def failed(
        self, claim: Claim, agent: Handler, error: BaseException, steps: Sequence[Step] = ()
    ) -> AttemptEnd:
        """End an attempt that failed: retry, dead or denied."""
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
        if isinstance(decision, Retry):
            delay = self._before_deadline(claim, agent, decision.delay)
            words = f"{type(error).__name__}: {words_of(error)}"
            self._log.warning(
                "the run failed; trying again", error=words, again_in=readable(delay), why=decision.reason
            )
            note = note_of(trouble, claim, error, now, options.attempts)
            await self._store.do(
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
            return AttemptEnd(delay)
        if decision.denied:
            own = Decision("deny", rule="the agent's own code", reason=words_of(error))
            self._log.warning("the run was denied", reason=words_of(error))
            await self._store.do(
                FinishRun(
                    claim,
                    "denied",
                    error=to_json(describe(error)).decode(),
                    reason=words_of(error),
                    outcome=replace(claim.committed or RunOutcome(), execution="denied"),
                    decision=None if isinstance(error, Denied) and error.stored else own,
                )
            )
        else:
            await self.finish_dead(self.dead(claim, error, decision.reason, agent, failed=True))
        return AttemptEnd()

    async def tampered(self, claim: Claim, error: PayloadTampered, steps: Sequence[Step] = ()) -> AttemptEnd:
        """Hold a run whose payload was not stored by Wakeful: it is neither executed nor given up until a person has
        looked.
        """
        reason = words_of(error).removesuffix(f". {WHAT_TO_DO}")  # the commands that show the run add it
        self._log.error("held for a person: tampered with", run=claim.id, reason=reason)
        held = alarm_of_held(self._around, claim, "tampering", reason)
        try:
            await self._store.do(
                LeaveRun(claim, "held", "held", reason=reason, steps=list(steps), alarm=held, by_itself=True)
            )
        except ClaimLost as lost:
            self._log.warning("the run has another owner now; this attempt is dropped", error=str(lost))
        return AttemptEnd()

    def _before_deadline(self, claim: Claim, agent: Handler, delay: Microseconds) -> Microseconds:
        """Limit a wait to the run's deadline: the run wakes then, to be ended."""
        if agent.options.deadline is None or claim.committed is not None or claim.cancelled is not None:
            return delay
        if stands_still(claim):
            return delay
        return max(0, min(delay, time_left(claim, agent.options.deadline, self._around.clock.now())))

    def past_deadline(self, claim: Claim, agent: Handler) -> FinishRun:
        limit = readable(agent.options.deadline)
        error = DeadlineExceeded(f"not finished {limit} after its first start, the deadline of agent {agent.name}")
        return self.dead(claim, error, "deadline passed", agent)

    def dead(
        self, claim: Claim, error: BaseException, reason: str, agent: Handler, *, failed: bool = False
    ) -> FinishRun:
        described = describe(error)
        request = self._dead_of(claim, described, reason, agent, place=place_of(error))
        request.failed = failed
        if agent.options.on_failure == "undo" and claim.cancelled is None:
            request.undo = CancelAsked(
                claim.id, ON_FAILURE, signature(described["type"], in_one_line(described["message"]))
            )
        return request

    def _dead_of(
        self,
        claim: Claim,
        described: dict[str, Any],
        reason: str,
        agent: Handler,
        *,
        place: str | None = None,
        key: str | None = None,
    ) -> FinishRun:
        """The ending of a dead letter, from its stored error. `key`: of its alarm, if it is known from before."""
        blocks = claim.key is not None and agent.flow.key is not None and agent.options.on_dead == "block"
        words = signature(described["type"], in_one_line(described["message"]))
        text = f"agent {claim.agent}: run {claim.id} is a dead letter ({words}); {reason}"
        if blocks:
            text += f". Runs of key {claim.key!r} wait behind it: `wakeful replay {claim.id}` or `wakeful dead discard {claim.id}`"
        options, app = agent.options, self._around.app
        key = key or f"dead/{app}/{claim.agent}/{cause_of_dead(described, place)}"
        ours = described["kind"] if by_wakeful(described) else None
        return FinishRun(
            claim,
            "dead",
            error=to_json(described).decode(),
            reason=reason,
            outcome=replace(claim.committed or RunOutcome(), execution="failed"),
            alarm=Alarm(app, key, text, claim.agent, options.owner, error=ours),
            streak=Streak(options.alarm_after, options.pause_after, words, options.owner),
        )

    async def finish_dead(self, request: FinishRun) -> None:
        """End a run as a dead letter. Raises CancelAsked if its effects are to be undone first, or if a person
        cancelled it.
        """
        error = from_json(request.error or "{}")
        words = f"{error.get('type')}: {error.get('message')}"
        self.failing.add(request.claim.agent)
        try:
            await self._store.do(request)
        except CancelAsked as asked:
            if asked.by == ON_FAILURE:
                self._log.warning("failed for good; undoing its effects first", error=words, reason=request.reason)
            raise
        self._log.error("dead letter: given up until a person acts", error=words, reason=request.reason)

    async def dead_after_undo(self, claim: Claim, agent: Handler, failed: dict[str, Any], became: str) -> None:
        """End the run with the error that it failed with before its effects were undone."""
        key = failed.get("alarm")  # None: an older version stored it
        request = self._dead_of(claim, from_json(failed["error"]), f"{failed['reason']}{became}", agent, key=key)
        request.undone = True
        await self.finish_dead(request)

    def is_well_again(self, claim: Claim, *, done: bool) -> bool:
        """First success after a streak of failures: resolve the agent's alarm once."""
        if not done or claim.agent not in self.failing:
            return False
        self.failing.discard(claim.agent)
        return True


def alarm_of_held(around: RunSurroundings, claim: Claim, what: str, reason: str) -> Alarm:
    """The alarm of all runs of the agent that are held because of `what`: an action, their output, their version."""
    text = f"agent {claim.agent}: run {claim.id} is held for a person: {reason}"
    key = held_alarm(around.app, claim.agent, what)
    return Alarm(around.app, key, text, claim.agent, around.owners.get(claim.agent))
