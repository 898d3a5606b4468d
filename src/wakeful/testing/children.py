"""Real processes for tests to kill. Each carries out a plan and prints JSON lines, `{"says": "accepted", ...}`; a test
waits for a line, a row or the end of a process, never for time to pass.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic_core import from_json, to_json

from wakeful.testing.waiting import PATIENCE, until

KILLED = -signal.SIGKILL
AT_ONCE = 6

T = TypeVar("T")


class Nursery:
    """Starts child processes; see nursery.py. `carry_out` is `module:function`, called with a plan."""

    def __init__(self, carry_out: str, *, path: Iterable[str] = ()) -> None:
        self._cases = itertools.count(1)
        self._lines: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wakeful.testing.nursery", carry_out],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, *sys.path])},
            start_new_session=True,  # Ctrl-C in the terminal goes to the tests, which then end this process
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all children and the nursery process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def bear(self, plan: Mapping[str, Any], folder: Path) -> ChildProcess:
        """A process that carries out a plan inside the block. Its log is kept in the folder."""
        case = next(self._cases)
        whole = {**plan, "case": case, "log": str(folder / f"child-{case}.log")}
        return ChildProcess(whole, self._lines[case], self._tell)

    def _tell(self, plan: Mapping[str, Any]) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(to_json(plan) + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                said = from_json(line)
            except ValueError:
                continue  # printed by a program that the app started
            self._lines[said["case"]].append(said)


class ChildProcess:
    """A process with a plan. It is killed by its own id when the block ends, also after an error."""

    def __init__(
        self, plan: Mapping[str, Any], lines: list[dict[str, Any]], tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
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
        """The content of its log."""
        path = Path(self._plan["log"])
        return path.read_text(errors="replace") if path.exists() else ""

    def story(self) -> str:
        """A summary for people when a test fails."""
        tail = "\n".join(self.log.splitlines()[-15:])
        return f"child {self._plan['case']} (process {self.pid}) said: {self._lines[-8:]}\nits log ends:\n{tail}"

    def said(self, what: str) -> list[dict[str, Any]]:
        """All lines of this kind so far."""
        return [line for line in self._lines if line["says"] == what]

    async def says(self, what: str, *, times: int = 1, within: float = PATIENCE) -> dict[str, Any]:
        """Wait until it has printed this line `times` times in all; returns the last of them."""
        await until(lambda: len(self.said(what)) >= times or self.said("ended"), within=within)
        found = self.said(what)
        if len(found) < times:
            message = f"it ended without saying {what!r} {times} times"
            raise AssertionError(message)
        return found[times - 1]

    @property
    def where(self) -> dict[str, Any]:
        """The boundary at which it was told to stop or die, if it reached it."""
        return next(iter(self.said("at the boundary")), {})

    async def comes_to_its_boundary(self) -> bool:
        """Wait until it has stopped itself at its boundary. False if it ended before."""
        await until(lambda: self.where or self.said("ended"))
        if self.where:
            await self.is_stopped()
        return bool(self.where)

    async def is_stopped(self) -> None:
        """Wait until SIGSTOP has taken effect."""
        await until(lambda: state_of(self.pid) == "T")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ends(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        return int((await self.says("ended"))["code"])

    async def stops(self) -> None:
        """Ask it to stop gracefully, and wait until it has."""
        self.signal(signal.SIGTERM)
        code = await self.ends()
        if code != 0:
            message = f"it stopped with exit code {code}"
            raise AssertionError(message)


async def a_few_at_once(cases: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of many cases, a few of which run concurrently. The first failure ends all."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(case: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await case

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(case)) for case in cases]
    return [task.result() for task in tasks]


def state_of(pid: int) -> str:
    """The state of a process as in /proc: R, S, T, Z."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
