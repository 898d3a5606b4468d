"""Duplicate events: counted, and stored as conflicts if their content differs from the first."""

from __future__ import annotations

import json

from wakeful.errors import StoreUnavailable
from wakeful.model import Arrival, Receipt
from wakeful.stores.tampered import Tampered
from wakeful.stores.transaction import Transaction

CONTENT = ("type", "subject", "datacontenttype", "dataschema", "data")


def count_duplicates(now: int | None, known: list[tuple[Arrival, Receipt]]) -> Transaction[None]:
    counted = yield "count_duplicate", [(arrival.key,) for arrival, _ in sorted(known, key=lambda pair: pair[0].key)]
    first_of = {row[0]: (row[1], row[2]) for row in counted}
    if len(first_of) < len({arrival.key for arrival, _ in known}):
        message = (
            "an event came again while it was being removed after its deduplication window: nothing was stored yet"
        )
        raise StoreUnavailable(message)
    rows = yield "runs_of_event", [(seq,) for seq in sorted({seq for seq, _ in first_of.values()})]
    runs: dict[int, list[str]] = {}
    for event_seq, run in rows:
        runs.setdefault(event_seq, []).append(run)
    for arrival, receipt in known:
        receipt.runs = runs.get(first_of[arrival.key][0], [])
    # An arrival without an envelope only says that the event came again (verbs/sources.py).
    differing = [pair for pair in known if pair[0].envelope and pair[0].content != first_of[pair[0].key][1]]
    if differing:
        yield from _keep_conflicts(now, differing, {key: seq for key, (seq, _) in first_of.items()})


def _keep_conflicts(
    now: int | None, differing: list[tuple[Arrival, Receipt]], seqs: dict[str, int]
) -> Transaction[None]:
    """Different digests may still mean the same content in another order. Each content is compared once, however often it came: a
    large event with a thousand deliveries of its identity must not delay other requests.
    """
    firsts = yield "envelope_of_event", [(seq,) for seq in sorted({seqs[arrival.key] for arrival, _ in differing})]
    # If the first payload was removed or tampered with, the contents cannot be compared: count the event as a plain duplicate.
    said = {
        seq: canonical(envelope) if envelope and not isinstance(envelope, Tampered) else None
        for seq, envelope in firsts
    }
    other: dict[tuple[int, str], bool] = {}
    conflicts = []
    for arrival, receipt in differing:
        seq = seqs[arrival.key]
        place = (seq, arrival.content)
        if place not in other:
            other[place] = said[seq] is not None and canonical(arrival.envelope) != said[seq]
            if other[place]:
                conflicts.append((now, seq, arrival.content, arrival.envelope))
        receipt.conflict = other[place]
    if conflicts:
        yield "insert_conflict", conflicts


def canonical(envelope: str) -> str:
    """The content of an event in a canonical form, independent of key order and of how it was delivered."""
    event = json.loads(envelope)
    return json.dumps([event.get(name) for name in CONTENT], sort_keys=True)
