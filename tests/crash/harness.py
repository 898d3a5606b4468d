"""Real processes for the crash tests, and a look at what they leave behind.

Children print JSON lines, `{"says": "accepted", ...}`; a test waits for a line, for a row, or for the end of a process,
never for time to pass. Each child is ended by its own id when the test is over, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import asyncpg
from pydantic_core import from_json

from crash.children.plan import Plan
from crash.children.waiting import PATIENCE, until
from wakeful.settings import sqlite_path

TESTS = Path(__file__).parents[1]
WAITING_FOR_A_LOCK = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


class Child:
    """A process that was started with a plan."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self._arguments = arguments
        self._log = log
        self._lines: list[dict[str, Any]] = []
        self._heard = asyncio.Condition()
        self._over = False
        self._process: asyncio.subprocess.Process
        self._reading: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "PYTHONWARNINGS": "default"},
                start_new_session=True,
            )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            # The whole group: a nursery may have a child of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What it wrote to its log."""
        return self._log.read_text(errors="replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        return list(self._lines)

    def said(self, what: str) -> list[dict[str, Any]]:
        """All lines of this kind so far."""
        return [line for line in self._lines if line["says"] == what]

    async def says(self, what: str, *, times: int = 1, within: float = PATIENCE) -> dict[str, Any]:
        """Wait until it has said this, so many times in all; the last of those lines."""
        try:
            async with asyncio.timeout(within), self._heard:
                await self._heard.wait_for(lambda: len(self.said(what)) >= times or self._over)
        except TimeoutError:
            raise disappointed(f"it did not say {what!r} within {within:g} s", self) from None
        found = self.said(what)
        if len(found) < times:
            raise disappointed(f"it ended without saying {what!r}", self)
        return found[times - 1]

    async def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()

    async def is_stopped(self, *, within: float = PATIENCE) -> None:
        """Wait until SIGSTOP has taken hold of it."""
        await until(lambda: state_of(self.pid) == "T", within=within)

    async def ends(self, *, within: float = PATIENCE) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        try:
            async with asyncio.timeout(within):
                code = await self._process.wait()
        except TimeoutError:
            raise disappointed(f"it did not end within {within:g} s", self) from None
        await self._reading
        return code

    async def stops(self) -> None:
        """Ask it to stop in an orderly way, and wait until it has."""
        self.signal(signal.SIGTERM)
        code = await self.ends()
        if code != 0:
            raise disappointed(f"it ended with {code} when asked to stop", self)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._heard:
                self._lines.append(from_json(line))
                self._heard.notify_all()
        async with self._heard:
            self._over = True
            self._heard.notify_all()


def worker(plan: Plan, log: Path) -> Child:
    return Child("crash.children.worker", plan.to_text(), log=log)


KILLED = -signal.SIGKILL


class Nursery:
    """Carries out one plan after the other, each in a process of its own."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._ended = 0

    async def start(self, plan: Plan) -> Case:
        case = Case(self._child, len(self._child.lines), len(self._child.log), self._ended)
        await self._child.tell(plan.to_text())
        self._ended += 1
        return case

    async def carry_out(self, plan: Plan) -> tuple[int, list[dict[str, Any]]]:
        """The exit code of the process, and what it said."""
        return await (await self.start(plan)).ends()


class Case:
    """One process of a nursery: what it says, from where the one before it has ended."""

    def __init__(self, child: Child, lines: int, log: int, ended: int) -> None:
        self._child = child
        self._lines = lines
        self._log = log
        self._before = ended
        self.where: dict[str, Any] = {}

    @property
    def lines(self) -> list[dict[str, Any]]:
        return self._child.lines[self._lines :]

    @property
    def log(self) -> str:
        return self._child.log[self._log :]

    def said(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["says"] == what]

    async def is_stopped(self) -> bool:
        """Wait until it has stopped itself at the boundary that it was told. False if it ended without coming there."""
        await until(lambda: self.said("at the boundary") or self.said("ended"))
        if not self.said("at the boundary"):
            return False
        self.where = self.said("at the boundary")[0]
        return bool(await until(lambda: state_of(self.where["pid"]) == "T"))

    def resume(self) -> None:
        os.kill(self.where["pid"], signal.SIGCONT)

    async def ends(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code, and what it said."""
        ended = await self._child.says("ended", times=self._before + 1)
        return ended["code"], self.lines


class Nurseries:
    """A few of them, so that some cases run beside each other. Python starts once for each, and not for each case."""

    def __init__(self, folder: Path, *, most: int) -> None:
        self._folder = folder
        self._most = most
        self._free: list[Nursery] = []
        self._changed = asyncio.Condition()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        for number in range(self._most):
            child = Child("crash.children.worker", "--nursery", log=self._folder / f"nursery-{number}.log")
            self._free.append(Nursery(await self._stack.enter_async_context(child)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def some(self, count: int = 1) -> AsyncIterator[list[Nursery]]:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._free) >= count)
            taken = [self._free.pop() for _ in range(count)]
        try:
            yield taken
        finally:
            async with self._changed:
                self._free += taken
                self._changed.notify_all()


def state_of(pid: int) -> str:
    """R, S, T, Z, as in /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def disappointed(message: str, child: Child) -> AssertionError:
    tail = "\n".join(child.log.splitlines()[-25:])
    return AssertionError(f"{message}\nit said: {child.lines[-8:]}\nits log ends:\n{tail}")


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

    def __init__(self, url: str, folder: Path) -> None:
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

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

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
