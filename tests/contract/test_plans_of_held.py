"""Processes look every second for held runs that were judged by another policy: with ten thousand of them that look finds none at once."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import asyncpg
import pytest

from contract.test_plans import LOOKED_AT, quoted, scans
from contract.test_plans_of_review import FILL, MANY, UNTIL_A_PLAN_IS_KEPT
from support.transitions import look_away
from wakeful.clock import VirtualClock
from wakeful.stores.opening import open_database
from wakeful.stores.queries import load_queries

NAME = "held_runs_to_judge"
GIVEN = ("app", "in force", 0, 50)
# A thousand of them are about runs, and two of these were judged by another version.
HELD = """update wakeful_approval set kind = 'run',
  policy = case when seq = 50 then null when seq = 60 then 'older' else 'in force' end where seq % 10 = 0"""


@pytest.mark.postgres
async def test_on_postgresql(postgres_url: str):
    connection = await asyncpg.connect(postgres_url, statement_cache_size=0)
    await look_away(connection)
    try:
        numbers = f"with numbers as (select n from generate_series(1, {MANY}) n)"
        for insert in FILL:
            head, select = insert.split("select", 1)
            await connection.execute(f"{head} {numbers} select {select}")
        await connection.execute(HELD)
        await connection.execute("vacuum analyze")
        await connection.execute(f"prepare {NAME} as {load_queries('postgres')[NAME].sql}")
        call = f"execute {NAME}({', '.join(map(quoted, GIVEN))})"
        for _ in range(UNTIL_A_PLAN_IS_KEPT):
            assert [row["seq"] for row in await connection.fetch(call)] == [50, 60]
        (row,) = await connection.fetch(f"explain (analyze, format json) {call}")
        (plan,) = json.loads(row[0])
        assert [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT] == []
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
    connection.execute(HELD)
    sql = load_queries("sqlite")[NAME].sql
    plan = [row[3] for row in connection.execute(f"explain query plan {sql}", GIVEN)]
    assert [row[0] for row in connection.execute(sql, GIVEN)] == [50, 60]
    connection.close()
    assert sum("wakeful_approval_judged (app=? AND policy" in one for one in plan) == 3, plan
    assert [one for one in plan if one.startswith("SCAN") and "asked" not in one] == []
