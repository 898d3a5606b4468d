"""The read side of quarantine: what could not be taken in, as JSON objects."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.errors import NotFound
from wakeful.intake.quarantine import raw_of
from wakeful.stores.database import Database
from wakeful.stores.tampered import refuse_to_act_on
from wakeful.stores.transaction import Row

LONGEST_PAGE = 500
LAST_CHARACTER = "\U0010ffff"
SHORTEST_PREFIX = 6

Shown = dict[str, Any]


class QuarantineReader:
    """Answers questions about what is, or was, in quarantine."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        *,
        app: str | None = None,
        source: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 50,
        after: int | None = None,
    ) -> Shown:
        """A page of it, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_quarantine", app, source, kind, state, after, most + 1)
        shown = [input_summary(row) for row in rows[:most]]
        onward = str(rows[most - 1][0]) if len(rows) > most else None
        cut = [one for one in await self.cut() if app in {None, one["app"]} and source in {None, one["source"]}]
        held = sum(room for name, room in await self._database.fetch("list_room") if app in {None, name})
        return {"quarantine": shown, "next": onward, "unverified": {"held": held, "cut": cut}}

    async def cut(self) -> list[Shown]:
        """What was removed of the unverified, so that they stay below their ceiling: of which source, and why."""
        return [
            {
                "app": app,
                "source": source,
                "why": why,
                "count": number,
                "bytes": size,
                "since": to_text(since),
                "last_at": to_text(last),
            }
            for app, source, why, number, size, since, last in await self._database.fetch("list_cut")
        ]

    async def one(self, identifier: str) -> Shown | None:
        """One of them with its bytes, by its key or the beginning of it, or by its event's id. PayloadTampered if its bytes or
        headers are not those that came.
        """
        rows = await self._rows(identifier)
        if not rows:
            events = await self._database.fetch("find_events", identifier)
            rows = [row for event in events for row in await self._rows(event[1])][:1]
        exact = [row for row in rows if row[1] == identifier]
        if len(rows) > 1 and not exact:
            message = f"{identifier} is the beginning of more than one key in quarantine: give more of it"
            raise NotFound(message)
        found = exact or rows
        refuse_to_act_on(found[:1])
        return input_detail(found[0]) if found else None

    async def _rows(self, identifier: str) -> list[Row]:
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
        return await self._database.fetch("find_quarantined", identifier, upper)

    async def kept_of(self, app: str, source: str, kind: str | None, after: int, most: int) -> list[tuple[int, str]]:
        """(place, key) of what a source has there for a person, the oldest first."""
        rows = await self._database.fetch("kept_of_source", app, source, kind, after, most)
        return [(seq, key) for seq, key in rows]

    async def waiting(self) -> list[Shown]:
        """How much waits for a person, of which source and kind, with the newest of each."""
        return [
            {
                "app": app,
                "source": source,
                "kind": kind,
                "count": count,
                "newest": key,
                "reason": reason,
                "last_at": to_text(came),
            }
            for app, source, kind, count, key, reason, came in await self._database.fetch("waiting_inputs")
        ]

    async def released_from(self, key: str) -> Shown | None:
        """What an event was made of, if that was in quarantine before."""
        rows = await self._database.fetch("released_from", key)
        first, by, at = min(rows, key=lambda row: row[2], default=(None, None, None))
        return None if first is None else {"key": first, "by": by, "at": to_text(at)}


# what is shown


def input_summary(row: Row) -> Shown:
    """Something in quarantine as every listing shows it."""
    _, key, app, source, kind, state, size, became, made, operator, note, settled, event_source, identifier = row[:14]
    reason, duplicates, accepted = row[14:17]
    return {
        "key": key,
        "app": app,
        "source": source,
        "kind": kind,
        "state": state,
        "reason": reason,
        "size": size,
        "came": duplicates + 1,
        "first_at": to_text(accepted),
        "became": None if became is None else {"key": became, "events": made},
        "settled_by": operator,
        "settled_at": to_text(settled),
        "note": note,
        "event": {"source": event_source, "id": identifier},
    }


def input_detail(row: Row) -> Shown:
    """With what came along, and its bytes: both None once they were removed."""
    headers, envelope, form = row[17:20]
    return {
        **input_summary(row),
        "headers": None if headers is None else from_json(headers),
        "raw": b64encode(raw_of(envelope)).decode() if envelope else None,
        "received": row[16],
        "form": form,
    }
