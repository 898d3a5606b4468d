"""`postgres_changes(…, via="triggers")`: a database trigger writes each change into a table, which is read. See table.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.connect.postgres.database import connect, trouble, troubles
from wakeful.connect.postgres.table import look, refused
from wakeful.connect.postgres.table_reader import TableReader
from wakeful.connect.rows.telling import RowEvents, one_each
from wakeful.errors import ConfigError
from wakeful.triggers.source import Context, Reader, SourceTrouble


def reader(triggers: Sequence[Any], context: Context) -> Reader:
    """The reader for all triggers on one database."""
    return TableReader(triggers[0].place, triggers[0].dsn, one_each(one.rows for one in triggers), context)


async def problems(trigger: Any) -> list[str]:
    """What prevents the changes from being read, for `wakeful check`."""
    where = f"postgres_changes {trigger.place}"
    try:
        connection = await connect(trigger.address, where, application="wakeful check")
        try:
            ground = await look(connection, "", RowEvents([trigger.rows]), where=where)
            fault = await refused(connection, trigger.rows.table, where=where) if not ground.faults else None
        finally:
            await connection.close(timeout=2)
    except (SourceTrouble, ConfigError) as error:
        return [str(error)]
    except troubles() as error:
        return [str(trouble(where, error))]
    return ground.faults if fault is None else [fault]
