"""Changes of rows in PostgreSQL: how soon a handler starts after a commit, and how fast a burst is taken in.

Runs in a process of its own: `python -m bench.engine_changes --shop DSN --store URL --rows 100000` reads a burst that waits in
the log (`prepare` has made the slot), and `--samples 200` measures single rows, one after the other.
"""

import argparse
import asyncio
import json
import logging
import statistics
import time
from typing import Any

import asyncpg
import structlog

from wakeful import App, Run, postgres_changes
from wakeful.cli.working import spare_the_collector
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source

TABLE = (
    "create table orders (id int primary key, status text, total numeric, placed timestamptz default now(), note jsonb)"
)
INSERT = (
    "insert into orders (id, status, total, note) "
    """select n, 'new', n % 1000 + 0.5, '{"lines": [1, 2], "gift": false}' from generate_series($1::int, $2::int) n"""
)
TRANSACTION = 1_000  # rows


def make_app(shop: str, store: str, heard: Any = None) -> App:
    app = App("changes", store=store, backlog=None)

    @app.agent(postgres_changes(shop, table="orders"))
    async def note(_: Run) -> None:
        if heard is not None:
            heard.put_nowait(time.perf_counter())

    return app


async def prepare(shop: str, store: str, rows: int) -> None:
    """A table, a slot, and a burst that waits to be read."""
    connection = await asyncpg.connect(shop)
    await connection.execute(TABLE)
    async with make_app(shop, store).running(reading="drained", migrate=True) as runtime:
        await runtime.sources.drain()
    from bench import floor_changes

    await floor_changes.prepare(shop)
    for first in range(0, rows, TRANSACTION):
        await connection.execute(INSERT, first + 1, min(rows, first + TRANSACTION))
    await connection.close()


async def burst(shop: str, store: str, rows: int) -> dict[str, float]:
    """Events per second, until all are stored, each with its run, and the slot is told."""
    app = make_app(shop, store)
    runtime = Runtime(app, reading="drained")
    await runtime.open()
    await runtime.start()
    runtime.worker.claim_nothing_more()
    spare_the_collector()
    began = time.perf_counter()
    await runtime.sources.drain()
    elapsed = time.perf_counter() - began
    (found,) = await runtime.database.fetch("sources_of_app", "changes")
    source = await find_source(runtime.store.database, "changes", found[1])
    assert source is not None
    assert source.taken == rows, f"{source.taken} of {rows} rows were taken in"
    await runtime.stop(0)
    return {"per_second": rows / elapsed}


async def single(shop: str, store: str, samples: int) -> dict[str, float]:
    """Milliseconds from the answer to a commit until the handler's first line."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    taken = []
    connection = await asyncpg.connect(shop)
    await connection.execute(TABLE)
    async with make_app(shop, store, heard).running(migrate=True) as runtime:
        (reading,) = runtime.sources.readings.values()
        while reading.state != "reading":  # noqa: ASYNC110 nobody signals that
            await asyncio.sleep(0.01)
        for number in range(samples + 5):
            await connection.execute(INSERT, number, number)
            committed = time.perf_counter()
            taken.append((await heard.get() - committed) * 1000)
            await asyncio.sleep(0.02)
    await connection.close()
    taken = sorted(taken[5:])
    return {"p50": statistics.median(taken), "p99": taken[int(len(taken) * 0.99)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shop", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--samples", type=int)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if options.rows:
        print(json.dumps(asyncio.run(burst(options.shop, options.store, options.rows))))
    else:
        print(json.dumps(asyncio.run(single(options.shop, options.store, options.samples))))


if __name__ == "__main__":
    main()
