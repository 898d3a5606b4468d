"""Releasing and discarding quarantined inputs. The command line and the HTTP API share this.

    kept ──release──► read again by its source ──► one transaction: its events, and its new state
      │                        └─ still wrong: reports the reason, and stays
      └──discard──► kept as a record until its retention time is over

A release is safe to repeat: released events have their real identity, and inputs that were ended meanwhile are skipped.
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
from wakeful.operations.pace import BATCH, Pace, Progress, carry_out, unseen
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
    """The result for one input. `refused`: already ended, or of another app; `wrong`: still cannot be taken in, and stays."""

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
        """How many of its events were duplicates."""
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
    """Let its source read the input again and accept the resulting events. `trust`: skip verification; the operator vouches."""
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
        return Ended(
            key, "kept", f"{key} was released or discarded just now by another operator: see `wakeful why {key}`"
        )
    return Ended(key, "released", receipts=ended.receipts)


async def discard(
    store: DatabaseStore, found: Shown, *, by: Actor, note: str | None = None, bulk: Bulk | None = None
) -> Ended:
    """Discard an input; it becomes no event."""
    key = found["key"]
    if (refused := refusal(found)) is not None:
        return Ended(key, "kept", refused)
    ended = await store.do(EndQuarantine(found["app"], key, by=by, note=note, bulk=bulk))
    if ended is None:
        return Ended(
            key, "kept", f"{key} was released or discarded just now by another operator: see `wakeful why {key}`"
        )
    return Ended(key, "discarded")


def refusal(found: Shown, app: str | None = None) -> str | None:
    """Why the input cannot be released or discarded; None if it can."""
    if found["state"] != "kept":
        return f"{found['key']} was {found['state']} by {found['settled_by']} at {found['settled_at']}"
    if app is not None and found["app"] != app:
        return f"{found['key']} belongs to app {found['app']}, not {app}: only that app's code can read it"
    return None


# grouped


async def dead_inputs(reads: ReadsDatabase) -> list[Shown]:
    """Quarantined inputs as dead letters: the number by source and kind, and the newest one's reason."""
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
    """The result for many inputs."""

    done: int = 0
    known: int = 0  # resulting events that were duplicates
    passed: int = 0  # ended meanwhile by another process
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
    """(place, key) of a source's inputs that wait for a person, oldest first, after a place."""
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
    progress: Progress = unseen,
) -> Tally:
    """Release the inputs, oldest first; without `releasing`, discard them. Inputs that are still wrong stay, counted by reason."""
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
