"""Detects a copied store. Two copies at work would execute the same runs, and the same effects, twice."""

from __future__ import annotations

from pathlib import Path

from wakeful.clock import SECOND, Microseconds, to_text
from wakeful.stores.origins import UNKNOWN, Origin, file_identity

SAID_FOR = 7 * 86400 * SECOND


def copied(
    origins: list[Origin], identity: str, *, is_file: bool, now: Microseconds, here: Path | None = None
) -> tuple[str, str] | None:
    """The finding and its remedy; None if the store was not copied or has been at this place for a week."""
    if not origins or (identity == UNKNOWN and len(origins) == 1):
        return None
    last = origins[-1]
    if identity not in (last.identity, UNKNOWN):
        before, since = last, "no process has opened it for writing here yet"
    elif len(origins) > 1 and now - last.began_at < SAID_FOR:
        before, since = origins[-2], f"it has been here since {to_text(last.began_at)}"
    else:
        return None
    what = (
        f"the file {before.place}" if is_file else f"another PostgreSQL cluster (system identifier {before.identity})"
    )
    remedy = (
        "make sure that no process uses the original: both copies would do the same work. See docs/how-to/backup.md"
    )
    if is_file and before.place and Path(before.place) != here and still_there(before):
        remedy = f"the original still exists: stop the processes of one copy, or move one away. Otherwise {remedy}"
    return f"a copy of {what}; {since}", remedy


def still_there(origin: Origin) -> bool:
    path = Path(origin.place or "")
    try:
        return file_identity(path) == origin.identity
    except OSError:
        return False
