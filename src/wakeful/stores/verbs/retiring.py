"""retire: an app is done with, until its code is started again."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.retiring import BringBackApp, RetireApp
from wakeful.stores.transaction import Transaction


def retire_apps(now: int | None, requests: Sequence[RetireApp]) -> Transaction[list[bool]]:
    """For each: was it not retired before?"""
    results = []
    for one in requests:
        new = bool((yield "insert_retired", [(now, one.app, one.by.name, one.note)]))
        if new:
            yield "remove_guards", [(one.app,)]  # no server of it is left to say which token counts
        results.append(new)
    return results


def bring_apps_back(_: int | None, requests: Sequence[BringBackApp]) -> Transaction[list[bool]]:
    results = []
    for one in requests:
        was = bool((yield "remove_retired", [(one.app,)]))
        results.append(was)
    return results
