"""A process that forks child processes: each line of input is a plan, which a new process carries out.

Starting Python and loading everything takes a second, a fork takes milliseconds. The lines of all children come out on
one pipe, each with the number of its case; each child logs to its own file. When the input ends, all children are killed.

    python -m wakeful.testing.nursery module:function        called with the plan, a dictionary
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from pydantic_core import from_json, to_json

STANDARD_OUTPUT = 1

CarryOut = Callable[[dict[str, Any]], None]


class Voice:
    """Reports from a child to its test: JSON lines, one write each, so that many can share one pipe."""

    def __init__(self, case: int) -> None:
        self._case = case

    def say(self, what: str, **more: Any) -> None:
        os.write(STANDARD_OUTPUT, to_json({"case": self._case, "says": what, **more}) + b"\n")


class Births:
    """Forks a child for each plan, and reports the end of each child."""

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self._cases: dict[int, int] = {}
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker)

    def run(self) -> None:
        rest = b""
        while True:
            ready, _, _ = select.select([sys.stdin.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if sys.stdin.fileno() in ready:
                chunk = os.read(sys.stdin.fileno(), 1 << 16)
                if not chunk:
                    break
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._bear(from_json(line))
        for pid in self._cases:
            os.kill(pid, signal.SIGKILL)

    def _bear(self, plan: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            self._live(plan)
        self._cases[pid] = plan["case"]
        Voice(plan["case"]).say("born", pid=pid)

    def _reap(self) -> None:
        while self._cases:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            Voice(self._cases.pop(pid)).say("ended", code=os.waitstatus_to_exitcode(status))

    def _live(self, plan: dict[str, Any]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.dup2(log, sys.stderr.fileno())
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
            sys.stdout = sys.stderr  # the app's output goes to the log too
            self._carry_out(plan)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def main(name: str) -> None:
    module, _, function = name.partition(":")
    Births(getattr(import_module(module), function)).run()


if __name__ == "__main__":
    main(sys.argv[1])
