"""Runs an app in an isolated world for a test: a new store, a clock that stands still, fakes for the outside world.

    emit ──► drain: work until nothing is due ──► is something waiting for time? ──► move the clock there, and again
                                                             └─ no ──► look at runs, effects, deliveries, fakes

Nothing waits in real time, except the app's own functions. The clock is moved only when all running work waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from wakeful.clock import Duration, Microseconds, VirtualClock, duration
from wakeful.errors import ConfigError, NotFound, did_you_mean
from wakeful.execution.actions import Action
from wakeful.execution.attempt import TURNS_BEFORE_LEAVING
from wakeful.functions.call import call
from wakeful.intake.cloudevents import new_event
from wakeful.model import RUN_STATES, ApprovalState, DeliveryState, EffectState, Event, Receipt
from wakeful.output.channels.base import Channel, Message
from wakeful.output.channels.event import EventChannel
from wakeful.runtime import Runtime
from wakeful.stores.journal import Probe
from wakeful.stores.known import next_wake
from wakeful.stores.verbs.alarms import first_to_tell
from wakeful.stores.verbs.circuits import circuits_of
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.schedules import next_schedule
from wakeful.testing import held
from wakeful.testing.answers import store_answer
from wakeful.testing.deeds import Deeds
from wakeful.testing.fakes import NOTHING, Fake, ignore, refuse_for_channel
from wakeful.testing.files import files_of
from wakeful.testing.mail import Ask, Mail, MailChannel
from wakeful.testing.reading import Which, every_page, identify, output_of, read_events, read_runs, refuse_unknown_state
from wakeful.testing.silence import lived, silence_of_the_dead
from wakeful.testing.time import VirtualTime
from wakeful.triggers.files.trigger import Files
from wakeful.values import to_text

if TYPE_CHECKING:
    from wakeful.app import App

# Moving the clock must not expire a lease.
FOREVER = duration("36500d")
FARTHEST = "30d"
MOST_SKIPS = 10_000
# Before the clock moves, a run that can be suspended is, and the end of a run that just finished is noticed.
TURNS_TO_BE_SURE = 2 * TURNS_BEFORE_LEAVING
LOOK_EVERY = 0.001


class World:
    """An app at work under a virtual clock, inside a block: `async with World(app) as world:`.

    `store` is the address of a store (default: a temporary SQLite file), `clock` a clock (default: a new one). The app
    itself, and the store that it declares, stay untouched.

    Messages that the app sends are kept in `messages()` and go nowhere: only channels that lead back into the app are
    opened and called. With `deliver=True` all channels are, and messages are really sent.
    """

    def __init__(
        self,
        app: App,
        *,
        store: str | None = None,
        clock: VirtualClock | None = None,
        deliver: bool = False,
        probe: Probe | None = None,
        deeds: Deeds | None = None,
    ) -> None:
        self.app = app
        self.clock = clock or VirtualClock()
        self.deeds = deeds or Deeds()
        self._given_store = store
        self._deliver = deliver
        self._mail = Mail()
        self._probe = probe
        self._fakes: list[Fake] = []
        self._answers: dict[str, Any] = {}
        self._exit = contextlib.AsyncExitStack()
        self._runtime: Runtime | None = None
        self._time = VirtualTime(self.clock)
        self.store = store or ""

    # life

    async def __aenter__(self) -> Self:
        if self.app.runtime is not None:
            message = f"app {self.app.name} is already running: a world starts it itself"
            raise ConfigError(message)
        if self._given_store is None:
            folder = self._exit.enter_context(tempfile.TemporaryDirectory(prefix="wakeful-world-"))
            self.store = f"sqlite:///{Path(folder) / 'wakeful.db'}"
        self._exit.enter_context(silence_of_the_dead())
        try:
            await self._begin()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            runtime, self._runtime = self._runtime, None
            if runtime is not None:
                self.app.runtime = None
                await runtime.stop(grace=0)
        finally:
            self._fakes.clear()
            await self._exit.aclose()

    async def _begin(self) -> None:
        time = self._time = VirtualTime(self.clock)

        def is_dead() -> bool:
            return runtime.store.journal.is_dead()

        runtime = Runtime(
            self.app,
            store=self.store,
            clock=self.clock,
            lease=FOREVER,
            probe=self._probe,
            grace=0,
            # All input comes from the test: the files that it writes and the events that it sends.
            reading="drained",
            sources=files_of(self.app.agents),
            channels={name: self._mailed(name, one, time, is_dead) for name, one in self.app.channels.items()},
        )
        around = runtime.surroundings
        around.sleep, around.later = time.sleep, time.later
        around.stand_in = partial(self._stand_in, runtime, time)
        around.chance.seed(self.app.name)  # back-offs, and so their boundaries, are the same in every life
        try:
            with lived(is_dead):
                await runtime.open(migrate=True)
                await self._bury_others(runtime)
                await runtime.start()
                await self._know_what_is_there(runtime)
        except BaseException:
            await runtime.die()
            raise
        self._runtime = self.app.runtime = runtime

    def _mailed(self, name: str, channel: Channel, time: VirtualTime, is_dead: Callable[[], bool]) -> MailChannel:
        real = self._deliver or isinstance(channel, EventChannel)  # leads only back into the app

        def who_is_asked() -> Ask | None:
            fake = next((one for one in reversed(self._fakes) if one.stands_for_channel(name, channel)), None)
            return None if fake is None else lambda message: fake.answer(channel, ignore, (message,), {}, time)

        return MailChannel(channel, self._mail, real=real, is_dead=is_dead, who_is_asked=who_is_asked)

    async def _bury_others(self, runtime: Runtime) -> None:
        """Declare earlier processes dead: in this world their leases would never expire."""
        for process, _, _ in await other_processes(runtime.store.database, ""):
            await runtime.store.do(BuryProcess(process, certain=True))

    @staticmethod
    async def _know_what_is_there(runtime: Runtime) -> None:
        """With `files(existing=False)`, skip the files that exist at the start; later files are new."""
        for trigger in (one for agent in runtime.app.agents.values() for one in agent.triggers):
            if isinstance(trigger, Files) and not trigger.existing:
                await runtime.sources.readings[trigger.name].drain()

    @property
    def runtime(self) -> Runtime:
        """The running app, for operations that the world has no method for."""
        if self._runtime is None:
            message = "this world has ended or not begun: use it inside `async with World(app) as world:`"
            raise RuntimeError(message)
        return self._runtime

    async def crash(self) -> None:
        """Let the process die as by `kill -9`, and another one take over: nothing is released, no process signs off.

        A handler's `finally` blocks still run, because this process really continues.
        """
        runtime, self._runtime = self.runtime, None
        self.app.runtime = None
        await runtime.die()
        await self._begin()

    # act

    async def emit(self, type: str, data: Any = None, **attributes: Any) -> Receipt:  # noqa: A002 the field's own name
        """Send an event, as `app.emit`; returns once it is stored, before anything was done about it.

        With `source=` a test can also act as a webhook or another source.
        """
        if attributes.get("source") is None or "within" in attributes:
            return await self.runtime.app.emit(type, data, **attributes)
        return await self.accept(new_event(type, data, **attributes))

    async def accept(self, event: Event, *, agent: str | None = None) -> Receipt:
        """Send an existing event; with `agent`, to that agent, regardless of its triggers."""
        return (await self.runtime.door.accept([event], agent=agent, by="source"))[0]

    async def start(self, agent: str, data: Any = None, **options: Any) -> Receipt:
        """Run one agent now, regardless of its triggers."""
        return await self.runtime.app.start(agent, data, **options)

    async def handle(self, type: str, data: Any = None, **attributes: Any) -> dict[str, Any]:  # noqa: A002
        """Send an event and drain; returns the one run that it started."""
        receipt = await self.emit(type, data, **attributes)
        await self.drain()
        return await self.run(receipt)

    async def drain(self, *, skip: bool = True, at_most: Duration = FARTHEST) -> None:
        """Work until nothing is due; then move the clock to the next due time, until nothing waits for time.

        Work that is due more than `at_most` from now stays waiting. With `skip=False` the clock is not moved. Schedules
        never end, so only `skip` moves the clock for them.
        """
        await self._drain(self.clock.now() + duration(at_most), skip=skip, schedules=False)

    async def _drain(self, end: Microseconds, *, skip: bool, schedules: bool) -> None:
        for _ in range(MOST_SKIPS):
            await self._work()
            if await self._answer_what_is_asked():
                continue
            due = await self._next_due(schedules=schedules) if skip else None
            if due is None or due > end:
                return
            self._time.move_to(due)
        message = (
            f"not at rest after the clock was moved {MOST_SKIPS:,} times: does something retry forever? "
            'Give drain(at_most="1h") a limit, or look at world.runs()'
        )
        raise AssertionError(message)

    async def skip(self, by: Duration) -> None:
        """Let this much time pass, and do everything that comes due on the way, each at its own time."""
        end = self.clock.now() + duration(by)
        await self._drain(end, skip=True, schedules=True)
        self._time.move_to(end)
        await self.drain(skip=False)

    async def _work(self) -> None:
        """Work until nothing is due, or all running work waits for time."""
        drained = asyncio.ensure_future(self.runtime.drain())
        try:
            while not drained.done():
                await asyncio.wait({drained}, timeout=LOOK_EVERY)
                if await self._only_waits_for_time():
                    return
            await drained
        finally:
            drained.cancel()
            await asyncio.wait({drained})

    async def _only_waits_for_time(self) -> bool:
        for _ in range(TURNS_TO_BE_SURE):
            runs = self.runtime.worker.in_flight
            calls = [run.in_flight for run in runs]
            if not calls or not all(calls) or sum(calls) != self._time.sleeping:
                return False
            await asyncio.sleep(0)
        return True

    async def _next_due(self, *, schedules: bool) -> Microseconds | None:
        stored = await next_wake(self.runtime.reader, self.app.name)
        occurrence = await self._next_occurrence() if schedules else None
        return min((due for due in (stored, self._time.next_due(), occurrence) if due is not None), default=None)

    async def _next_occurrence(self) -> Microseconds | None:
        """The next time of an occurrence, a circuit probe or a repeated alarm: work that never ends."""
        store = self.runtime.store
        _, occurrence = await next_schedule(store.database, self.app.name)
        wait = await first_to_tell(store.database, self.app.name)
        told = None if wait is None else self.clock.now() + max(0, wait)
        tried = [one.next_at for one in await circuits_of(store.database, self.app.name) if one.parked]
        coming = [due for due in (occurrence, told, *tried) if due is not None]
        return min((due for due in coming if due > self.clock.now() or due in {occurrence, told}), default=None)

    # decide as a person

    async def confirm(self, effect: Mapping[str, Any] | str, result: Any = None) -> None:
        """Settle a held effect as done, with its result. Its run continues at the next drain. InvalidData if the result
        does not fit the action's return type.
        """
        text = None if result is None else to_text(result, what="the result")
        await held.settle(self.runtime.store, effect, "confirmed", text)

    async def repeat(self, effect: Mapping[str, Any] | str) -> None:
        """Settle a held effect as not done, to be called again."""
        await held.settle(self.runtime.store, effect, "retrying")

    async def abandon(self, effect: Mapping[str, Any] | str) -> None:
        """Settle a held effect as not done, never to be called."""
        await held.settle(self.runtime.store, effect, "abandoned")

    async def release(self, which: Which) -> None:
        """Release a held output as it is, as `wakeful release` does. Its messages and staged effects leave at the next drain."""
        await held.release(self.runtime.store, identify(which))

    async def give_back(self, which: Which, remark: str) -> None:
        """Return a held output, as `wakeful return` does. The handler runs again at the next drain, with `run.remarks`."""
        await held.give_back(self.runtime.store, identify(which), remark)

    async def approvals(self, *, state: str | None = "open") -> list[dict[str, Any]]:
        """The approvals that runs asked for, oldest first; `state=None` for those of all states."""
        refuse_unknown_state("approvals", state, get_args(ApprovalState))
        found = await every_page(self.runtime.reader.approvals, state=state)
        return list(reversed(found["approvals"]))

    questions = approvals  # its former name

    async def answer(self, approval: Mapping[str, Any] | str, answer: Any) -> None:
        """Answer an open approval: one of `approvals()`, its id, or words of its question. Its run continues at the
        next drain.
        """
        asked = approval if isinstance(approval, str) else str(approval["id"])
        found = [one for one in await self.approvals() if asked == one["id"] or asked in one["question"]]
        if len(found) != 1:
            listed = ", ".join(repr(one["question"]) for one in found or await self.approvals()) or "nothing"
            message = f"world.answer({asked!r}): {len(found)} open approvals match. Open: {listed}"
            raise NotFound(message)
        await store_answer(self.runtime.store, found[0], answer)

    def when_asked(self, question: str, answer: Any) -> None:
        """Answer every approval whose question contains these words, before any time passes."""
        self._answers[question] = answer

    async def _answer_what_is_asked(self) -> bool:
        """Give the prepared answers to open approvals; whether there were any."""
        known = [
            (one, answer)
            for one in (await self.approvals() if self._answers else [])
            for words, answer in self._answers.items()
            if words in one["question"]
        ]
        for one, answer in known:
            await store_answer(self.runtime.store, one, answer)
        return bool(known)

    # fakes

    def fake(
        self,
        stands_for: Callable[..., Any] | Action[..., Any] | Channel | str,
        *,
        returns: Any = NOTHING,
        raises: BaseException | type[BaseException] | None = None,
        answers: Sequence[Any] | None = None,
        calls: Callable[..., Any] | None = None,
        record: str | Path | None = None,
        takes: Duration | None = None,
    ) -> Fake:
        """Replace a step, an action or its `find`, to the end of a `with` block or of this world.
        A fake of a channel, by its name, makes it fail: it is called for each message before that counts as delivered.

        returns=   return this value on every call
        raises=    raise this error
        answers=   return these one after the other; errors among them are raised
        calls=     return the result of this function for the same arguments
        record=    return the recorded answers of the real function; it is called for calls not yet in the file
        takes=     take this much virtual time before answering

        For a function that is created in each attempt, give its step's name instead: `world.fake("fetch", …)`.
        """
        if isinstance(stands_for, Channel) or (isinstance(stands_for, str) and stands_for in self.app.channels):
            refuse_for_channel(stands_for, record=record, takes=takes)
        fake = Fake(
            stands_for,
            returns=returns,
            raises=raises,
            answers=answers,
            calls=calls,
            record=record,
            takes=takes,
            remove=self._remove,
        )
        self._fakes.append(fake)
        return fake

    def _remove(self, fake: Fake) -> None:
        if fake in self._fakes:
            self._fakes.remove(fake)

    def _stand_in(
        self, runtime: Runtime, time: VirtualTime, declared: Any, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """The function to call for a step, an action or its find. The latest fake counts; deeds of actions are
        recorded.
        """
        written = getattr(declared, "declared", declared)  # for an undo: the function that the user wrote
        fakes = (one for one in reversed(self._fakes) if one.stands_for(declared) or one.stands_for(written))
        fake = next(fakes, None)
        if fake is None and self._probe is None and not isinstance(declared, Action):
            return function

        async def stand_in(*arguments: Any, **keywords: Any) -> Any:
            if runtime.store.journal.is_dead():
                await asyncio.get_running_loop().create_future()  # its process is dead: it calls nothing more
            if fake is not None:
                value = await fake.answer(declared, function, arguments, keywords, time)
            else:
                value = await call(function, arguments, keywords, what="the function")
            if isinstance(declared, Action):
                self.deeds.add(declared, arguments[0], arguments[1:], keywords)
            return value

        return stand_in

    # look

    async def run(self, which: Which) -> dict[str, Any]:
        """Everything about one run, as `GET /v1/runs/{id}` shows it; by its id, or the receipt of an event with one
        run.
        """
        identifier = identify(which)
        found: dict[str, Any] | None = await self.runtime.reader.run(identifier)
        if found is None:
            message = f"there is no run {identifier} in this world"
            raise NotFound(message)
        return found

    async def runs(self, *, agent: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """All runs with all their details, in order of creation."""
        refuse_unknown_state("runs", state, RUN_STATES)
        return await read_runs(self.runtime.reader, agent=agent, state=state)

    async def effects(self, *, action: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """All effects, in the order in which they were started."""
        refuse_unknown_state("effects", state, get_args(EffectState))
        found = await every_page(self.runtime.reader.effects, state=state)
        return [one for one in reversed(found["effects"]) if action in {None, one["action"]}]

    async def deliveries(self, *, channel: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """All deliveries, in the order of their runs."""
        refuse_unknown_state("deliveries", state, get_args(DeliveryState))
        self._refuse_unknown_channel(channel)
        return [
            one
            for run in await self.runs()
            for one in run["deliveries"]
            if channel in {None, one.get("channel")} and state in {None, one.get("state")}
        ]

    def messages(self, *, channel: str | None = None) -> list[Message]:
        """The delivered messages in order of arrival; each once, even if it was delivered repeatedly."""
        self._refuse_unknown_channel(channel)
        return self._mail.all(channel)

    def _refuse_unknown_channel(self, channel: str | None) -> None:
        if channel is not None and channel not in self.app.channels:
            message = f'app {self.app.name} has no channel "{channel}".{did_you_mean(channel, self.app.channels)}'
            raise ConfigError(message)

    async def events(self) -> list[dict[str, Any]]:
        """All events, in order of arrival."""
        return await read_events(self.runtime.reader)

    async def look(self) -> None:
        """Check expectations, as the watcher does."""
        await self.runtime.watcher.look()

    async def alarms(self) -> list[dict[str, Any]]:
        """All alarms."""
        return list((await self.runtime.reader.alarms())["alarms"])

    async def output(self, which: Which) -> Any:
        """The output of a run. Raises AssertionError with the reason if the run is not done."""
        return output_of(await self.run(which))
