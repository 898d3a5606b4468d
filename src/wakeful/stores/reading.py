"""The read side: rows as the JSON objects that the HTTP API and `--json` show.

The readers of single nouns are loaded when they are first asked: a listing of runs need not know the rules of time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from wakeful.alarm_words import title_of, todo_of
from wakeful.clock import Microseconds, to_text
from wakeful.errors import NotFound
from wakeful.model import ReminderState
from wakeful.rate import Rate
from wakeful.settings import strict_encryption
from wakeful.stores.base import HeldEffect, Row, StoredEvent
from wakeful.stores.migrations import Applied, standing
from wakeful.stores.payloads import Codec
from wakeful.stores.queries import Dialect
from wakeful.stores.reading_chains import chain_summary
from wakeful.stores.reading_versions import awaited_version
from wakeful.stores.reminded import page_of_reminders, reminder_change, reminder_summary
from wakeful.stores.run_filters import RunFilter, runs_between
from wakeful.stores.sealing import Sealing
from wakeful.stores.shown_errors import shown_error
from wakeful.stores.sources import source_alarm
from wakeful.stores.watching import NOT_READ, absence_alarm

if TYPE_CHECKING:
    from wakeful.stores.reading_apps import AppReader
    from wakeful.stores.reading_quarantine import QuarantineReader
    from wakeful.stores.reading_schedules import ScheduleReader
    from wakeful.stores.reading_sources import SourceReader

LONGEST_PAGE = 500
LONGEST_CURSOR = 18
LAST_CHARACTER = "\U0010ffff"
SHORTEST_PREFIX = 6
MANY_ALIKE = 6
SHORTEST_REMINDER = 4  # r- and two more


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


class ReadableDatabase(Protocol):
    """What reading needs of a database."""

    dialect: Dialect
    codec: Codec

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...
    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Row]]: ...
    async def ledger(self) -> list[Applied]: ...
    async def refuse_locked(self) -> None: ...
    def read_clock(self) -> Microseconds | None: ...


class Reader:
    """Answers questions about what is stored."""

    def __init__(self, database: ReadableDatabase) -> None:
        self._database = database

    @cached_property
    def of_schedules(self) -> ScheduleReader:
        from wakeful.stores.reading_schedules import ScheduleReader

        return ScheduleReader(self._database)

    @cached_property
    def of_sources(self) -> SourceReader:
        from wakeful.stores.reading_sources import SourceReader

        return SourceReader(self._database)

    @cached_property
    def of_apps(self) -> AppReader:
        from wakeful.stores.reading_apps import AppReader

        return AppReader(self._database)

    @cached_property
    def of_quarantine(self) -> QuarantineReader:
        from wakeful.stores.reading_quarantine import QuarantineReader

        return QuarantineReader(self._database)

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
        most, cursor = min(limit, LONGEST_PAGE), _cursor(after)
        least, before = await runs_between(self._database.fetch, wanted.since, wanted.until)
        name, parameters = wanted.query(least, before if cursor is None else min(before, cursor), most + 1)
        rows = await self._database.fetch(name, *parameters)
        return {"runs": [run_summary(row) for row in rows[:most]], "next": _next(rows, most)}

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
        from wakeful.stores.reading_schedules import scheduled_summary

        summary = run_summary(row)
        _, event_key, output, error, outcome, owner, token, expires_at, envelope, _ = row[15:25]
        cancel_at, cancel_by, cancel_note, version, data, parked_for = row[25:31]
        steps, attempts, decisions = parts["list_steps"], parts["list_attempts"], parts["list_decisions"]
        deliveries = [delivery_summary(one) for one in parts["list_deliveries"]]
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
            "output": _json(output),
            "error": shown_error(error),
            "outdated": summary["state"] == "held" and await self._outdated(row[0]),
            "outcome": with_delivery(_json(outcome), [one for one in deliveries if one["run"] == summary["id"]]),
        }

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

    async def events_to_feed(
        self,
        agent: str,
        prefix: str,
        *,
        app: str | None,
        since: Microseconds,
        until: Microseconds,
        after: int = 0,
        most: int = LONGEST_PAGE,
        whole: bool = False,
    ) -> list[StoredEvent]:
        """Stored events whose type begins with `prefix`, oldest first, with what they are to an agent."""
        window = (app, prefix, since, until, agent, after, most, int(whole))
        return [StoredEvent(*row) for row in await self._database.fetch("list_events_to_feed", *window)]

    async def known_agents(self) -> list[str]:
        """The agents that ever had to do with an event here."""
        return sorted(row[0] for row in await self._database.fetch("known_agents"))

    async def keyed_agents(self) -> list[str]:
        """The agents whose runs go in order of a key."""
        return sorted(row[0] for row in await self._database.fetch("keyed_agents"))

    async def effects(
        self,
        *,
        state: str | None = None,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        action: str | None = None,
    ) -> dict[str, Any]:
        """A page of effects, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_effects", state, _cursor(after), most + 1, agent, action)
        return {"effects": [effect_summary(row[1:]) for row in rows[:most]], "next": _next(rows, most)}

    async def effect(self, identifier: str) -> dict[str, Any] | None:
        """One effect, by its id, by the operation id that the service was told, or by the unambiguous beginning of one. `returns`
        is the JSON schema of the result that its run needs; None if that is not known, or if no code reads it.
        """
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
        rows = await self._database.fetch("find_effects", identifier, upper)
        rows = rows or await self._database.fetch("find_effects_by_operation", identifier, upper)
        exact = [row for row in rows if identifier in {row[0], row[18]}]
        if len(rows) > 1 and not exact:
            raise several(identifier, "effect", [f"{row[0]} ({row[1]}, {row[3]})" for row in rows])
        found = exact or rows
        return {**effect_summary(found[0][:20]), "returns": _json(found[0][20])} if found else None

    async def held_effects(self, *, agent: str | None = None, action: str | None = None) -> list[HeldEffect]:
        """All effects that wait for a person, the oldest first."""
        rows = await self._database.fetch("held_effects", agent, action)
        return [
            HeldEffect(identifier, of, name, run, bool(called), opened, reason, bool(staged), returns)
            for identifier, of, name, run, called, opened, reason, staged, returns in rows
        ]

    async def deliveries(
        self, *, channel: str | None = None, state: str | None = None, limit: int = 50, after: str | None = None
    ) -> dict[str, Any]:
        """A page of deliveries, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_deliveries", channel, state, _cursor(after), most + 1)
        return {"deliveries": [delivery_summary(row[1:]) for row in rows[:most]], "next": _next(rows, most)}

    async def delivery(self, identifier: str) -> dict[str, Any] | None:
        """One delivery, by its id, which is that of its first run, a dash, and its own; both may be cut to six characters."""
        first, dash, own = identifier.partition("-")
        if not dash:
            return None
        roots = [first]
        if len(first) >= SHORTEST_PREFIX:
            rows = await self._database.fetch("find_roots", first, first + LAST_CHARACTER)
            roots = [row[0] for row in rows]
        found: dict[str, Row] = {}  # the newest of an id: one whose run was held and done again is there twice
        for root in roots:
            for row in await self._database.fetch("list_deliveries", root):
                if row[0] == identifier or (len(own) >= SHORTEST_PREFIX and row[0].startswith(f"{root}-{own}")):
                    found[row[0]] = row
        if len(found) > 1 and identifier not in found:
            raise several(identifier, "delivery", [f"{one} ({row[1]}, {row[2]})" for one, row in found.items()])
        row_found = found.get(identifier) or next(iter(found.values()), None)
        return None if row_found is None else delivery_summary(row_found)

    async def dead_deliveries(self, *, channel: str | None = None, agent: str | None = None) -> list[dict[str, Any]]:
        """All dead deliveries, newest first, as much of each as it takes to group and to replay them."""
        rows = await self._database.fetch("list_dead_deliveries", channel, agent)
        return [
            {
                "id": identifier,
                "channel": name,
                "agent": of,
                "run": run,
                "error": {"type": kind or "", "message": message or ""},
                "reason": reason,
                "finished": settled,
                "finished_at": to_text(settled),
            }
            for identifier, name, of, run, kind, message, reason, settled in rows
        ]

    async def count_dead_deliveries(self) -> int:
        """How many deliveries are given up until a person acts."""
        return int((await self._database.fetch("count_dead_deliveries"))[0][0])

    async def waiting_channels(self) -> list[dict[str, Any]]:
        """Channels that messages wait for: how many, and since when (microseconds) the oldest was committed."""
        rows = await self._database.fetch("waiting_channels")
        return [
            {"app": app, "channel": channel, "count": count, "oldest": oldest} for app, channel, count, oldest in rows
        ]

    async def apps(self) -> dict[str, set[str]]:
        """The apps that have to do with this store, with the agents that they loaded or that have run here."""
        known: dict[str, set[str]] = {row[0]: set() for row in await self._database.fetch("known_apps")}
        for app, agents in await self._database.fetch("loaded_agents"):
            known.setdefault(app, set()).update(from_json(agents))
        for agent in await self.known_agents():
            for app in await self.apps_of_agent(agent):
                known.setdefault(app, set()).add(agent)
        return known

    async def listed_apps(self) -> list[dict[str, Any]]:
        """The apps that have to do with this store, by name, with what waits in each."""
        return await self.of_apps.listed(await self.apps())

    async def pauses(self) -> list[dict[str, Any]]:
        """What is paused, or comes back at a rate. `agent` is None for all of an app."""
        return [
            {
                "app": app,
                "agent": agent or None,
                "paused": bool(paused),
                "rate": rate,
                "by": operator,
                "note": note,
                "since": to_text(changed),
            }
            for app, agent, paused, rate, operator, note, changed in await self._database.fetch("list_pauses")
        ]

    async def _awaited_code(self, run: dict[str, Any], version: str | None) -> dict[str, Any] | None:
        """The code that a run belongs to, while it may have to wait for that; else None."""
        if run["state"] not in {"ready", "waiting"} or version is None:
            return None
        known = await self._database.fetch("versions_of_agent", run["app"], run["agent"])
        serving = await self._database.fetch("versions_at_work", run["app"]) if len(known) > 1 else []
        return awaited_version(version, run["agent"], known, serving)

    async def limits(self, app: str, agent: str) -> dict[str, Any]:
        """What an agent is limited to in all processes together, and how much of that is used."""
        rows = await self._database.fetch("limit_of_agent", app, agent)
        concurrency, most, within = rows[0] if rows else (None, None, None)
        running = await self._database.fetch("count_running", app, agent)
        next_start = None
        if most is not None and within is not None:
            clock = self._database.read_clock()
            waits = await self._database.fetch("next_start", clock, app, agent, most - 1, within)
            if waits and waits[0][0] > 0:
                next_start = to_text(await self.time() + waits[0][0])
        return {
            "concurrency": concurrency,
            "running": running[0][0],
            "rate": None if most is None or within is None else str(Rate(most, within)),
            "next_start_at": next_start,
        }

    async def approvals(self, *, state: str | None = None, limit: int = 50, after: str | None = None) -> dict[str, Any]:
        """A page of questions to people, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("page_of_approvals", state, _cursor(after), most + 1)
        return {"approvals": [approval_summary(row[1:]) for row in rows[:most]], "next": _next(rows, most)}

    async def approval(self, identifier: str) -> dict[str, Any] | None:
        """One question, by its id or the beginning of it."""
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
        rows = await self._database.fetch("find_approvals", identifier, upper)
        exact = next((row for row in rows if row[1] == identifier), None)
        if exact is None and len(rows) > 1:
            message = f"{identifier} is the beginning of more than one question's id: give more of it"
            raise NotFound(message)
        found = exact or (rows[0] if rows else None)
        return None if found is None else approval_summary(found[1:])

    async def reminders(
        self, *, app: str | None = None, state: ReminderState | None = None, limit: int = 50, after: str | None = None
    ) -> dict[str, Any]:
        """A page of reminders, newest first."""
        found, last = await page_of_reminders(
            self._database.fetch, app=app, state=state, most=min(limit, LONGEST_PAGE), before=_cursor(after)
        )
        return {"reminders": found, "next": None if last is None else str(last)}

    async def reminder(self, identifier: str) -> dict[str, Any] | None:
        """One reminder, by its id or the beginning of it."""
        upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_REMINDER else "\x01")
        rows = await self._database.fetch("find_reminders", identifier, upper)
        exact = next((row for row in rows if row[2] == identifier), None)
        if exact is None and len(rows) > 1:
            message = f"{identifier} is the beginning of more than one reminder's id: give more of it"
            raise NotFound(message)
        found = exact or (rows[0] if rows else None)
        if found is None:
            return None
        changes = await self._database.fetch("changes_of_schedule", found[0], LONGEST_PAGE)
        return {**reminder_summary(found), "history": [reminder_change(one) for one in reversed(changes)]}

    async def later_runs(self, root: str) -> list[dict[str, Any]]:
        """The others of a run's family: it was done again, or forked."""
        rows = await self._database.fetch("later_runs", root)
        return [
            {"id": id_, "state": state, "created_at": to_text(created), "forked": bool(forked)}
            for id_, state, created, forked in rows
        ]

    async def states(self, agent: str | None = None) -> list[dict[str, Any]]:
        """What agents keep from run to run, and the run that has it now."""
        rows = await self._database.fetch("list_states", agent)
        return [
            {
                "app": app,
                "agent": name,
                "key": key,
                "value": _json(value),
                "version": version,
                "changed_by": by,
                "changed_at": to_text(at),
                "note": note,
                "run": run,
            }
            for app, name, key, value, version, by, at, note, run in rows
        ]

    async def checks(self) -> list[dict[str, Any]]:
        """The checks of heartbeats, as they were read last."""
        return [
            {
                "app": app,
                "heartbeat": agent,
                "name": name,
                "state": state,
                "definition": from_json(definition),
                "section": _json(data) or {},
                "owner": owner,
                "next_at": to_text(next_at),
                "read_at": to_text(changed_at),
            }
            for app, name, agent, state, definition, data, owner, next_at, changed_at in (
                await self._database.fetch("list_checks")
            )
        ]

    async def locks(self) -> list[dict[str, Any]]:
        """Locks that runs have now, and how many wait for each."""
        return [
            {
                "app": app,
                "name": name,
                "token": token,
                "run": run,
                "agent": agent,
                "taken_at": to_text(at),
                "waiting": waiting,
            }
            for app, name, token, run, agent, at, waiting in await self._database.fetch("list_locks")
        ]

    async def locks_of(self, run: str) -> dict[str, Any]:
        """The locks that a run has, and those that it waits for, with who has them."""
        row = await self._find_run(run)
        waits = [] if row is None else await self._database.fetch("waits_for_locks", row[0])
        return {
            "held": [one for one in await self.locks() if one["run"] == run],
            "waited_for": [
                {"name": name, "since": to_text(since), "run": holder, "agent": agent, "taken_at": to_text(at)}
                for name, since, holder, agent, at in waits
            ],
        }

    async def circuits(self) -> list[dict[str, Any]]:
        """Dependencies that are, or were, down, and how many runs are parked for each."""
        rows = await self._database.fetch("list_circuits")
        return [
            {
                "app": app,
                "name": name,
                "state": state,
                "failures": failures,
                "error": error,
                "rest": rest / 1_000_000,
                "next_at": to_text(next_at),
                "came_back": released,
                "changed_at": to_text(changed),
                "probe": probe,
                "parked": parked,
                "opened_at": to_text(opened),
                "waiting": waiting,
            }
            for app, name, state, failures, error, rest, next_at, released, changed, probe, parked, opened, waiting in rows
        ]

    async def apps_of_agent(self, agent: str) -> list[str]:
        """Apps that have had runs of an agent of this name."""
        return sorted(row[0] for row in await self._database.fetch("apps_of_agent", agent))

    async def events(
        self,
        *,
        type: str | None = None,  # noqa: A002 the field's own name
        state: str | None = None,
        id: str | None = None,  # noqa: A002
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of events, newest first."""
        most = min(limit, LONGEST_PAGE)
        rows = await self._database.fetch("list_events", type, state, id, _cursor(after), most + 1)
        return {"events": [event_summary(row) for row in rows[:most]], "next": _next(rows, most)}

    async def event(self, identifier: str) -> dict[str, Any] | None:
        """Everything about one event, by its key or its id; the newest where several sources used that id."""
        rows = await self._database.fetch("find_events", identifier)
        if not rows:
            return None
        row = rows[0]
        admissions = await self._database.fetch("list_admissions", row[0])
        conflicts = await self._database.fetch("list_conflicts", row[0])
        decisions = await self._database.fetch("list_decisions", row[0])
        return {
            **event_summary(row),
            "envelope": _json(row[11]) if row[11] else None,
            "payload_removed": not row[11],
            "admissions": [
                {"agent": agent, "state": state, "run": run, "reason": reason}
                for agent, state, run, reason in admissions
            ],
            "conflicts": [
                {"envelope": _json(envelope or "null"), "seen_at": to_text(seen)} for _, envelope, seen in conflicts
            ],
            "decisions": [decision_summary(one) for one in decisions],
            "waited": [{"run": run, "agent": agent} for run, agent in await self._database.fetch("who_waited", row[0])],
            "same_id": len(rows) - 1,
            "quarantine": await self._quarantine_of(row[1]) if row[7] == "quarantined" else None,
            "released_from": await self.of_quarantine.released_from(row[1]),
        }

    async def _quarantine_of(self, key: str) -> dict[str, Any] | None:
        """Why an event is in quarantine, and what became of it; its bytes are in the envelope."""
        found = await self.of_quarantine.one(key)
        return (
            None if found is None else {name: value for name, value in found.items() if name not in {"raw", "received"}}
        )

    # sources

    async def sources(self, *, app: str | None = None) -> list[dict[str, Any]]:
        """What brings events in, by app and name."""
        return await self.of_sources.all(app=app)

    async def source(self, name: str, app: str | None = None) -> dict[str, Any] | None:
        """Everything about one source, with the alarms that are about it."""
        found = await self.of_sources.one(name, app)
        if found is None:
            return None
        keys = (
            source_alarm(found["app"], name),
            absence_alarm(found["app"], name, NOT_READ),
            f"lag/{found['app']}/{name}",
        )
        alarms = (await self.alarms())["alarms"]
        return {**found, "alarms": [one for one in alarms if one["key"] in keys]}

    async def quarantine(
        self,
        *,
        app: str | None = None,
        source: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of what could not be verified or read, newest first."""
        return await self.of_quarantine.page(
            app=app, source=source, kind=kind, state=state, limit=limit, after=_cursor(after)
        )

    async def quarantined(self, identifier: str) -> dict[str, Any] | None:
        """One of them with its bytes, by its key or the beginning of it, or by its event's id."""
        return await self.of_quarantine.one(identifier)

    async def waiting_inputs(self) -> list[dict[str, Any]]:
        """How much is in quarantine for a person, by source and kind."""
        return await self.of_quarantine.waiting()

    async def kept_of(self, app: str, source: str, kind: str | None, after: int, most: int) -> list[tuple[int, str]]:
        """(place, key) of what a source has in quarantine for a person, the oldest first."""
        return await self.of_quarantine.kept_of(app, source, kind, after, most)

    # schedules

    async def schedules(
        self,
        *,
        app: str | None = None,
        agent: str | None = None,
        state: str | None = None,
        whole: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> dict[str, Any]:
        """A page of schedules, by app and name; with `whole`, reminders and removed ones too."""
        return await self.of_schedules.page(
            app=app, agent=agent, state=state, whole=whole, limit=limit, after=_cursor(after)
        )

    async def schedule(self, name: str, app: str | None = None) -> dict[str, Any] | None:
        """Everything about one schedule, with the alarms that are about it."""
        found = await self.of_schedules.one(name, app)
        if found is None:
            return None
        alarms = (await self.alarms())["alarms"]
        return {**found, "alarms": [one for one in alarms if is_about(one["key"], found["app"], name)]}

    async def schedule_instants(self, name: str, app: str | None = None, count: int = 5) -> dict[str, Any] | None:
        """The next instants of a schedule."""
        return await self.of_schedules.instants(name, app, count, now=await self.time())

    async def loaded_last(self, app: str) -> set[str]:
        """The agents that the code of an app has now, as far as the store can know."""
        return await self.of_schedules.loaded_last(app)

    async def living_agents(self, app: str) -> set[str]:
        """What the processes of an app that are alive have loaded."""
        rows = await self._database.fetch("living_peers", self._database.read_clock(), app, "")
        return {agent for row in rows for agent in from_json(row[0])}

    async def occurrence(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """What the ledger says of the occurrence that an event is; None for one that no schedule made."""
        envelope = event.get("envelope") or {"type": event["type"], "scheduledfor": event["id"]}
        return await self.of_schedules.occurrence(event["app"], event["source"], envelope)

    # stories

    async def removed_run(self, identifier: str) -> dict[str, Any] | None:
        """The event and the agent of a run that is not there any more, by its whole id, as long as the event is known."""
        rows = await self._database.fetch("admission_of_run", identifier.partition(".")[0])
        return {"event": rows[0][0], "agent": rows[0][1]} if rows else None

    async def why(self, identifier: str) -> dict[str, Any] | None:
        """The whole story of an event, a run, a delivery or a schedule, or None."""
        from wakeful.why import why

        return await why(self, identifier)

    async def alarms(self, *, state: str | None = None) -> dict[str, Any]:
        """Alarms, the latest first."""
        rows = await self._database.fetch("list_alarms", state, LONGEST_PAGE)
        return {"alarms": [alarm_summary(row) for row in rows]}

    async def alarm(self, key: str) -> dict[str, Any] | None:
        """One alarm with what people did about it, or None."""
        rows = await self._database.fetch("find_alarm", key)
        if not rows:
            return None
        done = await self._database.fetch("operations_on_alarm", key)
        changes = [
            {"verb": verb.removeprefix("alarm "), "by": operator, "note": detail, "at": to_text(at)}
            for verb, operator, detail, at in done
        ]
        return {**alarm_summary(rows[0]), "changes": changes}

    async def runs_of_alarm(self, key: str) -> list[str]:
        """The dead and held runs that an alarm is about, the newest first."""
        return [row[0] for row in await self._database.fetch("runs_of_alarm", key)]

    async def expectations(self) -> list[dict[str, Any]]:
        """What should happen by when, and how it stands."""
        from wakeful.watch.listing import listed

        return await listed(self._database)

    async def checkins_expected(self) -> list[tuple[str, str]]:
        """Which apps expect which check-ins."""
        rows = [(app, from_json(definition)) for app, definition in await self._database.fetch("list_expectations")]
        return [(app, one["subject"]) for app, one in rows if one.get("subject") is not None]

    async def counts(self, app: str | None = None) -> dict[str, int]:
        """How many runs are in which state; of one app, or of all."""
        fetch = self._database.fetch
        return {row[0]: row[1] for row in await (fetch("count_runs") if app is None else fetch("count_runs_of", app))}

    async def delivery_counts(self, app: str) -> dict[str, int]:
        """How many deliveries of an app are in each state."""
        return {row[0]: row[1] for row in await self._database.fetch("count_deliveries_of", app)}

    async def waiting_agents(self, app: str) -> list[tuple[str, int]]:
        """Agents of an app with runs that wait to be claimed, and how many."""
        return [(row[0], row[1]) for row in await self._database.fetch("waiting_agents", app)]

    async def open_questions(self, app: str) -> set[str]:
        """The ids of what runs of an app ask people and nobody answered yet."""
        return {row[0] for row in await self._database.fetch("open_questions", app)}

    async def next_wake(self, app: str) -> Microseconds | None:
        """When the next run or delivery of an app is due; None when nothing waits for time."""
        clock = self._database.read_clock()
        rows = await self._database.fetch("next_wake", app, clock)
        moments = [] if rows[0][0] is None else [int(rows[0][0])]
        for key, agent, most, within in await self._rates(app):
            due = await self._database.fetch("count_due", clock, app, agent, 1)
            waits = await self._database.fetch("next_start", clock, app, key, most - 1, within) if due[0][0] else []
            moments += [await self.time() + wait[0] for wait in waits if wait[0] > 0]
        return min(moments, default=None)

    async def _rates(self, app: str) -> list[tuple[str, str, int, Microseconds]]:
        """Under which name each rate of an app counts, of which agent it is, and what it lets through."""
        limits = await self._database.fetch("limits_of_app", app)
        rates = [(agent, agent, most, within) for agent, _, most, within in limits if most is not None]
        for pause in await self.pauses():
            if pause["app"] == app and pause["rate"] is not None:
                rate = Rate.read(pause["rate"])
                agents = [pause["agent"]] if pause["agent"] else sorted((await self.apps()).get(app, ()))
                rates += [(f"resume {pause['agent'] or ''}", agent, rate.most, rate.within) for agent in agents]
        return rates

    async def processes(self) -> list[dict[str, Any]]:
        """Who works, or worked, on this store."""
        rows = await self._database.fetch("list_processes", self._database.read_clock())
        return [
            {
                "id": row[0],
                "host": row[1],
                "pid": row[2],
                "state": row[3],
                "started_at": to_text(row[4]),
                "lease_until": to_text(row[5]),
                "lease_left": row[6] / 1_000_000,
            }
            for row in rows
        ]

    async def time(self) -> Microseconds:
        """The store's own time."""
        rows = await self._database.fetch("read_time", self._database.read_clock())
        return int(rows[0][0])

    async def health(self) -> dict[str, Any]:
        """Does the store answer, with the right schema? Raises StoreUnavailable or SchemaMismatch."""
        await self._database.refuse_locked()
        schema = standing(self._database.dialect, await self._database.ledger())
        schema.refuse_behind()
        sealing = Sealing.of([row[0] for row in await self._database.fetch("list_ciphers")])
        sealing.settle(self._database.codec, demanded=strict_encryption())
        noted = {"note": schema.note} if schema.note else {}
        parts: dict[str, Any] = {"store": self._database.dialect, "schema": schema.schema, **noted}
        unserved = (await self._database.fetch("count_unserved", self._database.read_clock()))[0][0]
        if unserved:  # nobody is unready for that: the servers that live do their work
            words = f"no living server answers the requests to {unserved} of the webhooks: `wakeful sources` lists them"
            parts["webhooks"] = {"ok": False, "detail": words}
        return parts

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


def several(identifier: str, kind: str, candidates: list[str]) -> NotFound:
    """The beginning of an id that is not the only one."""
    more = ", …" if len(candidates) >= MANY_ALIKE else ""
    shown = ", ".join(candidates[: MANY_ALIKE - 1])
    return NotFound(f"{identifier} is the beginning of more than one {kind}'s id. Which one? {shown}{more}")


def is_about(alarm: str, app: str, schedule: str) -> bool:
    """Is this the key of an alarm about a schedule?"""
    kind, _, rest = alarm.partition("/")
    mine = f"{app}/{schedule}"
    if kind == "heartbeat":  # about the check itself, or about the file that it is written in
        return rest in {mine, mine.rpartition("/")[0]}
    return (kind in {"missed", "schedule"} and rest == mine) or (kind == "expect" and rest.startswith(f"{mine}/"))


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


def change_summary(steps: list[Row]) -> dict[str, Any] | None:
    """What is noted of a run that met other code than it began with: the last change, and all of them."""
    notes = {step[9]: from_json(step[5]) for step in steps if step[1] == "fact" and step[9] == "not asked for"}
    changes = changes_of(steps)
    if not notes and not changes:
        return None
    either = {**(changes[-1] if changes else {}), **notes.get("not asked for", {})}
    return {
        "was": either["was"],
        "now": either["now"],
        "restarted": either.get("restarted", False),
        "not_asked_for": either.get("steps", []),
        "changes": changes,
    }


def changes_of(steps: list[Row]) -> list[dict[str, Any]]:
    """Each time that a run went over to other code, in order."""
    found = [
        (int(step[9].removeprefix("version") or 1), from_json(step[5]), step[7])
        for step in steps
        if step[1] == "fact" and (step[9] == "version" or step[9].startswith("version "))
    ]
    return [
        {
            "was": told["was"],
            "now": told["now"],
            "restarted": told["restarted"],
            "agreed": told.get("agreed", True),
            "at": to_text(moment),
        }
        for _, told, moment in sorted(found, key=lambda one: one[0])
    ]


def began_with(version: str | None, steps: list[Row]) -> str | None:
    """The version whose records a run goes by: that of its first start, unless it started anew or a person let it go on since."""
    changes = changes_of(steps)
    if version is None or not changes:
        return None if version is None else version.lstrip("~")
    began: str = changes[0]["was"]
    for change in changes:
        if change["restarted"] or change["agreed"]:
            began = change["now"]
    return began


def step_summary(row: Row, misfit: Row | None = None) -> dict[str, Any]:
    """A step. `misfit` is an event that its condition could not be asked of, if it waits for one: its id, and why."""
    name, state, tries, attempt, arguments, result, error, started, finished, key = row
    return {
        "name": name,
        "state": state,
        "tries": tries,
        "attempt": attempt,
        "arguments": _shown(arguments),
        "result": _json(result) if state == "done" else None,
        "error": shown_error(error) if state != "done" else None,
        "failures": (_json(error) or {}).get("tries", []),
        "started_at": to_text(started),
        "finished_at": to_text(finished),
        "duration": (finished - started) / 1_000_000,
        "due_at": to_text(_until(state, result)),
        "waits_for": awaited(result, misfit) if state == "waiting" else None,
        "key": key,
    }


def awaited(result: str | None, misfit: Row | None) -> Any:
    """What a step waits for, as it was stored with it."""
    told = _json(result)
    if misfit is not None:
        told["misfit"] = {"event": misfit[0], "reason": misfit[1]}
    return told


def _until(state: str, result: str | None) -> int | None:
    """When a step goes on. None as well for a note that was tampered with, so that its run can be looked at."""
    if state not in {"retrying", "waiting"}:
        return None
    told = _json(result)
    until = told.get("until") if isinstance(told, dict) else told
    return until if isinstance(until, int) else None


def effect_summary(row: Row) -> dict[str, Any]:
    (identifier, action, safety, effect_state, reason, arguments, result, error, tries, attempt, opened, settled) = row[
        :12
    ]
    by, note, run, agent, undoes, once, operation, follows = row[12:]
    return {
        "id": identifier,
        "action": action,
        "safety": safety,
        "state": effect_state,
        "reason": reason,
        "arguments": _shown(arguments),
        "result": _json(result),
        "error": shown_error(error),
        "tries": tries,
        "attempt": attempt,
        "opened_at": to_text(opened),
        "settled_at": to_text(settled),
        "settled_by": by,
        "note": note,
        "run": run,
        "agent": agent,
        "undoes": undoes,
        "once": once,
        "operation": operation,
        "follows": follows,
    }


def delivery_summary(row: Row) -> dict[str, Any]:
    (identifier, channel, state, reason, message, subject, error, tries, due, created, settled, run, agent) = row
    return {
        "id": identifier,
        "channel": channel,
        "state": state,
        "reason": reason,
        "message": _json(message),
        "subject": subject,
        "error": shown_error(error),
        "tries": tries,
        "due_at": to_text(due) if state == "pending" else None,
        "committed_at": to_text(created),
        "settled_at": to_text(settled),
        "run": run,
        "agent": agent,
    }


def alarm_summary(row: Row) -> dict[str, Any]:
    key, app, state, text, count, opened, last, agent, owner, incident, loud, told, told_at = row[:13]
    acknowledged_at, acknowledged_by, note, muted_until, resolved_at, tell_at, addressee, remind_at, ending = row[13:]
    return {
        "key": key,
        "subject": title_of(key, text, agent=agent, count=count),
        "app": app,
        "state": state,
        "text": text,
        "count": count,
        "opened_at": to_text(opened),
        "last_at": to_text(last),
        "agent": agent,
        "owner": owner,
        "incident": incident,
        "loud": bool(loud),
        "told": told,
        "told_at": to_text(told_at),
        "tell_at": to_text(tell_at),
        "acknowledged_at": to_text(acknowledged_at),
        "acknowledged_by": acknowledged_by,
        "note": note,
        "muted_until": to_text(muted_until),
        "resolved_at": to_text(resolved_at),
        "do": todo_of(key, agent=agent),
        "to": addressee,
        "remind_at": to_text(remind_at),
        "ending": ending,
    }


def approval_summary(row: Row) -> dict[str, Any]:
    (identifier, app, agent, run, question, to, schema, state, answer, by, note, asked, due, answered) = row
    return {
        "id": identifier,
        "app": app,
        "agent": agent,
        "run": run,
        "question": question,
        "to": to,
        "schema": _json(schema),
        "state": state,
        "answer": _json(answer),
        "answered_by": by,
        "note": note,
        "asked_at": to_text(asked),
        "due_at": to_text(due),
        "answered_at": to_text(answered),
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
        "data": _json(data),
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


def decision_summary(row: Row) -> dict[str, Any]:
    agent, answer, rule, version, reason, decided = row
    return {
        "agent": agent,
        "answer": answer,
        "rule": rule,
        "version": version,
        "reason": reason,
        "decided_at": to_text(decided),
    }


def event_summary(row: Row) -> dict[str, Any]:
    return {
        "key": row[1],
        "app": row[2],
        "source": row[3],
        "id": row[4],
        "type": row[5],
        "subject": row[6],
        "state": row[7],
        "reason": row[8],
        "duplicates": row[9],
        "accepted_at": to_text(row[10]),
    }


def _json(text: str | None) -> Any:
    return from_json(text) if text else None


def _shown(text: str | None) -> Any:
    """Arguments are stored up to a length; what was cut is shown as text."""
    if text is None:
        return None
    try:
        return from_json(text)
    except ValueError:
        return text + "…"


def _cursor(after: str | None) -> int | None:
    """A page's cursor; ValueError for one that was not made here."""
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= LONGEST_CURSOR):
        message = f"{after!r} is not a cursor: take `next` of the page before"
        raise ValueError(message)
    return int(after)


def _next(rows: list[Row], most: int) -> str | None:
    return str(rows[most - 1][0]) if len(rows) > most else None
