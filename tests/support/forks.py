"""Commands that are forked from a process which has loaded everything: the test's side of forking.py."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import forking

PATIENCE = 60.0


class Forked:
    """A command that was started so; what subprocess.Popen says of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def ended(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("wakeful", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            # It may have ended, and the process that forked it may have taken note, a moment ago.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks. One for all tests of this process, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: dict[int, Forked] = {}
        self._born: list[Forked] = []
        self._told = threading.Condition()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-P", forking.__file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then end us
        )
        theirs.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(
        self, words: Sequence[str], *, folder: Path, environment: Mapping[str, str], output: int, errors: int
    ) -> Forked:
        """A command with these streams. The first word is its name."""
        request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], [output, errors])
            with self._told:
                if not self._told.wait_for(lambda: self._born, PATIENCE):
                    raise TimeoutError(f"not started within {PATIENCE:g} s: {request['words']}")
                return self._born.pop()

    def _read(self) -> None:
        while message := self._control.recv(4096):
            said = json.loads(message)
            with self._told:
                if "code" in said:
                    self._started.pop(said["pid"]).ended(said["code"])
                else:
                    born = self._started[said["pid"]] = Forked(said["pid"])
                    self._born.append(born)
                    self._told.notify_all()

    def close(self) -> None:
        self._control.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        self._reader.join()
        self._control.close()
