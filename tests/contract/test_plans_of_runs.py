"""Runs are found by what they touched through an index, with ten thousand others around them, on both databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from contract.test_plans import LOOKED_AT, quoted, scans
from support.transitions import look_away
from wakeful.clock import VirtualClock
from wakeful.stores.opening import open_database
from wakeful.stores.queries import load_queries
from wakeful.stores.run_filters import NO_END, RunFilter

MANY = 10_000
UNTIL_A_PLAN_IS_KEPT = 8  # from the sixth time on PostgreSQL may use one plan for all parameters
FILL = [
    """insert into wakeful_event (key, app, source, id, type, subject, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', '/s', 'event-' || n, 't', 'subject-' || n, 'accepted', '', '{}', n from numbers""",
    """insert into wakeful_trace (trace, event_seq) select 'trace-' || n, n from numbers""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, 'agent', 'started', 'run-' || n from numbers""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'done', n from numbers""",
    """insert into wakeful_effect (id, root, run_seq, app, agent, action, reference, safety, state, arguments, tries, attempt,
      position, opened_at)
    select 'effect-' || n, 'run-' || n, n, 'app', 'agent', case when n % 5000 = 0 then 'rare' else 'book' end, 'm:book',
      'idempotent', 'confirmed', '[]', 1, 1, 0, n from numbers""",
]
ASKED = [
    RunFilter(event="event-7000"),
    RunFilter(subject="subject-7000"),
    RunFilter(trace="trace-7000"),
    RunFilter(
        subject="subject-7000", trace="trace-7000", event="event-7000", action="book", agent="agent", state="done"
    ),
    RunFilter(action="rare"),
    RunFilter(action="book"),
    RunFilter(since=9_900),
]


def questions() -> dict[str, tuple[str, tuple[Any, ...]]]:
    """What is asked, by a name for people. Times come with the numbers of runs that they mean."""
    found = {}
    for one in ASKED:
        least = 0 if one.since is None else one.since
        found[repr(one)] = one.query(least, NO_END, 51)
    return found


@pytest.mark.postgres
async def test_on_postgresql(postgres_url: str):
    connection = await asyncpg.connect(postgres_url, statement_cache_size=0)
    await look_away(connection)  # rows of all states are made, without their history
    try:
        numbers = f"with numbers as (select n from generate_series(1, {MANY}) n)"
        for insert in FILL:
            head, select = insert.split("select", 1)
            await connection.execute(f"{head} {numbers} select {select}")
        await connection.execute("analyze")
        queries, wide = load_queries("postgres"), {}
        for number, (shown, (name, given)) in enumerate(questions().items()):
            await connection.execute(f"prepare p{number} as {queries[name].sql}")
            call = f"execute p{number}({', '.join(map(quoted, given))})"
            for _ in range(UNTIL_A_PLAN_IS_KEPT):
                await connection.execute(call)
            (row,) = await connection.fetch(f"explain (analyze, format json) {call}")
            (plan,) = json.loads(row[0])
            found = [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT + 51]
            if found:
                wide[shown] = found
        assert wide == {}
    finally:
        await connection.close()


async def test_on_sqlite(tmp_path: Path):
    path = tmp_path / "wakeful.db"
    database = open_database(f"sqlite:///{path}", VirtualClock())
    await database.open(migrate=True)
    await database.close()
    connection = apsw.Connection(str(path))
    await look_away(connection)  # rows of all states are made, without their history
    numbers = f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {MANY})"
    for insert in FILL:
        head, select = insert.split("select", 1)
        connection.execute(f"{head} {numbers} select {select}")
    queries, walks = load_queries("sqlite"), {}
    for shown, (name, given) in questions().items():
        plan = [row[3] for row in connection.execute(f"explain query plan {queries[name].sql}", given)]
        found = [line for line in plan if line.startswith("SCAN") and "SUBQUERY" not in line]
        if found:
            walks[shown] = plan
        assert connection.execute(queries[name].sql, given).fetchall(), shown
    connection.close()
    assert walks == {}
