"""Runs: listings, everything about one, and the families of runs that were done again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from wakeful.clock import Microseconds, to_text
from wakeful.readers.effects import effect_summary
from wakeful.readers.events import decision_summary
from wakeful.readers.steps import began_with, change_summary, step_summary
from wakeful.stores.awaited_version import awaited_version
from wakeful.stores.chains import chain_summary
from wakeful.stores.reads import (
    LAST_CHARACTER,
    LONGEST_PAGE,
    SHORTEST_PREFIX,
    ReadsDatabase,
    cursor_of,
    json_of,
    next_of,
    several,
)
from wakeful.stores.run_filters import RunFilter, runs_between
from wakeful.stores.shown_errors import shown_error
from wakeful.stores.transaction import Row

SLICE = 20  # runs that are put together in one turn of the event loop
# What is shown of a run beside its own row, and the column of that by which it is found: its seq, its root, or its event.
PARTS = {
    "list_steps": 0,
    "list_attempts": 0,
    "list_decisions": 24,
    "list_remedies": 0,
    "list_deliveries": 15,
    "flow_of_run": 0,
    "list_members": 0,
    "misfits_of_run": 0,
    "list_effects": 15,
    "parent_of_run": 0,
    "children_of_run": 0,
}


class ReadsRuns(ReadsDatabase):
    """Runs: listings, everything about one, and the families of runs that were done again."""

    async def runs(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        event: str | None = None,
        subject: str | None = None,
        action: str | None = None,
        trace: str | None = None,
        since: Microseconds | None = None,
        until: Microseconds | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of runs, newest first."""
        wanted = RunFilter(agent, state, event, subject, action, trace, since, until)
        most, cursor = min(limit, LONGEST_PAGE), cursor_of(after)
        least, before = await runs_between(self._database.fetch, wanted.since, wanted.until)
        name, parameters = wanted.query(least, before if cursor is None else min(before, cursor), most + 1)
        rows = await self._database.fetch(name, *parameters)
        return {"runs": [run_summary(row) for row in rows[:most]], "next": next_of(rows, most)}

    async def run(self, identifier: str) -> dict[str, Any] | None:
        """Everything about one run, by its id or the unambiguous beginning of it."""
        row = await self._find_run(identifier)
        return None if row is None else await self._whole(row, (await self._parts([row]))[0])

    async def whole_runs(self, identifiers: Sequence[str]) -> list[dict[str, Any] | None]:
        """Everything about many runs, by their ids, in a few queries: each as `run` shows it, or None."""
        named = [(identifier, identifier + "\x01") for identifier in identifiers]
        found = await self._database.fetch_each("find_runs", named)
        rows = [
            next((row for row in some if row[1] == identifier), None)
            for identifier, some in zip(identifiers, found, strict=True)
        ]
        parts = iter(await self._parts([row for row in rows if row is not None]))
        whole = []
        for number, row in enumerate(rows, start=1):
            whole.append(None if row is None else await self._whole(row, next(parts)))
            if number % SLICE == 0:
                await asyncio.sleep(0)  # others have their turn
        return whole

    async def _parts(self, rows: Sequence[Row]) -> list[dict[str, list[Row]]]:
        """What belongs to each of these runs: the rows of each query of PARTS."""
        parts: list[dict[str, list[Row]]] = [{} for _ in rows]
        for query, column in PARTS.items():
            for part, found in zip(
                parts, await self._database.fetch_each(query, [(row[column],) for row in rows]), strict=True
            ):
                part[query] = found
        return parts

    async def _whole(self, row: Row, parts: Mapping[str, list[Row]]) -> dict[str, Any]:
        from wakeful.resources import resource_of
        from wakeful.resources.desk import views
        from wakeful.triggers.occurrences import scheduled_summary

        summary = run_summary(row)
        _, event_key, output, error, outcome, owner, token, expires_at, envelope, _ = row[15:25]
        cancel_at, cancel_by, cancel_note, version, data, parked_for = row[25:31]
        steps, attempts, decisions = parts["list_steps"], parts["list_attempts"], parts["list_decisions"]
        deliveries: list[Any] = views(resource_of("deliveries").view, parts["list_deliveries"])
        carried = from_json(envelope)
        misfits = {key: noted for key, *noted in parts["misfits_of_run"]}
        parent, children = parts["parent_of_run"], parts["children_of_run"]
        return {
            **summary,
            "root": row[15],
            "chain": chain_summary(summary["app"], carried),
            "scheduled": scheduled_summary(summary["app"], summary["event"]["source"], carried, row[8]),
            "parent": str(parent[0][0]) if parent else None,  # the run that called it
            "children": [{"id": identifier, "agent": agent, "state": state} for identifier, agent, state in children],
            "event": {**summary["event"], "key": event_key, "data": carried.get("data")},
            "events": [member_summary(one) for one in parts["list_members"]]
            or [{**summary["event"], "key": event_key}],
            **flow_summary(parts["flow_of_run"][0]),
            "edited": None if data is None else {"data": from_json(data)},
            "owner": owner,
            "parked_for": parked_for,
            "token": token,
            "expires_at": to_text(expires_at),
            "version": began_with(version, steps),
            "cancel": None
            if cancel_at is None
            else {"by": cancel_by, "note": cancel_note, "asked_at": to_text(cancel_at)},
            "change": change_summary(steps),
            "awaits_code": await self._awaited_code(summary, version),
            "steps": [step_summary(step, misfits.get(step[9])) for step in steps if step[1] != "fact"],
            "history": [attempt_summary(attempt) for attempt in attempts],
            "remedies": [remedy_summary(one) for one in parts["list_remedies"]],
            "effects": [effect_summary(one) for one in parts["list_effects"]],
            "decisions": [decision_summary(one) for one in decisions if one[0] == summary["agent"]],
            "deliveries": deliveries,
            "output": json_of(output),
            "error": shown_error(error),
            "outdated": summary["state"] == "held" and await self._outdated(row[0]),
            "outcome": with_delivery(json_of(outcome), [one for one in deliveries if one["run"] == summary["id"]]),
        }

    async def _awaited_code(self, run: dict[str, Any], version: str | None) -> dict[str, Any] | None:
        """The code that a run belongs to, while it may have to wait for that; else None."""
        if run["state"] not in {"ready", "waiting"} or version is None:
            return None
        known = await self._database.fetch("versions_of_agent", run["app"], run["agent"])
        serving = await self._database.fetch("versions_at_work", run["app"]) if len(known) > 1 else []
        return awaited_version(version, run["agent"], known, serving)

    async def dead(self, *, agent: str | None = None) -> list[dict[str, Any]]:
        """All dead letters, newest first, as much of each as it takes to group and to replay them. `confirmed` tells which
        actions of it are confirmed, and how often.
        """
        rows = await self._database.fetch("list_dead", agent)
        confirmed: dict[str, Counter[str]] = {}
        for run, action in await self._database.fetch("confirmed_of_dead", agent):
            confirmed.setdefault(run, Counter())[action] += 1
        return [
            {
                "id": identifier,
                "agent": name,
                "error": {"type": kind or "", "message": message or ""},
                "reason": reason,
                "finished": finished,
                "finished_at": to_text(finished),
                "confirmed": confirmed.get(identifier, {}),
            }
            for identifier, name, kind, message, reason, finished in rows
        ]

    async def later_runs(self, root: str) -> list[dict[str, Any]]:
        """The others of a run's family: it was done again, or forked."""
        rows = await self._database.fetch("later_runs", root)
        return [
            {"id": id_, "state": state, "created_at": to_text(created), "forked": bool(forked)}
            for id_, state, created, forked in rows
        ]

    async def removed_run(self, identifier: str) -> dict[str, Any] | None:
        """The event and the agent of a run that is not there any more, by its whole id, as long as the event is known."""
        rows = await self._database.fetch("admission_of_run", identifier.partition(".")[0])
        return {"event": rows[0][0], "agent": rows[0][1]} if rows else None

    async def counts(self, app: str | None = None) -> dict[str, int]:
        """How many runs are in which state; of one app, or of all."""
        fetch = self._database.fetch
        return {row[0]: row[1] for row in await (fetch("count_runs") if app is None else fetch("count_runs_of", app))}

    async def _find_run(self, identifier: str) -> Row | None:
        """By its id, or the beginning of one: `3f2a91` is the first run of its family, `3f2a91.2` what came of the second
        `--again`.
        """
        found = await self._run_of_id(identifier)
        beginning, dot, generation = identifier.partition(".")
        if found is not None or len(beginning) < SHORTEST_PREFIX:
            return found
        roots = await self._database.fetch("find_roots", beginning, beginning + LAST_CHARACTER)
        if len(roots) > 1:
            raise several(identifier, "run", [f"{one} ({agent}, {state})" for one, agent, state in roots])
        return await self._run_of_id(f"{roots[0][0]}{dot}{generation}") if roots else None

    async def _outdated(self, seq: int) -> bool:
        """Would a held output save a state over one that was changed since?"""
        rows = await self._database.fetch("state_of_held", seq)
        changes = [(from_json(change), version) for change, version in rows]
        return any(change["version"] != version for change, version in changes)

    async def _run_of_id(self, identifier: str) -> Row | None:
        rows = await self._database.fetch("find_runs", identifier, identifier + "\x01")
        return next((row for row in rows if row[1] == identifier), None)


def run_summary(row: Row) -> dict[str, Any]:
    """A run as every listing shows it."""
    state, failures = row[3], row[4]
    return {
        "id": row[1],
        "agent": row[2],
        "state": state,
        # tries of the handler: the failures, and the one that is running, went well or was denied
        "attempts": failures + (1 if state in {"running", "done", "denied"} else 0),
        "crashes": row[5],
        "reason": row[6],
        "event": {"source": row[12], "id": row[13], "type": row[14]},
        "created_at": to_text(row[7]),
        "started_at": to_text(row[8]),
        "finished_at": to_text(row[9]),
        "due_at": to_text(row[10]) if state in {"ready", "waiting"} else None,
        "app": row[11],
    }


def member_summary(row: Row) -> dict[str, Any]:
    """One event of a run that is over many."""
    source, identifier, kind, key, envelope = row
    return {"source": source, "id": identifier, "type": kind, "key": key, "data": from_json(envelope).get("data")}


def flow_summary(row: Row) -> dict[str, Any]:
    """How a run stands to others: its key, whom it waits for, and who waits for it."""
    key, priority, _, until, _, ahead, first, first_state, behind = row
    return {
        "key": key or None,
        "priority": priority,
        "gathers_until": to_text(until),
        "ahead": {"count": ahead, "run": first, "state": first_state} if ahead else None,
        "behind": behind,
    }


def with_delivery(outcome: dict[str, Any] | None, deliveries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """A run is over before its messages have arrived: how that stands is looked up, not stored with it."""
    if outcome is None:
        return None
    states = {one["state"] for one in deliveries} - {"held", "discarded"}
    word = "failed" if "dead" in states else "pending" if "pending" in states else "delivered" if states else "none"
    return {**outcome, "delivery": word}


def remedy_summary(row: Row) -> dict[str, Any]:
    verb, operator, note, data, error, done = row
    return {
        "verb": verb,
        "operator": operator,
        "note": note,
        "data": json_of(data),
        "error": shown_error(error),
        "done_at": to_text(done),
    }


def attempt_summary(row: Row) -> dict[str, Any]:
    token, process, outcome, error, started, ended = row
    return {
        "claim": token,
        "process": process,
        "outcome": outcome,
        "error": shown_error(error),
        "started_at": to_text(started),
        "ended_at": to_text(ended),
    }
