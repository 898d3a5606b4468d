"""The user's own transaction and the journal.

    run.transaction(fn)       the user's rows and the record of the step commit together
    app.emit(within=…)        events are accepted inside the caller's transaction (PostgreSQL)

On SQLite the one writer runs the user's function inside its batch, under a savepoint. On PostgreSQL the function has a connection
of its own; the fence and the record of the step are the last statements on it. If the answer to a COMMIT is lost, the record of
the step says whether the COMMIT happened.
"""

from __future__ import annotations

import asyncio
from typing import Any

from wakeful.errors import ConfigError, StoreUnavailable
from wakeful.model import Receipt, Step
from wakeful.stores.database import TransactionalDatabase
from wakeful.stores.guard import GuardedPostgres
from wakeful.stores.journal import Died, whole
from wakeful.stores.store import FIRST_WAIT, LONGEST_WAIT, DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.progress import SaveTransacted, TransactStep, recorded_step


class RecordedBefore(Exception):
    """The step is already recorded: an earlier COMMIT happened, and only its answer was lost."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step


async def accept_within(store: DatabaseStore, connection: Any, request: AcceptEvents) -> list[Receipt]:
    """Accept events inside the caller's own transaction. ConfigError on SQLite, which has one writer."""
    database = store.database
    if not isinstance(database, TransactionalDatabase):
        message = "within= needs a PostgreSQL store: SQLite has one writer, which is Wakeful's and not the caller's"
        raise ConfigError(message)
    results = await database.within(connection, lambda now: whole(now, [request], notifies=True))
    if isinstance(results[0], Exception):
        raise results[0]
    receipts: list[Receipt] = results[0]
    return receipts


async def transact_step(store: DatabaseStore, request: TransactStep) -> Step:
    """Call the user's function; its rows and the record of the step are one transaction.

    Retried while the database is gone. The function's own errors are raised, and then nothing is stored.
    """
    database = store.database
    if not isinstance(database, TransactionalDatabase):
        return await store.do(request)
    wait, in_doubt = FIRST_WAIT, False
    while True:
        try:
            return await _transact_beside(store, database, request)
        except Died:
            await asyncio.get_running_loop().create_future()  # the process counts as dead: no answer ever comes
        except StoreUnavailable as error:
            await store.sit_out(error, wait)
            wait, in_doubt = min(wait * 2, LONGEST_WAIT), True
        except Exception:
            # After a lost COMMIT the function may have failed on its own rows of that earlier try.
            if not in_doubt or (done := await _recorded(store, request)) is None:
                raise
            return done
        # The COMMIT may have happened although its answer was lost.
        done = await _recorded(store, request)
        if done is not None:
            return done


async def _transact_beside(store: DatabaseStore, database: TransactionalDatabase, request: TransactStep) -> Step:
    """The user's function on a connection of its own; the fence and the record are its last statements."""
    refused: Exception | None = None
    store.probe("before", [request])
    try:
        async with database.user_transaction(request.cause) as connection:
            try:
                step: Step = request.to_step(await request.function(GuardedPostgres(connection)))
            except Exception as error:
                if connection.is_closed():
                    raise StoreUnavailable(str(error)) from error
                refused = error
                raise
            record = SaveTransacted(request.claim, step, request.locks)
            (result,) = await database.conclude(connection, lambda now: whole(now, [record], notifies=False))
            if isinstance(result, Exception):
                refused = result
                raise result
            recorded: Step = result
            if recorded is not step:
                raise RecordedBefore(recorded)  # rolls the function's rows back
            store.probe("within", [record])
    except RecordedBefore as before:
        return before.step
    except StoreUnavailable:
        if refused is not None:
            raise refused from None
        raise
    store.probe("after", [record])
    return step


async def _recorded(store: DatabaseStore, request: TransactStep) -> Step | None:
    """The record of the step, if there is one. Asks until the store answers: without an answer the function must not run again."""
    return await store.patiently(lambda: recorded_step(store.database, request.claim, request.key))
