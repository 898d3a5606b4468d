"""Starts `wakeful` quickly: a process that has everything loaded, and forks for each command.

The command is a process of its own, with its own folder, environment and streams, as if a shell had started it; only the
second that Python needs to load the modules is saved. One request per line comes in on standard input as JSON, answers
go out on standard output:

    {"words", "folder", "environment", "output"}  ─►  {"pid"}
    {"wait": pid}                                 ─►  {"code"}
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

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


def main() -> None:
    from wakeful.cli import COMMANDS

    for name in (*LOADED, *(f"wakeful.cli.{module}" for module, _ in COMMANDS.values())):
        with contextlib.suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            answer = {"pid": start(request)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            become(request)
        finally:  # whatever happens, a child never comes back into the loop
            os._exit(70)
    return pid


def become(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["wakeful", *request["words"]]
    from wakeful.cli import main as wakeful

    code = wakeful()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
