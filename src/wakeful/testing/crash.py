"""Kills an agent at every commit boundary in turn, lets another process take over, and reports what happened twice or never.

once without a crash ──► the expected result
for each boundary:   new store ─► run ─► die there ─► a fresh runtime takes over ─► drain ─► compare
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.clock import VirtualClock, to_text
from wakeful.errors import ConfigError, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.model import Event, Receipt
from wakeful.stores.journal import Died
from wakeful.testing.boundaries import Boundaries, Boundary
from wakeful.testing.places import Prepare, new_stores
from wakeful.testing.report import CaseResult, CrashReport
from wakeful.testing.world import World
from wakeful.triggers.schedule import TYPE
from wakeful.triggers.scheduler import source_of
from wakeful.triggers.schedules import code_schedules

if TYPE_CHECKING:
    from wakeful.app import App

IDENTIFIER = "crash-everywhere"
MOST_BOUNDARIES = 2_000

Observe = Callable[[], Any]
Occurrence = Event | str | tuple[str, Any]


async def crash_everywhere(
    app: App | str,
    event: Occurrence | None = None,
    *,
    agent: str | Callable[..., Any] | None = None,
    store: str | None = None,
    observe: Observe | None = None,
    reset: Observe | None = None,
    prepare: Prepare | None = None,
    arrange: Callable[[World], Any] | None = None,
    outputs: bool = True,
    deliver: bool = False,
    processes: bool = False,
) -> CrashReport:
    """Handle an event once for each commit boundary, dying there, and report what the crash changed.

    event      its type, (type, data), or an Event
    agent      start this agent, by name or function, regardless of its triggers. Without an event it is started by an
               occurrence of its schedule, or as by `wakeful run`
    store      a postgresql:// address, in which a new schema is created; default: SQLite files
    observe    returns the state of the outside world, sync or async: a list, a Counter, or a mapping. Shows also what a
               step or the handler did without an action
    reset      resets the outside world, before each case
    prepare    called once with the address of a store, to create your own tables in it
    arrange    called with the world of each case, to add fakes
    outputs    whether a run must return the same output; pass False if it returns the time of day
    deliver    let the app's channels really send; by default messages are only counted
    processes  use real processes, each killed with SIGKILL. `app` is then `file.py` or `module:app`, and the outside
               world must live outside of them
    """
    if processes:
        if arrange is not None:
            message = "processes=True: fakes live in this process, and arrange= cannot reach another one"
            raise ConfigError(message)
        from wakeful.testing.killing import crash_processes

        return await crash_processes(
            app,
            event,
            agent=agent,
            store=store,
            observe=observe,
            reset=reset,
            prepare=prepare,
            outputs=outputs,
            deliver=deliver,
        )
    if isinstance(app, str):
        message = f"crash_everywhere({app!r}): pass the App itself, or set processes=True"
        raise ConfigError(message)
    scenario = scenario_of(app, event, agent)
    async with new_stores(store, prepare) as new_store:
        await called(reset)
        _, baseline = await one_case(app, scenario, await new_store(), None, observe, arrange, deliver=deliver)
        refuse_nothing(baseline, scenario.event)
        report = CrashReport(baseline)
        while len(report.crashes) < MOST_BOUNDARIES:
            await called(reset)
            boundary, seen = await one_case(
                app, scenario, await new_store(), report.keys, observe, arrange, deliver=deliver
            )
            if boundary is None:
                return report
            report.add(boundary, seen, outputs=outputs)
    message = f"more than {MOST_BOUNDARIES:,} boundaries: does the agent ever finish?"
    raise AssertionError(message)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The event of all cases, and the agent it is addressed to; None: the agents it wakes."""

    event: Event
    agent: str | None = None


def scenario_of(app: App, event: Occurrence | None, agent: str | Callable[..., Any] | None) -> Scenario:
    """The event and the agent of all cases. TypeError if neither is given."""
    if agent is None:
        return Scenario(as_event(event, app.name))
    name = agent if isinstance(agent, str) else _named(app, agent)
    if name not in app.agents:
        message = f'crash_everywhere: app {app.name} has no agent "{name}".{did_you_mean(name, app.agents)}'
        raise ConfigError(message)
    return Scenario(as_event(event, app.name) if event is not None else an_occurrence(app, name), name)


def _named(app: App, function: Callable[..., Any]) -> str:
    return next((one.name for one in app.agents.values() if one.function is function), function.__name__)


def an_occurrence(app: App, agent: str) -> Event:
    """The event that wakes an agent by time: an occurrence of its schedule now, or the event of `wakeful run` if it has
    none.
    """
    schedules = (name for name, (whose, _, _) in code_schedules(app.everything).items() if whose == agent)
    schedule = next(schedules, None)
    if schedule is None:
        return new_event("wakeful.run", None, source=f"/{app.name}/run", id=IDENTIFIER)
    occurrence = to_text(VirtualClock().now())
    return new_event(
        TYPE,
        None,
        source=source_of(app.name, schedule),
        id=IDENTIFIER,
        scheduledfor=occurrence,
        coveredfrom=occurrence,
        coveredcount=1,
    )


def as_event(event: Occurrence | None, app: str) -> Event:
    """The event with a fixed id, so that all cases handle the same one."""
    if isinstance(event, Event):
        return event
    if isinstance(event, str):
        return new_event(event, None, source=f"/{app}", id=IDENTIFIER)
    given: Any = event
    if not (isinstance(given, tuple) and len(given) == len(("type", "data")) and isinstance(given[0], str)):
        message = f"crash_everywhere(app, {given!r}): the event is its type, (type, data), or an Event; agent= starts an agent"
        raise TypeError(message)
    kind, data = given
    return new_event(kind, data, source=f"/{app}", id=IDENTIFIER)


def refuse_nothing(baseline: CaseResult, event: Event) -> None:
    if not baseline.runs:
        message = f"no agent handles {event.type}: there is nothing to crash"
        raise ConfigError(message)


class Death:
    """The boundary at which this process counts as dead, and whether it has been reached."""

    def __init__(self, but_not: Collection[str] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._but_not = but_not
        self._boundaries: Boundaries | None = None
        self.came = asyncio.Event()
        self.boundary: Boundary | None = None

    def begin(self) -> None:
        """Count from here on, excluding the start-up of the process itself."""
        self._boundaries = Boundaries(but_not=self._but_not, reached=self._reach, die=self._die)

    def end(self) -> None:
        """Stop counting: neither the successor nor a process that has finished dies."""
        self._boundaries = None

    def probe(self, point: str, requests: Any) -> None:
        boundaries = self._boundaries
        if boundaries is not None:
            if self.boundary is not None:
                raise Died
            boundaries(point, requests)

    def _reach(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self._loop.call_soon_threadsafe(self.came.set)  # may be called from the writer's thread

    @staticmethod
    def _die() -> None:
        raise Died


async def one_case(
    app: App,
    scenario: Scenario,
    store: str,
    but_not: Collection[str] | None,
    observe: Observe | None,
    arrange: Callable[[World], Any] | None,
    *,
    deliver: bool,
) -> tuple[Boundary | None, CaseResult]:
    """Handle the event, dying at the first boundary not in `but_not`; returns that boundary and the result."""
    death = Death(but_not)
    async with World(app, store=store, probe=death.probe, deliver=deliver) as world:
        receipts: list[Receipt] = []
        await called(None if arrange is None else partial(arrange, world))

        async def handle() -> None:
            receipts.append(await world.accept(scenario.event, agent=scenario.agent))
            await world.drain()

        await world.drain(skip=False)
        death.begin()
        handling = asyncio.ensure_future(handle())
        dying = asyncio.ensure_future(death.came.wait())
        try:
            await asyncio.wait({handling, dying}, return_when=asyncio.FIRST_COMPLETED)
            death.end()
            if death.boundary is None:
                await handling
            else:
                await end(handling)
                await world.crash()
                if not receipts:  # a sender without an answer sends again
                    await world.accept(scenario.event, agent=scenario.agent)
                await world.drain()
        finally:
            await end(handling)
            await end(dying)
        return death.boundary, await look(world, observe)


async def end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def look(world: World, observe: Observe | None) -> CaseResult:
    runs = {run["id"]: run for run in await world.runs()}
    return CaseResult(runs, world.deeds.all(), copy.deepcopy(await called(observe)), await world.events())


async def called(function: Observe | None) -> Any:
    """The result of a sync or async function."""
    if function is None:
        return None
    value = function()
    return await value if inspect.isawaitable(value) else value
