"""The director's child processes: a worker, which will be killed, and a bank. Both sides of each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PACE = "WAKEFUL_DEMO_PACE"
GRACE = 10.0


class Failed(Exception):
    """A child process failed."""


@dataclass(slots=True)
class Child:
    """A child process in its own session, so that Ctrl-C reaches only the director."""

    name: str
    process: Process
    log: Path
    expected_to_end: bool = False

    @classmethod
    async def start(cls, name: str, module: str, *words: str, log: Path, pass_fds: Sequence[int] = ()) -> Self:
        """Run a module; its output goes into the log."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *words,
                stdin=PIPE, stdout=output, stderr=output, pass_fds=pass_fds, start_new_session=True,
            )  # fmt: skip
        return cls(name, process, log)

    def check(self) -> None:
        """Raise Failed if the process ended by itself."""
        code = self.process.returncode
        if code is not None and not self.expected_to_end:
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            what = f"{self.name} {self.process.pid} ended with {ending}, not caused by this demonstration."
            log = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise Failed("\n".join([f"{what} The end of its log:", *log[-15:]]))

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait for the end. After a while, any other signal is followed by SIGKILL."""
        self.expected_to_end = True
        for one in (number, signal.SIGKILL):
            with suppress(ProcessLookupError, TimeoutError):
                self.process.send_signal(one)
                await asyncio.wait_for(self.process.wait(), GRACE)


# in the child process


def pace() -> float:
    """The pace that the director sets: 1 is normal, less is faster."""
    return float(os.environ.get(PACE, "1"))


async def told_to_end() -> None:
    """Wait for SIGTERM, or for the end of standard input, which comes when the director is gone."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    loop.add_reader(sys.stdin, over.set)  # the director writes nothing: a read returns only at the end
    await over.wait()
    loop.remove_reader(sys.stdin)
