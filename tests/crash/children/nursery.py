"""A process that lets others be born: for each plan that comes in, a line each, a process of its own carries it out.

Starting Python and loading everything takes a second, a fork takes milliseconds. Lines of all children come out together,
each with the number of its case; what they log goes to a file of its own. When nobody hands in plans any more, all end.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from typing import NoReturn

from crash.children.plan import Plan
from crash.children.speaking import Voice
from crash.children.worker import main


class Nursery:
    def __init__(self) -> None:
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
                    self._bear(Plan.from_text(line.decode()))
        for pid in self._cases:
            os.kill(pid, signal.SIGKILL)

    def _bear(self, plan: Plan) -> None:
        pid = os.fork()
        if pid == 0:
            self._live(plan)
        self._cases[pid] = plan.case
        Voice(plan.case).say("born", pid=pid)

    def _reap(self) -> None:
        while self._cases:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            Voice(self._cases.pop(pid)).say("ended", code=os.waitstatus_to_exitcode(status))

    @staticmethod
    def _live(plan: Plan) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(plan.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.dup2(log, sys.stderr.fileno())
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
            main(plan)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


if __name__ == "__main__":
    Nursery().run()
