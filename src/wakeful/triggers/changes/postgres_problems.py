"""What is in the way of reading the changes of a table, asked of its database for `wakeful check`. Nothing is changed there."""

from __future__ import annotations

import re
from typing import Any

from wakeful.errors import ConfigError
from wakeful.triggers.changes.postgres_ground import Table, look_at_server, look_at_tables, missing
from wakeful.triggers.changes.replication import connect, driver, first_line


async def problems(trigger: Any) -> list[str]:
    """Each in one line, with the remedy."""
    rows = trigger.rows
    where = f"postgres_changes {trigger.place}"
    try:
        async with await connect(trigger.address, name="wakeful check") as connection:
            server = await look_at_server(connection)
            found = server.faults()
            if not server.may_replicate:
                found.append(server.no_replication())
            if server.free_slots < 1:
                found.append(server.no_slot())
            table = (await look_at_tables(connection, [rows.table])).get(rows.table)
            found += [await missing(connection, rows.table)] if table is None else faults_of(table, rows)
    except ConfigError as error:
        return [str(error)]
    except driver().Error as error:
        return [f"{where}: cannot be read: {first_line(error)}. Is it running, and is the address right?"]
    return [f"{where}: {one}" for one in found]


def faults_of(table: Table, rows: Any) -> list[str]:
    """What is wrong with one table for one trigger."""
    found = [] if (fault := table.fault(rows.operations)) is None else [fault]
    found += [
        f"table {table.name} has no column {name}: columns= names it"
        for name in rows.columns or ()
        if name not in table.columns
    ]
    if table.identity == "f" or rows.operations == ("insert",):
        return found
    remedy = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"
    if isinstance(rows.where, str) and re.search(r"\bdata\.(old|changed)\b", rows.where):
        found.append(f"where= asks for old values of {table.name}, which PostgreSQL does not tell before {remedy}")
    elif rows.columns is not None and "update" in rows.operations:
        found.append(
            f"without old values every update of {table.name} is told, whichever columns it changes: {remedy} "
            "lets columns= decide"
        )
    return found
