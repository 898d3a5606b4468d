"""Checks for `wakeful check` whether the changes of a table can be read. Nothing is changed in the database."""

from __future__ import annotations

import re
from typing import Any

from wakeful.connect.postgres.ground import (
    ReplicatedTable,
    look_at_server,
    look_at_tables,
    missing,
    one_row,
    quoted,
    quoted_name,
    split,
)
from wakeful.connect.postgres.replication import connect, driver, first_line
from wakeful.errors import ConfigError

_OLD = re.compile(r"\bdata\.(old|changed)\b").search
# A slot that the app already has need not be free.
_HAS_SLOT = """
select exists (select from pg_replication_slots where database = current_database() and plugin = 'pgoutput'
               and (slot_name = %s or slot_name like 'wakeful\\_%%'))
"""
_TOLD = "select exists (select from pg_publication_tables where schemaname = %s and tablename = %s)"


async def problems(trigger: Any) -> list[str]:
    """The problems, one line each, with the remedy."""
    rows = trigger.rows
    where = f"postgres_changes {trigger.place}"
    try:
        async with await connect(trigger.address, name="wakeful check") as connection:
            server = await look_at_server(connection)
            found = server.faults()
            if not server.may_replicate:
                found.append(server.no_replication())
            if server.free_slots < 1 and not (await one_row(connection, _HAS_SLOT, trigger.slot))[0]:
                found.append(server.no_slot())
            table = (await look_at_tables(connection, [rows.table])).get(rows.table)
            found += [await missing(connection, rows.table)] if table is None else faults_of(table, rows)
            if table is not None and not table.owned and not (await one_row(connection, _TOLD, *split(table.name)))[0]:
                found.append(
                    f"table {table.name} belongs to {table.owner}, and only its owner may publish it: GRANT "
                    f"{quoted_name(table.owner)} TO {quoted_name(server.role)}, or as {table.owner} create the publication that "
                    "the alarm of the running app names"
                )
    except ConfigError as error:
        return [str(error)]
    except driver().Error as error:
        return [f"{where}: cannot be read: {first_line(error)}. Is it running, and is the address right?"]
    return [f"{where}: {one}" for one in found]


def faults_of(table: ReplicatedTable, rows: Any) -> list[str]:
    """Problems of one table for one trigger."""
    found = [] if (fault := table.fault(rows.operations)) is None else [fault]
    found += [
        f"table {table.name} has no column {name}: columns= names it"
        for name in rows.columns or ()
        if name not in table.columns
    ]
    if table.identity == "f" or rows.operations == ("insert",):
        return found
    remedy = f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY FULL"
    asking = [name for name in ("where", "data") if isinstance(asked := getattr(rows, name), str) and _OLD(asked)]
    if asking:
        found.append(f"{asking[0]}= uses old values of {table.name}, which PostgreSQL does not send before {remedy}")
    elif rows.columns is not None and "update" in rows.operations:
        found.append(
            f"without old values every update of {table.name} becomes an event, regardless of the changed columns: {remedy} "
            "makes columns= effective"
        )
    return found
