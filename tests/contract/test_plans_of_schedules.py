"""What is asked of schedules, and of their ledgers, is found by an index, however small the tables were when the plan was made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.test_plans import LOOKED_AT, MANY, connection, quoted, scans
from wakeful.stores.queries import load_queries

__all__ = ["connection"]

pytestmark = pytest.mark.postgres

ASKED: dict[str, tuple[object, ...]] = {
    "find_schedule": (None, "app", "schedule-7"),
    "lock_schedule": ("app", "schedule-8"),
    "ledger_of_schedule": (9, 2**62, 100),
    "ledger_from": (10, 10),
    "changes_of_schedule": (11, 50),
}
FILL = [
    """insert into wakeful_schedule (app, name, agent, origin, state, revision, definition, done_until, created_at, changed_at, changed_by)
    select 'app', 'schedule-' || n, 'agent', 'code', 'live', 1, '{}', n, n, n, 'code' from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_occurrence (schedule_seq, state, from_at, to_at, count, revision, run, settled_at)
    select n, 'fired', n, n, 1, 1, 'run-' || n, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_schedule_change (schedule_seq, revision, verb, operator, changed_at)
    select n, 1, 'add', 'code', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'done', 1, n from generate_series($1::bigint, $2::bigint) n""",
]


@pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
@pytest.mark.parametrize("few", [1, 300])
async def test_find_their_rows_by_key(connection: Any, few: int, analysed: bool):
    queries = load_queries("postgres")
    for insert in FILL:
        await connection.execute(insert, 1, few)
    if analysed:
        await connection.execute("analyze")
    for name, given in ASKED.items():
        await connection.execute(f"prepare {name} as {queries[name].sql}")
        await connection.execute(f"execute {name}({', '.join(map(quoted, given))})")
    for insert in FILL:
        await connection.execute(insert, few + 1, MANY)
    wide: dict[str, list[str]] = {}
    for name, given in ASKED.items():
        (row,) = await connection.fetch(
            f"explain (analyze, format json) execute {name}({', '.join(map(quoted, given))})"
        )
        (plan,) = json.loads(row[0])
        if found := [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT]:
            wide[name] = found
    assert wide == {}
