"""The process between a worker and a command: while it lives, the command can be ended and does not outlive its worker.

    worker ══ line ══ minder ── process group of the command
       │ closes the line, or dies: SIGTERM to the whole group, and SIGKILL after the grace period
       ◄── {"began": group}   {"exit_code": 3}   {"refused": "No such file or directory"}

It is run as a separate program, by the path of this file, and imports nothing of Wakeful, because it must start fast.

    python minder.py GRACE FILE FOLDER COMMAND…      the line is its standard input; FILE is removed at the end
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

# It survives these signals, to see the command to its end.
OUTLIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_EVERY = 0.02


def main(grace: float, file: str, folder: str, command: list[str]) -> None:
    """1. Start the command. 2. Listen to the worker. 3. Report how the command ended, once nothing is left to end."""
    line = socket.socket(fileno=os.dup(0))  # the command gets another standard input before it reports its group
    for one in OUTLIVED:  # the command does not inherit handlers, but it would inherit an ignored signal
        signal.signal(one, lambda *_: None)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd=folder or None,
            process_group=0,
            # The command's process reports its group itself, before it becomes the command: if this process is killed
            # at any later time, the worker knows which group to end. No thread has been started yet.
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
    """Wait for the worker, which sends a grace period or closes the line without one; then end the group."""
    try:
        said = line.recv(64)
    except OSError:
        said = b""
    with ending:
        if not exited.is_set():
            end(group, float(said) if said.strip() else grace)


def end(group: int, grace: float) -> None:
    """End a whole process group. Processes that do not end within the grace period are killed."""
    limit = time.monotonic() + grace
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM if grace > 0 else signal.SIGKILL)
        while time.monotonic() < limit:
            os.killpg(group, 0)  # raises once no process is left
            time.sleep(LOOK_EVERY)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
