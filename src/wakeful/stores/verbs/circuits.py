"""Circuits: one transition of one row, whichever it is, with the runs that it lets come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from wakeful.clock import Microseconds
from wakeful.model import CircuitState, RunState
from wakeful.stores.alarm import Alarm, circuit_alarm, late_alarm
from wakeful.stores.request import ANYTHING, Audit, ByPerson, Others, Ready, Request
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import LeaveRun

# Before the name of a channel: the name of its circuit.
CHANNEL = "channel:"


@dataclass(frozen=True, slots=True)
class StoredCircuit:
    """The row of a dependency that is, or was, down; and what its next state depends on."""

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
    parked: bool = False  # does anybody wait for it?
    opened_at: Microseconds | None = None  # since when it is not closed


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """What is to become of a circuit: its next state, and how many parked runs come back with it, the oldest first.
    `probes`: the one that comes back is to try; without one the circuit stays as it was.
    """

    circuit: StoredCircuit
    come_back: int = 0
    probes: bool = False
    reason: str | None = None
    alarm: str | None = None


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """How a circuit stands now, and how many runs came back."""

    circuit: StoredCircuit
    came_back: int
    changed: bool


@dataclass(slots=True)
class ChangeCircuit(Request[CircuitChanged]):
    """Whatever happens to a circuit, as one transition: `change` is asked while its row is locked, as it is then. `rest` is
    for one that is made now.
    """

    app: str
    name: str
    rest: Microseconds
    change: Callable[[StoredCircuit], CircuitChange]

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
    """A person knows that a dependency works again: no probe is waited for. Those that are parked come back a few at a time
    all the same. None comes back when there is no such circuit.
    """

    app: str
    name: str

    carried_with: ClassVar[type[Request[CircuitChanged]]] = ChangeCircuit  # it locks the same rows

    def audit(self, result: CircuitChanged | None) -> Audit | None:
        return None if result is None else Audit("circuit close", self.app, self.name, self.note)


def change_circuits(
    now: int | None, requests: Sequence[ChangeCircuit | CloseCircuit]
) -> Transaction[list[CircuitChanged | None]]:
    """In the order of their names, so that two processes never wait for each other in a circle."""
    results: dict[int, CircuitChanged | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        results[number] = yield from _change(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _change(now: int | None, request: ChangeCircuit | CloseCircuit) -> Transaction[CircuitChanged | None]:
    """1. Its row, made by the first failure, and locked. 2. What the request makes of it. 3. Those that may come back; the
    first of them is the probe, where there is to be one. 4. Store it, and tell people.
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
        # Nobody is there to try: then whoever comes next does.
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
    # A channel that is down and one that is late are one thing to a person, and one alarm.
    key = circuit_alarm(request.app, request.name) if channel is None else late_alarm(request.app, channel)
    if after.state == "closed" and before.state != "closed":
        yield from resolve_alarms(now, [key])
        if channel is not None:  # its first message need not wait any longer
            yield "hasten_deliveries", [(now, request.app, channel)]
    elif after.state == "open" and before.state != "open" and change.alarm is not None:
        yield from open_alarms(now, [Alarm(request.app, key, change.alarm)])


def closed_by_hand(circuit: StoredCircuit) -> CircuitChange:
    """One that is closed, or recovers, is left alone."""
    return recovers(circuit) if circuit.state in {"open", "probing"} else CircuitChange(circuit)


def recovers(circuit: StoredCircuit) -> CircuitChange:
    """It works again: runs come back a few at a time; without parked runs it is closed."""
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


def refuse_parking(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """A run whose circuit was closed in the meantime would wait for nothing: it is ready instead."""
    parking = [one for one in requests if one.state == "parked" and one.parked_for is not None]
    if not parking:
        return
    shut = yield "not_closed", sorted({one.parked_for for one in parking if one.parked_for is not None})
    down = {(row[0], row[1]) for row in shut}
    for one in parking:
        if one.parked_for not in down:
            name = "" if one.parked_for is None else one.parked_for[1]
            one.state, one.parked_for, one.reason = "ready", None, f"circuit {name} closed meanwhile"


def note_parked(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """What each of them waits for."""
    rows = [(one.claim.seq, one.claim.token, one.parked_for[1]) for one in requests if one.parked_for is not None]
    if rows:
        yield "note_parked", rows


def circuit_of(row: Row) -> StoredCircuit:
    """Out of a row of `find_circuit` or `circuits_of_app`."""
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
