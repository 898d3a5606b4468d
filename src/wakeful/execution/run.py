"""The run, as a handler has it: one agent handling one event. Every name here is the user's; the attempt that carries them out
is in `attempt`, what it remembers in `record`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from wakeful.clock import Duration, to_datetime
from wakeful.errors import ClaimLost, Persistent, did_you_mean
from wakeful.execution import acting, emitting, fanout, occurrence, reminding, scheduling, sending, transacting, waiting
from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import Checkpoint, identify
from wakeful.execution.locks import Lock
from wakeful.execution.runlog import RunLog
from wakeful.execution.state import AgentState
from wakeful.functions.options import options_of
from wakeful.model import Event, Receipt
from wakeful.triggers.reminders import Reminder
from wakeful.triggers.schedule import Schedule

P = ParamSpec("P")
T = TypeVar("T")


class Run:
    """One agent handling one event. Handed to the handler as its first argument."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.id = attempt.id
        self.agent = attempt.agent
        self.event = attempt.event
        self.events = attempt.events  # with batch=: all that it is over, in order
        self.key = attempt.claim.key or None
        self.attempt = attempt.number

    if not TYPE_CHECKING:  # a type checker shall object to a name that does not exist

        def __getattr__(self, name: str) -> Any:
            """A name that does not exist: the error of the run says which one may have been meant."""
            guess = did_you_mean(name, [one for one in dir(self) if not one.startswith("_")])
            message = f"{type(self).__name__!r} object has no attribute {name!r}.{guess}"
            raise AttributeError(message, name=name)

    # facts

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence of the schedule that started it; None if none did."""
        return occurrence.scheduled_for(self.event)

    @property
    def late(self) -> timedelta | None:
        """How long after that occurrence it started."""
        occurrence = self.scheduled_for
        return None if occurrence is None else to_datetime(self._attempt.claim.started_at) - occurrence

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """What its occurrence covers, up to `scheduled_for`: since the occurrence before it, and with those that were coalesced
        into it since the one before them.
        """
        return occurrence.interval(self.event)

    @property
    def cause(self) -> str:
        """A text that says which run did something, to be left beside what it writes: a change that comes back as an event is
        known by it. `run.transaction` leaves it by itself.
        """
        return self._attempt.cause

    @property
    def log(self) -> RunLog:
        """Structured log lines with the run's id; lines of a part that is only read back are not repeated."""
        return self._attempt.log

    @property
    def replaying(self) -> bool:
        """Is this attempt still reading back what earlier ones recorded?"""
        return self._attempt.record.replaying

    def progress(self) -> None:
        """Say that this run gets somewhere, where nothing else does: in code that streams, or computes for a long time.
        Without a sign of progress for `stuck_after` it counts as stuck.
        """
        self._attempt.progress()

    def now(self) -> datetime:
        """The time; the same value again on resume. Stored with the run's next checkpoint."""
        self._attempt.refuse_inside("run.now()")
        return to_datetime(self._attempt.record.now())

    def uuid(self) -> uuid.UUID:
        """A random-looking UUID; the same one again on resume."""
        self._attempt.refuse_inside("run.uuid()")
        key, _ = self._attempt.record.next_key("uuid", "")
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._attempt.root}/{key}")

    @property
    def random(self) -> Random:
        """A random generator that gives the same values again on resume."""
        self._attempt.refuse_inside("run.random")
        return self._attempt.random

    @property
    def state(self) -> Any:
        """What the agent keeps from run to run, as its `state=Model`. Change it: it is saved when the run commits."""
        return self._agent_state("run.state").value

    @state.setter
    def state(self, value: Any) -> None:
        self._agent_state("run.state = …").value = value

    def _agent_state(self, call: str) -> AgentState:
        self._attempt.refuse_inside(call)
        if self._attempt.state is None:
            message = f"agent {self.agent} has no state: declare it with @app.agent(…, state=Model)"
            raise Persistent(message)
        return self._attempt.state

    # work

    @overload
    async def step(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Call a function once: its result is stored before the next line runs, and returned from storage on resume."""
        # The one call whose body stands here: a frame less for what every run does most often.
        attempt = self._attempt
        record = attempt.record
        options = options_of(function)
        name = record.name_of(function, options)
        digested, text = identify(options, arguments, keywords, name)
        key, shown = record.next_key(name, digested)
        if attempt.to_stop is not None:
            await attempt.begin_nothing_more()
        attempt.enter(marked=False)  # the checkpoint does that when it begins, in the same moment
        try:
            value, new = await Checkpoint(attempt, key, shown, text, options, function, arguments, keywords).reach()
            if new is not None:
                await record.save(new)
                attempt.claim.finished += 1
            return value
        except ClaimLost:
            attempt.interrupt("lost")  # the handler may catch this error: it does nothing more all the same
            raise
        finally:
            attempt.exit()

    async def map(
        self, function: Callable[..., Any], items: Iterable[Any], *, limit: int = 8, partial: bool = False
    ) -> list[Any]:
        """Call a function for each item, at most `limit` at a time, each with a checkpoint of its own.

        Results are in the order of the items. Without `partial` the first error stops the rest and is raised; with
        it, every item becomes an `Outcome` with `.value` or `.error`.
        """
        return await fanout.each(self.step, function, items, limit=limit, partial=partial)

    async def transaction(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """`function(db, *arguments)` and its checkpoint are one database transaction: both are stored, or neither.

        On SQLite the function is a plain `def`, uses tables of the store's own file, and is interrupted after 1 s.
        On PostgreSQL it is an `async def` with an asyncpg connection of its own.
        """
        return await transacting.transaction(self._attempt, function, arguments)

    def lock(self, name: str, *, wait: Duration = "10s") -> Lock:
        """`async with run.lock("name") as lock:` one run at a time has it, among all workers; `lock.token` is its fence.

        `LockTimeout` when it is not free within `wait`. Not across durable waits: what has to wait is put away, and a
        lock that nobody can let go would stop everybody.
        """
        self._attempt.refuse_inside("run.lock")
        return Lock(self._attempt, name, wait)

    # effects and messages

    async def act(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        """An effect now: policy, ledger, call, record; returns its result. On resume a confirmed one is not done again.

        `action` is declared with `@action`, which says what happens when nobody knows whether the call was done.
        """
        value: T = await acting.act(self._attempt, action, arguments, keywords)
        return value

    def stage(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> None:
        """An effect that is released when the run commits and its checks passed. If the run fails, it never happens."""
        acting.stage(self._attempt, action, arguments, keywords)

    def send(self, channel: str, message: Any, *, subject: str | None = None) -> None:
        """A message to a channel of the app. It leaves when the run commits and its checks passed, at least once, always
        under the same id. If the run fails, it never leaves.
        """
        self._attempt.refuse_inside("run.send")
        self._attempt.refuse_when_over()
        sending.put_out(self._attempt, channel, message, subject=subject)

    # events and other runs

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
        return await emitting.emit(self._attempt, type, data, subject, id, extensions)

    async def call(
        self, agent: Any, data: Any = None, *, subject: str | None = None, timeout: Duration | None = None
    ) -> Any:
        """Start a run of another agent of this app (its name, or its function) and wait for its output, durably.

        ChildFailed when that run is dead, denied or cancelled; TimedOut when it is not done within `timeout`.
        """
        return await waiting.call(self._attempt, agent, data, subject=subject, timeout=timeout)

    # time

    async def schedule(self, name: str, schedule: Schedule, *, agent: Any = None, data: Any = None) -> datetime | None:
        """Have an agent woken by a rule of time: itself, or another one (its name, or its function) if policy lets it. One of
        that name that was made at run time gets this rule, and one that is so already stays. Its next occurrence.
        """
        return await scheduling.schedule(self._attempt, name, schedule, agent=agent, data=data)

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule that was made at run time; whether there was one."""
        return await scheduling.unschedule(self._attempt, name)

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
        return await reminding.remind(self._attempt, when, text, to=to, unless=unless, where=where, tz=tz)

    async def sleep(self, span: Duration) -> None:
        """Wait for a time ("2d", "90m", a timedelta), durably: the run leaves memory and survives restarts."""
        await waiting.sleep(self._attempt, span)

    async def sleep_until(self, moment: datetime | str) -> None:
        """Wait until a moment, durably. One without a zone counts as UTC."""
        await waiting.sleep_until(self._attempt, moment)

    # waiting for others

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
            self._attempt, type, subject=subject, where=where, values=values, timeout=timeout, source=source
        )

    async def ask(
        self, question: str, *, to: str | None = None, schema: Any = None, timeout: Duration | None = None
    ) -> Any:
        """Ask a person and wait for the answer, durably: `wakeful approvals` shows it, `wakeful approvals answer` answers it.

        `schema` is what the answer must be: a type, a pydantic model. TimedOut when nobody answers within `timeout`.
        """
        return await waiting.ask(self._attempt, question, to=to, schema=schema, timeout=timeout)
