"""Hides the memory and environment of a working process from other processes of the same user.

On Linux a process may read `/proc/PID/environ` and `/proc/PID/mem` of the other processes of its user. A program
started by a command agent gets no secrets in its own environment, but could read the token, the keys and the store's
address there. A process that is not dumpable shows them only to root. The kernel resets this at each exec, so child
processes do not inherit it and do not need it.

The rest of Wakeful is imported afterwards, because another process could use those tenths of a second.
"""

from __future__ import annotations

import os
import sys

SET_DUMPABLE = 4  # of prctl(2)


def hide_from_neighbours() -> None:
    """Disable core dumps, debuggers and /proc access of this user, on Linux only, unless WAKEFUL_DUMPABLE=1 is set."""
    if os.environ.get("WAKEFUL_DUMPABLE"):
        from wakeful.settings import dumpable

        if dumpable():
            return
    if sys.platform != "linux":
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(SET_DUMPABLE, 0, 0, 0, 0) != 0:
        from wakeful.shell.terminal import say

        why = os.strerror(ctypes.get_errno())
        say(
            f"other processes of this user can read the environment of this process in /proc: prctl was refused ({why})"
        )
