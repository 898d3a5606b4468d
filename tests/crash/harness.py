"""Real processes for the crash tests, and a look at what they leave behind.

Children print JSON lines, `{"says": "accepted", ...}`; a test waits for a line, for a row, or for the end of a process,
never for time to pass. Each child is ended by its own id when the test is over, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw
import asyncpg
from pydantic_core import from_json

from crash.children.plan import Plan
from crash.children.waiting import PATIENCE, until
from wakeful.settings import sqlite_path

TESTS = Path(__file__).parents[1]
WAITING_FOR_A_LOCK = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
KILLED = -signal.SIGKILL
AT_ONCE = 6

T = TypeVar("T")


class Nursery:
    """Where children come from; see children/nursery.py. One for all tests of this process."""

    def __init__(self) -> None:
        self._cases = itertools.count(1)
        self._lines: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.children.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then end us
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def child(self, plan: Plan) -> Child:
        """A process that carries out a plan, for as long as a block lasts."""
        plan.case = next(self._cases)
        plan.log = str(Path(plan.counter).with_name(f"child-{plan.case}.log"))
        return Child(plan, self._lines[plan.case], self._tell)

    async def carry_out(self, plan: Plan) -> tuple[int, list[dict[str, Any]]]:
        """Let a process carry out a plan to its end; its exit code, and what it said."""
        async with self.child(plan) as child:
            return await child.ends(), child.lines

    def _tell(self, plan: Plan) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(plan.to_text().encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = from_json(line)
            self._lines[said["case"]].append(said)


class Child:
    """A process with a plan. It is ended by its own id when the block is over, however that ends."""

    def __init__(self, plan: Plan, lines: list[dict[str, Any]], tell: Callable[[Plan], None]) -> None:
        self._plan = plan
        self._lines = lines
        self._tell = tell
        self.pid = 0

    async def __aenter__(self) -> Self:
        self._tell(self._plan)
        self.pid = (await self.says("born"))["pid"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, asyncio.CancelledError):
            error.add_note(self.story())
        if not self.said("ended"):
            self.kill()
            await self.says("ended")

    @property
    def lines(self) -> list[dict[str, Any]]:
        return list(self._lines)

    @property
    def log(self) -> str:
        """What it wrote to its log."""
        path = Path(self._plan.log)
        return path.read_text(errors="replace") if path.exists() else ""

    def story(self) -> str:
        """For people, when something went wrong."""
        tail = "\n".join(self.log.splitlines()[-15:])
        return f"child {self._plan.case} (process {self.pid}) said: {self._lines[-8:]}\nits log ends:\n{tail}"

    def said(self, what: str) -> list[dict[str, Any]]:
        """All lines of this kind so far."""
        return [line for line in self._lines if line["says"] == what]

    async def says(self, what: str, *, times: int = 1, within: float = PATIENCE) -> dict[str, Any]:
        """Wait until it has said this, so many times in all; the last of those lines."""
        await until(lambda: len(self.said(what)) >= times or self.said("ended"), within=within)
        found = self.said(what)
        assert len(found) >= times, f"it ended without saying {what!r} {times} times"
        return found[times - 1]

    @property
    def where(self) -> dict[str, Any]:
        """The boundary at which it was told to stop or die, if it came there."""
        return next(iter(self.said("at the boundary")), {})

    async def comes_to_its_boundary(self) -> bool:
        """Wait until it has stopped itself where it was told to. False if it ended without coming there."""
        await until(lambda: self.where or self.said("ended"))
        if self.where:
            await self.is_stopped()
        return bool(self.where)

    async def is_stopped(self) -> None:
        """Wait until SIGSTOP has taken hold of it."""
        await until(lambda: state_of(self.pid) == "T")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ends(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        return int((await self.says("ended"))["code"])

    async def stops(self) -> None:
        """Ask it to stop in an orderly way, and wait until it has."""
        self.signal(signal.SIGTERM)
        assert await self.ends() == 0


async def a_few_at_once(cases: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of many cases, of which a few run beside each other. The first that fails ends all."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(case: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await case

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(case)) for case in cases]
    return [task.result() for task in tasks]


def state_of(pid: int) -> str:
    """R, S, T, Z, as in /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


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
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.url)
        return [tuple(row) for row in await self._connection.fetch(sql)]

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
            tables = await self.query("select tablename from pg_tables where schemaname = 'public'")
            names = ", ".join(name for (name,) in tables if name != "wakeful_migration")
            await self.query(f"truncate {names} restart identity")
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
