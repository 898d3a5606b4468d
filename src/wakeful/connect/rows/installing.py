"""The SQL of change tables, for people: the statements that are still needed in a database, or that remove everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wakeful.connect.postgres.trigger import PostgresChanges
from wakeful.connect.rows.telling import RowEvents, one_each
from wakeful.connect.sqlite.trigger import SqliteChanges
from wakeful.triggers.source import SourceTrouble


async def sql_for(app: str, triggers: Sequence[Any], *, remove: bool) -> tuple[str, list[str]] | None:
    """Place and statements for triggers that share a reader; None if they need no change table."""
    first = triggers[0]
    row_events = (
        RowEvents(one_each(one.rows for one in triggers))
        if isinstance(first, SqliteChanges | PostgresChanges)
        else None
    )
    if row_events is None:
        return None
    if isinstance(first, SqliteChanges):
        return first.rows.place, await asyncio.to_thread(_in_file, app, first, row_events, remove=remove)
    if first.via != "triggers":
        return None
    return first.place, await _in_database(app, first, row_events, remove=remove)


def _in_file(app: str, trigger: SqliteChanges, row_events: RowEvents, *, remove: bool) -> list[str]:
    from wakeful.connect.sqlite.file import FileError, connect, trouble
    from wakeful.connect.sqlite.table import removal, steps

    where = f"sqlite_changes {trigger.rows.place}"
    file = connect(trigger.path, where, reading=True)
    try:
        if remove:
            return removal(file, app)
        doing, faults = steps(file, app, row_events, where=where)
    except FileError as error:
        raise trouble(where, trigger.path, error) from error
    finally:
        file.close()
    if faults:
        raise SourceTrouble("; ".join(faults.values()))
    return [" ".join(one.split()) for one in doing]


async def _in_database(app: str, trigger: PostgresChanges, row_events: RowEvents, *, remove: bool) -> list[str]:
    from wakeful.connect.postgres.database import connect, trouble, troubles
    from wakeful.connect.postgres.table import look, removal

    where = f"postgres_changes {trigger.place}"
    connection = await connect(trigger.address, where, application="wakeful changes")
    try:
        if remove:
            return await removal(connection, app)
        ground = await look(connection, app, row_events, where=where)
    except troubles() as error:
        raise trouble(where, error) from error
    finally:
        await connection.close(timeout=2)
    if ground.faults:
        raise SourceTrouble("; ".join(ground.faults))
    return ground.remedies() if ground.steps else []
