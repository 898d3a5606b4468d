"""Real processes for the crash tests, by the kit in wakeful.testing, and a look at what they leave behind."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apsw
import asyncpg
from pydantic_core import from_json

from crash.children.plan import Plan
from wakeful.settings import sqlite_path
from wakeful.testing import children
from wakeful.testing.children import KILLED, ChildProcess, a_few_at_once
from wakeful.testing.places import emptying

TESTS = Path(__file__).parents[1]
WAITING_FOR_A_LOCK = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

__all__ = ["KILLED", "WAITING_FOR_A_LOCK", "ChildProcess", "Nursery", "Place", "a_few_at_once"]


class Nursery(children.Nursery):
    """Where our children come from. One for all tests of this process."""

    def __init__(self) -> None:
        super().__init__("crash.children.worker:main", path=[str(TESTS)])

    def child(self, plan: Plan) -> ChildProcess:
        """A process that carries out a plan, for as long as a block lasts."""
        return self.bear(asdict(plan), Path(plan.counter).parent)

    async def carry_out(self, plan: Plan) -> tuple[int, list[dict[str, Any]]]:
        """Let a process carry out a plan to its end; its exit code, and what it said."""
        async with self.child(plan) as child:
            return await child.ends(), child.lines


def query_sqlite(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(10_000)
        return list(connection.execute(sql))
    finally:
        connection.close()


@dataclass(frozen=True)
class StoredRun:
    id: str
    agent: str
    state: str
    reason: str | None
    attempts: int
    crashes: int
    envelope: str
    output_text: str | None
    error_text: str | None
    owner: str | None

    @property
    def cause(self) -> str:
        """The id of the event from outside that it goes back to."""
        event = from_json(self.envelope)
        return str(event.get("causationid") or event["id"])

    @property
    def output(self) -> Any:
        return None if self.output_text is None else from_json(self.output_text)

    @property
    def error(self) -> Any:
        return None if self.error_text is None else from_json(self.error_text)


class Place:
    """A store under test: its address, and what is in it."""

    def __init__(self, url: str, folder: Path, *, on_leave: Callable[[], None] = lambda: None) -> None:
        self._on_leave = on_leave
        self.url = url
        self.folder = folder
        self.counter = folder / "counter"
        self._connection: asyncpg.Connection[Any] | None = None

    @property
    def dialect(self) -> str:
        return "sqlite" if self.url.startswith("sqlite") else "postgres"

    def plan(self, **more: Any) -> Plan:
        return Plan(self.url, str(self.counter), **more)

    async def query(self, sql: str, *, after_a_crash: bool = False) -> list[tuple[Any, ...]]:
        """Rows. `after_a_crash`: nobody is connected, and looking must not repair what was left, so SQLite is copied."""
        path = sqlite_path(self.url)
        if path is None:
            return await self._query_postgres(sql)
        if not after_a_crash:
            return query_sqlite(path, sql)
        with tempfile.TemporaryDirectory(dir=self.folder) as copies:
            for file in (path, path.with_name(path.name + "-wal")):
                if file.exists():
                    shutil.copy(file, copies)
            return query_sqlite(Path(copies) / path.name, sql)

    async def _query_postgres(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await (await self._connected()).fetch(sql)]

    async def _connected(self) -> asyncpg.Connection[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.url)
        return self._connection

    @contextlib.asynccontextmanager
    async def no_steps_can_be_stored(self) -> AsyncIterator[None]:
        """Whoever wants to store a step waits, as long as this lasts."""
        path = sqlite_path(self.url)
        if path is None:
            blocker = await asyncpg.connect(self.url)
            try:
                async with blocker.transaction():
                    await blocker.execute("lock table wakeful_step in access exclusive mode")
                    yield
            finally:
                await blocker.close()
        else:
            connection = apsw.Connection(str(path))
            try:
                connection.set_busy_timeout(10_000)
                connection.execute("begin immediate")
                yield
            finally:
                connection.close()

    async def leave(self) -> None:
        """A case is over, and went well: its database may be used for another one."""
        if self.dialect == "postgres":
            connection = await self._connected()
            await connection.execute(await emptying(connection))
            await self.disconnect()
        self._on_leave()

    async def disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    def is_locked(self) -> bool:
        """Does somebody hold the lock of SQLite's one writer?"""
        path = sqlite_path(self.url)
        if path is None:
            return False
        connection = apsw.Connection(str(path))
        try:
            connection.execute("begin immediate")
        except apsw.BusyError:
            return True
        finally:
            connection.close()
        return False

    async def runs(self, **how: Any) -> list[StoredRun]:
        rows = await self.query(
            "select run.id, agent, run.state, run.reason, attempts, crashes, envelope, output, error, owner "
            "from wakeful_run run join wakeful_event event on event.seq = run.event_seq order by run.seq",
            **how,
        )
        return [StoredRun(*row) for row in rows]

    async def steps(self, **how: Any) -> list[tuple[StoredRun, str, str, list[Any]]]:
        """Each step: its run, its name without a number, its state and arguments."""
        runs = {run.id: run for run in await self.runs(**how)}
        rows = await self.query(
            "select run.id, name, step.state, arguments from wakeful_step step join wakeful_run run on run.seq = run_seq",
            **how,
        )
        return [
            (runs[run], name.partition("#")[0], state, from_json(arguments or "[]"))
            for run, name, state, arguments in rows
        ]

    async def states(self) -> dict[str, int]:
        """How many runs are in which state."""
        return dict(await self.query("select state, count(*) from wakeful_run group by state"))

    async def alarms(self) -> list[tuple[str, str, int]]:
        return await self.query("select key, text, count from wakeful_alarm order by key")

    async def processes(self) -> dict[str, str]:
        """Each process and its state."""
        return dict(await self.query("select id, state from wakeful_process"))

    async def everything(self, *, but: tuple[str, ...] = ()) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables."""
        if self.dialect == "sqlite":
            tables = await self.query("select name from sqlite_master where type = 'table' and name not like 'sqlite%'")
        else:
            tables = await self.query("select tablename from pg_tables where schemaname = 'public'")
        return {
            name: sorted(await self.query(f"select * from {name}"), key=repr) for (name,) in tables if name not in but
        }
