"""The facts about an app's expectations, read from its store. Every query finds its rows by an index: none scans what
is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from wakeful.clock import SECOND, Microseconds, to_text
from wakeful.errors import ConfigError
from wakeful.stored_errors import words_of
from wakeful.stores.transaction import Fetcher, Row
from wakeful.stores.verbs.tending import first_to_tend
from wakeful.triggers import schedule as schedules
from wakeful.watch.absence import (
    Admitted,
    Judged,
    OccurrenceFacts,
    RunFacts,
    SourceFacts,
    WatchedSchedule,
    judge_admitted,
    judge_by,
    judge_every,
    judge_output,
    judge_schedule,
    judge_served,
    judge_source,
)
from wakeful.watch.expectations import CHECKIN, Expectation, read_definition
from wakeful.watch.overdue import Overdue, look_for_overdue
from wakeful.watch.retrying import alarms_of, retried

# How many of the last arrivals, runs and processes are read.
LAST_ARRIVALS = 32
LAST_RUNS = 50
# How far back to look for a run whose time is over, if all of the last ones still have time.
FURTHEST_BACK = 50_000
LAST_PROCESSES = 50
# A busy machine renews a lease late; that needs no alarm.
LATE_RENEWAL: Microseconds = 5 * SECOND
# Errors of a definition that this process cannot read.
UNREADABLE = (ConfigError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation, declared or derived from a schedule, and its verdict."""

    app: str
    name: str
    kind: str
    what: str
    verdict: Judged
    agent: str | None = None
    owner: str | None = None
    met_at: Microseconds | None = None
    noted_at: Microseconds | None = None  # the last time it was met, as stored


@dataclass(frozen=True, slots=True)
class Crew:
    """The processes of an app: how many living ones have each agent, since when, and whether the last of all of them
    died.
    """

    workers: dict[str, int]
    alive: int
    died: bool
    since: dict[str, Microseconds] = field(default_factory=dict)


class Facts:
    """Reads from a store whether the expectations of an app are met."""

    def __init__(self, database: Fetcher) -> None:
        self._database = database

    async def now(self) -> Microseconds:
        """The store's own time."""
        return int((await self._database.fetch("read_time", self._database.read_clock()))[0][0])

    async def tend_in(self, app: str) -> Microseconds | None:
        """How long until an open approval is to be looked at; None if there is none."""
        return await first_to_tend(self._database, app)

    async def apps(self) -> list[str]:
        """The apps of which something is expected."""
        return sorted(row[0] for row in await self._database.fetch("watched_apps"))

    async def retired(self) -> dict[str, str]:
        """The apps that a person retired, of which nothing is expected any more, with the reason."""
        return {
            app: f"app {app} was retired by {by} at {to_text(at)}" + (f": {note}" if note else "")
            for app, at, by, note in await self._database.fetch("list_retired")
        }

    async def alarms(self, app: str) -> dict[str, str | None]:
        """The open alarms about expectations: keys and causes. None: an older version raised it last, and stored no cause."""
        return {row[0]: row[1] for row in await self._database.fetch("alarms_of_watching", app)}

    async def has_work_to_come(self, app: str) -> bool:
        """Whether the app has schedules, sources, unfinished runs, unsettled effects or pending deliveries."""
        for query in ("count_live_schedules", "count_sources", "count_unfinished"):
            if (await self._database.fetch(query, app))[0][0]:
                return True
        return False

    async def _sources(self, app: str, now: Microseconds, crew: Crew) -> list[Expected]:
        """The verdicts on sources that one process at a time reads."""
        found = []
        for row in await self._database.fetch("sources_to_judge", self._database.read_clock(), app):
            name, kind, state, read_at, host, pid, process, left, owner = row
            living = process == "alive" and left > -LATE_RENEWAL
            verdict = judge_source(SourceFacts(name, state, read_at, host, pid, living, left), now, workers=crew.alive)
            found.append(Expected(app, name, "source", kind, verdict, owner=owner, met_at=verdict.met_at))
        return found

    async def _webhooks(self, app: str, now: Microseconds, crew: Crew) -> list[Expected]:
        """The verdicts on webhooks that were served before."""
        servers: dict[str, list[Row]] = {}
        for row in await self._database.fetch("webhooks_to_judge", self._database.read_clock(), app):
            servers.setdefault(row[0], []).append(row)
        found = []
        for name, rows in sorted(servers.items()):
            _, kind, state, read_at, _, owner, *_ = rows[0]
            last: SourceFacts | None = None
            if not any(row[8] is not None and row[8] > -LATE_RENEWAL for row in rows):
                host, pid, _, left = max((row[6:10] for row in rows), key=lambda one: one[3] or 0)
                last = SourceFacts(name, state, read_at, host, pid, alive=False, left=left)
            verdict = judge_served(last, read_at, now, name=name, workers=crew.alive)
            found.append(Expected(app, name, "source", kind, verdict, owner=owner, met_at=verdict.met_at))
        return found

    async def crew(self, app: str) -> Crew:
        rows = await self._database.fetch("processes_of_app", self._database.read_clock(), app, LAST_PROCESSES)
        workers: dict[str, int] = {}
        since: dict[str, Microseconds] = {}
        alive = 0
        for _, agents, state, left, started_at in rows:
            living = state == "alive" and left > -LATE_RENEWAL
            alive += living
            for agent in from_json(agents or "[]"):
                workers[agent] = workers.get(agent, 0) + living
                if living:
                    since[agent] = min(since.get(agent, started_at), started_at)
        # A lease ends soon after its process: the lease that ended last tells whether they stopped in good order.
        last = max(rows, key=lambda row: row[3], default=None)
        return Crew(workers, alive, died=last is not None and not alive and last[2] != "stopped", since=since)

    async def overdue(self, app: str, now: Microseconds, crew: Crew) -> Overdue:
        """Work of an app that waits too long: runs, keys behind a dead letter, channels, sources, and retries."""
        found = await look_for_overdue(self._database, app, now, crew.workers, crew.since)
        found.alarms += alarms_of(app, await retried(self._database, app, now), now)
        return found

    async def expected(self, app: str, now: Microseconds, crew: Crew, *, whole: bool = False) -> list[Expected]:
        """The verdicts: on all declared expectations, and on schedules that need attention; with `whole` on all
        schedules.
        """
        paused = {row[0]: row[1] for row in await self._database.fetch("pauses_of_app", app)}
        halted = {row[0]: row[1] for row in await self._database.fetch("halts_of_app", app)}
        around = _Around(crew.workers, paused, halted)
        rows = await self._database.fetch("schedules_to_judge", self._database.read_clock(), app, int(whole))
        declared = await self._database.fetch("expectations_of_app", app)
        return [
            *(_schedule(app, row, now, around) for row in rows),
            *[await self._declared(app, row, now, around) for row in declared],
            *await self._sources(app, now, crew),
            *await self._webhooks(app, now, crew),
        ]

    async def _declared(self, app: str, row: Row, now: Microseconds, around: _Around) -> Expected:
        name, definition, agent, owner, since, noted_at = row
        try:
            expectation = read_definition(name, from_json(definition), agent, owner)
            verdict = await self._judge(app, expectation, since, noted_at, now, around)
        except UNREADABLE as error:
            return Expected(app, name, "expectation", definition, _unreadable(error), agent, owner, noted_at, noted_at)
        met_at = max(filter(None, (verdict.met_at, noted_at)), default=None)
        return Expected(
            app, name, expectation.kind, expectation.describe(), verdict, agent, owner, met_at, noted_at=noted_at
        )

    async def _judge(
        self,
        app: str,
        expectation: Expectation,
        since: Microseconds,
        noted_at: Microseconds | None,
        now: Microseconds,
        around: _Around,
    ) -> Judged:
        why: Judged | None = None
        runs: list[Admitted] = []
        if expectation.agent is not None:
            runs = await self._runs(app, expectation.agent, around, expectation.output_within, now)
            arrivals = sorted(
                one.run.finished_at
                for one in runs
                if one.run is not None and one.run.state == "done" and one.run.finished_at and one.run.has_output
            )
            within = expectation.output_within or 0
            judged = (judge_admitted(one, within, now, output=bool(within)) for one in runs)
            why = next((one for one in judged if one is not None and one.state in {"absent", "met"}), None)
            more = len(runs) >= LAST_RUNS and bool(arrivals)
        else:
            arrivals = await self._arrivals(app, expectation)
            more = len(arrivals) == LAST_ARRIVALS
        if noted_at is not None and since <= noted_at < (arrivals[0] if arrivals else now) and not more:
            arrivals.insert(0, noted_at)  # its event or its run may have been removed since
        if expectation.by is not None:
            return judge_by(arrivals, expectation.deadlines, since, now, expectation.what, why, more=more)
        verdict: Judged | None = None
        if expectation.output_within is not None:
            verdict = judge_output(runs, expectation.output_within, now)
        if expectation.every is not None and (verdict is None or verdict.state != "absent"):
            last = arrivals[-1] if arrivals else None
            often = judge_every(last, expectation.every, since, now, expectation.what, why)
            verdict = often if verdict is None else _both(verdict, often)
        return verdict or Judged("pending", "nothing is expected of it")

    async def _arrivals(self, app: str, expectation: Expectation) -> list[Microseconds]:
        """The times of the last arrivals that meet it, oldest first."""
        if expectation.source is not None:
            rows = await self._database.fetch("arrivals_from", app, expectation.source, LAST_ARRIVALS)
        elif expectation.event == CHECKIN and expectation.subject is not None:
            rows = await self._database.fetch("checkins", app, expectation.subject, LAST_ARRIVALS)
        else:
            rows = await self._database.fetch("arrivals_of_type", app, expectation.event, LAST_ARRIVALS)
        return sorted(row[0] for row in rows)

    async def _runs(
        self, app: str, agent: str, around: _Around, within: Microseconds | None, now: Microseconds
    ) -> list[Admitted]:
        """The results of an agent's last events, newest first. If an agent is so busy that all of these still have
        time, older ones are read too: otherwise each new run would be a reason to wait.
        """
        found: list[Admitted] = []
        asked = within is None
        skip = 0
        while True:
            rows = await self._database.fetch("admissions_of_agent", app, agent, LAST_RUNS, skip)
            for at, state, reason, seq, *columns in rows:
                run = _run(columns, around) if seq is not None else None
                if run is not None and run.state == "done" and not asked:
                    # The newest run that is done decides: the output of the others does not matter.
                    asked = True
                    run = replace(run, has_output=await self._has_output(seq))
                found.append(Admitted(at, state, reason, run))
            skip = skip * 4 or LAST_RUNS
            if within is None or len(rows) < LAST_RUNS or skip > FURTHEST_BACK:
                return found
            if judge_output(found[-LAST_RUNS:], within, now).state != "pending":
                return found

    async def _has_output(self, seq: int) -> bool:
        rows = await self._database.fetch("output_of_run", seq)
        return bool(rows) and (rows[0][0] not in {None, "null"} or bool(rows[0][1]))


def _unreadable(error: Exception) -> Judged:
    """A definition of another version, or with a zone that this machine lacks: it keeps its alarm, and the others are
    judged.
    """
    return Judged("pending", f"it cannot be judged here: {words_of(error) or type(error).__name__}")


@dataclass(frozen=True, slots=True)
class _Around:
    workers: dict[str, int]
    paused: dict[str, str]  # who paused each agent; '' is the whole app
    halted: dict[str, str]  # who halted each agent


def _both(verdict: Judged, often: Judged) -> Judged:
    """Each run in time, and often enough: the one that is absent decides, else the one that is due first."""
    if often.state == "absent":
        return often
    due = [one.due_at for one in (verdict, often) if one.due_at is not None]
    return replace(verdict, due_at=min(due, default=None))


def _run(columns: Sequence[Any], around: _Around) -> RunFacts:
    identifier, agent, state, created, started, finished, due, reason, parked_for = columns
    return RunFacts(
        identifier,
        agent,
        state,
        created,
        started,
        finished,
        due,
        reason,
        parked_for,
        paused_by=around.paused.get(agent) or around.paused.get(""),
        halted_by=around.halted.get(agent) or around.halted.get(""),
        workers=around.workers.get(agent, 0),
    )


def _schedule(app: str, row: Row, now: Microseconds, around: _Around) -> Expected:
    name, agent, owner, state, definition, next_at, due_at, queued_from, last_at, changed_by = row[:10]
    try:
        schedule = schedules.read_definition(from_json(definition))
    except UNREADABLE as error:
        return Expected(app, name, "schedule", definition, _unreadable(error), agent, owner)
    facts = WatchedSchedule(
        name,
        agent,
        schedule,
        state,
        next_at,
        due_at,
        queued_from,
        None if row[10] is None else OccurrenceFacts(row[10], row[11], row[12]),
        last_at,
        None if row[13] is None else _run(row[13:], around),
        changed_by,
        around.workers.get(agent, 0),
    )
    verdict = judge_schedule(facts, now)
    return Expected(app, name, "schedule", schedule.describe(), verdict, agent, owner, verdict.met_at)
