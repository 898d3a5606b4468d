"""The run: what a handler is given, and the memory of one attempt.

A resumed run executes its handler from the top. Each `run.*` call computes its identity (name, digest of arguments,
count among equal ones) and asks what is recorded under it; only what is not recorded is done. So the order of calls
does not matter, and branches that swap on resume still get their own results.

Two numbers decide when a run can be put away: calls that do something (`_active`) and calls that only wait for time
(`_waits`). Once only waits are left, the attempt is interrupted by cancelling its task, never by raising through user
code, and the run goes back to the store until the earliest wait is over.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

import structlog
from pydantic_core import from_json, to_json

from wakeful.clock import Clock, Microseconds, readable, seconds, to_datetime
from wakeful.errors import ConfigError, Persistent, describe, restore
from wakeful.execution.call import call, is_async
from wakeful.execution.options import StepOptions, location, name_of, options_of
from wakeful.execution.retry import WAITS_IN_PLACE, GiveUp, decide
from wakeful.model import Claim, Event, Receipt, Step, digest
from wakeful.stores.base import SaveSteps
from wakeful.values import digest_of_arguments, from_text, read_back, returns_of, to_text

P = ParamSpec("P")
T = TypeVar("T")

Interruption = Literal["waiting", "deadline", "released", "lost"]

ARGUMENTS_SHOWN = 4_000
_inside_transaction: contextvars.ContextVar[bool] = contextvars.ContextVar("wakeful_inside_transaction", default=False)
STEP_OF = "__wakeful_failed_step__"


class RunStore(Protocol):
    """What a run needs of the store."""

    async def save_steps(self, request: SaveSteps) -> None: ...

    async def transact_step(
        self, claim: Claim, key: str, function: Callable[[Any], Any], to_step: Callable[[Any], Step]
    ) -> Step: ...

    @property
    def dialect(self) -> str: ...


class RunDoor(Protocol):
    """The one door, by which a run's own events come in again."""

    async def accept(
        self, events: list[Event], *, claim: Claim | None = None, step: Step | None = None
    ) -> list[Receipt]: ...


@dataclass(slots=True)
class Surroundings:
    """What an attempt gets from its worker."""

    app: str
    store: RunStore
    door: RunDoor
    clock: Clock
    chance: random.Random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """One item of `run.map(..., partial=True)`: its value, or the error it ended with."""

    value: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


class RunLog:
    """The run's log: structured, with run and agent, and silent while recorded work is only being read back."""

    __slots__ = ("_logger", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._logger = structlog.get_logger("wakeful.run")

    def debug(self, message: str, **fields: Any) -> None:
        self._say("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._say("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._say("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._say("error", message, fields)

    def _say(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if not self._run.replaying:
            getattr(self._logger, level)(message, **fields)


class Run:
    """One agent handling one event. Handed to the handler as its first argument."""

    def __init__(self, claim: Claim, event: Event, surroundings: Surroundings) -> None:
        self.id = claim.id
        self.agent = claim.agent
        self.event = event
        self.attempt = claim.attempts + 1
        self.scheduled_for: datetime | None = None
        self._claim = claim
        self._around = surroundings
        self._recorded = {step.key: step for step in claim.steps} if claim.steps else {}
        self._unread = len(self._recorded)
        self._counts: dict[str, int] = {}
        self._names: dict[str, Callable[..., Any]] = {}
        self._position = len(self._recorded)
        self._unsaved: list[Step] = []
        self._retrying: dict[str, Step] = {}
        self._active = 0
        self._waits: list[Microseconds] = []
        self._task: asyncio.Task[Any] | None = None
        self._random: random.Random | None = None
        self._log: RunLog | None = None
        self.interrupted: Interruption | None = None

    # facts

    @property
    def log(self) -> RunLog:
        """Structured log lines with the run's id; lines of a part that is only read back are not repeated."""
        if self._log is None:
            self._log = RunLog(self)
        return self._log

    @property
    def replaying(self) -> bool:
        """Is this attempt still reading back what earlier ones recorded?"""
        return self._unread > 0

    def now(self) -> datetime:
        """The time; the same value again on resume. Stored with the run's next checkpoint."""
        key, shown = self._next_key("now", "")
        recorded = self._read(key)
        if recorded is not None and recorded.result is not None:
            return to_datetime(int(recorded.result))
        moment = self._around.clock.now()
        self._unsaved.append(self._new_step(key, shown, "fact", result=str(moment), started_at=moment))
        return to_datetime(moment)

    def uuid(self) -> uuid.UUID:
        """A random-looking UUID; the same one again on resume."""
        key, _ = self._next_key("uuid", "")
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._claim.root}/{key}")

    @property
    def random(self) -> random.Random:
        """A random generator that gives the same values again on resume."""
        if self._random is None:
            self._random = random.Random(self._claim.root)  # noqa: S311 repeatable on purpose
        return self._random

    # work

    @overload
    async def step(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Call a function once: its result is stored before the next line runs, and returned from storage on resume."""
        options = options_of(function)
        name = options.name or self._own_name(function)
        what = f"step {name}"
        digested, text = self._identify(options, arguments, keywords, what)
        key, shown = self._next_key(name, digested)

        async def perform(_step: Callable[[Any], Step]) -> tuple[Any, Step | None]:
            return await call(function, arguments, keywords, what=what, limit=options.timeout), None

        return await self._checkpoint(key, shown, text, options, function, perform)

    async def map(
        self, function: Callable[..., Any], items: Iterable[Any], *, limit: int = 8, partial: bool = False
    ) -> list[Any]:
        """Call a function for each item, at most `limit` at a time, each with a checkpoint of its own.

        Results are in the order of the items. Without `partial` the first error stops the rest and is raised; with
        it, every item becomes an `Outcome` with `.value` or `.error`.
        """
        if limit < 1:
            message = f"run.map: limit must be at least 1, not {limit}"
            raise Persistent(message)
        room = asyncio.Semaphore(limit)

        async def one(item: Any) -> Any:
            async with room:
                return await self.step(function, item)

        return await self._gather([asyncio.ensure_future(one(item)) for item in items], partial=partial)

    async def emit(
        self, type: str, data: Any = None, *, subject: str | None = None, id: str | None = None, **extensions: Any  # noqa: A002
    ) -> Receipt:
        """A new event through the one door, stored together with this checkpoint. On resume it is not sent again."""
        name = f"emit {type}"
        digested, text = digest_of_arguments((type, data, subject, id), extensions, what=name)
        key, shown = self._next_key(name, digested)
        self._enter()
        try:
            recorded = self._read(key)
            if recorded is not None and recorded.result is not None:
                stored = from_json(recorded.result)
                return Receipt(stored["source"], stored["id"], stored["status"], stored["runs"])
            event = Event(
                source=f"/{self._around.app}/{self.agent}",
                id=id or digest(self._claim.root, key),
                type=type,
                data=from_json(to_text(data, what=f"the data of {name}")),
                subject=subject,
                time=to_datetime(self._around.clock.now()),
                causationid=self.event.id,
                correlationid=self.event.correlationid or self.event.id,
                traceparent=self.event.traceparent,
                extensions=extensions,
            )
            step = self._new_step(key, shown, "done", arguments=text[:ARGUMENTS_SHOWN])
            step.result = to_json({"source": event.source, "id": event.id, "status": "accepted", "runs": []}).decode()
            receipts = await self._around.door.accept([event], claim=self._claim, step=step)
            return receipts[0]
        finally:
            self._exit()

    async def transaction(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """`function(db, *arguments)` and its checkpoint are one database transaction: both are stored, or neither.

        On SQLite the function is a plain `def`, uses tables of the store's own file, and is interrupted after 1 s.
        On PostgreSQL it is an `async def` with an asyncpg connection of its own.
        """
        options = options_of(function)
        name = options.name or self._own_name(function)
        what = f"transaction {name}"
        if self._around.store.dialect == "sqlite" and is_async(function):
            message = f"{what}: on SQLite the function must be a plain def, because the one writer runs it ({location(function)})"
            raise ConfigError(message)
        if self._around.store.dialect == "postgres" and not is_async(function):
            message = f"{what}: on PostgreSQL the function must be async, its db is an asyncpg connection ({location(function)})"
            raise ConfigError(message)
        digested, text = self._identify(options, arguments, {}, what)
        key, shown = self._next_key(name, digested)

        def work(database: Any) -> Any:
            return function(database, *arguments)

        async def perform(to_step: Callable[[Any], Step]) -> tuple[Any, Step | None]:
            guard = _inside_transaction.set(True)
            try:
                saved = await self._around.store.transact_step(self._claim, key, work, to_step)
            finally:
                _inside_transaction.reset(guard)
            return None, saved

        return await self._checkpoint(key, shown, text, options, function, perform)

    # checkpoints

    async def _checkpoint(
        self,
        key: str,
        name: str,
        text: str,
        options: StepOptions,
        function: Callable[..., Any],
        perform: Callable[[Callable[[Any], Step]], Awaitable[tuple[Any, Step | None]]],
    ) -> Any:
        """1. What is recorded is returned or raised. 2. Otherwise try, and store the result. 3. After a failure wait
        as decided, in place or put away, and try again. 4. What failed for good is stored and raised.
        """
        self._enter()
        try:
            returns = returns_of(function)
            recorded = self._read(key)
            tries = 0
            position = None
            if recorded is not None:
                if recorded.state == "done":
                    return from_text(recorded.result or "null", returns)
                if recorded.state == "failed":
                    raise marked(restore(from_json(recorded.error or "{}")), key)
                tries, position = recorded.tries, recorded.position
                await self._wait_until(int(recorded.result or 0), recorded)
            clock = self._around.clock
            while True:
                started = clock.now()

                def to_step(value: Any, started: Microseconds = started, tries: int = tries) -> Step:
                    step = self._new_step(key, name, "done", arguments=text[:ARGUMENTS_SHOWN], started_at=started)
                    step.result = to_text(value, what=f"the result of step {name}")
                    step.tries = tries + 1
                    if position is not None:
                        step.position = position
                    return step

                try:
                    value, saved = await perform(to_step)
                    if saved is not None:
                        return from_text(saved.result or "null", returns)
                    step = to_step(value)
                except Exception as error:  # noqa: BLE001 sorted by class
                    tries += 1
                    decision = decide(
                        error, failures=tries, attempts=options.attempts, backoff=options.backoff, chance=self._around.chance
                    )
                    failed = self._new_step(key, name, "failed", arguments=text[:ARGUMENTS_SHOWN], started_at=started)
                    failed.error = to_json(describe(error)).decode()
                    failed.tries = tries
                    if position is not None:
                        failed.position = position
                    position = failed.position
                    if isinstance(decision, GiveUp):
                        await self._save(failed)
                        raise marked(error, key) from None
                    if not decision.counts:
                        tries -= 1
                        failed.tries = tries
                    self.log.warning(
                        f"step {name} failed; trying again",
                        error=f"{type(error).__name__}: {error}",
                        again_in=readable(decision.delay),
                        why=decision.reason,
                    )
                    failed.state = "retrying"
                    failed.result = str(clock.now() + decision.delay)
                    await self._wait_until(clock.now() + decision.delay, failed)
                    continue
                await self._save(step)
                return read_back(value, step.result or "null", returns)
        finally:
            self._exit()

    async def _save(self, step: Step) -> None:
        """Store a checkpoint, together with facts that came before it."""
        steps = [step]
        if self._unsaved:
            steps = [*self._unsaved, step]
            self._unsaved = []
        await self._around.store.save_steps(SaveSteps(self._claim, steps))

    async def _wait_until(self, moment: Microseconds, step: Step) -> None:
        """A short wait happens in place. A longer one is durable: if nothing else goes on, the run is put away."""
        delay = moment - self._around.clock.now()
        if delay <= WAITS_IN_PLACE:
            if delay > 0:
                await self._around.sleep(seconds(delay))
            return
        self._retrying[step.key] = step
        self._waits.append(moment)
        self._active -= 1
        self._consider_leaving()
        try:
            await self._around.sleep(seconds(delay))
        finally:
            self._active += 1
            self._waits.remove(moment)
        self._retrying.pop(step.key, None)

    # putting away

    def _consider_leaving(self) -> None:
        """When only waits are left, and that is still so after everybody else had a turn, leave."""
        if self._waits and self._active == 0:
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: loop.call_soon(self._leave_if_idle))

    def _leave_if_idle(self) -> None:
        if self._waits and self._active == 0 and self.interrupted is None:
            self.interrupt("waiting")

    def interrupt(self, why: Interruption) -> None:
        """End this attempt by cancelling its task; every later `run.*` call of it is cancelled too."""
        if self.interrupted is None:
            self.interrupted = why
            if self._task is not None:
                self._task.cancel()

    @property
    def earliest_wait(self) -> Microseconds | None:
        pending = [int(step.result or 0) for step in self._retrying.values()]
        return min(pending) if pending else None

    @property
    def pending_steps(self) -> list[Step]:
        """Facts and waiting steps that must be stored when the run is put away."""
        return [*self._unsaved, *self._retrying.values()]

    @property
    def in_flight(self) -> int:
        """How many `run.*` calls have not returned."""
        return self._active + len(self._waits)

    # bookkeeping

    def _enter(self) -> None:
        if self.interrupted is not None:
            raise asyncio.CancelledError
        if _inside_transaction.get():
            message = "run.* inside run.transaction: the function may only use its db. Do this before or after it"
            raise Persistent(message)
        self._active += 1

    def _exit(self) -> None:
        self._active -= 1
        if self._waits:
            self._consider_leaving()

    def _read(self, key: str) -> Step | None:
        """What is recorded under a key. The first call that is not recorded ends the part that is only read back."""
        if not self._recorded:
            return None
        step = self._recorded.get(key)
        if step is None:
            self._unread = 0
        elif self._unread:
            self._unread -= 1
        return step

    def _next_key(self, name: str, digested: str) -> tuple[str, str]:
        """The identity of the next call (name, digest of arguments, count among equal ones), and what people see."""
        base = f"{name}:{digested}"
        counts = self._counts
        equal = counts[base] = counts.get(base, -1) + 1
        calls = counts[name] = counts.get(name, 0) + 1
        return f"{base}:{equal}" if equal else base, name if calls == 1 else f"{name}#{calls}"

    def _own_name(self, function: Callable[..., Any]) -> str:
        """The function's name, refusing two different functions of one name: they would read each other's results."""
        name = name_of(function)
        if name == "<lambda>" or not hasattr(function, "__name__"):
            message = (
                f"a step needs a name: {location(function)} is a lambda or a partial. "
                'Write run.step(step(name="total")(…))'
            )
            raise Persistent(message)
        other = self._names.setdefault(name, function)
        if other is not function and location(other) != location(function):
            message = (
                f"two functions named {name} in one run ({location(other)} and {location(function)}): "
                "give one another name with @step(name=…)"
            )
            raise Persistent(message)
        return name

    @staticmethod
    def _identify(
        options: StepOptions, arguments: tuple[Any, ...], keywords: Mapping[str, Any], what: str
    ) -> tuple[str, str]:
        if options.key is not None:
            return digest_of_arguments((options.key(*arguments, **keywords),), {}, what=what)
        try:
            return digest_of_arguments(arguments, keywords, what=what)
        except Persistent as error:
            message = f"{error}; or give the step a key of its own: @step(key=lambda …: …)"
            raise type(error)(message) from None

    def _new_step(
        self, key: str, name: str, state: Literal["done", "failed", "retrying", "fact"], *,
        result: str | None = None, arguments: str | None = None, started_at: Microseconds | None = None,
    ) -> Step:  # fmt: skip
        now = self._around.clock.now()
        position, self._position = self._position, self._position + 1
        return Step(
            key=key,
            name=name,
            state=state,
            result=result,
            arguments=arguments,
            attempt=self.attempt,
            position=position,
            started_at=now if started_at is None else started_at,
            finished_at=now,
        )

    @staticmethod
    async def _gather(tasks: list[asyncio.Future[Any]], *, partial: bool) -> list[Any]:
        try:
            if partial:
                done = await asyncio.gather(*tasks, return_exceptions=True)
                for value in done:
                    if isinstance(value, BaseException) and not isinstance(value, Exception):
                        raise value
                return [Outcome(error=value) if isinstance(value, Exception) else Outcome(value=value) for value in done]
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise


def marked(error: Exception, key: str) -> Exception:
    """Note on an error which step it came from, so that a retry of the run knows which step to try again."""
    keys = getattr(error, STEP_OF, ())
    with_step = (*keys, key) if key not in keys else keys
    try:
        setattr(error, STEP_OF, with_step)
    except AttributeError:
        pass
    return error


def failed_steps(error: BaseException | None) -> set[str]:
    """The failed steps an error comes from: its own, those of its causes, those of its group."""
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        found.update(getattr(one, STEP_OF, ()))
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return found
