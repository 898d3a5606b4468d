"""The expectations for people and JSON: their state, when each was last met, and when it is due."""

from __future__ import annotations

from typing import Any

from wakeful.clock import to_text
from wakeful.stores.transaction import Fetcher
from wakeful.watch.facts import Expected, Facts


async def listed(database: Fetcher) -> list[dict[str, Any]]:
    """All expectations of the apps in a store."""
    facts = Facts(database)
    now = await facts.now()
    found: list[Expected] = []
    for app in await facts.apps():
        found += await facts.expected(app, now, await facts.crew(app), whole=True)
    over: list[dict[str, Any]] = []
    for app, because in (await facts.retired()).items():
        declared = await facts.expected(app, now, await facts.crew(app), whole=True)
        over += [
            {**shown(one), "state": "excused", "absence": None, "reason": because, "due_at": None} for one in declared
        ]
    return [shown(one) for one in found] + over


def shown(one: Expected) -> dict[str, Any]:
    """The expectation as the HTTP API and `--json` show it."""
    verdict = one.verdict
    return {
        "app": one.app,
        "name": one.name,
        "kind": one.kind,
        "what": one.what,
        "agent": one.agent,
        "owner": one.owner,
        "state": verdict.state,
        "absence": verdict.kind,
        "reason": verdict.reason,
        "met_at": to_text(one.met_at),
        "due_at": to_text(verdict.due_at),
    }
