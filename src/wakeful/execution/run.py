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
import contextlib
import contextvars
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal, ParamSpec, TypeVar, overload

from pydantic_core import from_json

from wakeful.clock import Clock, Duration, Microseconds, seconds, to_datetime
from wakeful.connect.rows.causes import cause_of
from wakeful.errors import CancelAsked, ClaimLost, ConfigError, NotAnAction, Persistent, UnknownChannel, did_you_mean
from wakeful.execution import occurrence, reminding, scheduling, waiting
from wakeful.execution.actions import Action, uses
from wakeful.execution.business_key import key_of
from wakeful.execution.call import is_async
from wakeful.execution.checkpoint import Checkpoint, shown_arguments
from wakeful.execution.circuits import Shut
from wakeful.execution.compensation import compensate
from wakeful.execution.effects import (
    EffectCall,
    abandoned,
    is_closed,
    never_begun,
    open_effect,
    opened,
    other_arguments,
    plain,
    settle_open,
)
from wakeful.execution.emits import refuse_attributes
from wakeful.execution.fanout import gather_all
from wakeful.execution.ledger import Ledger
from wakeful.execution.locks import Lock, locks_held
from wakeful.execution.once import OnceCall
from wakeful.execution.options import StepOptions, location, name_of, options_of
from wakeful.execution.outgoing import Outgoing
from wakeful.execution.release import release
from wakeful.execution.retry import WAITS_IN_PLACE
from wakeful.execution.retrying import why_retrying
from wakeful.execution.runlog import RunLog
from wakeful.execution.state import AgentState
from wakeful.execution.surroundings import Surroundings
from wakeful.intake.cloudevents import new_event
from wakeful.model import Claim, Decision, Delivery, Effect, Event, Receipt, Step, StepState, digest
from wakeful.policy.decide import ALLOWED, EffectFacts
from wakeful.policy.loops import depth_of, next_link
from wakeful.stores.base import (
    Approval,
    AskPerson,
    EndWait,
    HeldLock,
    OpenEffect,
    SaveEffect,
    SaveSteps,
    StateChange,
    Wait,
)
from wakeful.stores.once import OpenOnce, SaveOnce
from wakeful.stores.reminders import MakeReminder
from wakeful.stores.scheduling import ScheduleByRun
from wakeful.stores.timing import ChangeSchedule, StoredSchedule
from wakeful.triggers.reminders import Reminder
from wakeful.triggers.schedule import Schedule
from wakeful.values import digest_of_arguments, schema_of_result, to_text

P = ParamSpec("P")
T = TypeVar("T")

Interruption = Literal["waiting", "deadline", "released", "lost", "held", "parked", "stuck", "cancelled"]

# A call that has just ended may be on its way to the handler through tasks, gathers and groups, a turn of the event loop
# for each: what it brings (the next call, or an error) comes before the run is put away.
TURNS_BEFORE_LEAVING = 25
BRANCHES_END_WITHIN = 1.0
_inside_step: contextvars.ContextVar[str | None] = contextvars.ContextVar("wakeful_inside_step", default=None)
_inside_transaction: contextvars.ContextVar[bool] = contextvars.ContextVar("wakeful_inside_transaction", default=False)


class Run:
    """One agent handling one event. Handed to the handler as its first argument."""

    def __init__(
        self,
        claim: Claim,
        event: Event,
        surroundings: Surroundings,
        *,
        state_model: type[Any] | None = None,
        events: list[Event] | None = None,
    ) -> None:
        self.id = claim.id
        self.agent = claim.agent
        self.event = event
        self.events = [event] if events is None else events  # with batch=: all that it is over, in order
        self.key = claim.key or None
        self.attempt = claim.attempts + 1
        self._claim = claim
        self._around = surroundings
        self._recorded = {step.key: step for step in claim.steps} if claim.steps else {}
        self._unread = len(self._recorded)
        self._counts: dict[str, int] = {}
        self._names: dict[str, Callable[..., Any]] = {}
        self._position = len(self._recorded)
        self._unsaved: list[Step] = []
        self._retrying: dict[str, Step] = {}
        self._waiting: dict[str, Step] = {}  # durable waits, by their key
        self._awaited: dict[str, Wait] = {}  # of these, those for events
        self.ledger = Ledger(claim.effects)
        self._bases: dict[str, str] = {}
        self._cut: dict[str, list[str]] = {}  # effects that the handler stopped waiting for, by what it asked for
        self._calls = 0  # of actions, under way now
        self.held_for: str | None = None
        self.parked_for: Shut | None = None
        self.outgoing = Outgoing()
        self._state = (
            None
            if state_model is None or claim.committed is not None
            else AgentState(self, state_model, claim.state, key=claim.key)
        )
        self._active = 0
        self._resting = 0  # of those that are active: what waits a moment in place
        self._waits: list[Microseconds] = []
        self._task: asyncio.Task[Any] | None = None
        self._branches: set[asyncio.Task[Any]] = set()  # other tasks of the handler that are inside a call
        self._over = False
        self._releasing = False
        self._random: Random | None = None
        self._log: RunLog | None = None
        self._cause: str | None = None
        self.locks_in_use: set[str] = set()  # that a branch of the handler has, or is asking for
        self.progress_at = surroundings.clock.now()
        self.stuck_in: str | None = None
        self._under_way: list[str] = []  # steps, actions and transactions
        self.interrupted: Interruption | None = None
        self.cut_off: Exception | None = None  # the interruption ended something that may not be done again by itself
        self.to_stop: CancelAsked | None = None
        self.asked: set[str] | None = None  # which steps, where somebody wants to know

    # facts

    @property
    def scheduled_for(self) -> datetime | None:
        """The instant of the schedule that started it; None if none did."""
        return occurrence.scheduled_for(self.event)

    @property
    def late(self) -> timedelta | None:
        """How long after that instant it started."""
        instant = self.scheduled_for
        return None if instant is None else to_datetime(self._claim.started_at) - instant

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """What its occurrence covers, up to `scheduled_for`: since the instant before it, and with those that were coalesced
        into it since the one before them.
        """
        return occurrence.interval(self.event)

    @property
    def cause(self) -> str:
        """A text that says which run did something, to be left beside what it writes: a change that comes back as an event is
        known by it. `run.transaction` leaves it by itself.
        """
        if self._cause is None:
            self._cause = cause_of(self.caused_by, app=self._around.app, agent=self.agent, run=self.id)
        return self._cause

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

    def progress(self) -> None:
        """Say that this run gets somewhere, where nothing else does: in code that streams, or computes for a long time.
        Without a sign of progress for `stuck_after` it counts as stuck.
        """
        self.progress_at = self._around.clock.now()

    @property
    def whereabouts(self) -> str:
        """Where the handler is, in words."""
        names = list(self._under_way)
        return f"in {', '.join(names)}" if names else "outside of all steps"

    def interrupt_stuck(self, since: Microseconds, where: str) -> None:
        """End this attempt, unless it has gone on since."""
        if self.progress_at == since:
            self.stuck_in = where
            self.interrupt("stuck")

    def now(self) -> datetime:
        """The time; the same value again on resume. Stored with the run's next checkpoint."""
        self._refuse_inside("run.now()")
        key, shown = self._next_key("now", "")
        recorded = self.recorded(key)
        if recorded is not None and recorded.result is not None:
            return to_datetime(int(recorded.result))
        moment = self._around.clock.now()
        fact = self.new_step(key, shown, "fact", started_at=moment)
        fact.result = str(moment)
        self._unsaved.append(fact)
        return to_datetime(moment)

    def uuid(self) -> uuid.UUID:
        """A random-looking UUID; the same one again on resume."""
        self._refuse_inside("run.uuid()")
        key, _ = self._next_key("uuid", "")
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._claim.root}/{key}")

    @property
    def random(self) -> Random:
        """A random generator that gives the same values again on resume."""
        self._refuse_inside("run.random")
        if self._random is None:
            self._random = Random(self._claim.root)
        return self._random

    @property
    def state(self) -> Any:
        """What the agent keeps from run to run, as its `state=Model`. Change it: it is saved when the run commits."""
        return self._agent_state("run.state").value

    @state.setter
    def state(self, value: Any) -> None:
        self._agent_state("run.state = …").value = value

    def _agent_state(self, call: str) -> AgentState:
        self._refuse_inside(call)
        if self._state is None:
            message = f"agent {self.agent} has no state: declare it with @app.agent(…, state=Model)"
            raise Persistent(message)
        return self._state

    # work

    @overload
    async def step(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Call a function once: its result is stored before the next line runs, and returned from storage on resume."""
        options = options_of(function)
        name = self._name_of(function, options)
        digested, text = self._identify(options, arguments, keywords, name)
        key, shown = self._next_key(name, digested)
        if self.to_stop is not None:
            await self._begin_nothing_more()
        self._enter(marked=False)  # the checkpoint does that when it begins, in the same moment
        try:
            value, record = await Checkpoint(self, key, shown, text, options, function, arguments, keywords).reach()
            if record is not None:
                await self.save(record)
                self._claim.finished += 1
            return value
        except ClaimLost:
            self.interrupt("lost")  # whatever the handler makes of this error, it does nothing more
            raise
        finally:
            self._exit()

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
        failed = False

        async def one(item: Any) -> Any:
            nonlocal failed
            async with room:
                if failed and not partial:
                    raise asyncio.CancelledError  # the error is on its way to the caller: begin nothing more
                try:
                    return await self.step(function, item)
                except Exception:
                    failed = True
                    raise

        return await gather_all([asyncio.ensure_future(one(item)) for item in items], partial=partial)

    async def emit(
        self,
        type: str,  # noqa: A002 the field's own name
        data: Any = None,
        *,
        subject: str | None = None,
        id: str | None = None,  # noqa: A002
        **extensions: Any,
    ) -> Receipt:
        """A new event through the one door, stored together with this checkpoint. On resume it is not sent again.

        `extensions` are further attributes. Those of the chain (`chaindepth`, `causationid`, …) are set by Wakeful alone, and
        so is the source. An agent that was declared with `emits=` emits nothing else: Persistent for all of these.
        """
        name = f"emit {type}"
        digested, text = digest_of_arguments((type, data, subject, id), extensions, step=name)
        key, shown = self._next_key(name, digested)
        if self.to_stop is not None:
            await self._begin_nothing_more()
        self._enter()
        try:
            recorded = self.recorded(key)
            if recorded is not None and recorded.result is not None:
                return Receipt.from_json(from_json(recorded.result))
            refuse_attributes(self.agent, type, extensions)
            self._refuse_to_say(type, f"run.emit({type!r})")
            event = new_event(
                type,
                data,
                source=f"/{self._around.app}/{self.agent}",
                id=digest(self._claim.root, key) if id is None else id,
                subject=subject,
                time=to_datetime(self._around.clock.now()),
                **(self.inherited() | extensions),
            )
            step = self.new_step(key, shown, "done", arguments=shown_arguments(text))
            await self.save_facts()
            locks = locks_held(self._claim)
            receipts = await self._around.door.accept([event], claim=self._claim, step=step, locks=locks, by="app")
            self._claim.finished += 1
            return receipts[0]
        except ClaimLost:
            self.interrupt("lost")
            raise
        finally:
            self._exit()

    def _refuse_to_say(self, type: str, call: str) -> None:  # noqa: A002 the field's own name
        emits = self._around.emits.get(self.agent)
        if emits is not None and not emits.allows(type):
            message = f"agent {self.agent}: {call}: {emits.refusal(type)}"
            raise Persistent(message)

    async def act(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        """An effect now: policy, ledger, call, record; returns its result. On resume a confirmed one is not done again.

        `action` is declared with `@action`, which says what happens when nobody knows whether the call was done.
        """
        identifier, text = self._operation("run.act", action, arguments, keywords)
        if self.to_stop is not None:
            await self._begin_nothing_more()
        self._enter()
        try:
            effect = self.ledger.find(identifier)
            if effect is None or never_begun(effect):
                effect = await self._opened(action, identifier, text)
            value: T = await (EffectCall if effect.once is None else OnceCall)(self, action, effect).reach()
        except ClaimLost:
            self.interrupt("lost")
            raise
        except CancelAsked as asked:
            self.stop(asked)
            raise asyncio.CancelledError from None
        except asyncio.CancelledError:
            if self.interrupted is None:  # the handler stopped waiting: it may ask again, or the end of its run will
                self.may_ask_again(identifier)
            raise
        else:
            return value
        finally:
            self._exit()

    async def _opened(self, action: Action[..., Any], identifier: str, text: str) -> Effect:
        """The intent, on disk. A handler that stops waiting just now does not leave one behind that nobody knows of."""
        opening = asyncio.ensure_future(open_effect(self, action, identifier, text))
        try:
            return self.ledger.enter(await asyncio.shield(opening))
        except asyncio.CancelledError:
            if self.interrupted is None:
                effect = self.ledger.enter(await opening)
                if effect.state == "intent":  # and not one that was stored before, and is over
                    effect.state, effect.reason = "retrying", "not begun"
                    await self.save_effect(effect)
            else:
                opening.cancel()
            raise

    def stage(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> None:
        """An effect that is released when the run commits and its checks passed. If the run fails, it never happens."""
        self._may_let_out("run.stage")
        identifier, text = self._operation("run.stage", action, arguments, keywords)
        action.read(text)  # what does not fit is refused here
        known = self.ledger.find(identifier)
        if known is not None and known.state == "confirmed":
            return  # by an earlier run of this family
        if known is not None and not never_begun(known):
            if known.state == "abandoned":
                raise abandoned(known)
            effect = known  # begun before, and not over: it goes on from there
        else:
            effect = self.new_effect(action, identifier, text)
            effect.state = "staged"
        effect.staged = True
        self.outgoing.effects.append(effect)
        self.outgoing.actions[identifier] = action

    def send(self, channel: str, message: Any, *, subject: str | None = None) -> None:
        """A message to a channel of the app. It leaves when the run commits and its checks passed, at least once, always
        under the same id. If the run fails, it never leaves.
        """
        self._may_let_out("run.send")
        self.put_out(channel, message, subject=subject)

    def put_out(self, channel: Any, message: Any, *, subject: Any = None) -> None:
        """A message that leaves with the commit."""
        if subject is not None and not isinstance(subject, str):
            words = f"run.send: the subject is a text, not {subject!r}"
            raise Persistent(words)
        if not isinstance(channel, str) or channel not in self._around.channels:
            guess = did_you_mean(str(channel), self._around.channels)
            words = f'run.send: app {self._around.app} has no channel "{channel}".{guess}'
            raise UnknownChannel(f'{words} Declare it: App(…, channels={{"{channel}": http("https://…")}})')
        if (type_ := self._around.event_channels.get(channel)) is not None:
            self._refuse_to_say(type_, f'a message to channel "{channel}"')
        text = to_text(message, what=f"the message to channel {channel}", passed=True)
        subject = None if subject is None else plain(subject)
        key, _ = self._next_key(f"send {channel}", digest(text, subject or ""))
        identifier = f"{self._claim.root}-{digest(key, size=6)}"
        if identifier in self._claim.sent:
            return  # by an earlier run of this family
        position, self._position = self._position, self._position + 1
        self.outgoing.deliveries.append(Delivery(identifier, channel, text, subject, position))

    def _operation(
        self, call: str, action: Action[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[str, str]:
        """The identity of the next use of an action, and its arguments as they are stored."""
        if not isinstance(action, Action):
            raise _no_action(call, action)
        self._refuse_inside(call)
        self._refuse_another(action)
        try:
            action.signature.bind(None, *arguments, **keywords)
        except TypeError as error:
            message = f"{call}({action.name}, …): {error} ({action.written_at})"
            raise Persistent(message) from None
        uses(self.app, action)
        digested, text = digest_of_arguments(arguments, keywords, of=f"action {action.name}")
        base = f"act {action.name}:{digested}"
        if self._cut.get(base):
            return self._cut[base].pop(0), text  # the handler had stopped waiting for it, and asks for it again
        key, _ = self._next_key(f"act {action.name}", digested)
        identifier = digest(self._claim.root, key)
        while is_closed(self.ledger.find(identifier)):
            identifier = digest(identifier, "again")  # a new operation: the service has seen that one, and its undoing
        self._bases[identifier] = base
        self.ledger.asked.add(identifier)
        return identifier, text

    def _refuse_another(self, action: Action[..., Any]) -> None:
        """Two actions of one name would find each other's effects on resume."""
        other = self._names.setdefault(f"act {action.name}", action.function)
        if other is not action.function and location(other) != action.written_at:
            message = (
                f"two actions named {action.name} in one run ({location(other)} and {action.written_at}): "
                "give one another name with @action(name=…)"
            )
            raise Persistent(message)

    def _may_let_out(self, call: str) -> None:
        self._refuse_inside(call)
        if self.interrupted is not None or self._over:
            raise asyncio.CancelledError

    async def settle_effects(self) -> None:
        """Before the handler: what an earlier attempt left open."""
        if left := self.ledger.to_settle():
            self._enter()
            try:
                await settle_open(self, left)
            except ClaimLost:
                self.interrupt("lost")
                raise
            finally:
                self._exit()

    async def release(self) -> None:
        """After the commit: what was staged. No call of the handler's is let in any more, but this may be interrupted."""
        self._releasing = True
        self._active += 1
        try:
            await release(self)
        except ClaimLost:
            self.interrupt("lost")
            raise
        finally:
            self._releasing = False
            self._active -= 1

    async def undo(self, effects: Sequence[Effect]) -> str:
        """Instead of the handler: settle what is open and undo what was done. What became of it, in words."""
        self._enter()
        try:
            return await compensate(self, effects)
        except ClaimLost:
            self.interrupt("lost")
            raise
        finally:
            self._exit()

    # schedules

    async def schedule(self, name: str, schedule: Schedule, *, agent: Any = None, data: Any = None) -> datetime | None:
        """Have an agent woken by a rule of time: itself, or another one (its name, or its function) if policy lets it. One of
        that name that was made at run time gets this rule, and one that is so already stays. Its next instant.
        """
        return await self._scheduling("run.schedule", scheduling.schedule(self, name, schedule, agent=agent, data=data))

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule that was made at run time; whether there was one."""
        return await self._scheduling("run.unschedule", scheduling.unschedule(self, name))

    async def _scheduling(self, call: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._refuse_inside(call)
            if self.to_stop is not None:
                await self._begin_nothing_more()
            with self.at_work():
                return await work
        except CancelAsked as asked:
            self.stop(asked)
            raise asyncio.CancelledError from None
        finally:
            work.close()

    async def remind(
        self,
        when: str | datetime,
        text: str,
        *,
        to: str | None = None,
        unless: str | None = None,
        where: str | None = None,
        tz: str | None = None,
    ) -> Reminder:
        """Have somebody reminded at a time ("in 20 minutes", "tomorrow 9am"), by a message to a channel. Made once: on resume
        it is the same reminder. `unless`: not if an event of this type, and `where` CEL holds, has come by then.
        """
        self._refuse_inside("run.remind")
        if self.to_stop is not None:
            await self._begin_nothing_more()
        with self.at_work():
            return await reminding.remind(self, when, text, to=to, unless=unless, where=where, tz=tz)

    # waiting

    async def sleep(self, span: Duration) -> None:
        """Wait for a time ("2d", "90m", a timedelta), durably: the run leaves memory and survives restarts."""
        await waiting.sleep(self, span)

    async def sleep_until(self, moment: datetime | str) -> None:
        """Wait until a moment, durably. One without a zone counts as UTC."""
        await waiting.sleep_until(self, moment)

    async def wait_for(
        self,
        type: str,  # noqa: A002 the field's own name
        *,
        subject: str | None = None,
        where: str | None = None,
        values: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        source: str | None = None,
    ) -> Event:
        """Wait for an event, durably: the first of this type that came since the run was made and that no earlier wait of the
        run took. `where` is CEL over `event`, `data` and `values`. TimedOut when it does not come within `timeout`.

        Without `source` it takes what any door of the run's app brought; with it, only events of that source. The name of a
        webhook, or of something that is read, is reserved: no other door brings events under it.
        """
        return await waiting.wait_for(
            self, type, subject=subject, where=where, values=values, timeout=timeout, source=source
        )

    async def call(
        self, agent: Any, data: Any = None, *, subject: str | None = None, timeout: Duration | None = None
    ) -> Any:
        """Start a run of another agent of this app (its name, or its function) and wait for its output, durably.

        ChildFailed when that run is dead, denied or cancelled; TimedOut when it is not done within `timeout`.
        """
        return await waiting.call(self, agent, data, subject=subject, timeout=timeout)

    async def ask(
        self, question: str, *, to: str | None = None, schema: Any = None, timeout: Duration | None = None
    ) -> Any:
        """Ask a person and wait for the answer, durably: `wakeful approvals` shows it, `wakeful approvals answer` answers it.

        `schema` is what the answer must be: a type, a pydantic model. TimedOut when nobody answers within `timeout`.
        """
        return await waiting.ask(self, question, to=to, schema=schema, timeout=timeout)

    async def transaction(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """`function(db, *arguments)` and its checkpoint are one database transaction: both are stored, or neither.

        On SQLite the function is a plain `def`, uses tables of the store's own file, and is interrupted after 1 s.
        On PostgreSQL it is an `async def` with an asyncpg connection of its own.
        """
        options = options_of(function)
        name = self._name_of(function, options)
        what = f"transaction {name}"
        if self._around.store.dialect == "sqlite" and is_async(function):
            message = f"{what}: on SQLite the function must be a plain def, because the one writer runs it ({location(function)})"
            raise ConfigError(message)
        if self._around.store.dialect == "postgres" and not is_async(function):
            message = f"{what}: on PostgreSQL the function must be async, its db is an asyncpg connection ({location(function)})"
            raise ConfigError(message)
        digested, text = self._identify(options, arguments, {}, name)
        key, shown = self._next_key(name, digested)
        if self.to_stop is not None:
            await self._begin_nothing_more()
        self._enter()
        try:
            checkpoint = Checkpoint(self, key, shown, text, options, function, arguments, {})
            value, _ = await checkpoint.reach(transaction=True)
            return value
        except ClaimLost:
            self.interrupt("lost")  # whatever the handler makes of this error, it does nothing more
            raise
        finally:
            self._exit()

    def lock(self, name: str, *, wait: Duration = "10s") -> Lock:
        """`async with run.lock("name") as lock:` one run at a time has it, among all workers; `lock.token` is its fence.

        `LockTimeout` when it is not free within `wait`. Not across durable waits: what has to wait is put away, and a
        lock that nobody can let go would stop everybody.
        """
        self._refuse_inside("run.lock")
        return Lock(self, self._claim, name, wait)

    def _refuse_lock(self, call: str) -> None:
        """A run that waits is put away, and what is put away has no lock."""
        held = locks_held(self._claim)
        if held:
            message = (
                f'{call} inside run.lock("{held[-1].name}") of agent {self.agent}: a run that waits is put away, and would '
                "lose the lock. Let it go first: wait before the block, or after it"
            )
            raise Persistent(message)

    # for waits

    @contextlib.contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """A call of the handler's that may wait for long, for as long as it lasts."""
        self._refuse_inside(call)
        self._refuse_lock(call)
        self._enter()
        try:
            yield
        except ClaimLost:
            self.interrupt("lost")
            raise
        finally:
            self._exit()

    def next_key(self, name: str, digested: str) -> tuple[str, str]:
        return self._next_key(name, digested)

    async def rest(self, step: Step, until: Microseconds, *, wait: Wait | None = None, in_place: bool = False) -> None:
        """Until its time has come. If nothing else goes on the run is put away, unless the wait is short and `in_place` will do."""
        delay = until - self._around.clock.now()
        if delay <= 0:
            return
        if in_place and delay <= WAITS_IN_PLACE:
            await self._around.sleep(seconds(delay))
            return
        self._waiting[step.key] = step
        if wait is not None:
            self._awaited[step.key] = wait
        self._waits.append(until)
        self._active -= 1
        self._consider_leaving()
        try:
            await self._around.sleep(seconds(delay))
        finally:
            self._active += 1
            self._waits.remove(until)
            if self.interrupted is None:  # its time has come, or the handler does not wait for it any longer
                self._waiting.pop(step.key, None)
                self._awaited.pop(step.key, None)

    def passed(self, step: Step) -> None:
        """A sleep is over. Stored with the next checkpoint: until then its due time says so as well."""
        step.state, step.result, step.finished_at = "done", "null", self._around.clock.now()
        self._unsaved.append(step)

    async def save_passed(self) -> None:
        """At the end of the handler: sleeps that are over, and that no checkpoint took along."""
        if any(step.state == "done" for step in self._unsaved):
            await self.save_facts()

    async def end_wait(self, step: Step, error: str, wait: Wait | None) -> Step:
        """The time of a wait is over: how its step ended."""
        await self.save_facts()
        return await self._around.store.end_wait(EndWait(self._claim, step, error, wait, self._around.matches))

    async def ask_person(self, step: Step, approval: Approval, *, again: str | None = None) -> None:
        """Store a question; `again`: why the answer that came did not do."""
        await self.save_facts()
        if again is None:
            self._claim.steps = [*self._claim.steps, step]  # to be withdrawn with the run, however this attempt ends
        alarm = waiting.alarm_about(self, step, approval, again)
        await self._around.store.ask(AskPerson(self._claim, self._around.app, step, approval, again, alarm))

    async def change_schedule(self, request: ScheduleByRun) -> Step | None:
        """Store a change of a schedule together with the step that tells of it; None: somebody else was first."""
        await self.save_facts()
        stored = await self._around.store.schedule_by_run(request)
        if stored is not None and self._around.schedules is not None:
            self._around.schedules.tell_changed()
        return stored

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def locks(self) -> tuple[HeldLock, ...]:
        """Those that it has."""
        return locks_held(self._claim)

    async def make_reminder(
        self, step: Step, change: ChangeSchedule, written: Callable[[StoredSchedule], str]
    ) -> StoredSchedule:
        """A reminder, together with the step that tells of it."""
        await self.save_facts()
        locks = locks_held(self._claim)
        return await self._around.store.make_reminder(MakeReminder(self._claim, step, change, written, locks))

    async def start_child(self, event: Event, agent: str, step: Step, written: Callable[[Receipt], str]) -> Receipt:
        """An event for one agent, together with the step that waits for the end of its run."""
        door = self._around.door
        options: dict[str, Any] = {"claim": self._claim, "step": step, "written": written, "adopts": True}
        return (await door.accept([event], agent=agent, by="app", **options))[0]

    def name_of_agent(self, agent: Any) -> str | None:
        """The name of an agent of the app, by that name or by its function; None when there is none."""
        agents = self._around.agents
        if isinstance(agent, str):
            return agent if agent in agents else None
        return next((name for name, function in agents.items() if function is agent), None)

    @property
    def agents(self) -> list[str]:
        """The agents of the app."""
        return list(self._around.agents)

    @property
    def root(self) -> str:
        """The first run of its family."""
        return self._claim.root

    def inherited(self) -> dict[str, Any]:
        """What an event takes over from the one that its run handles."""
        cause = self.caused_by
        return {
            "causationid": cause.id,
            "correlationid": cause.correlationid or cause.id,
            "traceparent": cause.traceparent,
            **next_link(cause, self._around.app, self.agent),
        }

    @property
    def caused_by(self) -> Event:
        """The event that what comes out of this run goes back to: of several, the one furthest down its chain."""
        return self.event if len(self.events) == 1 else max(self.events, key=depth_of)

    @property
    def awaited(self) -> list[Wait]:
        """The events that this attempt waits for."""
        return list(self._awaited.values())

    # for checkpoints

    @property
    def surroundings(self) -> Surroundings:
        return self._around

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """A call of the handler's is under way, for as long as the block lasts."""
        self._enter()
        try:
            yield
        except ClaimLost:
            self.interrupt("lost")  # whatever the handler makes of this error, it does nothing more
            raise
        finally:
            self._exit()

    @property
    def clock(self) -> Clock:
        return self._around.clock

    @property
    def chance(self) -> Random:
        """Where jitter comes from."""
        return self._around.chance

    def stand_in(self, declared: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """What to call for a step, an action or its find: the function itself, unless a test put something in its place."""
        stand_in = self._around.stand_in
        return function if stand_in is None else stand_in(declared, function)

    def recorded(self, key: str) -> Step | None:
        """What is recorded under a key. The first call that is not recorded ends the part that is only read back."""
        if not self._recorded:
            return None
        if self.asked is not None:
            self.asked.add(key)
        step = self._recorded.get(key)
        if step is None:
            self._unread = 0
        elif self._unread:
            self._unread -= 1
        return step

    def fact(self, key: str, text: str) -> str:
        """What the first attempt knew under a key; `text` if this is the first. Stored with the next checkpoint."""
        recorded = self._recorded.get(key)
        if recorded is not None and recorded.result is not None:
            self._unread = max(0, self._unread - 1)
            return recorded.result
        fact = self.new_step(key, key, "fact")
        fact.result = text
        self._unsaved.append(fact)
        return text

    def save(self, step: Step) -> Awaitable[None]:
        """Store a checkpoint, together with facts that came before it."""
        steps = [step]
        if self._unsaved:
            steps = [*self._unsaved, step]
            self._unsaved = []
        return self._around.store.save_steps(SaveSteps(self._claim, steps, locks_held(self._claim)))

    async def save_facts(self) -> None:
        """Before a checkpoint that cannot take them along."""
        if self._unsaved:
            facts, self._unsaved = self._unsaved, []
            await self._around.store.save_steps(SaveSteps(self._claim, facts, locks_held(self._claim)))

    async def transact(self, key: str, function: Callable[[Any], Any], to_step: Callable[[Any], Step]) -> Step:
        """Run the user's function in a transaction that also stores its checkpoint; `run.*` is refused meanwhile."""
        await self.save_facts()
        guard = _inside_transaction.set(True)
        self.progress()
        step = self.inside(key.partition(":")[0])
        work = function
        if self._around.store.dialect == "sqlite":  # in the writer's thread, where it must be known as inside as well
            context = contextvars.copy_context()

            def work(database: Any) -> Any:
                return context.run(function, database)

        try:
            locks = locks_held(self._claim)
            stored = await self._around.store.transact_step(
                self._claim, key, work, to_step, locks=locks, cause=self.cause
            )
            self._claim.finished += 1
            return stored
        finally:
            _inside_transaction.reset(guard)
            self.outside(step)

    async def wait_until(self, moment: Microseconds, step: Step) -> None:
        """A short wait happens in place. A longer one is durable: if nothing else goes on, the run is put away."""
        if moment - self._around.clock.now() > WAITS_IN_PLACE:
            self._retrying[step.key] = step
        await self._pause(moment)
        self._retrying.pop(step.key, None)

    async def wait_for_effect(self, identifier: str, moment: Microseconds) -> None:
        """As wait_until, for an effect, which is stored with its state already."""
        self.ledger.due[identifier] = moment
        await self._pause(moment)
        self.ledger.due.pop(identifier, None)

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """A call that is under way waits in place for as long as the block lasts: a run that is to stop need not wait for it."""
        self._resting += 1
        try:
            self._stop_if_quiet()
            yield
        finally:
            self._resting -= 1

    async def _pause(self, moment: Microseconds) -> None:
        delay = moment - self._around.clock.now()
        if delay <= WAITS_IN_PLACE:
            if delay > 0:
                with self.resting():
                    await self._around.sleep(seconds(delay))
            return
        self._waits.append(moment)
        self._active -= 1
        self._stop_if_quiet()
        self._consider_leaving()
        try:
            await self._around.sleep(seconds(delay))
        finally:
            self._active += 1
            self._waits.remove(moment)

    # for effects

    def new_effect(self, action: Action[..., Any], identifier: str, text: str) -> Effect:
        """An effect of this attempt, at the next place in the trace."""
        position, self._position = self._position, self._position + 1
        options = action.options
        return Effect(
            identifier,
            action.name,
            action.reference,
            options.safety,
            "intent",
            text,
            attempt=self.attempt,
            position=position,
            once=None if options.once is None else key_of(action, text),
        )

    async def open_again(self, action: Action[..., Any], effect: Effect) -> Effect:
        """As open_effect, for an effect whose business key another run has, or had: policy is asked anew."""
        return await opened(self, action, effect)

    async def open_effect(
        self, action: Action[..., Any], effect: Effect, *, judged: bool = False, undoes: Effect | None = None
    ) -> Effect | Decision:
        """Store an intent, if policy allows it; `judged`: it has said that a person must. CountedOn if another run has the result
        of the effect that this one undoes.
        """
        around = self._around
        facts = EffectFacts(
            around.app,
            self.agent,
            around.owners.get(self.agent),
            self.event,
            around.clock.now(),
            action.name,
            action.options.risk,
            effect.arguments,
        )
        judge = (lambda _: ALLOWED) if judged else around.judge
        request = (
            OpenEffect(
                self._claim,
                around.app,
                effect,
                lambda: judge(facts),
                locks_held(self._claim),
                undoes_key=None if undoes is None else undoes.business_key,
            )
            if effect.once is None
            else OpenOnce(
                self._claim,
                around.app,
                effect,
                lambda: judge(facts),
                locks_held(self._claim),
                span=action.options.once_for,
            )
        )
        if action.reference in around.declared or effect.undoes is not None:
            return await around.store.open_effect(request)
        request.declares = (around.app, action.reference, action.name, schema_of_result(action.function))
        opened = await around.store.open_effect(request)
        around.declared.add(action.reference)
        return opened

    async def open_held(self, effect: Effect, undoes: Effect) -> None:
        """Store an undo that waits for a person from the start: nothing is asked of policy, because nothing is to happen."""
        request = OpenEffect(self._claim, self._around.app, effect, lambda: ALLOWED, undoes_key=undoes.business_key)
        await self._around.store.open_effect(request)

    def object_to_changes(self) -> None:
        """At the end of the handler: staged effects whose arguments are not those of an earlier run of this family."""
        for effect in self.outgoing.effects:
            words = other_arguments(self.ledger.not_asked_for(effect.action), effect.arguments)
            if words is not None:
                self.outgoing.objections.append(f"{effect.action}: {words}")

    def staged_effects(self) -> list[Effect]:
        """What is to be released, in the order of the calls."""
        return sorted(self.outgoing.effects or self.ledger.staged(), key=lambda effect: effect.position)

    @property
    def app(self) -> str:
        return self._around.app

    def call_begins(self) -> None:
        self._calls += 1

    def call_ends(self) -> None:
        """An attempt that is to be held or parked lets calls that are under way come to their end first."""
        self._calls -= 1
        if self._calls == 0 and self.interrupted in {"held", "parked"} and self._task is not None and not self._over:
            self._task.cancel()

    def may_ask_again(self, identifier: str) -> None:
        """The handler stopped waiting for this effect. If it asks for the same again, it is this one."""
        base, effect = self._bases.get(identifier), self.ledger.find(identifier)
        if base is None or effect is None or effect.state not in {"intent", "unknown", "retrying"}:
            return
        waiting = self._cut.setdefault(base, [])
        if identifier not in waiting:
            waiting.append(identifier)

    async def settle_cut_off(self) -> None:
        """At the end of the handler: what it stopped waiting for is settled too, or the run is not over."""
        left = [
            effect for effect in map(self.ledger.find, [one for ids in self._cut.values() for one in ids]) if effect
        ]
        if left:
            self._cut.clear()
            self._enter()
            try:
                await settle_open(self, [effect for effect in left if effect.state != "retrying"])
            finally:
                self._exit()

    def state_change(self) -> StateChange | None:
        """What is to be saved of the agent's state, if the run changed it."""
        return None if self._state is None else self._state.change(self._around.app, self.agent)

    def save_effect(self, effect: Effect) -> Awaitable[None]:
        """Store what became of an effect."""
        if effect.once is not None:
            return self._around.store.save_once(SaveOnce(self._claim, self._around.app, effect))
        return self._around.store.save_effect(SaveEffect(self._claim, effect))

    def time_for_calls(self) -> float:
        """Seconds for which a call to the outside may go on."""
        return self._around.time_for_calls()

    def hold_from_outside(self, reason: str) -> None:
        """End this attempt, until a person says something."""
        self.held_for = self.held_for or reason
        self.interrupt("held")

    async def hold(self, reason: str) -> None:
        """As hold_from_outside, for a call of the handler's. Does not return."""
        self.hold_from_outside(reason)
        await asyncio.get_running_loop().create_future()  # the cancellation comes here

    # stopping

    @property
    def stopping(self) -> bool:
        """Is this the attempt that undoes what the run did?"""
        return self._claim.cancelled is not None

    def stop(self, asked: CancelAsked) -> None:
        """Somebody wants this run to stop: what is under way comes to its end, and nothing more begins. Waits are cut short."""
        if self.to_stop is None and not self.stopping:
            self.to_stop = asked
            self._stop_if_quiet()

    def _stop_if_quiet(self) -> None:
        if self.to_stop is not None and self._active <= self._resting:
            self.interrupt("cancelled")

    async def _begin_nothing_more(self) -> None:
        """A call that would begin in a run that is to stop. The cancellation comes once everything else has ended."""
        self._stop_if_quiet()
        await asyncio.get_running_loop().create_future()

    # for dependencies

    async def may_call(self, dependency: str | None) -> Shut | None:
        """Is the circuit of a dependency open? Then it is not to be called now."""
        circuits = self._around.circuits
        return None if dependency is None or circuits is None else await circuits.ask(dependency, self._claim.seq)

    async def called(self, dependency: str | None, error: BaseException | None = None) -> Shut | None:
        """A dependency answered, or did not. If its circuit is open now, it is not to be called again."""
        circuits = self._around.circuits
        if dependency is None or circuits is None or self.interrupted is not None:
            return None
        if error is not None and self.time_for_calls() <= 0:  # our own doing: the lease is over
            return None
        return await circuits.report(dependency, self._claim.seq, error)

    async def park(self, shut: Shut, step: Step | None = None) -> None:
        """End this attempt until the circuit lets the run come back; a step that failed is stored with it. Does not return."""
        if step is not None:
            self._retrying[step.key] = step
        self.parked_for = self.parked_for or shut
        self.interrupt("parked")
        await asyncio.get_running_loop().create_future()  # the cancellation comes here

    # putting away

    def _consider_leaving(self) -> None:
        """When only waits are left, and that is still so after everybody else had a turn, leave."""
        if self._waits and self._active == 0:
            self._leave_if_idle(TURNS_BEFORE_LEAVING)

    def _leave_if_idle(self, turns: int) -> None:
        if self._waits and self._active == 0 and self.interrupted is None:
            if turns:
                asyncio.get_running_loop().call_soon(self._leave_if_idle, turns - 1)
            else:
                self.interrupt("waiting")

    def interrupt(self, why: Interruption) -> None:
        """End this attempt by cancelling its task; every later `run.*` call of it is cancelled too."""
        if self.interrupted is None and (self._releasing or not self._over):
            self.interrupted = why
            if self._task is not None and not (why in {"held", "parked"} and self._calls):
                self._task.cancel()

    async def end(self) -> None:
        """The handler has ended: what is settled now is interrupted no more, and branches that it left behind, which
        would do things for a run that may soon be somebody else's, are cancelled. If the run is to stop, what they have under
        way comes to its end first.
        """
        if self.to_stop is not None and self.interrupted is None and self._branches:
            await asyncio.wait(list(self._branches))
        self._over = True
        if self._branches:
            branches = list(self._branches)
            for branch in branches:
                branch.cancel()
            await asyncio.wait(branches, timeout=BRANCHES_END_WITHIN)

    @property
    def earliest_wait(self) -> Microseconds | None:
        pending = [int(step.result or 0) for step in self._retrying.values()]
        pending += self.ledger.due.values()
        pending += [from_json(step.result or "{}")["until"] for step in self._waiting.values()]
        return min(pending) if pending else None

    @property
    def waits_for(self) -> str:
        """Why the run is put away, in words."""
        if self._waiting:
            words = [waiting.in_words(step) for step in self._waiting.values()]
            return words[0] if len(words) == 1 else f"{words[0]}, and {len(words) - 1} more"
        if not self._retrying and self.ledger.follows:
            return next(iter(self.ledger.follows.values()))[1].removeprefix("once: ")
        if not self._retrying and self.ledger.due:
            return why_retrying([self.ledger.find(one) for one in self.ledger.due], [])
        return why_retrying([], self._retrying.values())

    @property
    def pending_steps(self) -> list[Step]:
        """Facts and waiting steps that must be stored when the run is put away."""
        return [*self._unsaved, *self._retrying.values(), *self._waiting.values()]

    @property
    def in_flight(self) -> int:
        """How many `run.*` calls have not returned."""
        return self._active + len(self._waits)

    # bookkeeping

    def inside(self, name: str) -> contextvars.Token[str | None]:
        """From here on, and until it is reset, the code that runs is a step's or a transaction's own. Whoever begins or ends
        something marks the progress: it knows the time.
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

    def _refuse_inside(self, call: str) -> None:
        """A step that is read back on resume does not run: what it had asked for would go to somebody else then."""
        self.progress()
        name = _inside_step.get()
        if name is not None and _inside_transaction.get():
            message = (
                f"{call} inside run.transaction: it would not be the same again on resume. Pass it in as an argument"
            )
            raise Persistent(message)
        if name is not None:
            message = f"{call} inside step {name}: it would not be the same again on resume. Pass it in as an argument"
            raise Persistent(message)

    def _enter(self, *, marked: bool = True) -> None:
        if self.interrupted is not None or self._over or self.to_stop is not None:
            raise asyncio.CancelledError
        if _inside_transaction.get():
            message = "run.* inside run.transaction: the function may only use its db. Do this before or after it"
            raise Persistent(message)
        self._active += 1
        if marked:
            self.progress()
        task = asyncio.current_task()
        if task is not self._task and task is not None:
            self._branches.add(task)

    def _exit(self) -> None:
        self._active -= 1
        self.progress()
        if self._branches:
            self._branches.discard(asyncio.current_task())
        if self.to_stop is not None:
            self._stop_if_quiet()
        if self._waits:
            self._consider_leaving()

    def _next_key(self, name: str, digested: str) -> tuple[str, str]:
        """The identity of the next call (name, digest of arguments, count among equal ones), and what people see."""
        base = f"{name}:{digested}"
        counts = self._counts
        equal = counts[base] = counts.get(base, -1) + 1
        calls = counts[name] = counts.get(name, 0) + 1
        return f"{base}:{equal}" if equal else base, name if calls == 1 else f"{name}#{calls}"

    def _name_of(self, function: Callable[..., Any], options: StepOptions) -> str:
        """The step's name, refusing two different functions of one name: they would read each other's results."""
        name = options.name or name_of(function)
        if options.name is None and (name == "<lambda>" or not hasattr(function, "__name__")):
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
        options: StepOptions, arguments: tuple[Any, ...], keywords: Mapping[str, Any], name: str
    ) -> tuple[str, str]:
        if options.key is not None:
            return digest_of_arguments((options.key(*arguments, **keywords),), {}, step=name)
        try:
            return digest_of_arguments(arguments, keywords, step=name)
        except Persistent as error:
            message = f"{error}; or give the step a key of its own: @step(key=lambda …: …)"
            raise type(error)(message) from None

    def new_step(
        self,
        key: str,
        name: str,
        state: StepState,
        *,
        arguments: str | None = None,
        started_at: Microseconds | None = None,
        position: int | None = None,
    ) -> Step:
        """A record of this attempt, at the next place in the trace unless it has one. That there is one is progress."""
        now = self.progress_at = self._around.clock.now()
        if position is None:
            position, self._position = self._position, self._position + 1
        started = now if started_at is None else started_at
        return Step(key, name, state, None, None, arguments, 1, self.attempt, position, started, now)


def _no_action(call: str, given: object) -> NotAnAction:
    name = getattr(given, "__name__", repr(given))
    return NotAnAction(
        f"{call} takes an action, and {name} is not one ({location(given) if callable(given) else type(given).__name__}). "
        f"Did you mean to write @action above it? What only reads or computes is a step: run.step({name}, …)"
    )
