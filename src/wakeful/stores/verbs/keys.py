"""Order by key: one row for each key, which whoever accepts or ends a run of it locks first.

    lock ──► the verbs ──► pass_on ──► claims
             insert runs      runs that are over let go of their places,
             or end them      and the first ones of each key become due

All keys of a transaction are locked before it looks at any run, in one order for everybody. So nobody waits in a circle; and
a run that is accepted while the one before it ends is seen by one of the two: whichever comes second finds the rows of the
first. Which run is next is derived from the rows every time, never counted: a repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wakeful.model import Flow
from wakeful.stores.base import (
    CancelRun,
    ClaimRuns,
    CloseRun,
    CommitRun,
    Count,
    FeedEvents,
    FinishCancelled,
    FinishRun,
    ForkRun,
    OpenEffect,
    RedoRun,
    Row,
    SaveEffect,
    SaveSteps,
    Transaction,
)
from wakeful.stores.timing import accept_of

Lane = tuple[str, str, str]  # app, agent, key

ENDS = frozenset({FinishRun, CommitRun, CloseRun})  # after which a run of the same key may be due
HAVE_NO_KEY = frozenset(
    {SaveSteps, ClaimRuns, OpenEffect, SaveEffect}
)  # the most frequent ones: nothing begins or ends
# Requests that name a run by its id: whether it has a key is looked up.
BY_RUN = frozenset({RedoRun, ForkRun, CancelRun})


@dataclass(slots=True)
class Lanes:
    """The keys that a transaction has locked, and the runs that it may end."""

    settings: dict[Lane, tuple[int, int]] = field(default_factory=dict)  # how many at once (0: unchanged), and `blocks`
    ending: set[int] = field(default_factory=set)
    given_up: set[Lane] = field(default_factory=set)  # may be passed on when the verbs are done
    unordered: set[Lane] = field(default_factory=set)

    def add(self, app: str, agent: str, flow: Flow) -> None:
        if flow.key is None:
            return
        lane = (app, agent, flow.key)
        self.settings[lane] = (flow.per_key or 0, int(flow.blocks))
        if not flow.ordered:
            self.unordered.add(lane)


def lock(requests: Sequence[Any]) -> Transaction[Lanes | None]:
    """Lock every key that these requests have to do with; None when there is none."""
    lanes = Lanes()
    named: list[str] = []
    for request in requests:
        kind = type(request)
        if kind in HAVE_NO_KEY:
            continue
        if kind in ENDS or kind is FinishCancelled:
            claim = request.claim
            if claim.key is not None:
                lane = (claim.app, claim.agent, claim.key)
                lanes.settings.setdefault(lane, (0, 1))
                lanes.given_up.add(lane)
                if kind is not CloseRun and not _is_done(request):
                    lanes.ending.add(claim.seq)
        elif (accept := accept_of(request)) is not None:
            for arrival in accept.arrivals:
                for admission in arrival.admissions:
                    if admission.flow is not None:
                        lanes.add(accept.app, admission.agent, admission.flow)
        elif kind is FeedEvents:
            for flow in request.flows.values():
                lanes.add(request.app, request.agent, flow)
        elif kind in BY_RUN:
            named.append(request.id)
    if named:
        for app, agent, key, seq in (yield "keys_of_runs", [(one,) for one in sorted(set(named))]):
            lanes.settings.setdefault((app, agent, key), (0, 1))
            lanes.given_up.add((app, agent, key))
            lanes.ending.add(seq)
    if not lanes.settings:
        return None
    yield Count("lock_keys", [(*lane, *lanes.settings[lane]) for lane in sorted(lanes.settings)])
    return lanes


def _is_done(request: FinishRun | CommitRun | FinishCancelled) -> bool:
    """One that goes well lets go of its place by the statement that ends it."""
    kind = type(request)
    return (kind is FinishRun and request.state == "done") or (kind is CommitRun and request.then == "done")  # type: ignore[union-attr]


def pass_on(now: int | None, lanes: Lanes) -> Transaction[Sequence[Row]]:
    """What is over lets go, and the next ones become due: (id, app, agent) of these."""
    if lanes.ending:
        yield Count("let_go", [(seq,) for seq in sorted(lanes.ending)])
    ordered = sorted(lanes.given_up - lanes.unordered)
    return (yield from promote(now, ordered)) if ordered else []


def promote(now: int | None, lanes: Sequence[Lane]) -> Transaction[Sequence[Row]]:
    """The first ones of these keys, which are locked, become due: (id, app, agent) of these."""
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
    """So many new places of each key, at its end: the first of them."""
    rows = yield "take_places", [(*lane, counts[lane]) for lane in sorted(counts)]
    return {(app, agent, key): counter - counts[app, agent, key] + 1 for app, agent, key, counter in rows}
