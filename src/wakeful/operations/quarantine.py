"""What people do about quarantine: look, mend what was wrong, release or discard. The command line and the HTTP API share this.

    kept ──release──► read again by its source ──► one transaction: its events, and that it is released
      │                        └─ still wrong: it says what, and stays
      └──discard──► kept as a record until its retention time is over

A release is safe to repeat: what is released has its real identity, and what somebody else ended meanwhile is left alone.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wakeful.intake.matching import fits
from wakeful.model import Receipt
from wakeful.operations.pace import BATCH, Pace, Progress, carry_out, nobody_looks
from wakeful.stores.known import waiting_inputs
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.quarantine import EndQuarantine
from wakeful.stores.verbs.sources import find_source
from wakeful.triggers.releasing import Releasing
from wakeful.triggers.source import SourceTrouble

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

READ_AT_ONCE = 20  # each with its bytes
SHOWN_REASONS = 5

Shown = dict[str, Any]


ReadInput = Callable[[str], Awaitable[Shown | None]]  # one input with its bytes, by its key


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one. `refused`: it was ended before, or is not ours; `wrong`: it still cannot be taken in, and stays."""

    key: str
    state: Literal["released", "discarded", "kept"]
    refused: str | None = None
    wrong: str | None = None
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.refused is None and self.wrong is None

    @property
    def known(self) -> int:
        """How many of its events had come before."""
        return sum(receipt.status == "duplicate" for receipt in self.receipts)

    def to_json(self) -> Shown:
        return {"key": self.key, "state": self.state, "events": [receipt.to_json() for receipt in self.receipts]}


async def release(
    store: DatabaseStore,
    releasing: Releasing,
    found: Shown,
    *,
    by: Actor,
    note: str | None = None,
    trust: bool = False,
    bulk: Bulk | None = None,
) -> Ended:
    """Have its source read it again, and let in what comes out. `trust`: whoever does this vouches for the sender."""
    key = found["key"]
    if (refused := refusal(found, releasing.app)) is not None:
        return Ended(key, "kept", refused)
    stored = await find_source(store.database, found["app"], found["source"])
    kind = None if stored is None else stored.kind
    raw, headers = b64decode(found["raw"]), found["headers"] or {}
    try:
        arrivals = releasing.read(
            found["source"],
            kind,
            raw,
            headers,
            found["received"],
            trust=trust,
            form=found.get("form"),
            reason=found["reason"],
        )
    except SourceTrouble as error:
        return Ended(key, "kept", wrong=str(error))
    accept = AcceptEvents(releasing.app, arrivals, matches=fits)
    ended = await store.do(EndQuarantine(releasing.app, key, accept=accept, by=by, note=note, bulk=bulk))
    if ended is None:
        return Ended(key, "kept", f"{key} was ended by somebody else just now: see `wakeful why {key}`")
    return Ended(key, "released", receipts=ended.receipts)


async def discard(
    store: DatabaseStore, found: Shown, *, by: Actor, note: str | None = None, bulk: Bulk | None = None
) -> Ended:
    """Nothing comes of it."""
    key = found["key"]
    if (refused := refusal(found)) is not None:
        return Ended(key, "kept", refused)
    ended = await store.do(EndQuarantine(found["app"], key, by=by, note=note, bulk=bulk))
    if ended is None:
        return Ended(key, "kept", f"{key} was ended by somebody else just now: see `wakeful why {key}`")
    return Ended(key, "discarded")


def refusal(found: Shown, app: str | None = None) -> str | None:
    """Why nothing can be done about it; None if it can."""
    if found["state"] != "kept":
        return f"{found['key']} was {found['state']} by {found['settled_by']} at {found['settled_at']}"
    if app is not None and found["app"] != app:
        return f"{found['key']} belongs to app {found['app']}, and this is {app}: only the code of that app can read it"
    return None


# all of it


async def dead_inputs(reads: ReadsDatabase) -> list[Shown]:
    """Inputs among the dead letters: how many of each source and kind, and the reason of the newest."""
    return [
        {
            "kind": "input",
            "app": one["app"],
            "source": one["source"],
            "quarantined": one["kind"],
            "newest_error": one["reason"],
            "count": one["count"],
            "last_at": one["last_at"],
            "newest": one["newest"],
        }
        for one in await waiting_inputs(reads)
    ]


# many


@dataclass(slots=True)
class Tally:
    """What became of many."""

    done: int = 0
    known: int = 0  # of the events that were made, those that had come before
    passed: int = 0  # ended by others meanwhile
    wrong: Counter[str] = field(default_factory=Counter)

    def count(self, one: Ended) -> None:
        self.done += one.done
        self.known += one.known
        self.passed += one.refused is not None
        if one.wrong is not None:
            self.wrong[one.wrong] += 1

    def to_json(self) -> Shown:
        shown = [{"reason": reason, "count": count} for reason, count in self.wrong.most_common(SHOWN_REASONS)]
        return {"done": self.done, "known": self.known, "still_wrong": self.wrong.total(), "reasons": shown}


async def kept_places(
    reads: ReadsDatabase, app: str, source: str, kind: str | None = None, after: int = 0
) -> list[tuple[int, str]]:
    """(place, key) of the inputs of a source that wait for a person, the oldest first, behind a place."""
    found: list[tuple[int, str]] = []
    while page := await reads.fetch("kept_of_source", app, source, kind, after, BATCH):
        found += [(place, key) for place, key in page]
        after = page[-1][0]
    return found


async def end_all(
    store: DatabaseStore,
    read: ReadInput,
    keys: Sequence[str],
    releasing: Releasing | None,
    *,
    app: str,
    source: str,
    by: Actor,
    note: str | None = None,
    trust: bool = False,
    pace: Pace | None = None,
    progress: Progress = nobody_looks,
) -> Tally:
    """Release them, the oldest first; without `releasing`, discard them. What is still wrong stays, and is counted by why."""
    tally = Tally()
    verb = "discard" if releasing is None else "release"
    bulk = Bulk(f"quarantine {verb}", app, source, str(len(keys)))

    async def end(key: str) -> Ended | None:
        found = await read(key)
        if found is None:
            return None
        if releasing is None:
            return await discard(store, found, by=by, note=note, bulk=bulk)
        return await release(store, releasing, found, by=by, note=note, trust=trust, bulk=bulk)

    async def some(batch: Sequence[str]) -> int:
        before = tally.done
        for start in range(0, len(batch), READ_AT_ONCE):
            for one in await asyncio.gather(*map(end, batch[start : start + READ_AT_ONCE])):
                if one is not None:
                    tally.count(one)
        return tally.done - before

    await carry_out(keys, some, pace=pace, progress=progress)
    return tally
