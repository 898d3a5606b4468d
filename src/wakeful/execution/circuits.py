"""Circuits: all processes together leave a dependency alone for a while when it fails again and again.

    closed ── N failures in a row ──► open ── after its rest ──► probing ── the probe succeeded ──► recovering
      ▲                                ▲ ▲                          │                                 │  │
      │                                │ └─ failed: twice the rest ─┘  (up to `most`)                 │  │
      │                                └───────────── a failure: twice the rest ──────────────────────┘  │
      └────────────────── no run is parked any more: they came back 1, 2, 4, 8 … at a time ──────────────┘

While the circuit is not closed, runs that need it are parked: put away without using up an attempt. One run goes
through as the probe. The row in the store is the truth, and every transition is a function of that row (below).
`Circuits` keeps a copy, so that a healthy dependency costs no query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from wakeful.clock import SECOND, Duration, Microseconds, duration, readable, seconds, written
from wakeful.clock import to_second as time_text
from wakeful.errors import ConfigError, RateLimited, did_you_mean
from wakeful.failures import classify, http_status
from wakeful.service import Service
from wakeful.stored_errors import words_of
from wakeful.stores.verbs.circuits import (
    CHANNEL,
    ChangeCircuit,
    CircuitChange,
    CircuitChanged,
    StoredCircuit,
    circuits_of,
    closed,
    recovers,
)

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

LOOK_ANYWAY_EVERY = 300.0  # beside the lookout, which looks every few seconds
LONGEST_REST: Microseconds = 300 * SECOND
SHORTEST: Microseconds = SECOND // 1000
ERROR_SHOWN = 400
MOST_AT_ONCE = 3
ON_ITS_WAY = frozenset({"ready", "running", "waiting"})
OPTIONS = ("failures", "rest", "interval", "most")


class Circuit:
    """How one dependency is treated: `failures` in a row open its circuit, `rest` is the time before the first probe,
    `interval` the time between two groups of returning runs, and `most` the longest rest between two probes.

    >>> Circuit(failures=3, rest="1m")
    Circuit(failures=3, rest='1m', interval='10s', most='5m')
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        rest: Duration = "30s",
        interval: Duration = "10s",
        most: Duration | None = None,
        **unknown: Any,
    ) -> None:
        for option in unknown:
            message = f'Circuit: unknown option "{option}".{did_you_mean(option, OPTIONS)}'
            raise ConfigError(message)
        if not isinstance(failures, int) or isinstance(failures, bool) or failures < 1:
            message = f"Circuit: failures must be a whole number from 1 up, not {failures!r}"
            raise ConfigError(message)
        self.failures = failures
        self.rest = _span("rest", rest)
        self.interval = _span("interval", interval)
        self.most = max(LONGEST_REST, self.rest) if most is None else _span("most", most)
        if self.most < self.rest:
            message = (
                f"Circuit: most={most!r} is shorter than rest={rest!r}: the rest doubles from `rest` up to `most`. "
                f"Write most={rest!r} or longer"
            )
            raise ConfigError(message)
        self._given = (rest, interval, written(self.most) if most is None else most)

    def __repr__(self) -> str:
        rest, interval, most = self._given
        return f"Circuit(failures={self.failures}, rest={rest!r}, interval={interval!r}, most={most!r})"


def _span(name: str, value: Duration) -> Microseconds:
    try:
        span = duration(value)
    except (TypeError, ValueError) as error:
        message = f"Circuit: {name}: {error}"
        raise ConfigError(message) from None
    if span < SHORTEST:
        message = f"Circuit: {name} must be at least 1ms, not {value!r}"
        raise ConfigError(message)
    return span


def read_circuits(given: Any, *, where: str) -> dict[str, Circuit]:
    """Check the circuits of `App(…, circuits=…)`: settings by the name of the dependency."""
    if not isinstance(given, Mapping):
        message = f'{where}: circuits must be names and settings, like {{"stripe": Circuit(failures=5)}}, not {given!r}'
        raise ConfigError(message)
    for name, circuit in given.items():
        if not isinstance(name, str) or not name:
            message = (
                f"{where}: circuits: {name!r} is not the name of a dependency: it is a text, as in @step(dependency=…)"
            )
            raise ConfigError(message)
        if not isinstance(circuit, Circuit):
            message = f"{where}: circuits: {name} must be a Circuit(…), not {circuit!r}"
            raise ConfigError(message)
    return dict(given)


# the transitions: pure


def failed(circuit: StoredCircuit, settings: Circuit, *, run: int, error: str) -> CircuitChange:
    """A call failed. While the circuit is open this is nothing new; while it is probing only the probe's result counts."""
    if circuit.state == "open" or (circuit.state == "probing" and circuit.probe_seq != run):
        return CircuitChange(circuit)
    failures = circuit.failures + 1
    if circuit.state == "closed" and failures < settings.failures:
        return CircuitChange(replace(circuit, failures=failures, error=error, changed_at=circuit.now))
    opened = opened_again(circuit, settings, failures=failures, error=error)
    times = f"{settings.failures} failures in a row" if circuit.state == "closed" else f"{failures} failures"
    alarm = (
        f"circuit {circuit.name} is open after {times}, the last: {error}. It has been down since {time_text(opened.opened_at)}; "
        f"runs that need it are parked and lose nothing. One of them tries again at {time_text(opened.next_at)}, and then "
        f"at least every {readable(settings.most)}; all of them continue by themselves once it answers"
    )
    return CircuitChange(opened, alarm=alarm)


def opened_again(circuit: StoredCircuit, settings: Circuit, *, failures: int, error: str) -> StoredCircuit:
    """Open the circuit, or keep it open: the rest doubles up to its limit, and the time since which it is open stays."""
    rest = settings.rest if circuit.state == "closed" else min(circuit.rest * 2, settings.most)
    return replace(
        circuit,
        state="open",
        failures=failures,
        error=error,
        rest=rest,
        next_at=circuit.now + rest,
        released=0,
        probe_seq=None,
        changed_at=circuit.now,
        opened_at=circuit.opened_at or circuit.now,
    )


def channel_failed(circuit: StoredCircuit, settings: Circuit, *, error: str) -> CircuitChange:
    """A delivery failed. Only one process at a time owns a channel and its first message is the probe, so none is
    chosen.
    """
    failures = circuit.failures + 1
    if circuit.state == "closed" and failures < settings.failures:
        return CircuitChange(replace(circuit, failures=failures, error=error, changed_at=circuit.now))
    opened = opened_again(circuit, settings, failures=failures, error=error)
    if circuit.state != "closed":
        return CircuitChange(opened)
    channel = circuit.name.removeprefix(CHANNEL)
    alarm = (
        f"channel {channel} has accepted no deliveries since {time_text(opened.opened_at)}: {failures} failures in a row, the last: "
        f"{error}. Deliveries wait in their order. The first is retried at {time_text(opened.next_at)}, and then at least every "
        f"{readable(settings.most)}; all are delivered automatically once it works"
    )
    return CircuitChange(opened, alarm=alarm)


def channel_worked(circuit: StoredCircuit) -> CircuitChange:
    """A delivery succeeded: the channel works again."""
    if circuit.state == "closed" and not circuit.failures:
        return CircuitChange(circuit)
    return CircuitChange(replace(closed(circuit), error=None))


def worked(circuit: StoredCircuit, *, run: int) -> CircuitChange:
    """A call was answered. A success that began before the circuit opened does not count."""
    if circuit.state == "closed" and circuit.failures:
        return CircuitChange(replace(circuit, failures=0, error=None, changed_at=circuit.now))
    if circuit.state == "probing" and circuit.probe_seq == run:
        return recovers(circuit)
    return CircuitChange(circuit)


def asked(circuit: StoredCircuit, *, run: int) -> CircuitChange:
    """A run wants to call the dependency. If the rest is over and no run is parked before it, this run is the probe."""
    if circuit.state == "open" and not circuit.parked and is_due(circuit):
        return CircuitChange(probing(circuit, run))
    return CircuitChange(circuit)


def probing(circuit: StoredCircuit, run: int | None = None) -> StoredCircuit:
    """Choose the probe. A probe that does not reach the call within one rest is given up."""
    return replace(circuit, state="probing", probe_seq=run, next_at=circuit.now + circuit.rest, changed_at=circuit.now)


def ticked(circuit: StoredCircuit, settings: Circuit) -> CircuitChange:
    """What is due by now: a probe, another probe if the first did not finish, the next group of runs, or closing."""
    match circuit.state:
        case "open" if is_due(circuit):
            return CircuitChange(probing(circuit), 1, probes=True, reason=f"probes circuit {circuit.name}")
        case "probing" if is_due(circuit) or circuit.probe_state not in ON_ITS_WAY:
            if circuit.parked:
                return CircuitChange(probing(circuit), 1, probes=True, reason=f"probes circuit {circuit.name}")
            waiting = replace(
                circuit, state="open", next_at=circuit.now, probe_seq=None, changed_at=circuit.now
            )  # the next run that needs it becomes the probe
            return CircuitChange(waiting)
        case "recovering" if not circuit.parked:
            return CircuitChange(closed(circuit))
        case "recovering" if is_due(circuit):
            most = max(1, circuit.released * 2)
            more = replace(circuit, released=most, next_at=circuit.now + settings.interval)
            return CircuitChange(more, most, reason=f"circuit {circuit.name} recovers")
        case "closed" if circuit.parked:  # safety net: no run may stay parked behind a closed circuit
            return recovers(circuit)
        case _:
            return CircuitChange(circuit)


def is_due(circuit: StoredCircuit) -> bool:
    return circuit.next_at is None or circuit.next_at <= circuit.now


def lets_through(circuit: StoredCircuit, run: int) -> bool:
    return circuit.state in {"closed", "recovering"} or (circuit.state == "probing" and circuit.probe_seq == run)


def why_parked(circuit: StoredCircuit) -> str:
    """The reason shown for a parked run."""
    return f"circuit {circuit.name} is open: {circuit.error or 'it failed too often'}"


def verdict(error: BaseException) -> Literal["failed", "worked"] | None:
    """What an error says about the dependency: it is down, or it answered with a refusal. None: nothing."""
    failure = classify(error).failure
    if failure == "transient":
        return "failed"
    if isinstance(error, RateLimited) or http_status(error) is not None:
        return "worked"
    return None


# the copy in each process


@dataclass(frozen=True, slots=True)
class CircuitOpen:
    """A dependency that must not be called now, and the reason."""

    dependency: str
    reason: str


class Circuits(Service):
    """The circuits of an app, as this process knows them. `run_once` reads all of them and does what is due."""

    name = "circuits"

    def __init__(
        self, app: str, settings: Mapping[str, Circuit], store: DatabaseStore, *, time_passes: bool = True
    ) -> None:
        super().__init__()
        self._app = app
        self._settings = settings
        self._store = store
        self._time_passes = time_passes  # False under a virtual clock: the test that moves it says when to look
        self._copies: dict[str, StoredCircuit] = {}

    def settings_of(self, name: str) -> Circuit:
        return self._settings.get(name) or DEFAULT

    async def ask(self, name: str, run: int) -> CircuitOpen | None:
        """Whether this run may call the dependency: None if so. The copy answers while all is well, else the row does."""
        known = self._copies.get(name)
        if known is None or known.state == "closed":
            return None
        circuit = (await self._change(name, partial(asked, run=run))).circuit
        return None if lets_through(circuit, run) else CircuitOpen(name, why_parked(circuit))

    async def report(self, name: str, run: int, error: BaseException | None) -> CircuitOpen | None:
        """Record how a call ended. Returns CircuitOpen if the run must be parked: it opened the circuit, or failed while open."""
        said = "worked" if error is None else verdict(error)
        if said is None or (said == "worked" and name not in self._copies):
            return None
        if said == "worked":
            await self._change(name, partial(worked, run=run))
            return None
        words = "" if error is None else f"{type(error).__name__}: {words_of(error).splitlines()[0]}"[:ERROR_SHOWN]
        change = partial(failed, settings=self.settings_of(name), run=run, error=words)
        before = self._copies.get(name)
        circuit = (await self._change(name, change)).circuit
        if circuit.state == "open" and (before is None or before.state != "open"):
            self.log.error(
                "a circuit is open", circuit=name, error=words, rests=readable(circuit.rest), failures=circuit.failures
            )
        return CircuitOpen(name, why_parked(circuit)) if circuit.state in {"open", "probing"} else None

    async def report_channel(
        self, channel: str, error: BaseException | None, *, failed_before: bool = False
    ) -> StoredCircuit | None:
        """Record how a delivery ended. Returns the circuit of its channel if that is open now."""
        name = f"{CHANNEL}{channel}"
        if error is None:
            if failed_before or name in self._copies:
                await self._change(name, channel_worked)
            return None
        words = f"{type(error).__name__}: {words_of(error).splitlines()[0]}"[:ERROR_SHOWN]
        circuit = (
            await self._change(name, partial(channel_failed, settings=self.settings_of(name), error=words))
        ).circuit
        return circuit if circuit.state == "open" else None

    @property
    def knows_of_trouble(self) -> bool:
        """Whether this process knows of a circuit with failures."""
        return bool(self._copies)

    async def tick(self) -> bool:
        """Read all circuits and do what is due. Returns whether runs came back."""
        came_back = False
        for circuit in await self.refresh():
            settings = self.settings_of(circuit.name)
            if ticked(circuit, settings).circuit == circuit or (circuit.state == "open" and not circuit.parked):
                continue  # rested long enough with no run parked: waits for the next run that needs it
            for _ in range(MOST_AT_ONCE):  # one transition may make the next one due at once
                changed = await self._change(circuit.name, partial(ticked, settings=settings))
                came_back = came_back or changed.came_back > 0
                if changed.came_back or not changed.changed:
                    break
        return came_back

    async def refresh(self) -> list[StoredCircuit]:
        """Read the rows again and replace the copies."""
        found = await circuits_of(self._store.database, self._app)
        self._copies = {circuit.name: circuit for circuit in found}
        return found

    async def run_once(self) -> float | None:
        if not self._time_passes:
            await self.refresh()
            return None
        await self.tick()
        waits = [
            max(0.0, seconds(circuit.next_at - circuit.now)) + 0.001
            for circuit in self._copies.values()
            if circuit.next_at is not None and circuit.next_at > circuit.now
        ]
        return min([LOOK_ANYWAY_EVERY, *waits])

    async def _change(self, name: str, change: Any) -> CircuitChanged:
        rest = self.settings_of(name).rest
        changed = await self._store.do(ChangeCircuit(self._app, name, rest, change))
        circuit, before = changed.circuit, self._copies.get(name)
        if circuit.state == "closed" and not circuit.failures:
            self._copies.pop(name, None)
        else:
            self._copies[name] = circuit
        if changed.changed and before is not None and before.state != circuit.state:
            self.log.info("a circuit changed", circuit=name, was=before.state, now=circuit.state)
        if changed.changed:
            self.wake()
        return changed


DEFAULT = Circuit()
