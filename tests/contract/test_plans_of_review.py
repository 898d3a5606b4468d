"""What waits for a person is a walk along an index, with ten thousand open approvals, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import asyncpg
import pytest

from contract.test_plans import LOOKED_AT, quoted, scans
from support.transitions import look_away
from wakeful.clock import VirtualClock
from wakeful.stores.opening import open_database
from wakeful.stores.queries import load_queries

MANY = 10_000
PAGE = 51
UNTIL_A_PLAN_IS_KEPT = 8  # from the sixth time on PostgreSQL may use one plan for all parameters
# Of ten runs one each is held for its output, for its code and for an effect; the others ask, with and without a deadline.
FILL = [
    """insert into wakeful_event (key, app, source, id, type, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', '/s', 'event-' || n, 't', 'accepted', '', '{}', n from numbers""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, created_at, outcome, held_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, case when n % 10 < 3 then 'held' else 'waiting' end, n,
      case when n % 10 = 0 then '{}' end, case when n % 10 < 2 then n end from numbers""",
    """insert into wakeful_effect (id, root, run_seq, app, agent, action, reference, safety, state, arguments, tries, attempt,
      position, opened_at)
    select 'effect-' || n, 'run-' || n, n, 'app', 'agent', 'book', 'm:book', 'idempotent',
      case when n % 10 = 2 then 'held' else 'confirmed' end, '[]', 1, 1, 0, n from numbers""",
    """insert into wakeful_approval (id, app, agent, run_seq, key, question, state, asked_at, due_at)
    select 'approval-' || n, 'app', 'agent', n, 'ask', 'may I?', 'open', n, case when n % 2 = 0 then n + 100000 end from numbers""",
]
QUERIES = ("approvals_to_review", "effects_to_review", "outputs_to_review", "runs_to_review")
GIVEN = [(0, "", None, None, PAGE), (9_000, "approval-9000", "app", "agent", PAGE)]


@pytest.mark.postgres
async def test_on_postgresql(postgres_url: str):
    connection = await asyncpg.connect(postgres_url, statement_cache_size=0)
    await look_away(connection)
    try:
        numbers = f"with numbers as (select n from generate_series(1, {MANY}) n)"
        for insert in FILL:
            head, select = insert.split("select", 1)
            await connection.execute(f"{head} {numbers} select {select}")
        await connection.execute("analyze")
        queries, wide = load_queries("postgres"), {}
        for name in QUERIES:
            await connection.execute(f"prepare {name} as {queries[name].sql}")
            for given in GIVEN:
                call = f"execute {name}({', '.join(map(quoted, given))})"
                for _ in range(UNTIL_A_PLAN_IS_KEPT):
                    assert (await connection.fetch(call)) != []
                (row,) = await connection.fetch(f"explain (analyze, format json) {call}")
                (plan,) = json.loads(row[0])
                found = [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT + PAGE]
                if found:
                    wide[name] = found
        assert wide == {}
    finally:
        await connection.close()


async def test_on_sqlite(tmp_path: Path):
    path = tmp_path / "wakeful.db"
    database = open_database(f"sqlite:///{path}", VirtualClock())
    await database.open(migrate=True)
    await database.close()
    connection = apsw.Connection(str(path))
    await look_away(connection)
    numbers = f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {MANY})"
    for insert in FILL:
        head, select = insert.split("select", 1)
        connection.execute(f"{head} {numbers} select {select}")
    queries, walks = load_queries("sqlite"), {}
    for name in QUERIES:
        for given in GIVEN:
            plan = [row[3] for row in connection.execute(f"explain query plan {queries[name].sql}", given)]
            if any(one.startswith("SCAN") or "TEMP B-TREE" in one for one in plan):
                walks[name] = plan
            assert connection.execute(queries[name].sql, given).fetchall(), name
    connection.close()
    assert walks == {}
