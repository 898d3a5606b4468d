"""What is measured, how much of it, and where: the lines of the table, and the stores that they are measured on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.clock import SECOND
from wakeful.testing.postgres_server import PostgresServer


@dataclass(slots=True)
class Figure:
    """One line of the table."""

    name: str
    measured: str
    floor: str
    ratio: float | None
    bar: str
    aim: str
    met: bool | None
    note: str = ""


@dataclass(slots=True)
class Plan:
    """How much to measure."""

    seconds: float
    turns: int
    samples: int
    finished: int
    sleeping: int
    letters: int
    lease: int
    backlog: int  # events that wait to be drained
    keys: int
    sleepers: int
    waits: int
    schedules: int
    soak: float  # seconds
    changes: int = 100_000  # rows
    archived: int = 20_000  # runs
    approvals: int = 10_000
    counted: tuple[str, ...] = ()  # () means everything that can be counted
    pieces: int = 25  # of each
    before: Path | None = None  # another checkout, for a before and after in one run


# Many short turns: a machine that others share is fast and slow by the second.
FULL = Plan(
    seconds=2,
    turns=7,
    samples=200,
    finished=1_000_000,
    sleeping=100_000,
    letters=10_000,
    lease=15 * SECOND,
    backlog=1_000_000,
    keys=10_000,
    sleepers=10_000,
    waits=100_000,
    schedules=10_000,
    soak=60,
)
SMOKE = Plan(
    seconds=0.3,
    turns=1,
    samples=10,
    finished=2_000,
    sleeping=500,
    letters=300,
    lease=1 * SECOND,
    backlog=2_000,
    keys=100,
    sleepers=200,
    waits=500,
    schedules=200,
    soak=3,
    changes=1_000,
    archived=400,
    approvals=300,
    counted=("run", "claim"),
    pieces=3,
)


def code_of(checkout: Path | None) -> dict[str, str]:
    """The environment of a process that works with the code of that checkout; None: with this one."""
    here = Path(__file__).resolve().parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str((checkout or here) / "src"), str(here)])}


class Places:
    """New stores to measure on, and processes of their own to measure in."""

    def __init__(self, plan: Plan, folder: Path, server: PostgresServer | None) -> None:
        self.plan = plan
        self.folder = folder
        self.server = server
        self._files = 0

    def sqlite(self) -> str:
        self._files += 1
        return f"sqlite:///{self.folder}/bench-{self._files}.db"

    def postgres(self) -> str:
        assert self.server is not None
        return self.server.dsn(asyncio.run(self.server.create_database()))

    def _both(self, sqlite: Any = None, postgres: Any = None) -> list[tuple[str, Callable[[], str], Any]]:
        """Each store there is, with something that goes with it."""
        stores: list[tuple[str, Callable[[], str], Any]] = [("SQLite", self.sqlite, sqlite)]
        return stores + ([("PostgreSQL", self.postgres, postgres)] if self.server else [])

    @staticmethod
    def _measured(module: str, *options: str, patience: float = 300, code: Path | None = None) -> dict[str, float]:
        """What a module of this package measures in a process of its own, perhaps of the code of another checkout: its last
        line, as JSON.
        """
        command = [sys.executable, "-m", f"bench.{module}", *options]
        environment = None if code is None else code_of(code)
        answer = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=patience, env=environment
        )
        found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
        return found
