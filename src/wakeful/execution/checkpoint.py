"""One checkpointed call: return its record, or do it and store it, as often as its settings allow.

recorded done ────► its value, from storage
recorded failed ──► its error, raised again
else try ─┬─ worked ─► store, return
          └─ failed ─► retry after a wait (in place, or with the run out of memory), or store the error and raise it
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable
from wakeful.errors import CancelledInside, ClaimLost, LockLost, Persistent
from wakeful.execution.attempt import Attempt, inside_transaction
from wakeful.execution.circuits import CircuitOpen
from wakeful.execution.locks import locks_held
from wakeful.functions.call import call, is_async
from wakeful.functions.options import UNKNOWN_ATTEMPTS_OF_A_STEP, StepOptions
from wakeful.functions.retry import SINCE, FailureStreak, GiveUp, decide, streak_of
from wakeful.model import Step
from wakeful.redaction import redact
from wakeful.stored_errors import describe, restore, words_of
from wakeful.stores.notes import note
from wakeful.stores.user_transaction import transact_step
from wakeful.stores.verbs.progress import TransactStep
from wakeful.values import digest_of_arguments, from_text, read_back, returns_of, to_text

ARGUMENTS_SHOWN = 4_000
# Limits on the failed tries that a step's record keeps, for the trace.
ERRORS_SHOWN = 400
TRIES_KEPT = 10
FAILED_STEPS = "__wakeful_failed_steps__"
PLACE = "__wakeful_place__"
E = TypeVar("E", bound=BaseException)
NONE_YET = FailureStreak()


class Checkpoint:
    """A call of a run that is done once. With `transaction` the call itself stores its result, together with the user's
    rows.
    """

    __slots__ = (
        "_arguments",
        "_attempt",
        "_errors",
        "_function",
        "_key",
        "_keywords",
        "_name",
        "_options",
        "_position",
        "_started",
        "_text",
        "_tries",
        "_trouble",
    )

    def __init__(
        self,
        attempt: Attempt,
        key: str,
        name: str,
        text: str,
        options: StepOptions,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> None:
        self._attempt = attempt
        self._key = key
        self._name = name
        self._text = shown_arguments(text)
        self._options = options
        self._function = function
        self._arguments = arguments
        self._keywords = keywords
        self._tries = 0
        self._trouble = NONE_YET
        self._errors: list[dict[str, Any]] = []
        self._position: int | None = None
        self._started: Microseconds = 0

    async def reach(self, *, transaction: bool = False) -> tuple[Any, Step | None]:
        """The value of the call, from storage or from doing it; and the record that is still to be stored, if any."""
        attempt = self._attempt
        returns = returns_of(self._function)
        recorded = attempt.record.find(self._key)
        if recorded is not None:
            if recorded.state == "done":
                return from_text(recorded.result or "null", returns, step=self._name), None
            if recorded.state == "failed":
                stored = from_json(recorded.error or "{}")
                error = restore(stored)
                error.__dict__.setdefault(SINCE, stored.get("failing", 0))
                raise marked(error, self._key, self._name)
            self._tries, self._position = recorded.tries, recorded.position
            stored = from_json(recorded.error or "{}")
            self._errors, self._trouble = stored.get("tries", []), streak_of(stored, recorded.tries)
            await attempt.wait_until(int(recorded.result or 0), recorded)
        dependency = self._options.dependency
        while True:
            if dependency is not None and (shut := await attempt.may_call(dependency)) is not None:
                await attempt.park(shut)
            self._started = attempt.progress_at = attempt.clock.now()
            try:
                if transaction:
                    return await self._transact(returns), None
                value = await self._call()
                if dependency is not None:
                    await attempt.called(dependency)
                step = self.done(value)
                return read_back(value, step.result or "null", returns, step=self._name), step
            except (ClaimLost, LockLost):
                raise  # not a failure of the step: another process owns the run, or its lock, now
            except SystemExit as error:  # from any task, asyncio would let it end the whole process
                inside: Exception = Persistent(
                    f"step {self._name} called sys.exit({error.code!r}): return or raise instead"
                )
                inside.__cause__ = error
                await self._after(inside)
                continue
            except Exception as error:
                shut = None if dependency is None else await attempt.called(dependency, error)
                await self._after(error, shut)
                continue
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if attempt.interrupted is not None or task is None or task.cancelling():
                    raise
                inside = CancelledInside(f"step {self._name} was cancelled from inside")
                inside.__cause__ = error
                await self._after(inside)
                continue

    async def _call(self) -> Any:
        options = self._options
        function = self._attempt.stand_in(self._function, self._function)
        token = self._attempt.inside(self._name)
        try:
            if options.timeout is None and is_async(function):
                return await function(*self._arguments, **self._keywords)
            return await call(
                function, self._arguments, self._keywords, what=f"step {self._name}", limit=options.timeout
            )
        finally:
            self._attempt.outside(token)

    async def _transact(self, returns: TypeAdapter[Any] | None) -> Any:
        arguments = self._arguments

        def done(value: Any) -> Step:
            step = self.done(value)
            read_back(value, step.result or "null", returns, step=self._name)  # do not commit an unreadable result
            return step

        saved = await self._store_with(lambda db: self._function(db, *arguments), done)
        return from_text(saved.result or "null", returns, step=self._name)

    async def _store_with(self, function: Callable[[Any], Any], to_step: Callable[[Any], Step]) -> Step:
        """Run the user's function in a transaction that also stores its checkpoint. `run.*` is refused meanwhile."""
        attempt = self._attempt
        claim, store = attempt.claim, attempt.surroundings.store
        await attempt.record.save_facts()
        guard = inside_transaction.set(True)
        attempt.progress()
        step = attempt.inside(self._key.partition(":")[0])
        work = function
        if store.dialect == "sqlite":  # runs in the writer's thread, which must know that it is inside too
            context = contextvars.copy_context()

            def work(database: Any) -> Any:
                return context.run(function, database)

        try:
            request = TransactStep(claim, self._key, work, to_step, locks_held(claim), attempt.cause)
            stored = await transact_step(store, request)
            claim.finished += 1
            return stored
        finally:
            inside_transaction.reset(guard)
            attempt.outside(step)

    def done(self, value: Any) -> Step:
        """The record of a successful call."""
        step = self._step("done")
        step.result = to_text(value, what=f"the result of step {self._name}")
        step.tries = self._tries + 1
        if self._errors:
            step.error = to_json({"tries": self._errors}).decode()
        return step

    async def _after(self, error: Exception, shut: CircuitOpen | None = None) -> None:
        """Wait for the next try, or store the error and raise it. While a circuit is open, no try is used up."""
        attempt, options = self._attempt, self._options
        self._tries += 1
        now = attempt.clock.now()
        self._trouble = self._trouble.more(error, now)
        decision = decide(
            error,
            failures=self._tries,
            attempts=options.attempts,
            backoff=options.backoff,
            chance=attempt.chance,
            unknown_attempts=UNKNOWN_ATTEMPTS_OF_A_STEP,
            trouble=self._trouble,
            now=now,
        )
        step = self._step("failed")
        self._position = step.position
        described = describe(error)
        self._errors = [*self._errors, {"type": described["type"], "message": described["message"][:ERRORS_SHOWN]}][
            -TRIES_KEPT:
        ]
        step.tries = self._tries
        if shut is not None:  # the time with an open circuit does not count
            self._tries -= 1
            step.tries, step.state, step.result = self._tries, "retrying", note(str(attempt.clock.now()))
            step.error = to_json({**described, "tries": self._errors}).decode()
            await attempt.park(shut, step)
        step.error = to_json({**described, "tries": self._errors, **self._trouble.as_json(options.attempts)}).decode()
        if isinstance(decision, GiveUp):
            await attempt.record.save(step)
            error.__dict__.setdefault(SINCE, self._trouble.failing)
            raise marked(error, self._key, self._name)
        if not decision.counts:
            self._tries -= 1
            step.tries = self._tries
        attempt.log.warning(
            "a step failed; trying again",
            step=self._name,
            error=f"{type(error).__name__}: {words_of(error)}",
            again_in=readable(decision.delay),
            why=decision.reason,
        )
        due = attempt.clock.now() + decision.delay
        step.state = "retrying"
        step.result = note(str(due))
        await attempt.wait_until(due, step)

    def _step(self, state: Any) -> Step:
        step = self._attempt.record.new_step(
            self._key, self._name, state, arguments=self._text, started_at=self._started, position=self._position
        )
        self._attempt.progress_at = step.finished_at
        return step


def identify(
    options: StepOptions, arguments: tuple[Any, ...], keywords: Mapping[str, Any], name: str
) -> tuple[str, str]:
    """The digest of a step's arguments, or of its own key, and the arguments as text."""
    if options.key is not None:
        return digest_of_arguments((options.key(*arguments, **keywords),), {}, step=name)
    try:
        return digest_of_arguments(arguments, keywords, step=name)
    except Persistent as error:
        message = f"{error}; or give the step a key of its own: @step(key=lambda …: …)"
        raise type(error)(message) from None


def shown_arguments(text: str) -> str:
    """The part of the arguments that is stored for display. Secrets are redacted before the cut: half a secret is not
    found.
    """
    return text if len(text) <= ARGUMENTS_SHOWN else redact(text)[:ARGUMENTS_SHOWN]


def marked(error: Exception, key: str, name: str) -> Exception:
    """Mark on an error which step it came from, so that a retry of the run knows which step to retry."""
    keys = getattr(error, FAILED_STEPS, ())
    if key not in keys:
        error.__dict__[FAILED_STEPS] = (*keys, key)
    return placed(error, name)


def placed(error: E, name: str) -> E:
    """Mark on an error the name of the step or the action that it came from."""
    error.__dict__.setdefault(PLACE, (name.partition("#")[0],))
    return error


def failed_steps(error: BaseException | None) -> set[str]:
    """The failed steps that an error comes from: its own, those of its causes, those of its group."""
    return _marks(error, FAILED_STEPS)


def place_of(error: BaseException | None) -> str | None:
    """The names of the steps and actions that an error comes from; None if it comes from the handler itself."""
    return "+".join(sorted(_marks(error, PLACE))) or None


def _marks(error: BaseException | None, name: str) -> set[str]:
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        own = getattr(one, name, ())
        found.update(own)
        pending.append(one.__cause__)
        if not own and one.__cause__ is None and not one.__suppress_context__:
            pending.append(one.__context__)  # the error that was being handled when this one was raised
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return found
