"""Decisions of people are not for the programs that an app starts.

A command's program runs in the worker's folder, and `wakeful approvals answer` there would find the store by itself. Two locks:

    ancestors   a command that decides refuses to work below a run: where WAKEFUL_RUN_ID is set, or was set for an ancestor
    the token   where the app's server was started with WAKEFUL_TOKEN, the command needs it too; no child of an app gets it

The second one also stops a program that detached itself from its run. Neither stops a program that writes into a SQLite file by itself: docs
on security say what does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from wakeful.cli.opening import read
from wakeful.errors import Denied
from wakeful.settings import next_token, token

MARK = "WAKEFUL_RUN_ID"


def people_only(what: str, url: str) -> None:
    """Denied, unless a person decides this: nothing was changed. `what` is what the command was about to do: "answer a question"."""
    refuse_children(what)
    needs_token(what, url)


def needs_token(what: str, url: str) -> None:
    """Denied, if an app of this store is guarded by a token, and it is not here: nothing was changed."""
    guards = read(url, lambda reader: reader.guards())
    if not guards:
        return
    given = [one for one in (token(), next_token()) if one] or _asked_for(what)
    if any(hashed.is_of(one) for one in given for _, hashed in guards):
        return
    apps = ", ".join(dict.fromkeys(app for app, _ in guards))
    problem = "WAKEFUL_TOKEN is another one" if given else "WAKEFUL_TOKEN is not set here"
    message = (
        f"to {what} needs the token that the server of {apps} was started with, and {problem}: set WAKEFUL_TOKEN to it. "
        "Nothing was changed"
    )
    raise Denied(message)


def _asked_for(what: str) -> list[str]:
    """The token, from a person at a terminal; it is not shown."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    from getpass import getpass

    given = getpass(f"token (WAKEFUL_TOKEN) to {what}: ")
    return [given.strip()] if given.strip() else []


def refuse_children(what: str) -> None:
    """Denied, if this command runs below a run of Wakeful."""
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
