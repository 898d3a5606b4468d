"""Where a store is: which PostgreSQL cluster, or which file. If that has changed, the store was restored or copied.

On PostgreSQL, events and runs are compared by transaction numbers, and each cluster counts its own. After a dump was restored into
another cluster, a row of wakeful_origin says from which event and run on the new numbers count; queries compare by that row first. The
row must be written before anything else is written there, so each process checks when it connects to write. The row is the only change,
however large the store is; after a crash it is either written or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.clock import Microseconds
from wakeful.model import Claim
from wakeful.stores.database import Database

ORIGIN_LOCK = 0x77616B66  # any number that others are unlikely to use
UNKNOWN = "unknown"  # the server does not tell: then only transaction numbers that cannot be its own show a move


@dataclass(frozen=True, slots=True)
class Origin:
    """One place that the store has been in."""

    number: int
    identity: str
    place: str | None
    event_seq: int
    began_at: Microseconds


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one look at a cluster and its store."""

    here: str  # this cluster
    last: str | None  # the store's last place; None if it was never recorded
    elsewhere: bool  # the newest event has a transaction number that this cluster has not reached
    restored_before: int

    @property
    def is_known(self) -> bool:
        """Whether the store is where it was. A role that may not ask for the cluster, now or then, has no reason to doubt it."""
        known = self.last is not None and (self.last == self.here or UNKNOWN in (self.last, self.here))
        return known and not self.elsewhere


async def cluster(connection: Any, queries: Mapping[str, str], errors: Any) -> str:
    """The identity of this cluster; UNKNOWN from services that speak PostgreSQL's protocol but do not tell."""
    try:
        return str(await connection.fetchval(queries["this_origin"]))
    except untold(errors):
        return UNKNOWN


def untold(errors: Any) -> tuple[type[Exception], ...]:
    return (errors.UndefinedFunctionError, errors.FeatureNotSupportedError, errors.InsufficientPrivilegeError)


async def determine_origin(
    connection: Any, queries: Mapping[str, str], errors: Any, now: Microseconds | None
) -> tuple[int, tuple[str, str] | None]:
    """Make sure that the last recorded origin is this cluster. Returns the number below which runs may have continued elsewhere and, if
    the store was in another cluster until now, both clusters, the other one first. Does nothing if the schema has no origins yet.
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
    """The identity of a file. Another path or another host name leaves it the same; a copy has another one."""
    return str(path.stat().st_ino)


async def was_restored(database: Database, claim: Claim) -> bool:
    """Whether a run, or the first run of its family, is older than the backup that this store was restored from. Such a run may
    have gone on elsewhere, and later runs of a family do the same operations.
    """
    before = database.restored_before
    if claim.seq < before:
        return True
    if not before or claim.id == claim.root:
        return False
    rows = await database.fetch("seq_of_run", claim.root)
    return not rows or rows[0][0] < before
