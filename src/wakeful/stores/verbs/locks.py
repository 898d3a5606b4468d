"""Locks across all processes: taken, let go, and checked by what is committed inside them."""

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
    """A lock as its holder knows it: what is committed inside it checks that it still has this token."""

    app: str
    name: str
    token: int


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has a lock that was asked for, and since when."""

    run: str
    agent: str
    since: Microseconds


@dataclass(slots=True)
class TakeLock(OfRun[HeldLock | LockHolder]):
    """Take a lock for a run, if it is free: nobody has it, or its holder does not run any more under the token that it had
    then. `gives_up`: it is the last time that the run asks.
    """

    app: str
    name: str
    gives_up: bool = False


@dataclass(slots=True)
class FreeLock(OfRun[None]):
    """Let a lock go that a run has. One that it does not have any more stays as it is."""

    app: str
    name: str


class Locked(Protocol):
    """A request that may be made inside locks."""

    @property
    def claim(self) -> Claim | None: ...

    @property
    def locks(self) -> tuple[HeldLock, ...]: ...


def take_locks(now: int | None, requests: Sequence[TakeLock]) -> Transaction[list[HeldLock | LockHolder | ClaimLost]]:
    """1. Who has it? That is asked without waiting: a lock that is held is left alone. 2. Its row is locked, and asked again,
    since somebody else may have been first. 3. It is the run's, under a new token, if the run is still ours.

    Taking what the run has already is a repetition after a lost answer: it gets a new token.
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
    """Which of these requests, by their number, were made inside a lock that is not held any more."""
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
        f'lock "{name}" is not held any more by the code that took it: what it was to commit inside was not written. Await '
        "everything that belongs inside `async with run.lock(…)` before the block ends"
    )
