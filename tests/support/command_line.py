"""The command line as its own process: its lines are waited for, its signals are real."""

from __future__ import annotations

import atexit
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from support.forks import Forked, Forks

WAKEFUL = Path(sys.executable).with_name("wakeful")
PATIENCE = 60.0

T = TypeVar("T")


@cache
def forks() -> Forks:
    """One for all tests of this process."""
    one = Forks()
    atexit.register(one.close)
    return one


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A clean environment: what a developer has set must not change a test."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "NO_COLOR", "COLUMNS"))
    }
    return {**kept, **(extra or {})}


class CommandLine:
    """One `wakeful …` that runs. Its output is read by threads, line by line, as it comes."""

    def __init__(
        self,
        *words: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        fresh: bool = False,
    ) -> None:
        """`through`: a program that starts it, and gets its words as arguments. `fresh`: a new Python, for tests that look at
        how the system sees the process. Otherwise it is forked from one that has everything loaded, which takes milliseconds.
        """
        command, (outputs, errors) = [*through, str(WAKEFUL), *words], [os.pipe() for _ in range(2)]
        self.process: Forked | subprocess.Popen[bytes]
        if fresh or through or any(name.startswith("PYTHON") for name in env or ()):
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(env), stdin=subprocess.DEVNULL, stdout=outputs[1], stderr=errors[1]
            )
        else:
            self.process = forks().start(
                command, folder=folder, environment=environment(env), output=outputs[1], errors=errors[1]
            )
        for end in (outputs[1], errors[1]):
            os.close(end)
        self.seen: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(end,), daemon=True) for end in (outputs[0], errors[0])
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, end: int) -> None:
        with open(end, encoding="utf-8") as stream:
            for line in stream:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """The first line, from where the last wait ended, that has this in it."""
        ended = 0
        deadline = time.monotonic() + patience
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {pattern!r} within {patience} s in:\n{self.output}") from None
            if line is None:
                ended += 1
                if ended == len(self._readers):
                    raise AssertionError(f"it ended without {pattern!r}:\n{self.output}")
                continue
            self.seen.append(line)
            if match := re.search(pattern, line):
                return match

    def wait_for_all(self, *patterns: str) -> None:
        """A line for each of these, in any order: output and errors are two streams, and their lines come in either order."""
        missing = list(patterns)
        while missing:
            line = self.wait_for("|".join(f"(?:{one})" for one in missing)).string
            missing = [one for one in missing if not re.search(one, line)]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, patience: float = PATIENCE) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.process.wait(patience)
        for reader in self._readers:
            reader.join(patience)
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None:
                self.seen.append(line)
        return code

    @property
    def output(self) -> str:
        return "\n".join(self.seen)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()


def wait_for_answer(url: str, status: int, patience: float = PATIENCE) -> httpx2.Response:
    """Ask until the answer has this status."""
    deadline = time.monotonic() + patience
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = httpx2.get(url, timeout=10, trust_env=False)
        except httpx2.HTTPError as error:
            last = error
        else:
            if last.status_code == status:
                return last
        threading.Event().wait(0.02)  # between two questions, not instead of one
    raise AssertionError(f"{url} never answered {status}; the last was {last!r}")


def wait_until(found: Callable[[], T], patience: float = PATIENCE) -> T:
    """Ask until there is something, and give that back."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if seen := found():
            return seen
        threading.Event().wait(0.02)  # between two questions, not instead of one
    raise AssertionError(f"there never was what {found!r} looks for")
