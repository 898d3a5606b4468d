"""The user's function of `run.transaction`, inside the writer's transaction on SQLite.

The function runs under a savepoint and a time limit, so that its failure concerns its caller alone. It gets statements, but no
say over the transaction around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from wakeful.errors import Persistent, StoreUnavailable
from wakeful.stores.guard import NOT_YOURS, refuse_transaction_control

USER_FUNCTION_LIMIT = 1.0
# The table that sqlite_changes makes (connect/rows/causes.py): its triggers read from it which run writes.
HAS_CAUSES = "select 1 from pragma_table_info('wakeful_cause') where name = 'cause'"
LEAVE_CAUSE = "insert into wakeful_cause (cause) values (?)"
# Of SQLite's errors, those that mean the disk even for a statement of the user. The others are the function's own errors.
NOWHERE_TO_WRITE = (apsw.FullError, apsw.IOError, apsw.NoMemError, apsw.ReadOnlyError)
TRANSACTION_CONTROL = {
    apsw.SQLITE_TRANSACTION,
    apsw.SQLITE_SAVEPOINT,
    apsw.SQLITE_ATTACH,
    apsw.SQLITE_DETACH,
    apsw.SQLITE_PRAGMA,
}


def call_user_function(
    connection: apsw.Connection, function: Callable[[Any], Any], cause: str | None
) -> tuple[Any, Exception | None]:
    """The function's value, or the error it failed with; then its rows are undone. If this file has a table of causes, the cause
    is in it meanwhile. Errors of the disk are raised.
    """
    connection.execute("savepoint wakeful_user")
    marked = cause is not None and connection.execute(HAS_CAUSES).get is not None
    if marked:
        connection.execute(LEAVE_CAUSE, (cause,))
    deadline = time.monotonic() + USER_FUNCTION_LIMIT
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
    connection.authorizer = forbid_transaction_control
    value: Any = None
    failed: Exception | None = None
    try:
        value = function(GuardedConnection(connection))
    except (*NOWHERE_TO_WRITE, StoreUnavailable):
        raise
    except apsw.InterruptError:
        failed = too_slow()
    except apsw.AuthError:
        failed = Persistent("COMMIT, ROLLBACK, PRAGMA or ATTACH inside run.transaction: " + NOT_YOURS)
    except Exception as error:
        failed = error
    finally:
        connection.set_progress_handler(None)
        connection.authorizer = None
    if failed is None and time.monotonic() > deadline:
        failed = too_slow()  # slow in Python, where SQLite cannot interrupt it
    if failed is not None:
        connection.execute("rollback to wakeful_user")
    elif marked:
        connection.execute("delete from wakeful_cause")
    connection.execute("release wakeful_user")
    return value, failed


class GuardedConnection:
    """The connection that `run.transaction` hands to the user's function."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = ()) -> apsw.Cursor:
        """Run one statement; the cursor has fetchone() and fetchall(), and iterates over rows."""
        refuse_transaction_control(sql, trigger_bodies=True)  # the authorizer sees what this check lets through
        self._refuse_after_rollback()
        return self._connection.execute(sql, parameters or None)

    def executemany(self, sql: str, rows: Sequence[Any]) -> apsw.Cursor:
        """Run one statement for each row of parameters."""
        refuse_transaction_control(sql, trigger_bodies=True)
        self._refuse_after_rollback()
        return self._connection.executemany(sql, rows)

    def _refuse_after_rollback(self) -> None:
        """When the disk is full SQLite rolls back by itself. A function that caught the error must not continue without a transaction."""
        if not self._connection.in_transaction:
            message = "SQLite has rolled the transaction back, because it could not write"
            raise StoreUnavailable(message)


def forbid_transaction_control(action: int, *_: str | None) -> int:
    """SQLite asks this about each statement of the user's function, which must not end the transaction around it."""
    return apsw.SQLITE_DENY if action in TRANSACTION_CONTROL else apsw.SQLITE_OK


def too_slow() -> Persistent:
    """The error of a function that was interrupted."""
    return Persistent(
        f"the function given to run.transaction was interrupted after {USER_FUNCTION_LIMIT:g} s and undone: on SQLite all "
        "other writes wait for it. Do the slow part in a step before it"
    )
