"""Where a store is: which PostgreSQL cluster, or which file. Found to be another one, it was restored or copied.

On PostgreSQL events and runs are compared by the numbers of transactions, and each cluster counts its own. After a dump was restored
into another cluster, a row of wakeful_origin says from which event and run on the new numbers count; the queries compare by
that first. It is written before anything else is written there, so each process looks when it connects to write. One row is all
there is to do, however large the store is: a crash leaves it written or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.clock import Microseconds

ORIGIN_LOCK = 0x77616B66  # any number that others are unlikely to use
UNKNOWN = "unknown"  # a server that does not tell: then only numbers that cannot be its own tell that it is another one


@dataclass(frozen=True, slots=True)
class Origin:
    """One place where the store was."""

    number: int
    identity: str
    place: str | None
    event_seq: int
    began_at: Microseconds


async def cluster(connection: Any, queries: Mapping[str, str], errors: Any) -> str:
    """Which cluster this is. Some services that speak like PostgreSQL do not tell."""
    try:
        return str(await connection.fetchval(queries["this_origin"]))
    except (errors.InsufficientPrivilegeError, errors.UndefinedFunctionError, errors.FeatureNotSupportedError):
        return UNKNOWN


async def settle_origin(
    connection: Any, queries: Mapping[str, str], errors: Any, now: Microseconds | None
) -> tuple[str, str] | None:
    """Make sure that the last origin is this cluster. If the store was in another one, both are returned, the other first.
    Nothing happens as long as the schema has no origins.
    """
    try:
        identity = await cluster(connection, queries, errors)
        if is_here(await connection.fetchrow(queries["last_origin"]), identity):
            return None
    except errors.UndefinedTableError:
        return None
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", ORIGIN_LOCK)
        last = await connection.fetchrow(queries["last_origin"])
        if is_here(last, identity):
            return None  # another process was first
        before = UNKNOWN if last is None else str(last[1])
        if last is None:
            elsewhere = await connection.fetchval(queries["written_elsewhere"])
            await connection.execute(queries["begin_origin"], now, UNKNOWN if elsewhere else identity, None)
            if not elsewhere:
                return None
        await connection.execute(queries["begin_origin"], now, identity, None)
    return before, identity


def is_here(last: Any, identity: str) -> bool:
    """Is the last origin this cluster?"""
    return last is not None and last[1] == identity and not last[2]


def file_identity(path: Path) -> str:
    """Which file this is: another name or another machine's name do not make it another one, a copy does."""
    return str(path.stat().st_ino)
