"""An app in a world of its own, for a test: a store that is new, a clock that stands still, fakes for what is outside.

    emit ──► drain: work until nothing is due ──► is something waiting for time? ──► move the clock there, and again
                                                             └─ no ──► look at runs, effects, deliveries, fakes

Nothing waits for real time but what the app's own functions wait for. Time is moved only when all that runs waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic_core import from_json

from wakeful.clock import Duration, Microseconds, VirtualClock, duration
from wakeful.errors import ConfigError, InvalidData, NotFound, did_you_mean
from wakeful.execution.actions import Action
from wakeful.execution.attempt import TURNS_BEFORE_LEAVING
from wakeful.functions.call import call
from wakeful.intake.cloudevents import new_event
from wakeful.model import RUN_STATES, ApprovalState, DeliveryState, EffectState, Event, Receipt
from wakeful.operations.answering import answer_approval
from wakeful.operations.results import unfit_result
from wakeful.operations.shape import misfits
from wakeful.output.channels.base import Channel, Message
from wakeful.output.channels.event import EventChannel
from wakeful.runtime import Runtime
from wakeful.stores.journal import Probe
from wakeful.stores.known import next_wake
from wakeful.stores.request import Actor
from wakeful.stores.verbs.alarms import first_to_tell
from wakeful.stores.verbs.circuits import circuits_of
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.schedules import next_schedule
from wakeful.stores.verbs.settling import SettleEffect
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

# No lease runs out because a test moves the clock.
FOREVER = duration("36500d")
FARTHEST = "30d"
MOST_SKIPS = 10_000
# A run that can be put away is, before the clock is moved for it; and whatever has just ended is heard of.
TURNS_TO_BE_SURE = 2 * TURNS_BEFORE_LEAVING
LOOK_EVERY = 0.001


class World:
    """An app at work under a virtual clock, for as long as a block lasts: `async with World(app) as world:`.

    `store` is the address of another store than a temporary SQLite file; `clock` another clock than a new one. The app
    itself, and the store that it declares, stay untouched.

    What the app sends is kept in `messages()` and goes nowhere: no channel is opened or called, but those that lead back
    into the app. `deliver=True`: they are, and what is sent is sent for real.
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
            message = f"app {self.app.name} runs already: a world starts it itself"
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
            # What comes from outside is what the test says: files that it writes, and events that it sends.
            reading="drained",
            sources=files_of(self.app.agents),
            channels={name: self._mailed(name, one, time, is_dead) for name, one in self.app.channels.items()},
        )
        around = runtime.surroundings
        around.sleep, around.later = time.sleep, time.later
        around.stand_in = partial(self._stand_in, runtime, time)
        around.chance.seed(self.app.name)  # back-offs are the same in every life, and so are their boundaries
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
        real = self._deliver or isinstance(channel, EventChannel)  # which leads back into the app, and nowhere else

        def who_is_asked() -> Ask | None:
            fake = next((one for one in reversed(self._fakes) if one.stands_for_channel(name, channel)), None)
            return None if fake is None else lambda message: fake.answer(channel, ignore, (message,), {}, time)

        return MailChannel(channel, self._mail, real=real, is_dead=is_dead, who_is_asked=who_is_asked)

    async def _bury_others(self, runtime: Runtime) -> None:
        """In this world whoever came before is dead, and its lease does not run out."""
        for process, _, _ in await other_processes(runtime.store.database, ""):
            await runtime.store.do(BuryProcess(process, certain=True))

    @staticmethod
    async def _know_what_is_there(runtime: Runtime) -> None:
        """With `files(existing=False)` the files that a world begins with are no news; those that come later are."""
        for trigger in (one for agent in runtime.app.agents.values() for one in agent.triggers):
            if isinstance(trigger, Files) and not trigger.existing:
                await runtime.sources.readings[trigger.name].drain()

    @property
    def runtime(self) -> Runtime:
        """The app at work, for what the world has no word for."""
        if self._runtime is None:
            message = "this world has ended, or has not begun: use it inside `async with World(app) as world:`"
            raise RuntimeError(message)
        return self._runtime

    async def crash(self) -> None:
        """Let the process die as by `kill -9`, and another one take over: nothing is given back, nothing said goodbye to.

        What a handler does in `finally` happens all the same, because this process really goes on.
        """
        runtime, self._runtime = self.runtime, None
        self.app.runtime = None
        await runtime.die()
        await self._begin()

    # doing

    async def emit(self, type: str, data: Any = None, **attributes: Any) -> Receipt:  # noqa: A002 the field's own name
        """Send an event in, as `app.emit`; returns once it is stored, before anything was done about it. A test stands in for
        everything outside: with `source=` it may also speak for a webhook, or for what an app reads.
        """
        if attributes.get("source") is None or "within" in attributes:
            return await self.runtime.app.emit(type, data, **attributes)
        return await self.accept(new_event(type, data, **attributes))

    async def accept(self, event: Event, *, agent: str | None = None) -> Receipt:
        """Send in an event that was made elsewhere; with `agent`, to that one, whatever its triggers say."""
        return (await self.runtime.door.accept([event], agent=agent, by="source"))[0]

    async def start(self, agent: str, data: Any = None, **options: Any) -> Receipt:
        """Run one agent now, whatever its triggers say."""
        return await self.runtime.app.start(agent, data, **options)

    async def handle(self, type: str, data: Any = None, **attributes: Any) -> dict[str, Any]:  # noqa: A002
        """Send an event in and drain; the one run that it made, as it is then."""
        receipt = await self.emit(type, data, **attributes)
        await self.drain()
        return await self.run(receipt)

    async def drain(self, *, skip: bool = True, at_most: Duration = FARTHEST) -> None:
        """Work until nothing is due; then move the clock to where something is, until nothing waits for time any more.

        What is due more than `at_most` from now stays waiting. `skip=False`: the clock is not moved at all. For schedules,
        which have no end, the clock is moved by `skip` alone.
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
            f"not at rest after the clock was moved {MOST_SKIPS:,} times: does something try again without end? "
            'Give drain(at_most="1h") a limit, or look at world.runs()'
        )
        raise AssertionError(message)

    async def skip(self, by: Duration) -> None:
        """Let so much time pass, and do what comes due on the way, each at its own time."""
        end = self.clock.now() + duration(by)
        await self._drain(end, skip=True, schedules=True)
        self._time.move_to(end)
        await self.drain(skip=False)

    async def _work(self) -> None:
        """Until nothing is due, or all that still runs waits for time."""
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
        """When the next occurrence is due, a circuit tries again, or an alarm is told again: what has no end."""
        store = self.runtime.store
        _, occurrence = await next_schedule(store.database, self.app.name)
        wait = await first_to_tell(store.database, self.app.name)
        told = None if wait is None else self.clock.now() + max(0, wait)
        tried = [one.next_at for one in await circuits_of(store.database, self.app.name) if one.parked]
        coming = [due for due in (occurrence, told, *tried) if due is not None]
        return min((due for due in coming if due > self.clock.now() or due in {occurrence, told}), default=None)

    # what a person says

    async def confirm(self, effect: Mapping[str, Any] | str, result: Any = None) -> None:
        """Say of a held effect that it was done, and with which result. Its run goes on at the next drain. InvalidData if the
        result does not fit what the action returns.
        """
        text = None if result is None else to_text(result, what="the result")
        await self._settle(effect, "confirmed", text)

    async def repeat(self, effect: Mapping[str, Any] | str) -> None:
        """Say of a held effect that it was not done, and is to be."""
        await self._settle(effect, "retrying")

    async def abandon(self, effect: Mapping[str, Any] | str) -> None:
        """Say of a held effect that it was not done, and is not to be."""
        await self._settle(effect, "abandoned")

    async def _settle(
        self,
        effect: Mapping[str, Any] | str,
        state: Literal["confirmed", "retrying", "abandoned"],
        result: str | None = None,
    ) -> None:
        identifier = effect if isinstance(effect, str) else str(effect["id"])
        settled = await self.runtime.store.do(
            SettleEffect(
                identifier,
                state,
                result=result,
                refuse=unfit_result,
                by=Actor("a test", "worker"),
                note="said in a test",
            )
        )
        if settled is not None and settled.refused is not None:
            message = f"effect {identifier} of {settled.effect.action}: {settled.refused.partition(': give it')[0]}"
            raise InvalidData(message)
        if settled is None or not settled.first:
            found = "is not there" if settled is None else f"is {settled.effect.state} and waits for nobody"
            message = f"effect {identifier} {found}: world.effects(state='held') lists what waits for a person"
            raise NotFound(message)

    async def approvals(self, *, state: str | None = "open") -> list[dict[str, Any]]:
        """What runs ask people, in the order in which they asked; `state=None` for all of it."""
        refuse_unknown_state("approvals", state, get_args(ApprovalState))
        found = await every_page(self.runtime.reader.approvals, state=state)
        return list(reversed(found["approvals"]))

    questions = approvals  # the name it had first

    async def answer(self, approval: Mapping[str, Any] | str, answer: Any) -> None:
        """Answer an open approval: one of `approvals()`, its id, or words of it. Its run goes on at the next drain."""
        asked = approval if isinstance(approval, str) else str(approval["id"])
        found = [one for one in await self.approvals() if asked == one["id"] or asked in one["question"]]
        if len(found) != 1:
            listed = ", ".join(repr(one["question"]) for one in found or await self.approvals()) or "nothing"
            message = f"world.answer({asked!r}): {len(found)} open approvals are like that. Open: {listed}"
            raise NotFound(message)
        await self._answer(found[0], answer)

    def when_asked(self, question: str, answer: Any) -> None:
        """Whenever a run asks something with these words in it, somebody answers so before any time passes."""
        self._answers[question] = answer

    async def _answer_what_is_asked(self) -> bool:
        """What was said before about approvals that are open now; was there any?"""
        known = [
            (one, answer)
            for one in (await self.approvals() if self._answers else [])
            for words, answer in self._answers.items()
            if words in one["question"]
        ]
        for one, answer in known:
            await self._answer(one, answer)
        return bool(known)

    async def _answer(self, approval: Mapping[str, Any], answer: Any) -> None:
        wrong = misfits(from_json(to_text(answer, what="the answer")), approval["schema"])
        if wrong:
            message = f"the answer to {approval['question']!r} does not fit: {'; '.join(wrong)}"
            raise ValueError(message)
        await answer_approval(self.runtime.store, approval["id"], answer, by=Actor("a test", "worker"))

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
        """Put something in the place of a step, an action or its `find`, to the end of a `with` block or of this world.
        A channel, by its name, is faked to let it fail: it is asked for each message before that counts as delivered.

        returns=   this value, however often it is called
        raises=    this error
        answers=   these, one after the other; errors among them are raised
        calls=     what this function makes of the same arguments
        record=    what the real one answered when the file was recorded; it is called for what is not in there yet
        takes=     so much virtual time, before it answers

        A function that is made anew in each attempt is named by its step's name instead: `world.fake("fetch", …)`.
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
        """What is called for a step, an action or its find. The latest fake counts; deeds of actions are counted."""
        written = getattr(declared, "declared", declared)  # of an undo: what the user wrote
        fakes = (one for one in reversed(self._fakes) if one.stands_for(declared) or one.stands_for(written))
        fake = next(fakes, None)
        if fake is None and self._probe is None and not isinstance(declared, Action):
            return function

        async def stand_in(*arguments: Any, **keywords: Any) -> Any:
            if runtime.store.journal.is_dead():
                await asyncio.get_running_loop().create_future()  # its process is gone: it calls nobody any more
            if fake is not None:
                value = await fake.answer(declared, function, arguments, keywords, time)
            else:
                value = await call(function, arguments, keywords, what="the function")
            if isinstance(declared, Action):
                self.deeds.add(declared, arguments[0], arguments[1:], keywords)
            return value

        return stand_in

    # looking

    async def run(self, which: Which) -> dict[str, Any]:
        """Everything about one run, as `GET /v1/runs/{id}` shows it: by its id, or the receipt of an event with one run."""
        identifier = identify(which)
        found: dict[str, Any] | None = await self.runtime.reader.run(identifier)
        if found is None:
            message = f"there is no run {identifier} in this world"
            raise NotFound(message)
        return found

    async def runs(self, *, agent: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """All runs, each with everything about it, in the order in which they were made."""
        refuse_unknown_state("runs", state, RUN_STATES)
        return await read_runs(self.runtime.reader, agent=agent, state=state)

    async def effects(self, *, action: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """All effects, in the order in which they were begun."""
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
        """What was delivered, in the order in which it arrived; each once, however often it came."""
        self._refuse_unknown_channel(channel)
        return self._mail.all(channel)

    def _refuse_unknown_channel(self, channel: str | None) -> None:
        if channel is not None and channel not in self.app.channels:
            message = f'app {self.app.name} has no channel "{channel}".{did_you_mean(channel, self.app.channels)}'
            raise ConfigError(message)

    async def events(self) -> list[dict[str, Any]]:
        """All events, in the order in which they came."""
        return await read_events(self.runtime.reader)

    async def look(self) -> None:
        """Look whether what is expected has happened, as the watcher does."""
        await self.runtime.watcher.look()

    async def alarms(self) -> list[dict[str, Any]]:
        """All alarms."""
        return list((await self.runtime.reader.alarms())["alarms"])

    async def output(self, which: Which) -> Any:
        """What a run returned. AssertionError if it is not done, with the reason."""
        return output_of(await self.run(which))
