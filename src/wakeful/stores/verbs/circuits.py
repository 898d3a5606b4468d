"""Circuits: each change is one transition of one row, together with the parked runs that it releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from wakeful.clock import Microseconds
from wakeful.model import CircuitState, RunState
from wakeful.stores.alarm import Alarm, circuit_alarm, late_alarm
from wakeful.stores.judging import Judge
from wakeful.stores.request import ANYTHING, Audit, ByPerson, Others, Ready, Request
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import LeaveRun

# Prefix of a channel's name in the name of its circuit.
CHANNEL = "channel:"


@dataclass(frozen=True, slots=True)
class StoredCircuit:
    """The row of a dependency that is or was down, with the facts that decide its next state."""

    name: str
    state: CircuitState
    failures: int
    error: str | None
    rest: Microseconds
    next_at: Microseconds | None
    released: int
    probe_seq: int | None
    changed_at: Microseconds
    now: Microseconds  # the store's own time
    probe_state: RunState | None = None
    parked: bool = False  # runs are parked for it
    opened_at: Microseconds | None = None  # since when it has not been closed


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """The next state of a circuit, and how many parked runs to release, the oldest first. `probes`: the released run is the probe; if
    there is none to release, the circuit stays as it was.
    """

    circuit: StoredCircuit
    come_back: int = 0
    probes: bool = False
    reason: str | None = None
    alarm: str | None = None


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """The new state of a circuit, and how many runs were released."""

    circuit: StoredCircuit
    came_back: int
    changed: bool


@dataclass(slots=True)
class ChangeCircuit(Request[CircuitChanged]):
    """Change a circuit in one transaction: `change` is called with its row, which is locked. `rest` is used if the row is created
    now.
    """

    app: str
    name: str
    rest: Microseconds
    change: Judge[[StoredCircuit], CircuitChange]

    @property
    def patient(self) -> bool:
        return True

    def readies(self) -> Ready | None:
        return ANYTHING

    def alarming(self) -> bool:
        return True

    def tell(self, result: CircuitChanged, others: Others) -> None:
        others.all = others.all or result.changed


@dataclass(slots=True)
class CloseCircuit(ByPerson[CircuitChanged | None]):
    """Close a circuit because a person knows that the dependency works; no probe is needed. Parked runs are still released a few at a
    time. None if there is no such circuit.
    """

    app: str
    name: str

    carried_with: ClassVar[type[Request[CircuitChanged]]] = ChangeCircuit  # locks the same rows

    def audit(self, result: CircuitChanged | None) -> Audit | None:
        return None if result is None else Audit("circuit close", self.app, self.name, self.note)


def change_circuits(
    now: int | None, requests: Sequence[ChangeCircuit | CloseCircuit]
) -> Transaction[list[CircuitChanged | None]]:
    """In order of name, so that two processes cannot deadlock."""
    results: dict[int, CircuitChanged | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        results[number] = yield from _change(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _change(now: int | None, request: ChangeCircuit | CloseCircuit) -> Transaction[CircuitChanged | None]:
    """1. Lock the row, which the first failure creates. 2. Decide the next state. 3. Release parked runs; if a probe is needed, it is
    the first of them. 4. Store the state, and open or resolve the alarm.
    """
    place = (request.app, request.name)
    if isinstance(request, ChangeCircuit):
        yield "make_circuit", [(now, *place, request.rest)]
    yield "lock_circuit", [place]
    found = yield "find_circuit", [(now, *place)]
    if not found:
        return None
    before = circuit_of(found[0])
    change = request.change(before) if isinstance(request, ChangeCircuit) else closed_by_hand(before)
    after, freed = change.circuit, []
    if change.come_back:
        which = "unpark_probe" if change.probes else "unpark_runs"
        freed = yield which, [(now, *place, change.come_back, change.reason)]
    if change.probes:
        # No run is parked to be the probe: the next run that comes is the probe.
        after = replace(after, probe_seq=freed[0][0]) if freed else before
    if after != before:
        yield "save_circuit", [(*place, *_row(after))]
        yield from _tell(now, request, before, after, change)
    return CircuitChanged(after, came_back=len(freed), changed=after != before)


def _tell(
    now: int | None,
    request: ChangeCircuit | CloseCircuit,
    before: StoredCircuit,
    after: StoredCircuit,
    change: CircuitChange,
) -> Transaction[None]:
    channel = request.name.removeprefix(CHANNEL) if request.name.startswith(CHANNEL) else None
    # To a person, a channel that is down and one that is late are the same problem: one alarm.
    key = circuit_alarm(request.app, request.name) if channel is None else late_alarm(request.app, channel)
    if after.state == "closed" and before.state != "closed":
        yield from resolve_alarms(now, [key])
        if channel is not None:  # its first delivery need not wait any longer
            yield "hasten_deliveries", [(now, request.app, channel)]
    elif after.state == "open" and before.state != "open" and change.alarm is not None:
        yield from open_alarms(now, [Alarm(request.app, key, change.alarm)])


def closed_by_hand(circuit: StoredCircuit) -> CircuitChange:
    """A circuit that is closed or recovering stays as it is."""
    return recovers(circuit) if circuit.state in {"open", "probing"} else CircuitChange(circuit)


def recovers(circuit: StoredCircuit) -> CircuitChange:
    """The dependency works again: release parked runs a few at a time, or close the circuit if there are none."""
    if not circuit.parked:
        return CircuitChange(closed(circuit))
    back = replace(circuit, state="recovering", next_at=circuit.now, released=0, probe_seq=None, changed_at=circuit.now)
    return CircuitChange(back)


def closed(circuit: StoredCircuit) -> StoredCircuit:
    return replace(
        circuit,
        state="closed",
        failures=0,
        next_at=None,
        released=0,
        probe_seq=None,
        changed_at=circuit.now,
        opened_at=None,
    )


def closed_meanwhile(requests: Sequence[LeaveRun]) -> Transaction[dict[int, str]]:
    """Runs that would be parked for nothing, because their circuit was closed meanwhile: why they are ready instead, by seq."""
    parking = [
        (one.claim.seq, one.parked_for) for one in requests if one.state == "parked" and one.parked_for is not None
    ]
    if not parking:
        return {}
    shut = yield "not_closed", sorted({place for _, place in parking})
    down = {(row[0], row[1]) for row in shut}
    return {seq: f"circuit {place[1]} closed meanwhile" for seq, place in parking if place not in down}


def note_parked(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Store the circuit that each run is parked for."""
    rows = [(one.claim.seq, one.claim.token, one.parked_for[1]) for one in requests if one.parked_for is not None]
    if rows:
        yield "note_parked", rows


def circuit_of(row: Row) -> StoredCircuit:
    """From a row of `find_circuit` or `circuits_of_app`."""
    return replace(StoredCircuit(*row), parked=bool(row[11]))


def _row(circuit: StoredCircuit) -> tuple[object, ...]:
    return (
        circuit.state,
        circuit.failures,
        circuit.error,
        circuit.rest,
        circuit.next_at,
        circuit.released,
        circuit.probe_seq,
        circuit.changed_at,
        circuit.opened_at,
    )


async def circuits_of(database: Fetcher, app: str) -> list[StoredCircuit]:
    """The circuits of an app."""
    rows = await database.fetch("circuits_of_app", database.read_clock(), app)
    return [circuit_of(row) for row in rows]
