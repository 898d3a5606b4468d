"""A fleet under test: its workers, the gate of each, what is counted outside, and what is in the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crash.children.workload import SOURCE, Counter
from crash.harness import Place
from fleet.children.workload import build_fleet
from support.command_line import CommandLine
from wakeful.testing import children
from wakeful.testing.children import ChildProcess
from wakeful.testing.waiting import until

TESTS = Path(__file__).parents[1]
OLDER = str(TESTS / "fleet" / "children" / "older.py")
NEWER = str(TESTS / "fleet" / "children" / "newer.py")


class Nursery(children.Nursery):
    def __init__(self) -> None:
        super().__init__("fleet.children.worker:main", path=[str(TESTS)])


class Fleet:
    def __init__(self, place: Place, nursery: Nursery) -> None:
        self.place = place
        self.counter = Counter(place.counter)
        self._nursery = nursery

    def gate(self, name: str) -> Path:
        """A folder: whoever has this gate waits at it, until a file in it is called as the event."""
        folder = self.place.folder / f"gate-{name}"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def open_gate(self) -> Path:
        gate = self.place.folder / "open"
        gate.touch()
        return gate

    def worker(
        self,
        app: str = OLDER,
        *,
        gate: Path | None = None,
        store: str | None = None,
        in_flight: int = 64,
        grace: str = "10s",
        lease: float = 4.0,
        timeout: float = 1.0,
        namespace: str | None = None,
    ) -> ChildProcess:
        """A worker, for as long as a block lasts."""
        plan = {
            "words": ["worker", app, "--in-flight", str(in_flight), "--grace", grace, "--log-format", "json"],
            "environment": self._environment(gate, store),
            "lease": lease,
            "timeout": timeout,
            "namespace": namespace,
        }
        return self._nursery.bear(plan, self.place.folder)

    def command(self, *words: str, gate: Path | None = None) -> CommandLine:
        """The same, as the command that a person types."""
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        environment = {**self._environment(gate, None), "PYTHONPATH": path}
        return CommandLine(*words, folder=self.place.folder, env=environment)

    def _environment(self, gate: Path | None, store: str | None) -> dict[str, str]:
        return {
            "WAKEFUL_STORE": store or self.place.url,
            "FLEET_COUNTER": str(self.place.counter),
            "FLEET_GATE": str(gate or self.open_gate),
        }

    async def emit(self, *events: tuple[str, str, Any]) -> None:
        """Send events from this process, which does not work."""
        app = build_fleet(self.place.url, self.counter, self.open_gate)
        async with app.running(worker=False):
            for kind, identifier, data in events:
                await app.emit(kind, data, id=identifier, source=SOURCE)

    # what is counted outside

    def who(self, event: str, name: str) -> list[int]:
        """The processes in which this happened for an event, in order; a name may go on after a dot."""
        return [
            pid
            for one, what, pid in self.counter.lines()
            if one == event and (what == name or what.startswith(f"{name}."))
        ]

    def operations(self, event: str) -> set[str]:
        """The operations under which the service outside was reached."""
        return {what.partition(".")[2] for one, what, _ in self.counter.lines() if one == event and "." in what}

    async def have_come(self, name: str, events: list[str], pid: int | None = None) -> None:
        """Wait until this happened for all of these events, in a process or in any."""
        await until(lambda: all((pid in who) if pid else who for who in (self.who(event, name) for event in events)))

    # what is stored

    async def identity(self, worker: ChildProcess) -> str:
        """The process that a worker joined as, the last time."""

        async def joined() -> str | None:
            rows = await self.place.query(
                f"select id from wakeful_process where pid = {worker.pid} order by started_at desc limit 1"
            )
            return rows[0][0] if rows else None

        return str(await until(joined))

    async def lease_of(self, process: str) -> int:
        """When its lease ran out, or will, by the database's clock."""
        ((lease,),) = await self.place.query(f"select lease_until from wakeful_process where id = '{process}'")
        return int(lease)

    async def claimed_after(self, moment: int) -> bool:
        """Was every run that is not with its first owner any more taken over later than this?"""
        rows = await self.place.query("select claimed_at from wakeful_run where token > 1")
        return bool(rows) and all(claimed >= moment for (claimed,) in rows)

    async def are(self, **states: int) -> bool:
        return await self.place.states() == states

    async def come_to(self, **states: int) -> None:
        """Wait until the runs are in these states, and no others."""
        await until(lambda: self.are(**states))
