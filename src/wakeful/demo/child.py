"""The other processes as the director sees them: started, found at work, killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from wakeful.demo.board import moment
from wakeful.resources.desk import Desk
from wakeful.resources.processes import processes

LOOK_EVERY = 0.03


class ChildDied(Exception):
    """The worker or the bank ended, and the director had not killed it."""


@dataclass(slots=True)
class Child:
    """One process. Its session is its own, so that Ctrl-C reaches only the director."""

    process: Process
    log: Path
    expected_to_end: bool = False
    joined_at: float | None = None  # when a worker was found at work
    port: int = 0

    @classmethod
    async def start(cls, module: str, *words: str, log: Path, **variables: str) -> Self:
        """Its errors go into the log."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *words,
                stdin=PIPE, stdout=PIPE if cls is Bank else output, stderr=output,
                env={**os.environ, **variables, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
            )  # fmt: skip
        return cls(process, log)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def check(self, what: str) -> None:
        """Raise ChildDied if it ended by itself."""
        if self.process.returncode is not None and not self.expected_to_end:
            said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            ending = f"{what} {self.pid} ended with {self.ending}, and not by this demonstration."
            raise ChildDied("\n".join([f"{ending} The end of its log:", *said]))

    async def join(self, desk: Desk) -> None:
        """Wait until the store has a row of this worker."""
        while self.joined_at is None:
            for one in await processes(desk):
                if one["pid"] == self.pid and one["state"] == "alive":
                    self.joined_at = moment(one["started_at"])
            await asyncio.sleep(LOOK_EVERY)

    def kill(self) -> None:
        """SIGKILL: no handler, no goodbye, no chance to save anything."""
        self._signal(signal.SIGKILL)

    async def stop(self, at_most: float) -> None:
        """Ask it to finish or give back what runs; kill it if it does not end in time."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self.process.wait()
        self.kill()
        await self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        self.expected_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class Bank(Child):
    """It is asked by workers, and outlives them."""

    @classmethod
    async def open(cls, *, book: Path, log: Path) -> Bank:
        one = await cls.start("wakeful.demo.bank", str(book), log=log)
        assert one.process.stdout is not None  # noqa: S101 it is a pipe
        one.port = int(await one.process.stdout.readline() or 0)  # 0: it has ended, and `check` will say so
        return one
