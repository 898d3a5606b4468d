"""Processes: their leases, and what happens to the runs of a process that died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.stores.database import Database
from wakeful.stores.migrations import newest
from wakeful.stores.request import ANYTHING, Heard, Others, Ready, Request
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.limits import Limit, show_limits
from wakeful.stores.verbs.versions import enter_versions


@dataclass(slots=True)
class RegisterProcess(Request[None]):
    """Register a process with its first lease, its agents and their declared limits."""

    id: str
    host: str
    pid: int
    lease: Microseconds
    app: str | None = None
    agents: Sequence[str] = ()
    limits: Mapping[str, Limit] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)  # of the code of these agents
    again: bool = False  # it was declared dead and comes back under this identity: no new code was deployed

    def shuts(self) -> str | None:
        """A process may bring other code: no claim may be in flight that does not know of it."""
        return self.app if self.app and self.versions else None

    def tell(self, _: None, others: Others) -> None:
        others.joined = self.app


class LeftBehind(int):
    """How many runs a process that died or left still had. `lanes`: how many channels, which other processes may take now. `gone`: it
    was removed by this request, and everything that it held is free, such as sources, or runs of code that it alone served.
    """

    lanes: int
    gone: bool

    def __new__(cls, runs: int = 0, lanes: int = 0, *, gone: bool = False) -> Self:
        made = super().__new__(cls, runs)
        made.lanes = lanes
        made.gone = gone
        return made


@dataclass(slots=True)
class RetireProcess(Request[LeftBehind]):
    """A process leaves in order."""

    id: str

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone


@dataclass(slots=True)
class BuryProcess(Request[LeftBehind]):
    """Declare a process dead and return its runs. `certain`: it is known to be gone, so its lease does not count."""

    id: str
    certain: bool

    def readies(self) -> Ready | None:
        return ANYTHING

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone

    def follow(self, _: LeftBehind, heard: Heard) -> None:
        heard.deliveries()  # it may have held a lane


@dataclass(slots=True)
class TakeOver(Request[LeftBehind]):
    """Declare a process dead before its lease expires, because the lock of its connection is free, and return those of its runs that
    have no call in flight.
    """

    id: str
    guard: int

    def readies(self) -> Ready | None:
        return ANYTHING

    def tell(self, result: LeftBehind, others: Others) -> None:
        others.all = others.all or result.gone


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
    """Return its runs without counting a crash: no process looks for the runs of one that has left."""
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
    """Declare the process dead first: from then on its writes are refused, and its runs can be taken back safely."""
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
    """As `bury_processes`, before the lease expires. From now on the process's writes are refused, so it can begin no further call. A call
    that it began may still be in flight while its lease is valid, so runs with such a call, and channels, wait until then.
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


async def peers_of(database: Fetcher, app: str, own: str) -> dict[str, int]:
    """How many other living processes of an app have each agent."""
    rows = await database.fetch("living_peers", database.read_clock(), app, own)
    return dict(Counter(agent for row in rows for agent in from_json(row[0])))


async def other_processes(database: Database, own: str) -> list[tuple[str, Microseconds, bool]]:
    """The other processes that have not signed off: each with the rest of its lease, and whether it is certainly dead."""
    rows = await database.fetch("living_processes", database.read_clock())
    database.tidy_locks({row[0] for row in rows})
    return [(row[0], row[1], database.is_certainly_dead(row[0])) for row in rows if row[0] != own]
