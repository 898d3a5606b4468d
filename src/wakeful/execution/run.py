"""The run, as a handler sees it: one agent handling one event. Every name here is public; `attempt` carries them out,
and `record` holds what an attempt remembers.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from wakeful.clock import Duration, to_datetime
from wakeful.errors import ClaimLost, Persistent, did_you_mean
from wakeful.execution import (
    acting,
    deciding,
    emitting,
    fanout,
    occurrence,
    reminding,
    scheduling,
    sending,
    transacting,
    waiting,
)
from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import Checkpoint, identify
from wakeful.execution.facts import RunFacts
from wakeful.execution.locks import Lock
from wakeful.execution.record import in_round
from wakeful.execution.remarks import Remark
from wakeful.execution.runlog import RunLog
from wakeful.execution.state import AgentState
from wakeful.functions.options import options_of
from wakeful.model import Event, Receipt
from wakeful.triggers.reminders import Reminder
from wakeful.triggers.schedule import Schedule

P = ParamSpec("P")
T = TypeVar("T")


class Run:
    """One agent handling one event. The handler gets it as its first argument.

    A run that is resumed executes its handler from the top. Finished `run.*` calls return their recorded results, so
    code between them should only compute.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.id = attempt.id
        self.agent = attempt.agent
        self.event = attempt.event
        self.events = attempt.events  # with batch=: all its events, in order
        self.key = attempt.claim.key or None
        self.attempt = attempt.number

    if not TYPE_CHECKING:  # a type checker must report a name that does not exist

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError with the name that may have been meant."""
            guess = did_you_mean(name, [one for one in dir(self) if not one.startswith("_")])
            message = f"{type(self).__name__!r} object has no attribute {name!r}.{guess}"
            raise AttributeError(message, name=name)

    # facts

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence of the schedule that started this run, or None."""
        return occurrence.scheduled_for(self.event)

    @property
    def late(self) -> timedelta | None:
        """How long after its occurrence the run started, or None."""
        occurrence = self.scheduled_for
        return None if occurrence is None else to_datetime(self._attempt.claim.started_at) - occurrence

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """The time span that its occurrence covers: from the occurrence before it up to `scheduled_for`. With coalesced
        occurrences it begins at the occurrence before the first of them.
        """
        return occurrence.interval(self.event)

    @property
    def cause(self) -> str:
        """A text that identifies this run. Store it beside what you write, so that a change that comes back as an event
        is traced to this run. `run.transaction` does this by itself.
        """
        return self._attempt.cause

    @property
    def facts(self) -> RunFacts:
        """Values that policy knows as `facts`: `run.facts["owner"] = fact(row.owner, as_of=row.at, max_age="1h")`, or
        a plain value, which never gets too old. They hold from that line on.
        """
        if self._attempt.facts is None:
            self._attempt.facts = RunFacts(self._attempt)
        return self._attempt.facts

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What people said when they returned the run's output, oldest first; each has `text`, `by` and `at`."""
        return self._attempt.record.remarks

    @property
    def log(self) -> RunLog:
        """Structured log lines with the run's id. Lines of a part that is replayed on resume are not repeated."""
        return self._attempt.log

    @property
    def replaying(self) -> bool:
        """Whether this attempt is still replaying what earlier attempts recorded."""
        return self._attempt.record.replaying

    def progress(self) -> None:
        """Report progress in code that streams or computes for a long time. A run with no sign of progress for
        `stuck_after` counts as stuck.
        """
        self._attempt.progress()

    def now(self) -> datetime:
        """The current time; the same value again on resume. Stored with the run's next checkpoint."""
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
        """The agent's durable state, as its `state=Model`. Changes are saved when the run commits."""
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
        """Call a function once. Its result is stored before this returns, and comes from storage on resume."""
        # The body stands here, not in a module of its own: it saves a frame in the most frequent call.
        attempt = self._attempt
        record = attempt.record
        options = options_of(function)
        name = record.name_of(function, options)
        digested, text = identify(options, arguments, keywords, name)
        key, shown = record.next_key(name, digested)
        if record.round:
            key, shown = in_round(record.round, key, shown)
        if attempt.to_stop is not None:
            await attempt.begin_nothing_more()
        attempt.enter(marked=False)  # the checkpoint marks progress when it begins, in the same moment
        try:
            value, new = await Checkpoint(attempt, key, shown, text, options, function, arguments, keywords).reach()
            if new is not None:
                await record.save(new)
                attempt.claim.finished += 1
            return value
        except ClaimLost:
            attempt.interrupt("lost")  # the handler may catch this error; it must still do nothing more
            raise
        finally:
            attempt.exit()

    async def map(
        self, function: Callable[..., Any], items: Iterable[Any], *, limit: int = 8, partial: bool = False
    ) -> list[Any]:
        """Call a function for each item, at most `limit` at a time, each with its own checkpoint.

        Results are in the order of the items. Without `partial` the first error stops the rest and is raised. With
        `partial` every item becomes an `Outcome` with `.value` or `.error`.
        """
        return await fanout.each(self.step, function, items, limit=limit, partial=partial)

    async def transaction(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Run `function(db, *arguments)` and store its checkpoint in one database transaction: both are stored, or
        neither.

        On SQLite the function is a plain `def`, uses tables of the store's own file, and is interrupted after 1 s. On
        PostgreSQL it is an `async def` with its own asyncpg connection.
        """
        return await transacting.transaction(self._attempt, function, arguments)

    def lock(self, name: str, *, wait: Duration = "10s") -> Lock:
        """`async with run.lock("name") as lock:` only one run holds it at a time, across all workers; `lock.token` is
        its fence.

        Raises `LockTimeout` if the lock is not free within `wait`. A lock does not span durable waits: a waiting run
        leaves memory, and a lock that cannot be released would block every other run.
        """
        self._attempt.refuse_inside("run.lock")
        return Lock(self._attempt, name, wait)

    # effects and messages

    async def act(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        """Perform an effect now: policy, ledger, call, record. Returns its result; a confirmed effect is not repeated
        on resume.

        `action` is declared with `@action`, which says what to do when it is unknown whether the call was done.
        """
        value: T = await acting.act(self._attempt, action, arguments, keywords)
        return value

    def stage(self, action: Action[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> None:
        """Stage an effect: it happens after the run has committed and its checks have passed. If the run fails, it
        never happens.
        """
        acting.stage(self._attempt, action, arguments, keywords)

    def send(
        self, channel: str, message: Any, *, subject: str | None = None, urgent: bool = False, thread: str | None = None
    ) -> None:
        """Send a message to a channel of the app. It leaves after the run has committed and its checks have passed,
        always under the same id. If the run fails, it never leaves. An urgent message does not wait behind others;
        messages of one thread keep their order.
        """
        self._attempt.refuse_inside("run.send")
        self._attempt.refuse_when_over()
        sending.put_out(self._attempt, channel, message, subject=subject, urgent=urgent, thread=thread)

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
        """Emit a new event through intake, stored together with this checkpoint. It is not emitted again on resume.

        `extensions` are further attributes. Only Wakeful sets the source and the attributes of the chain (`chaindepth`,
        `causationid`, …). An agent declared with `emits=` may emit only those types. Breaking one of these rules raises
        Persistent.
        """
        return await emitting.emit(self._attempt, type, data, subject, id, extensions)

    async def call(
        self, agent: Any, data: Any = None, *, subject: str | None = None, timeout: Duration | None = None
    ) -> Any:
        """Start a run of another agent of this app (by name or function) and wait durably for its output.

        Raises ChildFailed if that run is dead, denied or cancelled, and TimedOut if it is not done within `timeout`.
        """
        return await waiting.call(self._attempt, agent, data, subject=subject, timeout=timeout)

    # time

    async def schedule(self, name: str, schedule: Schedule, *, agent: Any = None, data: Any = None) -> datetime | None:
        """Let a schedule wake an agent: this one, or another one (by name or function) if policy allows it. A schedule
        of that name that was made at run time gets the new rule; an identical one is left as it is. Returns its next
        occurrence.
        """
        return await scheduling.schedule(self._attempt, name, schedule, agent=agent, data=data)

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule that was made at run time. Returns whether it existed."""
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
        """Make a reminder: a message to a channel at a time ("in 20 minutes", "tomorrow 9am"). On resume it is the same
        reminder.

        `unless`: the reminder is dropped if an event of this type, for which the CEL expression `where` holds, arrives
        before then.
        """
        return await reminding.remind(self._attempt, when, text, to=to, unless=unless, where=where, tz=tz)

    async def sleep(self, span: Duration) -> None:
        """Sleep for a duration ("2d", "90m", a timedelta), durably: the run leaves memory and survives restarts."""
        await waiting.sleep(self._attempt, span)

    async def sleep_until(self, moment: datetime | str) -> None:
        """Sleep until a time, durably. A time without a zone counts as UTC."""
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
        """Wait durably for an event: the first of this type that arrived after the run was created and that no earlier
        wait of the run took. `where` is CEL over `event`, `data` and `values`. Raises TimedOut if none arrives within
        `timeout`.

        Without `source` any event of the run's app can match; with it, only events of that source. The name of a
        webhook or of a source that is read is reserved: no other way in accepts events under it.
        """
        return await waiting.wait_for(
            self._attempt, type, subject=subject, where=where, values=values, timeout=timeout, source=source
        )

    async def ask(
        self, question: str, *, to: str | None = None, schema: Any = None, timeout: Duration | None = None
    ) -> Any:
        """Ask a person and wait durably for the answer. `wakeful approvals` lists it, `wakeful approvals answer`
        answers it.

        `schema` is the type or pydantic model that the answer must fit. Raises TimedOut without an answer within
        `timeout`.
        """
        return await waiting.ask(self._attempt, question, to=to, schema=schema, timeout=timeout)

    async def decide(
        self,
        question: str,
        options: Sequence[str],
        *,
        rules: Sequence[deciding.Rule] = (),
        model: deciding.Model | None = None,
        at_least: float = deciding.CONFIDENT,
        ask: str | None = None,
        timeout: Duration | None = None,
    ) -> str:
        """One of the options. The first rule that matches decides: `("data.amount < 10.0", "approve")`, or a function of
        facts that returns an option or None. Else `model(question, options)` decides, if the confidence of the `Choice` that
        it returns is `at_least` this. Else a person of `ask` does. A rule that needs a stale fact sends the question to a
        person at once.

        The model is asked once, and the answer is the same on resume. Raises Persistent if nothing decides and `ask` is
        missing, and TimedOut if no person answers within `timeout`.
        """
        return await deciding.decide(
            self._attempt, question, options, rules=rules, model=model, at_least=at_least, ask=ask, timeout=timeout
        )
