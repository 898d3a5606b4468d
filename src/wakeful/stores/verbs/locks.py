"""Locks across all processes: taken, freed, and checked by every commit inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wakeful.clock import Microseconds
from wakeful.errors import ClaimLost, LockLost
from wakeful.model import Claim
from wakeful.stores.request import OfRun
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.refusal import lost


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock as its holder knows it: a commit inside it checks that it still has this token."""

    app: str
    name: str
    token: int


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The run that holds a requested lock, and since when."""

    run: str
    agent: str
    since: Microseconds


@dataclass(slots=True)
class TakeLock(OfRun[HeldLock | LockHolder]):
    """Take a lock for a run. It is free if it has no holder, or if the holder no longer runs under its token of that time; otherwise the
    result is the LockHolder. `gives_up`: the run does not ask again. Refused if the claim is lost.
    """

    app: str
    name: str
    gives_up: bool = False


@dataclass(slots=True)
class FreeLock(OfRun[None]):
    """Free a lock that a run holds. If the run no longer holds it, nothing changes."""

    app: str
    name: str


class Locked(Protocol):
    """A request that may be made inside locks."""

    @property
    def claim(self) -> Claim | None: ...

    @property
    def locks(self) -> tuple[HeldLock, ...]: ...


def take_locks(now: int | None, requests: Sequence[TakeLock]) -> Transaction[list[HeldLock | LockHolder | ClaimLost]]:
    """1. Read the holder without waiting; a held lock is not touched. 2. Lock the row and read again, because another process may have
    been first. 3. Give it to the run under a new token, if the claim is still valid.

    Taking a lock that the run already holds is a repetition after a lost answer: it gets a new token.
    """
    results: dict[int, HeldLock | LockHolder | ClaimLost] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        results[number] = yield from _take(now, requests[number])
    return [results[number] for number in range(len(requests))]


def _take(now: int | None, request: TakeLock) -> Transaction[HeldLock | LockHolder | ClaimLost]:
    claim, place = request.claim, (request.app, request.name)
    held = yield "look_at_lock", [place]
    if not _is_others(held, claim):
        yield "make_lock", [(now, *place)]
        yield "find_lock", [place]
        held = yield "look_at_lock", [place]
    if _is_others(held, claim):
        if request.gives_up:
            yield "end_wait_for_lock", [(claim.seq, request.name)]
        else:
            yield "wait_for_lock", [(now, *place, claim.seq, claim.token)]
        return LockHolder(*held[0][:3])
    taken = yield "take_lock", [(now, *place, claim.seq, claim.token)]
    if not taken:
        return lost(claim)
    yield "end_wait_for_lock", [(claim.seq, request.name)]
    return HeldLock(request.app, request.name, taken[0][0])


def _is_others(held: Sequence[Row], claim: Claim) -> bool:
    return bool(held) and tuple(held[0][3:5]) != (claim.seq, claim.token)


def free_locks(now: int | None, requests: Sequence[FreeLock]) -> Transaction[list[None]]:  # noqa: ARG001 a verb's shape
    ordered = sorted(requests, key=lambda one: (one.app, one.name))
    yield "free_lock", [(one.app, one.name, one.claim.seq, one.claim.token) for one in ordered]
    yield "end_wait_for_lock", [(one.claim.seq, one.name) for one in ordered]
    return [None] * len(requests)


def lost_locks(requests: Sequence[Locked]) -> Transaction[dict[int, LockLost]]:
    """The requests, by number, that were made inside a lock that is no longer held."""
    if not any(request.locks for request in requests):
        return {}
    asked = {
        (lock.app, lock.name, lock.token, request.claim.seq, request.claim.token)
        for request in requests
        if request.claim is not None
        for lock in request.locks
    }
    rows = yield "check_lock", sorted(asked)
    held = {tuple(row) for row in rows}
    refused: dict[int, LockLost] = {}
    for number, request in enumerate(requests):
        gone = [lock.name for lock in request.locks if (lock.app, lock.name, lock.token) not in held]
        if gone:
            refused[number] = let_go(gone[0])
    return refused


def let_go(name: str) -> LockLost:
    return LockLost(
        f'lock "{name}" is no longer held by the code that took it: its writes inside the lock were not stored. Await '
        "everything that belongs inside `async with run.lock(…)` before the block ends"
    )
