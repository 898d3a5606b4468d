"""The other processes as the director sees them: started, found at work, killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path
from typing import Any, Protocol

from wakeful.demo import app, bank, counter, pace

LOOK_EVERY = 0.03


class Processes(Protocol):
    """Who works on the store."""

    async def processes(self) -> list[dict[str, Any]]: ...


class Child:
    """One process. Its session is its own, so that Ctrl-C reaches only the director."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid
        self.expected_to_end = False

    @property
    def died_by_itself(self) -> bool:
        return self._process.returncode is not None and not self.expected_to_end

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self._process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    async def kill(self) -> None:
        """SIGKILL: no handler, no goodbye, no chance to save anything."""
        self.expected_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self, at_most: float) -> None:
        """Ask it to finish or give back what runs; kill it if it does not end in time."""
        self.expected_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(at_most):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


class Worker(Child):
    """It executes runs, until it is killed."""

    @classmethod
    async def start(
        cls, *, store: str, counter_file: Path, log: Path, speed: float, bank_port: int, inbox: Path
    ) -> Worker:
        environment = {
            **os.environ,
            "WAKEFUL_STORE": store,
            counter.VARIABLE: str(counter_file),
            pace.VARIABLE: str(speed),
            bank.VARIABLE: str(bank_port),
            app.INBOX: str(inbox),
            "PYTHONUNBUFFERED": "1",
        }
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "wakeful.demo.worker",
                stdin=PIPE, stdout=output, stderr=STDOUT, env=environment, start_new_session=True,
            )  # fmt: skip
        return cls(process)

    async def at_work(self, store: Processes) -> None:
        """Wait until it has joined: its row is in the store."""
        while not self.died_by_itself:
            for one in await store.processes():
                if one["pid"] == self.pid and one["state"] == "alive":
                    return
            await asyncio.sleep(LOOK_EVERY)


class Bank(Child):
    """It is asked by workers, and outlives them."""

    port = 0

    @classmethod
    async def open(cls, *, book: Path, log: Path) -> Bank:
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "wakeful.demo.bank", str(book),
                stdin=PIPE, stdout=PIPE, stderr=output, start_new_session=True,
            )  # fmt: skip
        one = cls(process)
        assert process.stdout is not None  # noqa: S101 it is a pipe
        first = await process.stdout.readline()
        if not first:
            await process.wait()
            return one  # it ended, and the director will say so
        one.port = int(first)
        return one
