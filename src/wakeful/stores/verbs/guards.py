"""guard: which tokens a command must have that decides in a person's stead."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.guards import GuardApp, Guarded
from wakeful.stores.transaction import Transaction


def guard_apps(now: int | None, requests: Sequence[GuardApp]) -> Transaction[list[Guarded]]:
    """For each: what became of its guard."""
    results: list[Guarded] = []
    for one in requests:
        before = {row[0] for row in (yield "guards_of", [(one.app,)])}
        strange = bool(before) and one.knows not in before
        if strange and (yield "living_peers", [(now, one.app, one.own)]):
            results.append("kept")
            continue
        yield "remove_guards", [(one.app,)]
        if one.tokens:
            yield "insert_guard", [(now, one.app, token.salt, token.hash) for token in one.tokens]
        results.append("guarded" if one.tokens else "opened" if before else "open")
    return results
