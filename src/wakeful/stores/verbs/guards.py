"""guard: which tokens a command must have that decides in a person's stead."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.base import Transaction
from wakeful.stores.guards import GuardApp


def guard_apps(now: int | None, requests: Sequence[GuardApp]) -> Transaction[list[bool]]:
    """For each: was the app guarded before?"""
    results = []
    for one in requests:
        was = bool((yield "remove_guards", [(one.app,)]))
        if one.tokens:
            yield "insert_guard", [(now, one.app, token.salt, token.hash) for token in one.tokens]
        results.append(was)
    return results
