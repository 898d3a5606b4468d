"""One effect: the intent is stored, then the call is made, then what became of it is stored.

    known confirmed ──► its result, from the ledger
    known failed ─────► its error, raised again
    else open ─► call ─┬─ worked ────────────────────► confirmed
          ▲            ├─ certainly not done ────────► again, after a wait
          │            ├─ refused for good (4xx) ────► failed: the run dies
          │            └─ nobody knows ─┬─ idempotent ───► again, with the same id, while it is young enough
          │                             ├─ reconcile ────► look: found ► confirmed, not there ► again, cannot tell ► look
          │                             │                  again later, as a read is tried again; for good ► held
          └────── not there ────────────┘
                                        └─ at_most_once ─► held: a person says what became of it

What a process left open when it died is something that nobody knows either, and is settled the same way, with the stored
arguments, before the handler runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import from_json, to_json

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.errors import (
    TOO_MANY_REQUESTS,
    ClaimLost,
    Denied,
    EffectAbandoned,
    KeyTaken,
    NotSent,
    Persistent,
    RateLimited,
    Transient,
    Verdict,
    classify,
    describe,
    http_status,
    restore,
    words_of,
)
from wakeful.execution.actions import Action, ActionOptions, Operation, find_action
from wakeful.execution.business_key import key_of
from wakeful.execution.call import call, within_lease
from wakeful.execution.checkpoint import ARGUMENTS_SHOWN, marked
from wakeful.execution.circuits import Shut
from wakeful.execution.options import UNKNOWN_ATTEMPTS, UNKNOWN_ATTEMPTS_OF_A_STEP
from wakeful.execution.retry import GiveUp, Trouble, decide, given_up, told_to_wait, trouble_of
from wakeful.model import Decision, Effect
from wakeful.redaction import redact
from wakeful.values import arguments_of, from_text, given_result, read_back, returns_of, to_text

if TYPE_CHECKING:
    from wakeful.execution.run import Run

# Branches of a handler may ask for their effects one after the other, a turn of the event loop for each.
TURNS_TO_ASK = 25
CHECK_LIMIT = 30 * SECOND
CLIENT_ERROR, SERVER_ERROR, REQUEST_TIMEOUT = 400, 500, 408
CUT_OFF = {
    None: "the handler stopped waiting for it",
    "deadline": "the deadline of its run came while it was under way",
    "released": "its worker stopped while it was under way",
}
RESTORED = "the store was restored from a backup, and this may have been done after it"
OPEN_STATES = frozenset({"intent", "unknown"})
COULD_NOT_TELL = ". find could not tell:"
REPLAYED = "replayed"
NONE_YET = Trouble()


@dataclass(frozen=True, slots=True)
class Again:
    """Certainly not done, or harmless to repeat: call again after `delay`."""

    delay: Microseconds
    certain: bool
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """Ask `find` after `delay` whether it was done."""

    delay: Microseconds
    find: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hold:
    """Only a person can tell."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The other side refused it for good."""

    error: BaseException


Next = Again | Look | Hold | Fail


def certainly_not_done(error: BaseException) -> bool:
    """Did the call do nothing at all? Its author says so, or the service turned it away for now."""
    return isinstance(error, NotSent | RateLimited) or http_status(error) == TOO_MANY_REQUESTS


def refused_for_good(error: BaseException) -> bool:
    """Did the other side, or the action's author, say no? Any other error may have come after the work was done."""
    status = http_status(error)
    if status is not None:
        return CLIENT_ERROR <= status < SERVER_ERROR and status not in {REQUEST_TIMEOUT, TOO_MANY_REQUESTS}
    return isinstance(error, Persistent | Denied)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the table needs to know of an effect: how old it is, and how long ago it was last called."""

    tries: int
    age: Microseconds
    since_call: Microseconds
    doubtful: bool = False  # an earlier call may have been done
    trouble: Trouble = NONE_YET  # the failures so far, this one included
    now: Microseconds = 0


def after(
    action: Action[..., Any], error: BaseException, facts: Facts, *, chance: Callable[[float, float], float]
) -> Next:
    """The table of what to do after a call that did not return. Pure."""
    options = action.options
    verdict = classify(error)
    pause = round(chance(0, options.backoff.ceiling(facts.tries)))
    if verdict.retry_after is not None:
        pause = told_to_wait(verdict, pause, options.attempts)
    why = f"{type(error).__name__}: {words_of(error)}"
    if certainly_not_done(error):
        counts = verdict.failure != "rate_limited"
        if facts.doubtful:  # this call did nothing; but an earlier one may have
            return settle(action, facts, pause=pause, why=why, verdict=verdict, counts=counts)
        ended = over_for_good(options, facts, verdict) if counts else None
        return Again(pause, certain=True, counts=counts) if ended is None else Fail(error)
    if refused_for_good(error):
        return Hold(f"{why}. But an earlier call of it may have been done") if facts.doubtful else Fail(error)
    return settle(action, facts, pause=pause, why=why, verdict=verdict)


def over_for_good(options: ActionOptions, facts: Facts, verdict: Verdict | None) -> str | None:
    """Why it is not called again, in words; None: it is. `verdict` is that of a call that failed; None where none did, because
    its process died: without `attempts=` only the crashes of its run are counted then.
    """
    if options.attempts is not None:
        return None if facts.tries < options.attempts else f"Tried {facts.tries} times, {options.attempts} allowed"
    if verdict is None:
        return None
    ended = given_up(verdict, facts.tries, None, UNKNOWN_ATTEMPTS, facts.trouble, facts.now)
    return None if ended is None else ended[0].upper() + ended[1:]


def settle(
    action: Action[..., Any],
    facts: Facts,
    *,
    pause: Microseconds,
    why: str,
    verdict: Verdict | None = None,
    counts: bool = True,
) -> Next:
    """Nobody knows whether it was done: what its action declared for that."""
    options = action.options
    if options.find is not None:
        return Look(max(0, options.settle - facts.since_call), options.find)
    if options.safety == "idempotent":
        if facts.age + pause >= options.idempotent_for:
            limit = readable(options.idempotent_for)
            return Hold(f"{why}. It is known again by its id for {limit} only, and would be older than that")
        ended = over_for_good(options, facts, verdict) if counts else None
        if ended is not None:
            return Hold(f"{why}. {ended}")
        return Again(pause, certain=False, counts=counts)
    return Hold(f"{why}. Whether {action.name} was done is not known, and it may be done at most once")


class EffectCall:
    """Carries one effect through, from its intent to its end."""

    def __init__(self, run: Run, action: Action[..., Any], effect: Effect) -> None:
        self._run = run
        self._action = action
        self._begun = False
        self._shut: Shut | None = None
        # One that a person replayed has a day of its own; its error is kept for them.
        stored = from_json(effect.error) if effect.error and effect.reason != REPLAYED else {}
        self._trouble = trouble_of(stored, effect.tries)
        self._looks = int(stored.get("looks", 0))
        self.effect = effect

    async def reach(self) -> Any:
        """The result, from the ledger or from doing it. Ends the attempt by `run.hold` where a person is needed."""
        await self._stop_if_over()
        await self._wait_until_due()
        if self._is_open():  # the handler had stopped waiting for it, and asks again
            await self._settle()
        return await self._do()

    async def settle(self, *, only: bool = False) -> None:
        """Before the handler: an earlier attempt left this open. Afterwards it is confirmed, or tried again, or held. `only`:
        if it turns out that it was certainly not done, that is enough.
        """
        await self._wait_until_due()
        await self._settle()
        if self.effect.state in {"confirmed", "failed"} or (only and self.effect.state == "retrying"):
            return
        await self._do()

    async def _do(self) -> Any:
        while not self._is_confirmed():
            await self._park_if_down()
            try:
                value = await self._call()
            except (ClaimLost, KeyTaken):
                raise  # nothing went wrong with the action: the run, or the key, is somebody else's now
            except Exception as error:
                await self._go_on_after(error)
                continue
            except asyncio.CancelledError:
                await self._cut_off()
                raise
            confirmed = await self._confirm(value)
            await self._run.called(self._action.options.dependency)
            return confirmed
        return await self._read_result()

    def _is_confirmed(self) -> bool:
        return self.effect.state == "confirmed"

    def _is_open(self) -> bool:
        return self.effect.state == "unknown" or (self.effect.state == "intent" and self.effect.tries > 0)

    async def _wait_until_due(self) -> None:
        """What was told to wait is not called sooner, however often its run wakes for something else."""
        effect, run = self.effect, self._run
        if effect.state in {"retrying", "unknown"} and effect.due_at > run.clock.now():
            await run.wait_for_effect(effect.id, effect.due_at)

    async def _stop_if_over(self) -> None:
        effect = self.effect
        if effect.state == "held":  # stored as that by a process that died before it could put the run away
            await self._run.hold(f"{effect.action}: {effect.reason}")
        if effect.state == "failed":
            raise marked(restore(from_json(effect.error or "{}")), effect.id)
        if effect.state == "abandoned":
            raise abandoned(effect)

    async def _confirm(self, value: Any) -> Any:
        """It was done. If its result cannot be stored, or is not what was declared, a person must say what it was."""
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
        await self._run.hold(f"{self._action.name}: {reason}")

    def _facts(self) -> Facts:
        now, effect = self._run.clock.now(), self.effect
        since_call = now - effect.called_at
        return Facts(effect.tries, now - effect.opened_at, since_call, effect.doubtful, self._trouble, now)

    async def _settle(self) -> None:
        effect = self.effect
        why = "the process died while it was under way" if effect.state == "intent" else effect.reason or "unknown"
        why = why.partition(COULD_NOT_TELL)[0]
        effect.doubtful = True
        await self._carry_out(settle(self._action, self._facts(), pause=0, why=why), None, why)

    async def _call(self) -> Any:
        effect, action, run = self.effect, self._action, self._run
        self._begun = False
        arguments, keywords = await self._read_arguments()
        effect.tries += 1
        if effect.state != "intent" or effect.tries > 1:  # it has just been opened as an intent otherwise
            await self._save("intent", error=effect.error)  # with it goes since when it fails
        effect.called_at = run.clock.now()
        operation = Operation(effect.operation or effect.id, action.name, run.id, effect.tries, run.cause)
        function = run.stand_in(action, action.function)
        run.progress()
        token = run.inside(action.name)
        run.call_begins()
        self._begun = True
        try:
            made = call(function, (operation, *arguments), keywords, what=f"action {action.name}")
            return await within_lease(made, action.options.timeout, run.time_for_calls, what=f"action {action.name}")
        finally:
            run.progress()
            run.outside(token)
            run.call_ends()

    async def _park_if_down(self) -> None:
        """What its action depends on is not called while it is known to be down."""
        shut = await self._run.may_call(self._action.options.dependency)
        if shut is not None:
            await self._save("unknown" if self.effect.doubtful else "retrying", reason=f"not begun: {shut.reason}")
            await self._run.park(shut)

    async def _read_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """As they are stored. Where a call may have been done already, it is no failure that they cannot be read now."""
        try:
            return self._action.read(self.effect.arguments)
        except Persistent as error:
            if self.effect.doubtful:
                reason = f"its stored arguments cannot be read any more: {words_of(error)}"
                await self._save("held", reason=reason)
                await self._run.hold(f"{self._action.name}: {reason}")
            raise

    async def _cut_off(self) -> None:
        """The call was cancelled: by the handler, which stopped waiting for it, or because the attempt is over."""
        run, action = self._run, self._action
        if run.interrupted == "lost":
            return
        if not self._begun:  # this call was not; but an earlier one may have been done
            await self._save("unknown" if self.effect.doubtful else "retrying", reason="not begun")
            return
        self.effect.doubtful = True
        why = CUT_OFF.get(run.interrupted, "the call was cut off")
        if action.options.safety == "at_most_once" and run.interrupted in {None, "deadline"}:
            reason = f"{why}. Whether {action.name} was done is not known, and it may be done at most once"
            await self._save("held", reason=reason)
            run.hold_from_outside(f"{action.name}: {reason}")
        else:
            await self._save("unknown", reason=why)

    async def _go_on_after(self, error: Exception) -> None:
        if self._begun:
            self._shut = await self._run.called(self._action.options.dependency, error)
        if self._shut is not None:
            self.effect.tries -= 1  # no try is used up while its circuit is open
            self._trouble = NONE_YET  # nor does the time count for which it is
        else:
            self._trouble = self._trouble.more(error, self._run.clock.now())
        step = after(self._action, error, self._facts(), chance=self._run.chance.uniform)
        if not self._begun and not isinstance(step, Fail):
            raise error
        if not (certainly_not_done(error) or isinstance(step, Fail)):  # what was refused was not done
            self.effect.doubtful = True
        await self._carry_out(step, error, f"{type(error).__name__}: {words_of(error)}")

    async def _carry_out(self, step: Next, error: Exception | None, why: str) -> None:
        effect, run = self.effect, self._run
        described = effect.error if error is None else self._described(error)
        match step:
            case Again(delay=delay, certain=certain, counts=counts):
                if not counts:
                    effect.tries -= 1
                if error is not None:  # else an earlier attempt has said so
                    run.log.warning(
                        "an action failed; trying again", action=self._action.name, error=why, again_in=readable(delay)
                    )
                await self._wait("retrying" if certain else "unknown", delay, why, described)
            case Look(delay=delay, find=find):
                await self._wait("unknown", delay, why, described)
                await self._look(find, why)
            case Hold(reason=reason):
                await self._save("held", reason=reason, error=described)
                await run.hold(f"{self._action.name}: {reason}")
            case Fail(error=failure):
                await self._save("failed", reason=why, error=described)
                if isinstance(failure, Transient):  # certainly not done, as often as allowed
                    message = f"{self._action.name}: {why}, {effect.tries} times"
                    raise Persistent(message) from failure
                raise failure

    async def _wait(self, state: Any, delay: Microseconds, why: str, error: str | None) -> None:
        effect, run = self.effect, self._run
        effect.due_at = run.clock.now() + delay
        await self._save(state, reason=why, error=error)
        if self._shut is not None:
            await run.park(self._shut)
        await run.wait_for_effect(effect.id, effect.due_at)
        effect.due_at = 0

    def _described(self, error: Exception) -> str:
        """The error as it is stored, with what this effect knows of the row of failures that it belongs to."""
        known = {} if self._trouble is NONE_YET else self._trouble.as_json(self._action.options.attempts)
        looks = {"looks": self._looks} if self._looks else {}
        return to_json({**describe(error), **known, **looks}).decode()

    async def _look(self, find: Callable[..., Any], why: str) -> None:
        """Ask the action's own `find`, with the same arguments: what it found is the result, None means not done. A `find` that
        fails is asked again as a read would be; what it cannot tell in the end is held.
        """
        action, effect = self._action, self.effect
        text = await self._found(find, why)
        await self._run.called(action.options.dependency)
        ended = None if text is not None else self._over_after_looking()
        if text is not None:
            await self._save("confirmed", result=text, reason="found by find")
        elif ended is not None:
            reason = f"{why}. Not found, and {ended[0].lower()}{ended[1:]}"
            await self._save("held", reason=reason, error=effect.error)
            await self._run.hold(f"{action.name}: {reason}")
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
        """What `find` says, as it is stored."""
        action, run, effect = self._action, self._run, self.effect
        what = f"find of action {action.name}"
        arguments, keywords = action.read(effect.arguments)
        operation = Operation(effect.operation or effect.id, action.name, run.id, effect.tries, run.cause)
        made = call(run.stand_in(find, find), (operation, *arguments), keywords, what=what)
        found = await within_lease(made, action.options.timeout, run.time_for_calls, what=what)
        text = None if found is None else to_text(found, what=f"what {what} found")
        if text is not None:
            from_text(text, returns_of(action.function), of=f"action {action.name}")
        return text

    def _over_after_looking(self) -> str | None:
        """It was not done: why it is not called again either; None: it is. A call that a crash cut off is no failure."""
        trouble = self._trouble
        failed = Verdict("transient", lasting=not trouble.unknown) if trouble.failing else None
        return over_for_good(self._action.options, self._facts(), failed)

    async def _after_looking(self, error: Exception, why: str) -> None:
        """`find` failed: wait and look again, or hold. Returns when it is to be asked again."""
        action, run = self._action, self._run
        shut = await run.called(action.options.dependency, error)
        reason = f"{why}{COULD_NOT_TELL} {type(error).__name__}: {words_of(error)}"
        if shut is not None:
            self._trouble = NONE_YET
            await self._save("unknown", reason=reason, error=self._described(error))
            await run.park(shut)
        now = run.clock.now()
        self._looks += 1
        self._trouble = self._trouble.more(error, now)
        decision = decide(
            error,
            failures=self._looks,
            attempts=action.options.attempts,
            backoff=action.options.backoff,
            chance=run.chance,
            unknown_attempts=UNKNOWN_ATTEMPTS_OF_A_STEP,
            trouble=self._trouble,
            now=now,
        )
        if isinstance(decision, GiveUp):
            await self._save("held", reason=reason, error=self._described(error))
            await run.hold(f"{action.name}: {reason}")
            return
        if not decision.counts:
            self._looks -= 1
        run.log.warning(
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
        await self._run.save_effect(effect)
        if (effect.once is not None or effect.undoes is not None) and state in {"confirmed", "failed"}:
            self._run.surroundings.once_news.tell()


async def open_effect(run: Run, action: Action[..., Any], identifier: str, text: str) -> Effect:
    """Write the intent down, if policy allows it and nothing about it needs a person."""
    await run.save_facts()
    arguments, keywords = action.read(text)
    reason = await changed_arguments(run, action, text) or await failed_check(action, arguments, keywords)
    known = run.ledger.find(identifier)
    effect = run.new_effect(action, identifier, text) if known is None else known
    if effect.once is None and action.options.once is not None:  # staged once: the commit stores the arguments only
        effect.once = key_of(action, text)
    effect.state, effect.reason = await beginning(run) if reason is None else ("held", reason)
    return await opened(run, action, effect)


async def beginning(run: Run) -> tuple[Literal["intent", "unknown"], str | None]:
    """How an effect begins. What a run does that was restored from a backup may have been done after that backup, and the ledger
    of then cannot know: it is settled like a call whose process died.
    """
    store = run.surroundings.store
    if store.restored_before and await store.was_restored(run.claim):
        return "unknown", RESTORED
    return "intent", None


async def open_staged(run: Run, action: Action[..., Any], effect: Effect) -> Effect:
    """Its turn has come: what was checked when it was staged is written down as an intent, if policy allows it now."""
    effect.state, effect.reason = await beginning(run)
    effect.attempt = run.attempt
    return await opened(run, action, effect)


async def opened(run: Run, action: Action[..., Any], effect: Effect) -> Effect:
    """Policy is asked in the transaction that stores the intent. What it does not allow is refused, or held."""
    answer = await run.open_effect(action, effect)
    if isinstance(answer, Decision):
        if answer.answer == "deny":
            raise refuse(answer, action)
        effect.state, effect.reason = "held", f"{answer.rule}: {answer.reason}"
        answer = await run.open_effect(action, effect, judged=True)
    effect = answer if isinstance(answer, Effect) else effect
    if effect.state == "held":
        await run.hold(f"{action.name}: {effect.reason}")
    return effect


async def changed_arguments(run: Run, action: Action[..., Any], text: str) -> str | None:
    """Did an earlier attempt do this with other arguments? Branches that ask for theirs in a moment get a few turns."""
    for _ in range(TURNS_TO_ASK - 1):
        if not run.ledger.not_asked_for(action.name):
            return None
        await asyncio.sleep(0)
    return other_arguments(run.ledger.not_asked_for(action.name), text)


def other_arguments(before: Sequence[Effect], text: str) -> str | None:
    """In words, what an earlier attempt did and this one does not ask for again."""
    if not before:
        return None
    was, now = (redact(arguments_of(from_json(stored)))[:ARGUMENTS_SHOWN] for stored in (before[0].arguments, text))
    return f"arguments changed: was {was}, now {now}"


async def settle_open(run: Run, effects: Sequence[Effect], *, only: bool = False) -> None:
    """Settle what earlier attempts left open, one after the other, in the order in which it was begun."""
    for effect in effects:
        if effect.state == "held":
            await run.hold(f"{effect.action}: {effect.reason}")
        if effect.state not in OPEN_STATES:
            continue
        action = find_action(effect.reference, run.app)
        if action is None:
            effect.state, effect.reason = "held", f"the action {effect.reference} is not there any more to settle it"
            await run.save_effect(effect)
            await run.hold(f"{effect.action}: {effect.reason}")
            return
        try:
            await EffectCall(run, action, effect).settle(only=only)
        except Exception as error:
            if effect.state != "failed":
                raise
            # stored as that: the handler is told when it asks for it
            run.log.warning("an open effect failed", action=effect.action, error=words_of(error))


def refuse(decision: Decision, action: Action[..., Any]) -> Denied:
    """What a handler is told when policy does not allow an effect."""
    return Denied(f"action {action.name}: {decision.rule}: {decision.reason}")


def abandoned(effect: Effect) -> EffectAbandoned:
    note = f": {effect.note}" if effect.note else ""
    return EffectAbandoned(f"{effect.action} was abandoned by {effect.settled_by}{note}")


def is_closed(effect: Effect | None) -> bool:
    """Was it undone, or given up before it was ever called, when its run was cancelled? Whoever asks for it again means a
    new one.
    """
    return effect is not None and (
        effect.state == "undone" or (effect.state == "abandoned" and effect.settled_by is None and not effect.staged)
    )


def never_begun(effect: Effect) -> bool:
    """Was it staged once, and dropped before its turn came?"""
    return effect.state == "staged" or (effect.state == "abandoned" and effect.settled_by is None)


async def failed_check(action: Action[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> str | None:
    """The first check of an action's arguments that does not pass, in words."""
    for check in action.options.checks:
        name = getattr(check, "__name__", repr(check))
        try:
            answer = await call(check, tuple(arguments), keywords, what=f"check {name}", limit=CHECK_LIMIT)
        except Exception as error:
            return plain(f"check {name}: {type(error).__name__}: {words_of(error)}")
        if answer is False or isinstance(answer, str):
            return plain(f"check {name}: {answer or 'did not pass'}")
    return None


def plain(text: str) -> str:
    """What can be stored in any database."""
    return text.replace("\0", "�")
