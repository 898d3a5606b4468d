"""One effect: the intent is stored, then the call is made, then its result is stored.

    known confirmed ──► its result, from the ledger
    known failed ─────► its error, raised again
    else open ─► call ─┬─ worked ────────────────────► confirmed
          ▲            ├─ certainly not done ────────► retry, after a wait
          │            ├─ refused for good (4xx) ────► failed: the run dies
          │            └─ unknown ──────┬─ idempotent ───► retry with the same id, while it is young enough
          │                             ├─ reconcile ────► ask find: found ► confirmed, not there ► retry,
          │                             │                  find failed ► ask again later; for good ► held
          └────── not there ────────────┘
                                        └─ at_most_once ─► held: a person decides

The effect of a process that died during the call is unknown too. It is settled the same way, with the stored arguments,
before the handler runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable
from wakeful.errors import ClaimLost, EffectAbandoned, Halted, KeyTaken, Persistent, Transient
from wakeful.execution.actions import Action, Operation
from wakeful.execution.aftermath import (
    NONE_YET,
    AskFind,
    CallAgain,
    CallFacts,
    CallFailed,
    HoldForPerson,
    Next,
    after,
    certainly_not_done,
    over_for_good,
    settle,
)
from wakeful.execution.approving import Awaiting, RefusedInDoubt
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import marked, placed
from wakeful.execution.circuits import CircuitOpen
from wakeful.execution.intents import RESTORED, MayBeDone, denied, may_be_done_since_backup, store_call
from wakeful.failures import Classified
from wakeful.functions.call import call, within_lease
from wakeful.functions.options import UNKNOWN_ATTEMPTS_OF_A_STEP
from wakeful.functions.retry import GiveUp, decide, streak_of
from wakeful.model import Effect
from wakeful.stored_errors import describe, restore, words_of
from wakeful.stores.verbs.consent import AwaitsApproval
from wakeful.stores.verbs.effects import SaveEffect
from wakeful.stores.verbs.operation_keys import SaveOnce
from wakeful.values import from_text, given_result, read_back, returns_of, to_text

CUT_OFF = {
    None: "the handler stopped waiting for it",
    "deadline": "the deadline of its run passed during the call",
    "released": "its worker stopped during the call",
}
OPEN_STATES = frozenset({"intent", "unknown"})
COULD_NOT_TELL = ". find could not tell:"
REPLAYED = "replayed"


class MustWait(Exception):
    """The call needs an approval first: it waits for it and comes back."""


class EffectCall:
    """Performs one effect, from its intent to its end."""

    def __init__(self, attempt: Attempt, action: Action[..., Any], effect: Effect) -> None:
        self._attempt = attempt
        self._action = action
        self._begun = False
        self._looked_since_restore = False
        self._shut: CircuitOpen | None = None
        # A replayed effect starts a new day of retries; its old error is kept for people to read.
        stored = from_json(effect.error) if effect.error and effect.reason != REPLAYED else {}
        self._trouble = streak_of(stored, effect.tries)
        self._looks = int(stored.get("looks", 0))
        self.effect = effect

    async def reach(self) -> Any:
        """The result, from the ledger or from performing it. Ends the attempt by `hold` if a person is needed."""
        await self._stop_if_over()
        await self._wait_until_due()
        if self._is_open():  # the handler had stopped waiting for it and asks again
            await self._settle()
        return await self._do()

    async def settle(self, *, only: bool = False) -> None:
        """Before the handler: settle an effect that an earlier attempt left open. Afterwards it is confirmed, retried
        or held. `only`: do not retry it if it turns out that it was certainly not done.
        """
        await self._wait_until_due()
        await self._settle()
        if self.effect.state in {"confirmed", "failed"} or (only and self.effect.state == "retrying"):
            return
        await self._do()

    async def _do(self) -> Any:
        while not self._is_confirmed():
            approved = True
            if self.effect.state == "waiting":
                try:
                    approved = await Awaiting(
                        self._attempt, self._action, self.effect, in_doubt=self._is_in_doubt
                    ).answer()
                except RefusedInDoubt as refused:
                    await self._carry_out(HoldForPerson(f"{refused}. But {RESTORED}"), None, RESTORED)
                    continue
            if approved and await self._is_in_doubt():
                await self._find_out()
                continue
            if approved:
                await self._park_if_down()
            try:
                value = await self._call()
            except MustWait:
                continue
            except MayBeDone:
                await self._find_out()
                continue
            except (ClaimLost, KeyTaken):
                raise  # not a failure of the action: another process owns the run, or the key, now
            except Exception as error:
                if self.effect.state == "abandoned":  # policy refused the call before it was made
                    raise
                if self.effect.state == "waiting":  # not called: the error came before
                    raise
                await self._go_on_after(error)
                continue
            except asyncio.CancelledError:
                await self._cut_off()
                raise
            confirmed = await self._confirm(value)
            await self._attempt.called(self._action.options.dependency)
            return confirmed
        return await self._read_result()

    async def _is_in_doubt(self) -> bool:
        """Whether an effect that had certainly not been done when its store was backed up may have been done since. It is settled once
        for each attempt; what a person decided after the restore stands.
        """
        effect = self.effect
        if self._looked_since_restore or effect.state not in {"waiting", "retrying"} or effect.settlement is not None:
            return False
        self._looked_since_restore = True
        effect.doubtful = await may_be_done_since_backup(self._attempt)
        return effect.doubtful

    async def _find_out(self) -> None:
        """As the action declares, after a restore."""
        await self._carry_out(settle(self._action, self._facts(), pause=0, why=RESTORED), None, RESTORED)

    def _is_confirmed(self) -> bool:
        return self.effect.state == "confirmed"

    def _is_open(self) -> bool:
        return self.effect.state == "unknown" or (self.effect.state == "intent" and self.effect.tries > 0)

    async def _wait_until_due(self) -> None:
        """An effect that was told to wait is not called sooner, even if its run wakes for something else."""
        effect, attempt = self.effect, self._attempt
        if effect.state in {"retrying", "unknown"} and effect.due_at > attempt.clock.now():
            await attempt.wait_for_effect(effect.id, effect.due_at)

    async def _stop_if_over(self) -> None:
        effect = self.effect
        if effect.state == "held":  # by a process that died before it could store the run as held
            await self._attempt.hold(f"{effect.action}: {effect.reason}")
        if effect.state == "failed":
            raise marked(restore(from_json(effect.error or "{}")), effect.id, effect.action)
        if effect.state == "abandoned" and effect.approval is not None and effect.error:
            raise placed(restore(from_json(effect.error)), effect.action)
        if effect.state == "abandoned":
            raise abandoned(effect)

    async def _confirm(self, value: Any) -> Any:
        """Store a successful call. If its result cannot be stored or does not fit its declaration, a person must give
        it.
        """
        name = self._action.name
        try:
            text = to_text(value, what=f"the result of action {name}")
            value = read_back(value, text, returns_of(self._action.function), of=f"action {name}")
        except Persistent as error:
            await self._hold_unfit(error, "it was done")
        else:
            await self._save("confirmed", result=text)
        return value

    async def _read_result(self) -> Any:
        effect, function, of = self.effect, self._action.function, f"action {self._action.name}"
        if not effect.given:
            return from_text(effect.result or "null", returns_of(function), of=of)
        if effect.undoes is not None or (effect.staged and effect.result is None):
            return None  # no code reads it
        try:
            if effect.result is None:
                return from_text("null", returns_of(function), of=of)
            return given_result(effect.result, function, of=of)
        except Persistent as error:
            effect.result = None
            await self._hold_unfit(error, f"{effect.settled_by} confirmed it")

    async def _hold_unfit(self, error: Persistent, what: str) -> None:
        reason = f"{what}, but {words_of(error)}. `wakeful effects confirm {self.effect.id[:10]} --result JSON` gives its result"
        await self._save("held", reason=reason, error=to_json(describe(error)).decode())
        await self._attempt.hold(f"{self._action.name}: {reason}")

    def _facts(self) -> CallFacts:
        now, effect = self._attempt.clock.now(), self.effect
        since_call = now - effect.called_at
        return CallFacts(effect.tries, now - effect.opened_at, since_call, effect.doubtful, self._trouble, now)

    async def _settle(self) -> None:
        effect = self.effect
        why = "the process died during the call" if effect.state == "intent" else effect.reason or "unknown"
        why = why.partition(COULD_NOT_TELL)[0]
        effect.doubtful = True
        await self._carry_out(settle(self._action, self._facts(), pause=0, why=why), None, why)

    async def _call(self) -> Any:
        effect, action, attempt = self.effect, self._action, self._attempt
        self._begun = False
        arguments, keywords = await self._read_arguments()
        effect.tries += 1
        if effect.state != "intent" or effect.tries > 1:  # otherwise its intent has just been stored
            await self._begin_again()
        effect.called_at = attempt.clock.now()
        operation = Operation(effect.operation or effect.id, action.name, attempt.id, effect.tries, attempt.cause)
        function = attempt.stand_in(action, action.function)
        attempt.progress()
        token = attempt.inside(action.name)
        attempt.action_begins()
        self._begun = True
        try:
            made = call(function, (operation, *arguments), keywords, what=f"action {action.name}")
            return await within_lease(
                made, action.options.timeout, attempt.surroundings.time_for_calls, what=f"action {action.name}"
            )
        finally:
            attempt.progress()
            attempt.outside(token)
            attempt.action_ends()

    async def _begin_again(self) -> None:
        """Store that the call is about to be made again, if policy allows it now. If an earlier call may have been done, the effect is
        held and not denied: a person must find out.
        """
        effect, action = self.effect, self._action
        asked = replace(effect, state="intent", reason=None)  # the error stays: it holds since when the effect fails
        try:
            decision = await store_call(self._attempt, action, asked, in_doubt=self._is_in_doubt)
        except MayBeDone:
            effect.tries -= 1
            raise
        except Halted as halted:
            effect.tries -= 1
            await self._attempt.park_halted(halted)
        if decision is None:
            effect.state, effect.reason, effect.rule, effect.policy = "intent", None, asked.rule, asked.policy
            return
        effect.tries -= 1
        if isinstance(decision, AwaitsApproval):
            answer = decision.decision
            effect.state, effect.reason, effect.approval = (
                "waiting",
                f"{answer.rule}: {answer.reason}",
                decision.approval,
            )
            effect.rule, effect.policy = answer.rule, answer.version
            raise MustWait
        effect.rule, effect.policy = decision.rule, decision.version
        reason = f"{decision.rule}: {decision.reason}"
        if decision.answer == "deny" and not effect.doubtful and effect.undoes is None:
            await self._save("abandoned", reason=reason, error=effect.error)
            raise denied(action, decision)
        if effect.doubtful:
            reason = f"{reason}. An earlier call may have been done"
        await self._save("held", reason=reason, error=effect.error)
        await self._attempt.hold(f"{action.name}: {reason}")

    async def _park_if_down(self) -> None:
        """Park the run, without calling, while the circuit of the action's dependency is open."""
        shut = await self._attempt.may_call(self._action.options.dependency)
        if shut is not None:
            await self._save("unknown" if self.effect.doubtful else "retrying", reason=f"not begun: {shut.reason}")
            await self._attempt.park(shut)

    async def _read_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The stored arguments. If an earlier call may have succeeded, unreadable arguments hold the effect and do not
        fail it.
        """
        try:
            return self._action.read(self.effect.called_with)
        except Persistent as error:
            if self.effect.doubtful:
                reason = f"its stored arguments can no longer be read: {words_of(error)}"
                await self._save("held", reason=reason)
                await self._attempt.hold(f"{self._action.name}: {reason}")
            raise

    async def _cut_off(self) -> None:
        """The call was cancelled: the handler stopped waiting for it, or the attempt is over."""
        attempt, action = self._attempt, self._action
        if attempt.interrupted == "lost" or self.effect.state in {"held", "waiting"}:
            return  # held: its own hold ends the attempt this way. waiting: it was not called
        if not self._begun:  # this call was not made, but an earlier one may have succeeded
            reason = "not begun" if attempt.halted is None else f"not begun: {attempt.halted}"
            await self._save("unknown" if self.effect.doubtful else "retrying", reason=reason)
            return
        self.effect.doubtful = True
        why = CUT_OFF.get(attempt.interrupted, "the call was cut off")
        if action.options.safety == "at_most_once" and attempt.interrupted in {None, "deadline"}:
            reason = f"{why}. It is unknown whether {action.name} was done, and it may be done at most once"
            await self._save("held", reason=reason)
            attempt.hold_from_outside(f"{action.name}: {reason}")
        else:
            await self._save("unknown", reason=why)

    async def _go_on_after(self, error: Exception) -> None:
        if self._begun:
            self._shut = await self._attempt.called(self._action.options.dependency, error)
        if self._shut is not None:
            self.effect.tries -= 1  # no try is used up while its circuit is open
            self._trouble = NONE_YET  # and that time does not count either
        else:
            self._trouble = self._trouble.more(error, self._attempt.clock.now())
        step = after(self._action, error, self._facts(), chance=self._attempt.chance.uniform)
        if not self._begun and not isinstance(step, CallFailed):
            raise error
        if not (certainly_not_done(error) or isinstance(step, CallFailed)):  # a refused call was not done
            self.effect.doubtful = True
        await self._carry_out(step, error, f"{type(error).__name__}: {words_of(error)}")

    async def _carry_out(self, step: Next, error: Exception | None, why: str) -> None:
        effect, attempt = self.effect, self._attempt
        described = effect.error if error is None else self._described(error)
        match step:
            case CallAgain(delay=delay, certain=certain, counts=counts):
                if not counts:
                    effect.tries -= 1
                if error is not None:  # otherwise an earlier attempt has logged it
                    attempt.log.warning(
                        "an action failed; trying again", action=self._action.name, error=why, again_in=readable(delay)
                    )
                await self._wait("retrying" if certain else "unknown", delay, why, described)
            case AskFind(delay=delay, find=find):
                await self._wait("unknown", delay, why, described)
                await self._look(find, why)
            case HoldForPerson(reason=reason):
                await self._save("held", reason=reason, error=described)
                await attempt.hold(f"{self._action.name}: {reason}")
            case CallFailed(error=failure):
                await self._save("failed", reason=why, error=described)
                if isinstance(failure, Transient):  # certainly not done, and out of attempts
                    message = f"{self._action.name}: {why}, {effect.tries} times"
                    raise placed(Persistent(message), self._action.name) from failure
                raise placed(failure, self._action.name)

    async def _wait(self, state: Any, delay: Microseconds, why: str, error: str | None) -> None:
        effect, attempt = self.effect, self._attempt
        effect.due_at = attempt.clock.now() + delay
        await self._save(state, reason=why, error=error)
        if self._shut is not None:
            await attempt.park(self._shut)
        await attempt.wait_for_effect(effect.id, effect.due_at)
        effect.due_at = 0

    def _described(self, error: Exception) -> str:
        """The error in stored form, with what is known about the row of failures that it belongs to."""
        known = {} if self._trouble is NONE_YET else self._trouble.as_json(self._action.options.attempts)
        looks = {"looks": self._looks} if self._looks else {}
        return to_json({**describe(error), **known, **looks}).decode()

    async def _look(self, find: Callable[..., Any], why: str) -> None:
        """Ask the action's own `find`, with the same arguments: its return value is the result, None means not done. A
        `find` that fails is retried like any read; if it fails for good, the effect is held.
        """
        action, effect = self._action, self.effect
        text = await self._found(find, why)
        await self._attempt.called(action.options.dependency)
        ended = None if text is not None else self._over_after_looking()
        if text is not None:
            await self._save("confirmed", result=text, reason="found by find")
        elif ended is not None:
            reason = f"{why}. Not found, and {ended[0].lower()}{ended[1:]}"
            await self._save("held", reason=reason, error=effect.error)
            await self._attempt.hold(f"{action.name}: {reason}")
        else:
            effect.doubtful = False
            await self._save("retrying", reason="find found nothing", error=effect.error)

    async def _found(self, find: Callable[..., Any], why: str) -> str | None:
        while True:
            await self._park_if_down()
            try:
                return await self._ask(find)
            except ClaimLost:
                raise
            except Exception as error:
                await self._after_looking(error, why)

    async def _ask(self, find: Callable[..., Any]) -> str | None:
        """What `find` returned, in stored form."""
        action, attempt, effect = self._action, self._attempt, self.effect
        what = f"find of action {action.name}"
        arguments, keywords = action.read(effect.called_with)
        operation = Operation(effect.operation or effect.id, action.name, attempt.id, effect.tries, attempt.cause)
        made = call(attempt.stand_in(find, find), (operation, *arguments), keywords, what=what)
        found = await within_lease(made, action.options.timeout, attempt.surroundings.time_for_calls, what=what)
        text = None if found is None else to_text(found, what=f"what {what} found")
        if text is not None:
            from_text(text, returns_of(action.function), of=f"action {action.name}")
        return text

    def _over_after_looking(self) -> str | None:
        """The effect was not done: why it is not called again, or None if it is. A call that a crash cut off is no
        failure.
        """
        trouble = self._trouble
        failed = Classified("transient", lasting=not trouble.unknown) if trouble.failing else None
        return over_for_good(self._action.options, self._facts(), failed)

    async def _after_looking(self, error: Exception, why: str) -> None:
        """`find` failed: wait, or hold. Returns when it is to be asked again."""
        action, attempt = self._action, self._attempt
        shut = await attempt.called(action.options.dependency, error)
        reason = f"{why}{COULD_NOT_TELL} {type(error).__name__}: {words_of(error)}"
        if shut is not None:
            self._trouble = NONE_YET
            await self._save("unknown", reason=reason, error=self._described(error))
            await attempt.park(shut)
        now = attempt.clock.now()
        self._looks += 1
        self._trouble = self._trouble.more(error, now)
        decision = decide(
            error,
            failures=self._looks,
            attempts=action.options.attempts,
            backoff=action.options.backoff,
            chance=attempt.chance,
            unknown_attempts=UNKNOWN_ATTEMPTS_OF_A_STEP,
            trouble=self._trouble,
            now=now,
        )
        if isinstance(decision, GiveUp):
            await self._save("held", reason=reason, error=self._described(error))
            await attempt.hold(f"{action.name}: {reason}")
            return
        if not decision.counts:
            self._looks -= 1
        attempt.log.warning(
            "find failed; looking again", action=action.name, error=reason, again_in=readable(decision.delay)
        )
        await self._wait("unknown", decision.delay, reason, self._described(error))

    async def _save(
        self, state: Any, *, reason: str | None = None, result: str | None = None, error: str | None = None
    ) -> None:
        effect = self.effect
        effect.state, effect.reason, effect.error = state, reason, error
        if result is not None:
            effect.result = result
        await save_effect(self._attempt, effect)
        if (effect.once is not None or effect.undoes is not None) and state in {"confirmed", "failed"}:
            self._attempt.surroundings.once_news.tell()


async def save_effect(attempt: Attempt, effect: Effect) -> None:
    """Store the state of an effect."""
    around, claim = attempt.surroundings, attempt.claim
    if effect.once is not None:
        await around.store.do(SaveOnce(claim, around.app, effect))
    else:
        await around.store.do(SaveEffect(claim, effect))


def abandoned(effect: Effect) -> EffectAbandoned:
    note = f": {effect.note}" if effect.note else ""
    return placed(EffectAbandoned(f"{effect.action} was abandoned by {effect.settled_by}{note}"), effect.action)
