"""Starts `wakeful` quickly: a process that has everything loaded, and forks for each command.

The command is a process of its own, with its own folder, environment and streams, as if a shell had started it; only the
second that Python needs to load the modules is saved. A request is one message on a socket, with the streams:

    {"words", "folder", "environment"} + standard output + standard error  ─►  {"pid"}
                                                                 later     ─►  {"pid", "code"}
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

LARGEST = 1 << 20
# What commands load when they are called. A module that is not here is loaded by the command itself.
LOADED = (
    "apsw",
    "asyncpg",
    "httpx2",
    "structlog",
    "uvicorn",
    "uvloop",
    "wakeful.api.serving",
    "wakeful.app",
    "wakeful.loading",
    "wakeful.runtime",
    "wakeful.stores.postgres",
    "wakeful.stores.sqlite",
    "wakeful.telemetry.logs",
)


def main(control: socket.socket) -> None:
    from wakeful.cli import COMMANDS

    for name in (*LOADED, *(f"wakeful.cli.{module}" for module, _ in COMMANDS.values())):
        with contextlib.suppress(ImportError):
            import_module(name)
    if os.environ.get("WITNESS") == "1":  # what a command of a test makes is watched as what the test makes
        sys.path.insert(0, str(Path(__file__).parents[1]))
        import_module("support.transitions").watch_every_store()
        del sys.path[0]
    gc.freeze()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    usual = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            tell_who_ended(control)
        if control.fileno() in ready:
            message, streams, _, _ = socket.recv_fds(control, LARGEST, 2)
            if not message:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, usual)
                control.detach()  # its number is used anew
                sys.exit(run(json.loads(message), *streams))
            for stream in streams:
                os.close(stream)
            control.send(json.dumps({"pid": pid}).encode())


def tell_who_ended(control: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            control.send(json.dumps({"pid": ended[0], "code": os.waitstatus_to_exitcode(ended[1])}).encode())


def run(request: dict[str, Any], output: int, errors: int) -> int:
    """Become the command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, 256)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = request["words"]
    from wakeful.cli import main as wakeful

    return wakeful()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
