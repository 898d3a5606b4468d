"""The other processes as the director sees them: started, found at work, killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Protocol, Self

LOOK_EVERY = 0.03


class Processes(Protocol):
    """Who works on the store."""

    async def processes(self) -> list[dict[str, Any]]: ...


class Child:
    """One process. Its session is its own, so that Ctrl-C reaches only the director."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.pid = process.pid
        self.expected_to_end = False

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
    def died_by_itself(self) -> bool:
        return self.process.returncode is not None and not self.expected_to_end

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    async def kill(self) -> None:
        """SIGKILL: no handler, no goodbye, no chance to save anything."""
        self._signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self, at_most: float) -> None:
        """Ask it to finish or give back what runs; kill it if it does not end in time."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(at_most):
                await self.process.wait()
        except TimeoutError:
            await self.kill()

    def _signal(self, number: signal.Signals) -> None:
        self.expected_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class Worker(Child):
    """It executes runs, until it is killed."""

    async def joined_at(self, store: Processes) -> str | None:
        """When it joined: wait until its row is in the store. None if it died before."""
        while not self.died_by_itself:
            for one in await store.processes():
                if one["pid"] == self.pid and one["state"] == "alive":
                    return str(one["started_at"])
            await asyncio.sleep(LOOK_EVERY)
        return None


class Bank(Child):
    """It is asked by workers, and outlives them."""

    port = 0

    @classmethod
    async def open(cls, *, book: Path, log: Path) -> Bank:
        one = await cls.start("wakeful.demo.bank", str(book), log=log)
        assert one.process.stdout is not None  # noqa: S101 it is a pipe
        one.port = int(await one.process.stdout.readline() or 0)  # 0: it has ended, and the director will say so
        return one
