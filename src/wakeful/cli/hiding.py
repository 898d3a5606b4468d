"""A process that works hides its memory and its environment from other processes of the same user.

On Linux every process may read `/proc/PID/environ` and `/proc/PID/mem` of its user's other processes, and so would find the token,
the keys and the store's address there: a command's program too, whose own environment has none of them. A process that is not
dumpable shows them to root alone. The kernel forgets that at each exec: children have it no longer, and need it no longer.

The rest of Wakeful is imported only afterwards, since those tenths of a second are what another process could use.
"""

from __future__ import annotations

import os
import sys

SET_DUMPABLE = 4  # of prctl(2)


def hide_from_neighbours() -> None:
    """No core dumps, no debugger of this user, nothing in /proc, unless WAKEFUL_DUMPABLE=1 is set. Nothing happens but on Linux."""
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
        say(f"other processes of this user can read this one's environment in /proc: prctl was refused ({why})")
