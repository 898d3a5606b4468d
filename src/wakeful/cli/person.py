"""What people decide is not for the programs that an app starts.

A command's program runs in the worker's folder, and `wakeful approvals answer` there would find the store by itself. So the verbs
that settle what waits for a person refuse to work below a run: where WAKEFUL_RUN_ID is set, or was set for a process that this
one descends from. This keeps a program from answering in passing. It is no wall: a process that detaches has no such ancestor any more,
and a program of the same user can write into a SQLite file by itself; docs/how-to/commands.md says what stops both.
"""

from __future__ import annotations

import os
from pathlib import Path

from wakeful.errors import Denied

MARK = "WAKEFUL_RUN_ID"


def refuse_children(what: str) -> None:
    """Denied, if this command runs below a run of Wakeful. `what` is what it was about to do: "answer a question"."""
    run = os.environ.get(MARK) or _run_above(os.getppid())
    if run:
        message = (
            f"this command runs inside run {run[:10]}, and a program that an app starts cannot {what}: that is for people. Do it from a "
            "shell of your own"
        )
        raise Denied(message)


def _run_above(process: int) -> str | None:
    """The run that some ancestor was started for, where /proc tells."""
    while process > 1:
        try:
            for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                name, _, value = entry.partition(b"=")
                if name.decode(errors="replace") == MARK and value:
                    return value.decode(errors="replace")
        except OSError:  # another user's, or one that hides, like a worker: look above it all the same
            pass
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
            process = int(stat.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None
