"""The SQL of change tables, for people: what is still to be done in a database, or what removes all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wakeful.connect.postgres.trigger import PostgresChanges
from wakeful.connect.rows.telling import Telling, one_each
from wakeful.connect.sqlite.trigger import SqliteChanges
from wakeful.triggers.source import SourceTrouble


async def sql_for(app: str, triggers: Sequence[Any], *, remove: bool) -> tuple[str, list[str]] | None:
    """Where, and which statements, for triggers that share a reader; None if they need no change table."""
    first = triggers[0]
    telling = (
        Telling(one_each(one.rows for one in triggers)) if isinstance(first, SqliteChanges | PostgresChanges) else None
    )
    if telling is None:
        return None
    if isinstance(first, SqliteChanges):
        return first.rows.place, await asyncio.to_thread(_in_file, app, first, telling, remove=remove)
    if first.via != "triggers":
        return None
    return first.place, await _in_database(app, first, telling, remove=remove)


def _in_file(app: str, trigger: SqliteChanges, telling: Telling, *, remove: bool) -> list[str]:
    from wakeful.connect.sqlite.file import FileError, connect, trouble
    from wakeful.connect.sqlite.table import removal, steps

    where = f"sqlite_changes {trigger.rows.place}"
    file = connect(trigger.path, where, reading=True)
    try:
        if remove:
            return removal(file, app)
        doing, faults = steps(file, app, telling, where=where)
    except FileError as error:
        raise trouble(where, trigger.path, error) from error
    finally:
        file.close()
    if faults:
        raise SourceTrouble("; ".join(faults.values()))
    return [" ".join(one.split()) for one in doing]


async def _in_database(app: str, trigger: PostgresChanges, telling: Telling, *, remove: bool) -> list[str]:
    from wakeful.connect.postgres.database import connect, trouble, troubles
    from wakeful.connect.postgres.table import look, removal

    where = f"postgres_changes {trigger.place}"
    connection = await connect(trigger.address, where, application="wakeful changes")
    try:
        if remove:
            return await removal(connection, app)
        ground = await look(connection, app, telling, where=where)
    except troubles() as error:
        raise trouble(where, error) from error
    finally:
        await connection.close(timeout=2)
    if ground.faults:
        raise SourceTrouble("; ".join(ground.faults))
    return ground.remedies() if ground.steps else []
