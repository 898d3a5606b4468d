"""Processes: their leases, and what happens to the runs of one that died."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from wakeful.stores.base import BuryProcess, LeftBehind, RegisterProcess, RetireProcess, TakeOver, Transaction
from wakeful.stores.migrations import newest
from wakeful.stores.verbs.limits import show_limits
from wakeful.stores.verbs.versions import enter_versions


def register_processes(now: int | None, requests: Sequence[RegisterProcess]) -> Transaction[list[None]]:
    yield (
        "register_process",
        [
            (
                now,
                one.id,
                one.host,
                one.pid,
                one.lease,
                one.app,
                to_json(list(one.agents)).decode() if one.app else None,
                newest(),
                to_json(dict(sorted(one.versions.items()))).decode() if one.app and one.versions else None,
            )
            for one in requests
        ],
    )
    for one in requests:
        if one.app is not None:
            yield from show_limits(one.app, one.agents, one.limits)
            if one.versions:
                yield from enter_versions(now, one)
    return [None] * len(requests)


def retire_processes(now: int | None, requests: Sequence[RetireProcess]) -> Transaction[list[LeftBehind]]:
    """Whatever it still owns goes back without a crash: nobody looks for the runs of a process that has left."""
    results = []
    for request in requests:
        yield "retire_process", [(request.id,)]
        lanes = yield "free_lanes", [(request.id,)]
        runs = yield "give_back_runs", [(now, request.id)]
        if runs:
            yield (
                "insert_attempt",
                [(now, run, token - 1, request.id, "released", None, claimed) for run, token, claimed in runs],
            )
        results.append(LeftBehind(len(runs), len(lanes), gone=True))
    return results


def bury_processes(now: int | None, requests: Sequence[BuryProcess]) -> Transaction[list[LeftBehind]]:
    """Declaring it dead comes first: from then on its writes are refused, so its runs can be taken back in peace."""
    results: dict[str, LeftBehind] = {}
    for request in sorted(requests, key=lambda one: one.id):
        if request.certain:
            buried = yield "bury_process", [(request.id,)]
        else:
            buried = yield "bury_expired", [(now, request.id)]
        if not buried:
            results.setdefault(request.id, LeftBehind())
            continue
        lanes = yield "free_lanes", [(request.id,)]
        runs = yield "take_back_runs", [(now, request.id)]
        if runs:
            yield (
                "insert_attempt",
                [(now, run, token - 1, request.id, "crashed", None, claimed) for run, token, claimed in runs],
            )
        results[request.id] = LeftBehind(len(runs), len(lanes), gone=True)
    return [results[request.id] for request in requests]


def take_over_processes(now: int | None, requests: Sequence[TakeOver]) -> Transaction[list[LeftBehind]]:
    """As `bury_processes`, before the lease is over. From now on its writes are refused, so it can begin no call any more; but one that
    it has begun may still be on its way, as long as its lease is good. Runs with such a call, and channels, wait until then.
    """
    results: dict[str, LeftBehind] = {}
    for request in sorted(requests, key=lambda one: one.id):
        if not (yield "bury_gone", [(request.id, request.guard)]):
            results.setdefault(request.id, LeftBehind())
            continue
        runs = yield "take_back_unopened", [(now, request.id)]
        if runs:
            yield (
                "insert_attempt",
                [(now, run, token - 1, request.id, "crashed", None, claimed) for run, token, claimed in runs],
            )
        results[request.id] = LeftBehind(len(runs), gone=True)
    return [results[request.id] for request in requests]
