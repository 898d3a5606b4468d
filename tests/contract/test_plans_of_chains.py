"""A chain is counted behind any number of others, whatever PostgreSQL knew of the table when the plan was made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.test_plans import LOOKED_AT, MANY, connection, quoted, scans
from wakeful.stores.queries import load_queries

__all__ = ["connection"]

pytestmark = pytest.mark.postgres

ASKED: dict[str, tuple[object, ...]] = {
    "count_rounds": (None, "app", "chain-7", "agent", 1, 60_000_000),
    "stop_chain": (None, "app", "chain-7", "agent"),
    "remove_chains": ("app", 10, 50),
    "start_denied": (7, "agent", "run-7", "a person said so"),
}
FILL = [
    """insert into wakeful_chain (app, chain, agent, began_at, rounds)
    select 'app', 'chain-' || n, 'agent', n, 1 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, 'agent', 'denied', null from generate_series($1::bigint, $2::bigint) n""",
]


@pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
@pytest.mark.parametrize("few", [1, 300])
async def test_a_chain_is_found_by_its_index(connection: Any, few: int, analysed: bool):
    queries = load_queries("postgres")
    for insert in FILL:
        await connection.execute(insert, 1, few)
    if analysed:
        await connection.execute("analyze")
    for name in ASKED:
        await connection.execute(f"prepare {name} as {queries[name].sql}")
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
