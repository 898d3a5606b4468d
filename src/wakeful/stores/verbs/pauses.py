"""Pauses: what people told to claim nothing more, and at which rate it comes back."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.base import ChangePause, Paused, Transaction
from wakeful.stores.verbs.failing import resumed

ALL = ""  # in place of an agent: all of the app


def change_pauses(now: int | None, requests: Sequence[ChangePause]) -> Transaction[list[Paused]]:
    """On PostgreSQL the gate of the app is shut by now: no claim is under way, and those that come see this."""
    results = []
    for one in requests:
        rows = yield "find_pause", [(one.app, one.agent)]
        was = Paused(bool(rows[0][0]), rows[0][1]) if rows else Paused(paused=False, rate=None)
        results.append(was)
        if not one.paused and one.agent != ALL:
            yield from resumed(now, one.app, one.agent)
        if (one.paused, one.rate) != (was.paused, was.rate):
            yield "set_pause", [(now, one.app, one.agent, int(one.paused), one.rate, one.by.name, one.note)]
    return results
