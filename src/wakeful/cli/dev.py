"""dev: serve an app and reload it when its code changes.

    dev ── holds the listening socket, watches the files
     └─ serve (a child) ── inherits the socket, and a pipe that closes when dev exits

Each change is checked first: while the code has an error, the child keeps serving the previous code. The socket stays
open from one child to the next, so a request that arrives in between is answered a moment later instead of refused.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable
from pathlib import Path

from wakeful.cli.listening import add_address, add_names, bind
from wakeful.cli.working import add_working, first_of
from wakeful.http.security import ApiSettings, refuse_open_binding
from wakeful.loading import app_folder, shown
from wakeful.shell.arguments import Command, Parser
from wakeful.shell.life import Stopping, live
from wakeful.shell.terminal import say

GRACE = 2.0
DEBOUNCE = 200
SHOWN_CHANGES = 3
ITSELF = (sys.executable, "-P", "-m", "wakeful.cli")


def declare(parser: Parser) -> None:
    add_working(parser)
    add_address(parser)
    add_names(parser)
    parser.set_defaults(grace=GRACE)


def execute(arguments: argparse.Namespace) -> int:
    refuse_open_binding(ApiSettings.of_environment(arguments.host))
    with bind(arguments.host, arguments.port) as listener:
        return live(lambda stopping: Dev(arguments, listener, stopping).run(), fast=False)


dev_command = Command(declare, execute)


class Dev:
    """Runs one child at a time and replaces it when the code changed and passes `check`."""

    def __init__(self, arguments: argparse.Namespace, listener: socket.socket, stopping: Stopping) -> None:
        self._arguments = arguments
        self._listener = listener
        self._stopping = stopping
        self._lifeline, self._hold = os.pipe()
        self._child: Process | None = None
        self._changes: asyncio.Queue[set[str]] = asyncio.Queue()

    async def run(self) -> int:
        watching = asyncio.create_task(self._watch())
        try:
            await self._load()
            while not self._stopping.asked.is_set():
                await self._next(watching)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._end_child(signal.SIGINT)
            os.close(self._lifeline)
            os.close(self._hold)
        say("stopped")
        return self._stopping.exit_code

    async def _next(self, watching: asyncio.Task[None]) -> None:
        """Wait for a change, the end of the child or a request to stop, and handle the one that comes first."""
        change = asyncio.create_task(self._changes.get())
        asked = asyncio.create_task(self._stopping.asked.wait())
        tasks: set[asyncio.Task[object]] = {change, asked, watching}
        if self._child is not None:
            tasks.add(asyncio.create_task(self._child.wait()))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks - {watching}:
            task.cancel()
        if watching in done:
            await watching  # only ends with an error, which this raises
        if asked in done:
            return
        if change in done:
            files = change.result()
            while not self._changes.empty():
                files |= self._changes.get_nowait()
            say(f"{named(files)} changed")
            await self._load()
        elif self._child is not None and self._child.returncode is not None:
            say(f"the app's process ended with code {self._child.returncode}; waiting for a change")
            self._child = None

    async def _watch(self) -> None:
        from watchfiles import PythonFilter, awatch

        folder = app_folder(self._arguments.app)
        async for changes in awatch(
            folder, watch_filter=PythonFilter(), debounce=DEBOUNCE, step=50, ignore_permission_denied=True
        ):
            await self._changes.put({path for _, path in changes})

    # the child

    async def _load(self) -> None:
        """Start a child with the current code; if the code has an error, leave the running child alone."""
        problem = await self._check()
        if problem is not None:
            meanwhile = "waiting for a change" if self._child is None else "still serving the previous code"
            say(f"{problem} ({meanwhile})")
            return
        await self._end_child(signal.SIGTERM)
        if self._stopping.asked.is_set():
            return
        handles = (self._listener.fileno(), self._lifeline)
        self._child = await asyncio.create_subprocess_exec(
            *ITSELF,
            "serve",
            *self._options(),
            "--from-dev",
            ",".join(str(handle) for handle in handles),
            pass_fds=handles,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal goes to dev, which passes it on once
        )

    async def _check(self) -> str | None:
        """The problems of the code, or None. Runs in a separate process, because a loaded module cannot be unloaded."""
        words = ["check", self._arguments.app, *(["--store", self._arguments.store] if self._arguments.store else [])]
        checking = await asyncio.create_subprocess_exec(
            *ITSELF,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        ended = asyncio.create_task(checking.communicate())
        await first_of(asyncio.shield(ended), self._stopping.asked.wait())
        if not ended.done():
            checking.kill()
        _, said = await ended
        if checking.returncode == 0:
            return None
        lines = said.decode(errors="replace").splitlines()
        problems = [line.removeprefix("wakeful: ") for line in lines if line.startswith("wakeful: ")]
        return "; ".join(problems) or (lines[-1] if lines else f"check ended with code {checking.returncode}")

    async def _end_child(self, how: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None or child.returncode is not None:
            return
        ended = asyncio.create_task(child.wait())
        child.send_signal(how)
        hurry = asyncio.create_task(self._stopping.hurry.wait())
        await asyncio.wait({ended, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            child.send_signal(how)
        hurry.cancel()
        await ended

    def _options(self) -> list[str]:
        given = self._arguments
        words = [given.app, "--host", given.host, "--grace", f"{given.grace:g}"]
        for option, value in (
            ("--store", given.store),
            ("--in-flight", given.in_flight),
            ("--log-level", given.log_level),
            ("--log-format", given.log_format),
        ):
            words += [] if value is None else [option, str(value)]
        for name in given.allow_host:
            words += ["--allow-host", name]
        return words


def named(files: Iterable[str]) -> str:
    names = sorted(shown(Path(file)) for file in files)
    more = f" and {len(names) - SHOWN_CHANGES} more" if len(names) > SHOWN_CHANGES else ""
    return ", ".join(names[:SHOWN_CHANGES]) + more
