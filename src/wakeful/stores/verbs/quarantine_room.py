"""Unverified inputs in quarantine have a size limit: the transaction that would exceed it removes the oldest and counts them.

    kept, unverified ──► + room ──► over the ceiling? ──► the oldest are cut, with their blobs ──► counted, by source and cause
    released         ──► − room     (a person vouches for it: it no longer counts, and is never cut)

Inputs that were verified but could not be read are neither counted nor cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wakeful.clock import Microseconds, duration
from wakeful.size import in_bytes
from wakeful.stores.alarm import Alarm, quarantine_alarm
from wakeful.stores.request import Request
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms

WhyCut = Literal["bytes", "days"]


# The size of an input's rows and index entries, without its texts.
ROOM_OF_ROWS = 1024


@dataclass(slots=True)
class CutQuarantine(Request[int]):
    """Remove unverified inputs that came before `before`, and the oldest while all together exceed the ceiling. Returns how many were
    removed; a limited number at a time, so repeat until it is zero.
    """

    app: str
    ceiling: int | None = None  # bytes
    before: Microseconds | None = None


# The most that one transaction cuts. Each is at least a kilobyte, and together they exceed any single request that is kept.
CUT_AT_ONCE = 100
QUIET_AFTER = duration("1d")


def free_room(rooms: Sequence[tuple[str, int]]) -> Transaction[None]:
    """Subtract (app, bytes) from the sums, for inputs that were removed or released."""
    freed: dict[str, int] = {}
    for app, room in rooms:
        freed[app] = freed.get(app, 0) + room
    for app in sorted(freed):
        if freed[app]:
            yield "add_room", [(app, -freed[app])]


def take_room(now: int | None, app: str, room: int, ceiling: int | None) -> Transaction[bool]:
    """Add to the sum of an app, and cut the oldest inputs above the ceiling. Returns True if cutting began with this: nothing had been
    cut for a day, and an alarm is open now.
    """
    held = (yield "add_room", [(app, room)])[0][0]
    if ceiling is None or held <= ceiling:
        return False
    oldest = yield "oldest_unverified", [(app, CUT_AT_ONCE)]
    _, begins = yield from _cut_down(now, app, held, ceiling, oldest)
    return begins


def cut_quarantine(now: int | None, requests: Sequence[CutQuarantine]) -> Transaction[list[int]]:
    """Recount the sum, cut inputs that are too old, then those above the ceiling. Returns how many were cut for each request."""
    results = []
    for one in requests:
        yield "add_room", [(one.app, 0)]
        held = (yield "recount_room", [(one.app,)])[0][0]
        oldest = yield "oldest_unverified", [(one.app, CUT_AT_ONCE)]
        late = [row for row in oldest if one.before is not None and row[3] <= one.before]
        gone = (yield from _cut(now, one.app, late, "days")) if late else 0
        held = (yield "add_room", [(one.app, 0)])[0][0] if gone else held
        if one.ceiling is not None and held > one.ceiling:
            left = [row for row in oldest if row not in late]
            gone += (yield from _cut_down(now, one.app, held, one.ceiling, left))[0]
        elif not (yield "cut_lately", [(now, one.app, QUIET_AFTER)]):
            yield from resolve_alarms(now, [quarantine_alarm(one.app)], "nothing had to be removed for a day")
        results.append(gone)
    return results


def _cut_down(
    now: int | None, app: str, held: int, ceiling: int, oldest: Sequence[Row]
) -> Transaction[tuple[int, bool]]:
    """Cut as many of the oldest as it takes to get below the ceiling. Returns how many, and whether cutting begins with them."""
    gone: list[Row] = []
    for row in oldest:
        if held <= ceiling:
            break
        gone.append(row)
        held -= row[2]
    if not gone:
        return 0, False
    lately = yield "cut_lately", [(now, app, QUIET_AFTER)]
    number = yield from _cut(now, app, gone, "bytes")
    begins = bool(number) and not lately
    if begins:
        text = (
            f"unverified requests take more than {in_bytes(ceiling)} in the quarantine of app {app}: "
            "the oldest of them are removed"
        )
        yield from open_alarms(now, [Alarm(app, quarantine_alarm(app), text)])
    return number, begins


def _cut(now: int | None, app: str, rows: Sequence[Row], why: WhyCut) -> Transaction[int]:
    """Remove inputs with all their rows, and count them by source. Returns how many. An input whose event another process has locked,
    because it came again just now, is left for the next time.
    """
    free = {row[0] for row in (yield "lock_event", [(row[0],) for row in rows])}
    rows = [row for row in rows if row[0] in free]
    if not rows:
        return 0
    seqs = [(row[0],) for row in rows]
    yield "cut_event", seqs
    yield "remove_conflicts", seqs
    yield "cut_quarantine", seqs
    blobs = sorted(blob for row in rows for blob in row[4:6] if blob is not None)
    if blobs:
        yield "cut_blob", [(blob,) for blob in blobs]
    counted: dict[str, tuple[int, int]] = {}
    for row in rows:
        number, size = counted.get(row[1], (0, 0))
        counted[row[1]] = (number + 1, size + row[2])
    yield "count_cut", [(now, app, source, why, *counted[source]) for source in sorted(counted)]
    yield from free_room([(app, row[2]) for row in rows])
    return len(rows)
