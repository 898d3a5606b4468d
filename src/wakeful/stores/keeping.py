"""Housekeeping: finds old rows, one window at a time, and removes them.

No transaction stays open while this code reads, and a read alone decides nothing: the transition that removes a row locks it and
checks it again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wakeful.clock import Microseconds
from wakeful.stores.alarm import Alarm
from wakeful.stores.payloads import BLOB, VALUES, Codec, in_blob
from wakeful.stores.places import PLACES, Place
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.tampered import Tampered, Tampering
from wakeful.stores.transaction import Row
from wakeful.stores.verbs.keeping import (
    ChangeCiphers,
    Family,
    RemoveArchived,
    RemoveFamilies,
    RemoveTraces,
    ResealPayloads,
)
from wakeful.stores.verbs.quarantine_room import CutQuarantine
from wakeful.stores.verbs.sources import ForgetOld

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore


@dataclass(frozen=True, slots=True)
class OldEvent:
    """An event without runs: whether it had any, and whether its payload is already removed."""

    seq: int
    accepted_at: Microseconds
    had_runs: bool
    gone: bool


OVER = frozenset({"done", "denied", "cancelled"})
WINDOW = 10_000
WINDOW_OF_TEXTS = 500
ROWS_AT_A_TIME = 100


@dataclass
class Resealed:
    """One piece of a walk over all payloads: rows passed, payloads changed, and payloads found tampered with."""

    rows: int
    payloads: int = 0
    tampered: list[Tampering] = field(default_factory=list)
    alarms: dict[str, Alarm] = field(default_factory=dict)  # about the tampered ones, by key


class Keeper:
    """Finds old rows and removes them."""

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store
        self._database = store.database

    async def time(self) -> Microseconds:
        """The store's own time."""
        return int((await self._database.fetch("read_time", self._database.read_clock()))[0][0])

    async def span(self, table: Literal["runs", "events", "operations"]) -> tuple[int, int]:
        """The first and the last seq of a table; (0, -1) if it is empty."""
        first, last = (await self._database.fetch(f"span_of_{table}"))[0]
        return (0, -1) if first is None else (first, last)

    async def old_families(
        self,
        app: str | None,
        after: int,
        upto: int,
        before: Microseconds,
        *,
        wanted: Callable[[str, Microseconds], Microseconds | None],
        newest: bool = False,
    ) -> list[tuple[str, Family]]:
        """Families, each with an agent, that have a run in this window that ended before `before`. A family counts only if all its
        runs ended before the time that `wanted` returns for the agent and the end of that run; if it returns None, the family is
        kept. Most families have one run and come with the window; the others are read separately. `newest`: see `families`.
        """
        found: list[tuple[str, Family]] = []
        others: dict[str, tuple[str, Microseconds]] = {}
        for root, agent, finished, run, token, is_newest, alone, unsettled in await self._database.fetch(
            "old_runs", app, after, upto, before
        ):
            until = wanted(agent, finished)
            if until is None:
                continue
            if not alone:
                others[root] = (agent, until)
            elif not unsettled and (newest or not is_newest):
                found.append((agent, Family(root, frozenset([(run, token)]), until)))
        if others:
            whole = await self.families({root: until for root, (_, until) in others.items()}, newest=newest)
            found += [(others[family.root][0], family) for family in whole]
        return found

    async def family(self, root: str, before: Microseconds) -> Family | None:
        """As `families`, for one root."""
        return next(iter(await self.families({root: before})), None)

    async def families(self, roots: Mapping[str, Microseconds], *, newest: bool = False) -> list[Family]:
        """The families that ended completely before the given time and have nothing open. The newest run of the store is never
        removed; its family is returned only with `newest`.
        """
        given = [(root,) for root in roots]
        found = await self._database.fetch_each("family_of_root", given)
        over = [
            Family(root, frozenset((row[0], row[1]) for row in rows), before)
            for (root, before), rows in zip(roots.items(), found, strict=True)
            if rows
            and all(row[2] in OVER and row[3] is not None and row[3] <= before for row in rows)
            and (newest or not any(row[4] for row in rows))
        ]
        unsettled = await self._database.fetch_each("unsettled_of_family", [(family.root,) for family in over])
        return [family for family, rows in zip(over, unsettled, strict=True) if not rows]

    async def remove_families(self, families: list[Family]) -> list[str]:
        """Remove the families that have not changed since they were read. Returns the ids of the removed runs."""
        return await self._store.do(RemoveFamilies(families))

    async def remove_archived(self, families: list[Family], path: str, *, by: Actor, bulk: Bulk) -> list[str]:
        """As remove_families, on behalf of a person."""
        return await self._store.do(RemoveArchived(families, path, by=by, bulk=bulk))

    async def old_events(self, app: str, after: int, upto: int, before: Microseconds) -> list[OldEvent]:
        """Events in a window that were accepted before `before` and have no runs left."""
        rows = await self._database.fetch("old_events", app, after, upto, before)
        return [OldEvent(seq, accepted, bool(had), bool(gone)) for seq, accepted, had, gone in rows]

    async def old_operations(
        self, app: str, after: int, upto: int, sent: Microseconds, decided: Microseconds | None
    ) -> list[int]:
        """The records of who did what, in a window: those about events that are gone, from before `sent`, and the acts of people from
        before `decided` (None: all of these are kept).
        """
        return [row[0] for row in await self._database.fetch("old_operations", app, after, upto, sent, decided)]

    async def old_idempotency(
        self, app: str, after: str, before: Microseconds, most: int
    ) -> tuple[list[str], str | None]:
        """The old ones among the next `most` keys, and the cursor for the next call; None at the end."""
        rows = await self._database.fetch("old_idempotency", app, after, before, most)
        return [key for key, old in rows if old], rows[-1][0] if len(rows) == most else None

    async def empty_keys(self, app: str, most: int) -> list[tuple[str, str]]:
        """(agent, key) of keys that no run holds or waits for."""
        return [(agent, key) for agent, key in await self._database.fetch("empty_keys", app, most)]

    async def old_uses(self, app: str, before: Microseconds, most: int) -> list[tuple[str, str, str]]:
        """(rule, subject, use) of counted rules, used before then."""
        rows = await self._database.fetch("old_uses_of_rules", app, before, most)
        return [(rule, subject, use) for rule, subject, use in rows]

    async def unused_counters(self, app: str, most: int) -> list[tuple[str, str]]:
        """(rule, subject) of counters without a use."""
        return [(rule, subject) for rule, subject in await self._database.fetch("unused_counters", app, most)]

    async def agents_with_schedules(self, app: str) -> list[str]:
        return [row[0] for row in await self._database.fetch("agents_with_schedules", app)]

    async def sources_with_gone(self, app: str) -> list[tuple[str, Microseconds]]:
        """Sources with items that are gone, each with the time of the first such item."""
        return [(source, since) for source, since in await self._database.fetch("sources_with_gone", app)]

    async def oldest_event(self) -> Microseconds | None:
        """When the oldest event in the store was accepted."""
        rows = await self._database.fetch("oldest_event")
        return rows[0][0] if rows else None

    async def forget_old(self, request: ForgetOld) -> int:
        return await self._store.do(request)

    async def cut_quarantine(self, request: CutQuarantine) -> int:
        """Cut quarantined inputs that are too old or too many. Returns how many were removed; call again for the rest."""
        return await self._store.do(request)

    async def remove_traces(self, request: RemoveTraces) -> int:
        """Remove other old rows. Returns how many were removed or emptied."""
        return await self._store.do(request)

    # blobs

    async def unreferenced(self, after: str, before: Microseconds, most: int) -> tuple[set[str], str]:
        """Of the next `most` blobs older than `before`: those that no row points to, and the cursor for the next call."""
        ids = [row[0] for row in await self._database.fetch("old_blobs", after, before, most)]
        left = set(ids)
        for place in PLACES if ids else ():
            if VALUES.isdisjoint(place.columns):
                continue
            async for rows in self._walk(place, f"references_of_{place.noun}", WINDOW):
                left -= {
                    text[len(BLOB) :] for row in rows for text in row if text is not None and text.startswith(BLOB)
                }
        return left, ids[-1] if len(ids) == most else ""

    async def _walk(self, place: Place, query: str, window: int) -> AsyncIterator[list[Row]]:
        """All rows of a table that match a query, window by window."""
        if place.walk is None:
            yield await self._database.fetch(query)
            return
        first, last = (await self._database.fetch(f"walk_of_{place.noun}"))[0]
        at = last if first is None else first - 1
        while at is not None and at < last:
            yield await self._database.fetch(query, at, at + window)
            at += window

    # encryption

    async def ciphers(self) -> list[str]:
        """The ids of the keys that this store's payloads may be encrypted with."""
        return [row[0] for row in await self._database.fetch("list_ciphers")]

    async def change_ciphers(self, enters: list[str], leaves: list[str], *, by: Actor, bulk: Bulk) -> None:
        await self._store.do(ChangeCiphers(enters, leaves, by=by, bulk=bulk))

    async def older_processes(self, needs: int) -> list[Row]:
        """(id, host, pid, …) of living processes whose code does not know a migration."""
        return await self._database.fetch("older_processes", self._database.read_clock(), needs)

    async def unbound_processes(self) -> list[Row]:
        """(id, host, pid, …) of living processes that do not yet bind payloads to their places."""
        return await self._database.fetch("unbound_processes", self._database.read_clock())

    async def extent(self) -> int:
        """About how many rows a walk over all payloads passes."""
        spans = [(await self._database.fetch(f"walk_of_{place.noun}"))[0] for place in PLACES if place.walk is not None]
        return sum(last - first + 1 for first, last in spans if first is not None)

    async def reseal(self, codec: Codec, alarmed: set[str], *, by: Actor, bulk: Bulk) -> AsyncIterator[Resealed]:
        """Encrypt every payload with the first key and bind it to its place, piece by piece. A payload is changed only if it is
        still as it was read. A tampered payload stays as it is, is reported, and opens an alarm in the same transaction as the
        changes of its piece. `alarmed`: keys of alarms that are already open and are not opened again.
        """
        for place in PLACES:
            async for rows in self._walk(place, f"payloads_of_{place.noun}", WINDOW_OF_TEXTS):
                passed = Resealed(len(rows) if place.walk is None else WINDOW_OF_TEXTS)
                changes = [change async for change in self._renewed(codec, place, rows, passed)]
                alarms = [alarm for key, alarm in passed.alarms.items() if key not in alarmed]
                for start in range(0, max(len(changes), min(len(alarms), 1)), ROWS_AT_A_TIME):
                    part = changes[start : start + ROWS_AT_A_TIME]
                    payloads = [(query, row) for query, row, _ in part]
                    blobs = [blob for _, _, blob in part if blob is not None]
                    told = alarms if start == 0 else []
                    await self._store.do(ResealPayloads(payloads, blobs, told, by=by, bulk=bulk))
                alarmed.update(passed.alarms)
                passed.payloads = len(changes)
                yield passed

    async def _renewed(
        self, codec: Codec, place: Place, rows: Sequence[Row], passed: Resealed
    ) -> AsyncIterator[tuple[str, Row, tuple[str, str] | None]]:
        """The changes that rows need: the query, its parameters, and a new blob if the row points to one."""
        width = len(place.keys)
        for row in rows:
            for number, column in enumerate(place.columns, start=width + 1):
                stored = row[number]
                if not stored:
                    continue
                blob = await self._content(stored) if stored.startswith(BLOB) else None
                if stored.startswith(BLOB) and blob is None:
                    continue  # removed by hand; reading it reports that
                new = codec.renewed(place.noun, column, row[width], stored, blob)
                if isinstance(new, Tampered):
                    passed.tampered.append(new.finding)
                    for (app,) in await self._database.fetch(f"app_of_{place.noun}", *row[:width]):
                        if app is not None:  # None in a store that no app has used yet
                            key = new.finding.alarm_key(app)
                            passed.alarms[key] = Alarm(app, key, str(new.finding))
                elif new is not None:
                    made: list[tuple[str, str]] = []
                    text = in_blob(new, made) if blob is not None else new
                    query = f"reseal_{place.noun}_{column}"
                    yield query, (*row[:width], stored, text), made[0] if made else None

    async def _content(self, reference: str) -> str | None:
        found = await self._database.fetch("find_blob", reference[len(BLOB) :])
        return found[0][1] if found else None
