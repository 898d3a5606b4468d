"""Whoever watches finds the last of a few things behind any number of others, whatever PostgreSQL knew of its tables when the
plan was made.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.test_plans import LOOKED_AT, MANY, connection, quoted, scans
from wakeful.stores.queries import load_queries

__all__ = ["connection"]

pytestmark = pytest.mark.postgres

ASKED: dict[str, tuple[object, ...]] = {
    "checkins": ("app", "backup", 32),
    "arrivals_of_type": ("app", "rare", 32),
    "arrivals_from": ("app", "/rare", 32),
    "admissions_of_agent": ("app", "rare", 50, 0),
    "output_of_run": (7,),
    "schedules_to_judge": (None, "app", 0),
    "expectations_of_app": ("app",),
    "alarms_of_watching": ("app",),
    "processes_of_app": (None, "app", 50),
    "pauses_of_app": ("app",),
    "count_live_schedules": ("app",),
    "count_unfinished": ("idle",),
    "webhooks_to_judge": (None, "app"),
    "agents_of_app": ("app",),
    "waiting_heads": (None, "app"),
    "blocked_heads": ("app", 100),
    "lane_heads": ("app",),
    "lags_of_app": ("app",),
    "running_of_agent": ("app", "agent-3"),
    "keep_agent": ("app", "agent-3", None, 0),
    "note_met": (None, "app", "expectation-3", 5),
    "keep_expectation": (None, "app", "expectation-4", "every", "{}", None, None),
    "remove_expectation": ("app", "expectation-5"),
}

# Of each kind a few that are asked for, which came first, and then very many others.
FILL = [
    """insert into wakeful_event (key, app, source, id, type, subject, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', case when n <= 20 then '/rare' else '/s' end, 'event-' || n,
      case when n <= 20 then 'rare' else 'wakeful.checkin' end, case when n between 21 and 40 then 'backup' else 'other' end,
      'accepted', '', '{}', n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, case when n <= 20 then 'rare' else 'agent' end, 'started', 'run-' || n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'done', 1, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_delivery (id, run_seq, app, channel, state, message, position, due_at, created_at)
    select 'delivery-' || n, n, 'app', 'ops', 'pending', '""', 0, 0, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_schedule (app, name, agent, origin, state, revision, definition, done_until, next_at, due_at, last_run,
      created_at, changed_at, changed_by)
    select case when n <= 10 then 'app' else 'other' end, 'schedule-' || n, 'agent', 'code', 'live', 1, '{}', 0, 1, 1,
      'run-' || n, 1, 1, 'code'
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_occurrence (schedule_seq, state, from_at, to_at, count, revision, settled_at)
    select n % 10 + 1, 'fired', n, n, 1, 1, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_expectation (app, name, kind, definition, state, revision, since)
    select case when n <= 10 then 'app' else 'other' end, 'expectation-' || n, 'every', '{}', 'live', 1, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_alarm (key, app, state, text, count, opened_at, last_at)
    select 'expect/app/x/' || n, 'app', case when n <= 10 then 'open' else 'resolved' end, '', 1, 1, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_process (id, host, pid, state, started_at, lease_until, app, agents)
    select 'process-' || n, 'host', 1, 'stopped', n, n, 'app', '[]' from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_agent (app, name, starts_within)
    select case when n <= 10 then 'app' else 'other' end, 'agent-' || n, 0 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_source (app, name, kind, state, since)
    select case when n <= 10 then 'app' else 'other' end, '/hook-' || n, 'webhook', 'reading', 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_server (app, source, process, since)
    select case when n <= 10 then 'app' else 'other' end, '/hook-' || n, 'process-' || n, 1
    from generate_series($1::bigint, $2::bigint) n""",
    # Of some agents very much waits: runs that are due, that sleep, that are behind a dead letter, and messages.
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, created_at, due_at, key, place, finished_at)
    select 'waiting-' || n, 'waiting-' || n, 'app', 'agent-' || n % 5, n,
      case when n % 5 = 4 then case when n < 100 then 'dead' else 'ready' end else 'waiting' end, 1, n,
      case when n % 5 = 4 then null when n % 5 = 3 then 1 else 9000000000000000 end,
      case when n % 5 = 4 then 'key-' || n % 100 end, case when n % 5 = 4 then n end, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_lane (app, channel, token)
    select case when n <= 10 then 'app' else 'other' end, case when n = 1 then 'ops' else 'channel-' || n end, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_pause (app, agent, paused, operator, changed_at)
    select 'app-' || n, '', 1, 'ada', n from generate_series($1::bigint, $2::bigint) n""",
]


@pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
@pytest.mark.parametrize("few", [1, 30, 300])
async def test_the_last_ones_are_found_by_their_index(connection: Any, few: int, analysed: bool):
    queries = load_queries("postgres")
    for insert in FILL:
        await connection.execute(insert, 1, few)
    if analysed:
        await connection.execute("analyze")
    for name, given in ASKED.items():
        await connection.execute(f"prepare {name} as {queries[name].sql}")
        await connection.execute("begin")
        await connection.execute(f"execute {name}({', '.join(map(quoted, given))})")
        await connection.execute("rollback")
    for insert in FILL:
        await connection.execute(insert, few + 1, MANY)
    wide: dict[str, list[str]] = {}
    for name, given in ASKED.items():
        await connection.execute("begin")
        call = f"execute {name}({', '.join(map(quoted, given))})"
        (row,) = await connection.fetch(f"explain (analyze, format json) {call}")
        await connection.execute("rollback")
        (plan,) = json.loads(row[0])
        found = [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT]
        if found:
            wide[name] = found
    assert wide == {}
