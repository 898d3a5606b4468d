"""Changes that are committed but cannot be read before an older transaction ends: who holds it, and how to end it."""

from __future__ import annotations

from typing import Any

# A row of a transaction that has not begun yet came with a restored dump: nothing holds it up.
_WAITING = """
select count(*) from {schema}.wakeful_change where app = $1 and changed_at < clock_timestamp() - make_interval(secs => $2)
  and transaction_id >= pg_snapshot_xmin(pg_current_snapshot()) and transaction_id < pg_snapshot_xmax(pg_current_snapshot())
"""
_OLDEST = """
select pid, application_name, usename::text, null as prepared, age(backend_xid) as age from pg_stat_activity where backend_xid is not null
union all select null, null, owner::text, gid, age(transaction) from pg_prepared_xacts
order by age desc limit 1
"""


async def held_up(connection: Any, schema: str, app: str, *, longer_than: float) -> str | None:
    """The text about changes that have waited longer than that many seconds; None if there are none."""
    waiting = await connection.fetchval(_WAITING.format(schema=schema), app, longer_than)
    if not waiting:
        return None
    oldest = await connection.fetchrow(_OLDEST)
    told = f"{waiting:,} changes cannot be read before a long-running transaction ends"
    if oldest is None:  # not visible to this role
        return f"{told}: SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY 2 shows whose it is"
    process, application, role, prepared, _ = oldest
    if prepared is not None:
        name = prepared.replace("'", "''")
        return f"{told}: role {role} has prepared it and not finished it: COMMIT PREPARED '{name}', or ROLLBACK PREPARED '{name}'"
    return (
        f"{told}: it belongs to process {process} (application {application!r}, role {role}): end it there, or "
        f"SELECT pg_terminate_backend({process})"
    )
