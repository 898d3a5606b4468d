"""`crash_everywhere(..., processes=True)`: the same with real processes, each killed with SIGKILL at its boundary."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wakeful.clock import VirtualClock
from wakeful.errors import ConfigError
from wakeful.intake.cloudevents import from_envelope, to_envelope
from wakeful.loading import load_app
from wakeful.reader import Reader
from wakeful.stores.opening import open_database
from wakeful.testing.boundaries import Boundaries, Boundary
from wakeful.testing.children import KILLED, Nursery
from wakeful.testing.deeds import Deeds
from wakeful.testing.nursery import Voice
from wakeful.testing.places import Prepare, new_stores
from wakeful.testing.reading import read_events, read_runs
from wakeful.testing.report import CaseResult, CrashReport
from wakeful.testing.world import World

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.testing.crash import Observe, Occurrence, Scenario


async def crash_processes(
    app: App | str,
    event: Occurrence | None,
    *,
    agent: str | Callable[..., Any] | None,
    store: str | None,
    observe: Observe | None,
    reset: Observe | None,
    prepare: Prepare | None,
    outputs: bool,
    deliver: bool,
) -> CrashReport:
    """See crash_everywhere."""
    from wakeful.testing.crash import MOST_BOUNDARIES, called, refuse_nothing, scenario_of

    if not isinstance(app, str):
        message = f"processes=True: pass app {app.name} as file.py or module:app, because each process loads it itself"
        raise ConfigError(message)
    scenario = scenario_of(loaded(app), event, agent)
    async with new_stores(store, prepare) as new_store:
        with Nursery("wakeful.testing.killing:main") as nursery, tempfile.TemporaryDirectory() as folder:
            killing = Killing(app, scenario, nursery, Path(folder), deliver=deliver)

            async def one_case(but_not: Collection[str] | None) -> tuple[Boundary | None, CaseResult]:
                await called(reset)
                boundary, seen = await killing.one_case(await new_store(), but_not)
                seen.outside = copy.deepcopy(await called(observe))
                return boundary, seen

            _, baseline = await one_case(None)
            refuse_nothing(baseline, scenario.event)
            report = CrashReport(baseline)
            while len(report.crashes) < MOST_BOUNDARIES:
                boundary, seen = await one_case(report.keys)
                if boundary is None:
                    return report
                report.add(boundary, seen, outputs=outputs)
    message = f"more than {MOST_BOUNDARIES:,} boundaries: does the agent ever finish?"
    raise AssertionError(message)


class Killing:
    """Runs one process that handles an event and dies, and another one that takes over."""

    def __init__(self, app: str, scenario: Scenario, nursery: Nursery, folder: Path, *, deliver: bool) -> None:
        self._app = app
        self._happening = scenario
        self._nursery = nursery
        self._folder = folder
        self._deliver = deliver
        self._cases = 0

    async def one_case(self, store: str, but_not: Collection[str] | None) -> tuple[Boundary | None, CaseResult]:
        self._cases += 1
        deeds = self._folder / f"deeds-{self._cases}"
        plan = {
            "app": self._app,
            "store": store,
            "event": to_envelope(self._happening.event),
            "agent": self._happening.agent,
            "deeds": str(deeds),
            "deliver": self._deliver,
        }
        clock = VirtualClock()
        where, accepted = await self._live({**plan, "now": clock.now(), "but_not": but_not, "accepted": False})
        if where:
            await self._live({**plan, "now": where["now"], "but_not": None, "accepted": accepted})
        database = open_database(store, clock)
        await database.open(migrate=False)
        try:
            reader = Reader(database)
            runs, events = await read_runs(reader), await read_events(reader)
        finally:
            await database.close()
        boundary = Boundary(**where["boundary"]) if where else None
        return boundary, CaseResult({run["id"]: run for run in runs}, Deeds(deeds).all(), events=events)

    async def _live(self, plan: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Run one process to its end; returns the boundary at which it died, and whether the event was accepted by
        then.
        """
        async with self._nursery.bear(plan, self._folder) as child:
            code = await child.ends()
            if code != (KILLED if child.where else 0):
                message = f"{self._app}: the process ended with {code}"
                raise AssertionError(message)
            return child.where, bool(child.said("accepted"))


def main(plan: dict[str, Any]) -> None:
    """The function of a child process."""
    asyncio.run(handle(plan))


async def handle(plan: dict[str, Any]) -> None:
    say = Voice(plan["case"]).say
    clock = VirtualClock(plan["now"])
    boundaries: list[Boundaries] = []

    def probe(point: str, requests: Sequence[Any]) -> None:
        for one in boundaries:
            one(point, requests)

    def reached(boundary: Boundary) -> None:
        say("at the boundary", now=clock.now(), boundary=boundary.to_json())

    deeds = Deeds(Path(plan["deeds"]))
    async with World(
        loaded(plan["app"]), store=plan["store"], clock=clock, probe=probe, deeds=deeds, deliver=plan["deliver"]
    ) as world:
        await world.drain(skip=False)
        boundaries.append(Boundaries(but_not=plan["but_not"], reached=reached))
        if not plan["accepted"]:
            await world.accept(from_envelope(plan["event"]), agent=plan["agent"])
            say("accepted")
        await world.drain()
        boundaries.clear()


def loaded(text: str) -> App:
    """The app that a child process is given by name."""
    return cast("App", load_app(text))
