"""A claim on a store with a long history against a claim on an empty one.

The history is put in by SQL (a million finished runs, a hundred thousand that sleep); then small batches of new runs
come in and are claimed, through the store's own verbs. Both stores are measured in turns.
"""

import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from wakeful.clock import SECOND, SystemClock
from wakeful.model import Admission, Arrival, digest
from wakeful.stores.opening import open_database
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, Wanted
from wakeful.stores.verbs.processes import RegisterProcess
from wakeful.stores.verbs.progress import FinishRun

BATCH = 10
FAR_AWAY = 4_000_000_000 * SECOND
COLUMNS = "(id, root, app, agent, event_seq, state, due_at, created_at, token)"
ROW = "'old' || n, 'old' || n, 'claim', 'work', n, {state}, {due}, n, 1"


async def measure(empty: str, full: str, *, finished: int, sleeping: int, samples: int) -> tuple[float, float]:
    """Seconds per claim, by median: on the empty store, on the full one."""
    async with opened(empty) as first, opened(full) as second:
        await _fill(second, full, finished, sleeping)
        times: tuple[list[float], list[float]] = ([], [])
        for sample in range(samples + 5):
            for store, taken in ((first, times[0]), (second, times[1])):
                elapsed = await _claim(store, sample)
                if sample >= 5:
                    taken.append(elapsed)
        return statistics.median(times[0]), statistics.median(times[1])


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[DatabaseStore]:
    store = DatabaseStore(open_database(url, SystemClock()))
    await store.open(migrate=True)
    await store.register(RegisterProcess("bench", "bench", 1, 3600 * SECOND))
    try:
        yield store
    finally:
        await store.close()


async def _fill(store: DatabaseStore, url: str, finished: int, sleeping: int) -> None:
    done = ROW.format(state="'done'", due="null")
    waiting = ROW.format(state="'waiting'", due=f"{FAR_AWAY} + n")
    database: Any = store.database
    if store.dialect == "postgres":
        async with database.user_transaction() as connection:
            series = "from generate_series(cast($1 as bigint), cast($2 as bigint)) n"
            await connection.execute(
                f"insert into wakeful_run {COLUMNS} select {done} {series}", 1, finished, timeout=600
            )
            await connection.execute(
                f"insert into wakeful_run {COLUMNS} select {waiting} {series}",
                finished + 1,
                finished + sleeping,
                timeout=600,
            )
        async with database.user_transaction() as connection:
            await connection.execute("analyze wakeful_run", timeout=600)
        return
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    series = "with recursive counted(n) as (select ?1 union all select n + 1 from counted where n < ?2)"
    for rows, bounds in ((done, (1, finished)), (waiting, (finished + 1, finished + sleeping))):
        connection.execute("begin immediate")
        connection.execute(f"{series} insert into wakeful_run {COLUMNS} select {rows} from counted", bounds)
        connection.execute("commit")
    connection.close()


async def _claim(store: DatabaseStore, sample: int) -> float:
    await make_ready(store, sample)
    began = time.perf_counter()
    claimed = await claim(store)
    took = time.perf_counter() - began
    await finish(store, claimed)
    return took


async def make_ready(store: DatabaseStore, sample: int) -> None:
    """So many new runs as one claim takes."""
    arrivals = [_arrival(f"{sample}-{number}") for number in range(BATCH)]
    await store.do(AcceptEvents("claim", arrivals))


async def claim(store: DatabaseStore) -> Claimed:
    claimed = await store.do(ClaimRuns("claim", "bench", lambda: Wanted([("work", BATCH)])))
    if len(claimed.claims) != BATCH:
        message = f"claimed {len(claimed.claims)} runs of {BATCH}"
        raise RuntimeError(message)
    return claimed


async def finish(store: DatabaseStore, claimed: Claimed) -> None:
    for one in claimed.claims:
        await store.do(FinishRun(one, "done"))


def _arrival(name: str) -> Arrival:
    run = digest("claim", name)
    return Arrival(
        digest("event", name),
        "/bench",
        name,
        "bench",
        None,
        "accepted",
        "content",
        "{}",
        admissions=[Admission("work", "started", run)],
    )
