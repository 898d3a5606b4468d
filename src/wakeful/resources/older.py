"""Living processes of older versions: they work on the same store, but know no halts, policies and approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from wakeful.resources.desk import NOW, Desk
from wakeful.resources.words import plain

HALTS_SINCE = 23
APPROVALS_SINCE = 27  # and policies
MOST_SHOWN = 3


async def older_processes(desk: Desk, since: int) -> list[str]:
    """The living processes whose code does not know a migration, in words."""
    rows = await desk.reads.fetch("older_processes", NOW, since)
    return [f"{identifier} on {plain(host)} (pid {pid})" for identifier, host, pid, _ in rows]


def words_of(processes: list[str], ignored: str) -> str:
    one = len(processes) == 1
    more = len(processes) - MOST_SHOWN
    named = ", ".join(processes[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    what = "a process" if one else f"{len(processes):,} processes"
    return f"{what} of an older version of Wakeful {'does' if one else 'do'} not know {ignored}: {named}"


def warns(since: int, ignored: str) -> Callable[[Desk, Any], Awaitable[list[str]]]:
    """The warning after a verb that older processes do not obey."""

    async def warn(desk: Desk, _: Any) -> list[str]:
        found = await older_processes(desk, since)
        return [f"{words_of(found, ignored)}. It goes on as before until you stop it"] if found else []

    return warn
