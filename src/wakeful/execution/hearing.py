"""News from other processes: runs became ready, something changed, a run ended, a process joined. Wakes the parts
concerned.
"""

from __future__ import annotations

from typing import Any, Protocol

from wakeful.execution.circuits import Circuits
from wakeful.execution.lookout import Lookout, is_soon
from wakeful.execution.reaper import Reaper
from wakeful.execution.results import RunResults
from wakeful.execution.worker import Worker
from wakeful.stores.glance import Glance
from wakeful.stores.request import Ready


class Wakeable(Protocol):
    """A part that rests until it is woken."""

    def wake(self) -> None: ...


class Deliveries(Protocol):
    """The part that delivers."""

    def wake(self, channels: Any = None) -> None: ...


class HeldSources(Protocol):
    """The sources, each of which is read by one process."""

    def hold_again(self, held: Any, /) -> None: ...


class Hearing:
    """Receives news from other processes through the database."""

    def __init__(
        self,
        app: str,
        database: Any,
        *,
        worker: Worker,
        reaper: Reaper,
        circuits: Circuits,
        results: RunResults,
        courier: Deliveries,
        scheduler: Wakeable,
        teller: Wakeable,
        rechecker: Wakeable | None,
        sources: HeldSources,
        policies: Wakeable,
        people: Wakeable,
        time_passes: bool,
    ) -> None:
        self._app = app
        self._database = database
        self._worker = worker
        self._reaper = reaper
        self._circuits = circuits
        self._results = results
        self._courier = courier
        self._scheduler = scheduler
        self._teller = teller
        self._rechecker = rechecker
        self._sources = sources
        self._policies = policies
        self._people = people
        self._time_passes = time_passes
        self.lookout: Lookout | None = None  # it reports to this part, and is woken by it

    async def start(self) -> None:
        """Begin to wake the parts."""
        self.hear()
        listener = getattr(self._database, "listener", None)
        if listener is not None:
            listener.start()

    def hear(self) -> None:
        """Register for news from the database, as far as it has callbacks for them."""
        database = self._database
        listener = getattr(database, "listener", None)
        if listener is None:
            database.on_change = lambda: self.look(Ready())
        else:
            listener.on_ready, listener.on_results = self.look, self._results.hear

    async def listen_for_results(self) -> None:
        """Listen only for runs that end in other processes: for a process that is connected to the store but does not
        work.
        """
        database = self._database
        listener = getattr(database, "listener", None)
        if listener is None:
            database.on_change = self._results.wake
            return
        listener.on_results = self._results.hear
        listener.on_ready = lambda ready: None if ready.agents else self._results.wake()
        listener.start()

    def look(self, ready: Ready) -> None:
        """Another process made something ready, changed something, or joined. If it does not say for which agents, one
        look of the lookout finds the parts concerned: with many agents that is much cheaper than a look of every part.
        """
        if ready.app not in {None, self._app}:
            return
        if ready.agents:
            self._worker.look(ready)
            return
        self._policies.wake()
        self._people.wake()
        if self._time_passes and self.lookout is not None:
            self.lookout.wake()
        else:  # under a virtual clock the lookout wakes only the worker: time stands still unless a test moves it
            self._worker.look(ready)
            self._courier.wake()
            self._circuits.wake()
            self._scheduler.wake()
            self._teller.wake()
        self._results.wake()
        self._worker.look_who_is_to_stop()
        if ready.app is not None:
            self._reaper.wake()

    def glanced(self, seen: Glance) -> None:
        """Wake the parts for which the lookout saw something that is due before its next look."""
        self._courier.wake([channel for channel, wait in seen.deliveries.items() if is_soon(wait)])
        if is_soon(seen.alarms):
            self._teller.wake()
        if is_soon(seen.schedules):
            self._scheduler.wake()
        if seen.circuits or self._circuits.knows_of_trouble:
            self._circuits.wake()
        if seen.waits and self._rechecker is not None:
            self._rechecker.wake()
        self._sources.hold_again(seen.held)
