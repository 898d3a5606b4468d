"""guard: which tokens a command must have that decides in a person's stead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wakeful.stores.guards import LOCK, TokenHash
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction

Guarded = Literal["guarded", "open", "opened", "kept"]
"""What became of a guard: by these tokens now, none as before, none any more, or the one from before."""


@dataclass(slots=True)
class GuardApp(Request[Guarded]):
    """These tokens, and no others, guard an app from now on, unless another process of it lives and the guard is not known here."""

    app: str
    tokens: tuple[TokenHash, ...]
    knows: str | None = None
    """The hash of the guard from before whose token is known here."""
    own: str = ""
    """The process that asks, if it has joined the others by now."""

    @property
    def patient(self) -> bool:
        return True  # no run starts before: done twice it is the same


def guard_apps(now: int | None, requests: Sequence[GuardApp]) -> Transaction[list[Guarded]]:
    """For each: what became of its guard."""
    results: list[Guarded] = []
    for one in requests:
        before = {row[0] for row in (yield "guards_of", [(one.app,)])}
        if before == {LOCK.hash} == {token.hash for token in one.tokens}:
            results.append("guarded")
            continue
        strange = bool(before) and one.knows not in before
        if strange and (yield "living_peers", [(now, one.app, one.own)]):
            results.append("kept")
            continue
        yield "remove_guards", [(one.app,)]
        if one.tokens:
            yield "insert_guard", [(now, one.app, token.salt, token.hash) for token in one.tokens]
        results.append("guarded" if one.tokens else "opened" if before else "open")
    return results


@dataclass(slots=True)
class LockApp(Request[None]):
    """An app that has no guard is locked, or a lock that is not needed any more is taken away, unless another process of the app lives."""

    app: str
    locked: bool
    own: str = ""
    """The process that asks, if it has joined the others by now."""

    @property
    def patient(self) -> bool:
        return True  # as GuardApp


def lock_apps(now: int | None, requests: Sequence[LockApp]) -> Transaction[list[None]]:
    for one in requests:
        before = {row[0] for row in (yield "guards_of", [(one.app,)])}
        if one.locked and not before:
            yield "insert_guard", [(now, one.app, LOCK.salt, LOCK.hash)]
        elif not one.locked and before == {LOCK.hash} and not (yield "living_peers", [(now, one.app, one.own)]):
            yield "remove_guards", [(one.app,)]
    return [None for _ in requests]
