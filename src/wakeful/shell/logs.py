"""The log of a command. The words of a command line cannot be hidden: `ps` and `/proc/PID/cmdline` show them to all users, and to
the programs that an app starts. So a password among them is warned of.
"""

from __future__ import annotations

import argparse

from wakeful.redaction import passwords_of
from wakeful.telemetry.logger import SPEAKS_JSON, logger_of


def start_logs(arguments: argparse.Namespace) -> None:
    """Logs as --log-format and --log-level say, warnings of libraries and errors in threads too: so no secret that is known gets
    past the log. With `--log-format json` everything that this process says is JSON, its words for people included.
    The first line is a warning, if --store shows a password.
    """
    from wakeful.telemetry.logs import configure_logs, log_everything

    wanted = arguments.log_format
    configure_logs(None if wanted is None else wanted == "json", level=arguments.log_level)
    if wanted == "json":
        SPEAKS_JSON.set(True)
    log_everything()
    warn_of_password(arguments.store)


def warn_of_password(store: str | None) -> None:
    """A line in the log, if the address that --store gave has a password."""
    if store is not None and any(passwords_of(store)):
        message = (
            "the password in --store can be read by all users of this machine and by the programs that the app starts, as `ps` does: give the "
            "address by WAKEFUL_STORE"
        )
        logger_of(part="secrets").warning(message)
