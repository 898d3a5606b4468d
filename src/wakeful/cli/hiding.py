"""A process that works hides its memory and its environment from other processes of the same user.

On Linux every process may read `/proc/PID/environ` and `/proc/PID/mem` of its user's other processes, and so would find the token,
the keys and the store's address there: a command's program too, whose own environment has none of them. A process that is not
dumpable shows them to root alone. The kernel forgets that at each exec: children have it no longer, and need it no longer.

The words of its command line cannot be hidden: `ps` and `/proc/PID/cmdline` show them to all users. A password there is warned of.
"""

from __future__ import annotations

import os
import sys

from wakeful.cli.terminal import say
from wakeful.redaction import passwords_of
from wakeful.settings import dumpable
from wakeful.telemetry.logger import logger_of

SET_DUMPABLE = 4  # of prctl(2)


def hide_from_neighbours() -> None:
    """No core dumps, no debugger of this user, nothing in /proc, unless WAKEFUL_DUMPABLE=1 is set. Nothing happens but on Linux."""
    if sys.platform != "linux" or dumpable():
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(SET_DUMPABLE, 0, 0, 0, 0) != 0:
        why = os.strerror(ctypes.get_errno())
        say(f"other processes of this user can read this one's environment in /proc: prctl was refused ({why})")


def warn_of_password(store: str | None) -> None:
    """A line in the log, where the address that --store gave has a password."""
    if store is not None and any(passwords_of(store)):
        message = (
            "the password in --store can be read by all users of this machine and by the programs that the app starts, as `ps` does: give the "
            "address by WAKEFUL_STORE"
        )
        logger_of(part="secrets").warning(message)
