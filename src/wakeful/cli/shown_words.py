"""The words of a command line cannot be hidden: `ps` and `/proc/PID/cmdline` show them to all users, and to the programs that an app
starts. So a password among them is warned of.
"""

from __future__ import annotations

from wakeful.redaction import passwords_of
from wakeful.telemetry.logger import logger_of


def warn_of_password(store: str | None) -> None:
    """A line in the log, if the address that --store gave has a password."""
    if store is not None and any(passwords_of(store)):
        message = (
            "the password in --store can be read by all users of this machine and by the programs that the app starts, as `ps` does: give the "
            "address by WAKEFUL_STORE"
        )
        logger_of(part="secrets").warning(message)
