"""guard: the tokens that a command needs to decide on a person's behalf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wakeful.stores.guards import LOCK, TokenHash
from wakeful.stores.request import Request
from wakeful.stores.transaction import Transaction

Guarded = Literal["guarded", "open", "opened", "kept"]
"""The guard now: these tokens; none, as before; none any more; or the previous guard, unchanged."""


@dataclass(slots=True)
class GuardApp(Request[Guarded]):
    """Replace an app's guard with these tokens. The guard is kept if another process of the app lives and no token of it is known here."""

    app: str
    tokens: tuple[TokenHash, ...]
    knows: str | None = None
    """The hash in the present guard that a token known here matches."""
    own: str = ""
    """The asking process, if it has registered by now."""

    @property
    def patient(self) -> bool:
        return True  # no run starts before this, and repeating it changes nothing


def guard_apps(now: int | None, requests: Sequence[GuardApp]) -> Transaction[list[Guarded]]:
    """The new state of each guard."""
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
    """Lock an app that has no guard, or remove a lock that is not needed any more, unless another process of the app lives."""

    app: str
    locked: bool
    own: str = ""
    """The asking process, if it has registered by now."""

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
