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


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at a cluster and its store says."""

    here: str  # this cluster
    last: str | None  # where the store was last; None: that was never written down
    elsewhere: bool  # the newest event has a transaction that is still to come here
    restored_before: int

    @property
    def is_known(self) -> bool:
        """Is it where it was? A role that may not ask which cluster this is, or might not, has no reason to think otherwise."""
        known = self.last is not None and (self.last == self.here or UNKNOWN in (self.last, self.here))
        return known and not self.elsewhere


async def cluster(connection: Any, queries: Mapping[str, str], errors: Any) -> str:
    """Which cluster this is. Some services that speak like PostgreSQL do not tell."""
    try:
        return str(await connection.fetchval(queries["this_origin"]))
    except untold(errors):
        return UNKNOWN


def untold(errors: Any) -> tuple[type[Exception], ...]:
    return (errors.UndefinedFunctionError, errors.FeatureNotSupportedError, errors.InsufficientPrivilegeError)


async def determine_origin(
    connection: Any, queries: Mapping[str, str], errors: Any, now: Microseconds | None
) -> tuple[int, tuple[str, str] | None]:
    """Make sure that the last origin is this cluster. Returns below which number runs may have gone on elsewhere and, if the
    store was in another cluster until now, both, the other first. Nothing happens as long as the schema has no origins.
    """
    try:
        name = "look_at_origin"
        try:
            looked = Looked(*await connection.fetchrow(queries[name]))
        except untold(errors):
            name = "look_at_origin_only"
            looked = Looked(*await connection.fetchrow(queries[name]))
    except errors.UndefinedTableError:
        return 0, None
    if looked.is_known:
        return looked.restored_before, None
    moved = None
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", ORIGIN_LOCK)
        looked = Looked(*await connection.fetchrow(queries[name]))
        if looked.last is None:
            await connection.execute(queries["begin_origin"], now, UNKNOWN if looked.elsewhere else looked.here, None)
        if not looked.is_known and (looked.last is not None or looked.elsewhere):  # else another process was first
            await connection.execute(queries["begin_origin"], now, looked.here, None)
            moved = (looked.last or UNKNOWN, looked.here)
        looked = Looked(*await connection.fetchrow(queries[name]))
    return looked.restored_before, moved


def file_identity(path: Path) -> str:
    """Which file this is: another name or another machine's name do not make it another one, a copy does."""
    return str(path.stat().st_ino)
