"""Order by key: one row for each key, which every transaction that accepts or ends a run of the key locks first.

    lock ──► the verbs ──► pass_on ──► claims
             insert runs      ended runs give up their places,
             or end them      and the first runs of each key become due

All keys of a transaction are locked before it reads any run, and in the same order everywhere, so transactions cannot deadlock. If a run is
accepted while the one before it ends, the second of the two transactions sees the rows of the first. The next run is derived from the rows
each time, never counted, so a repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.stores.lanes import Lane, Lanes
from wakeful.stores.request import Request
from wakeful.stores.transaction import Count, Row, Transaction


def lock(requests: Sequence[Request[Any]]) -> Transaction[Lanes | None]:
    """Lock every key that these requests touch; None if there is none."""
    lanes = Lanes()
    for request in requests:
        if request.has_keys:
            request.lock_keys(lanes)
    if lanes.named:
        for app, agent, key, seq in (yield "keys_of_runs", [(one,) for one in sorted(lanes.named)]):
            lanes.settings.setdefault((app, agent, key), (0, 1))
            lanes.given_up.add((app, agent, key))
            lanes.ending.add(seq)
    if not lanes.settings:
        return None
    yield Count("lock_keys", [(*lane, *lanes.settings[lane]) for lane in sorted(lanes.settings)])
    return lanes


def pass_on(now: int | None, lanes: Lanes) -> Transaction[Sequence[Row]]:
    """Free the places of ended runs and make the next runs due. Returns (id, app, agent) of these."""
    if lanes.ending:
        yield Count("let_go", [(seq,) for seq in sorted(lanes.ending)])
    ordered = sorted(lanes.given_up - lanes.unordered)
    return (yield from promote(now, ordered)) if ordered else []


def promote(now: int | None, lanes: Sequence[Lane]) -> Transaction[Sequence[Row]]:
    """Make the first runs of these locked keys due. Returns (id, app, agent) of these."""
    first: dict[Lane, list[Row]] = {}
    for row in (yield "next_of_key", lanes):
        first.setdefault((row[0], row[1], row[2]), []).append(row[3:])
    may_go = [
        (now, seq, len(rows) - number)
        for rows in first.values()
        for number, (seq, state, due_at) in enumerate(rows, start=1)
        if state == "ready" and due_at is None
    ]
    return (yield "promote", sorted(may_go, key=lambda row: row[1])) if may_go else []


def take_places(counts: dict[Lane, int]) -> Transaction[dict[Lane, int]]:
    """Reserve this many places at the end of each key. Returns the first place of each."""
    rows = yield "take_places", [(*lane, counts[lane]) for lane in sorted(counts)]
    return {(app, agent, key): counter - counts[app, agent, key] + 1 for app, agent, key, counter in rows}
