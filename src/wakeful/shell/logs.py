"""The log of a command, and the warning about a password on the command line: `ps` and `/proc/PID/cmdline` show the
arguments to all users, and to the programs that an app starts.
"""

from __future__ import annotations

import argparse

from wakeful.redaction import passwords_of
from wakeful.telemetry.logger import SPEAKS_JSON, logger_of


def start_logs(arguments: argparse.Namespace) -> None:
    """Configure logs by --log-format and --log-level, including warnings of libraries and errors in threads, so that
    known secrets are always redacted. With `--log-format json` every message of this process is JSON, those for people
    too. Warns first if --store contains a password.
    """
    from wakeful.telemetry.logs import configure_logs, log_everything

    wanted = arguments.log_format
    configure_logs(None if wanted is None else wanted == "json", level=arguments.log_level)
    if wanted == "json":
        SPEAKS_JSON.set(True)
    log_everything()
    warn_of_password(arguments.store)


def warn_of_password(store: str | None) -> None:
    """Log a warning if the address given with --store contains a password."""
    if store is not None and any(passwords_of(store)):
        message = (
            "all users of this machine and the programs that the app starts can read the password in --store (with `ps`): set the "
            "address in WAKEFUL_STORE instead"
        )
        logger_of(part="secrets").warning(message)
