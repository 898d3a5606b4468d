"""A circuit, closed by a person who knows that its dependency works again."""

from __future__ import annotations

from typing import Protocol

from wakeful.execution.circuits import DEFAULT, recovers
from wakeful.stores.base import ChangeCircuit, CircuitChange, CircuitChanged, RecordOperation, StoredCircuit


class Circuitry(Protocol):
    """Where circuits are stored."""

    async def change_circuit(self, request: ChangeCircuit, /) -> CircuitChanged: ...

    async def record_operation(self, request: RecordOperation, /) -> None: ...


async def close_circuit(
    store: Circuitry, app: str, name: str, *, operator: str, note: str | None = None
) -> StoredCircuit:
    """Do not wait for a probe. Those that are parked come back a few at a time all the same; how the circuit stands then."""
    changed = await store.change_circuit(ChangeCircuit(app, name, DEFAULT.rest, closed_by_hand))
    await store.record_operation(RecordOperation(operator, "circuit close", app, name, note))
    return changed.circuit


def closed_by_hand(circuit: StoredCircuit) -> CircuitChange:
    """One that is closed, or recovers, is left alone."""
    return recovers(circuit) if circuit.state in {"open", "probing"} else CircuitChange(circuit)
