"""The first page of many open approvals against that of few, as `GET /v1/approvals?state=open` reads it.

Approvals of effects are put in by SQL, with their runs and a vote each; half as many answered ones are newer than all of them. Both stores
are read in turns.
"""

import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from wakeful.clock import SECOND, SystemClock
from wakeful.reader import Reader
from wakeful.stores.opening import open_database

PAGE = 50
WARM_UP = 5
FAR_AWAY = 4_000_000_000 * SECOND

RUNS = (
    "insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, created_at, token) "
    f"select 'run-' || n, 'run-' || n, 'shop', 'desk', n, 'waiting', {FAR_AWAY} + n, n, 1 from "
)
APPROVALS = (
    "insert into wakeful_approval (id, app, agent, run_seq, key, question, schema, state, asked_at, due_at, kind, rule, effect_id, action, "
    "arguments, digest, needed, approvers, answer, answered_by, answered_at) "
    "select 'approval-' || seq, app, agent, seq, 'approve 1', 'refund(amount=150) for order ' || seq || '?', "
    "'{{\"type\":\"boolean\"}}', case when seq <= {open} then 'open' else 'answered' end, seq, {far} + seq, 'effect', 'large-refunds', "
    "'effect-' || seq, 'refund', '{{\"amount\":150,\"customer\":\"ada\"}}', 'digest', 2, '[\"ops\"]', "
    "case when seq > {open} then 'true' end, case when seq > {open} then 'ada' end, case when seq > {open} then seq end "
    "from wakeful_run order by seq"
)
VOTES = (
    "insert into wakeful_vote (app, approval, voter, answer, proved, digest, voted_at) "
    "select app, id, 'ada', 'true', 1, 'digest', seq from wakeful_approval"
)


async def measure(first: str, second: str, *, few: int, many: int, samples: int) -> tuple[float, float]:
    """Seconds per page, by median: with few approvals, with many."""
    async with _opened(first, few) as one, _opened(second, many) as other:
        times: tuple[list[float], list[float]] = ([], [])
        for sample in range(samples + WARM_UP):
            for reader, taken in ((one, times[0]), (other, times[1])):
                began = time.perf_counter()
                page = await reader.approvals(state="open", limit=PAGE)
                took = time.perf_counter() - began
                _check(page)
                if sample >= WARM_UP:
                    taken.append(took)
    return statistics.median(times[0]), statistics.median(times[1])


def _check(page: dict[str, Any]) -> None:
    found = page["approvals"]
    if len(found) != PAGE or page["next"] is None or any(one["state"] != "open" or not one["votes"] for one in found):
        message = f"the page is not what was asked for, so the figures mean nothing: {len(found)} approvals"
        raise RuntimeError(message)


@contextlib.asynccontextmanager
async def _opened(url: str, count: int) -> AsyncIterator[Reader]:
    database: Any = open_database(url, SystemClock())
    await database.open(migrate=True)
    try:
        await _fill(database, url, count)
        yield Reader(database)
    finally:
        await database.close()


async def _fill(database: Any, url: str, count: int) -> None:
    """So many open approvals, and then half as many that were answered."""
    stored = count + count // 2
    rest = (APPROVALS.format(open=count, far=FAR_AWAY), VOTES)
    if database.dialect == "postgres":
        async with database.user_transaction() as connection:
            for statement in (f"{RUNS} generate_series(1, {stored}) n", *rest):
                await connection.execute(statement, timeout=600)
        async with database.user_transaction() as connection:
            for table in ("wakeful_run", "wakeful_approval", "wakeful_vote"):  # as autovacuum does within a minute
                await connection.execute(f"analyze {table}", timeout=600)
        return
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    series = f"with recursive counted(n) as (select 1 union all select n + 1 from counted where n < {stored})"
    connection.execute("begin immediate")
    for statement in (f"{series} {RUNS} counted", *rest):
        connection.execute(statement)
    connection.execute("commit")
    connection.close()
