"""The process between a worker and a command: as long as it lives, the command can be ended, and does not outlive its worker.

    worker ══ line ══ minder ── process group of the command
       │ closes the line, or dies: SIGTERM to the whole group, and SIGKILL once the time of grace is over
       ◄── {"began": group}   {"exit_code": 3}   {"refused": "No such file or directory"}

It is run as a program of its own, by the path of this file, and knows nothing of the rest of Wakeful: it must start fast.

    python minder.py GRACE FILE FOLDER COMMAND…      the line is its standard input, FILE is removed at the end
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

# It goes on after these, to see the command to its end.
OUTLIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_EVERY = 0.02


def main(grace: float, file: str, folder: str, command: list[str]) -> None:
    """1. Start the command. 2. Listen for the worker. 3. Tell how the command ended, once nothing of it is to be ended."""
    line = socket.socket(
        fileno=os.dup(0)
    )  # the command's own standard input takes the place of 0 before it says that it began
    for one in OUTLIVED:  # handlers do not pass on to the command, as ignoring a signal would
        signal.signal(one, lambda *_: None)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd=folder or None,
            process_group=0,
            # The command's process tells its group itself, before it is the command: if this process is killed at any later
            # moment, the worker knows which group to end. No thread has been started yet.
            preexec_fn=lambda: tell(line, began=os.getpid()),  # noqa: PLW1509
        )
    except (OSError, ValueError) as error:
        tell(line, refused=getattr(error, "strerror", None) or str(error))
        return
    exited = threading.Event()
    ending = threading.Lock()
    threading.Thread(target=listen, args=(line, process.pid, grace, exited, ending), daemon=True).start()
    code = process.wait()
    exited.set()
    with ending:
        tell(line, exit_code=code)
    with contextlib.suppress(OSError):
        os.unlink(file)  # noqa: PTH108 pathlib takes its time to import


def tell(line: socket.socket, **what: object) -> None:
    with contextlib.suppress(OSError):  # the worker is gone
        line.sendall(json.dumps(what).encode() + b"\n")


def listen(line: socket.socket, group: int, grace: float, exited: threading.Event, ending: threading.Lock) -> None:
    """The worker says how much time of grace there is, or is gone without a word."""
    try:
        said = line.recv(64)
    except OSError:
        said = b""
    with ending:
        if not exited.is_set():
            end(group, float(said) if said.strip() else grace)


def end(group: int, grace: float) -> None:
    """All of a process group: those that do not end within the time of grace are killed."""
    limit = time.monotonic() + grace
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM if grace > 0 else signal.SIGKILL)
        while time.monotonic() < limit:
            os.killpg(group, 0)  # raises once there is nobody left
            time.sleep(LOOK_EVERY)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
