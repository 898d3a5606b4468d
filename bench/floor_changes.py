"""The floor of row changes: a bare loop that reads a replication slot, stores an event and a run for each change, and confirms.

It reads and decodes as the engine does, with the same parts. A batch of 2,000 changes is one transaction of two statements:
events and runs under digests, so that a change which is read twice is stored once; there is nothing else: no routing, no
admission, no lease, no cursor, and what it does not know it does not check.
"""

import asyncio
import time
from typing import Any

import asyncpg
from pydantic_core import to_json

from bench.floor_postgres import _ACCEPT_EVENTS, _ACCEPT_RUNS, _database
from bench.workload import AGENT, now
from wakeful.connect.postgres.pgoutput import Decoder, PgBegin, PgCommit, PgRow
from wakeful.connect.postgres.replication import Life, Stream
from wakeful.model import digest

BATCH = 2_000
SLOT = "floor"


async def prepare(shop: str) -> None:
    """A slot of its own, from which the burst is read a second time."""
    connection = await asyncpg.connect(shop)
    await connection.execute("create publication floor for table orders")
    await connection.execute(f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
    await connection.close()


async def measure(shop: str, store: str, rows: int) -> float:
    """Changes per second, until `rows` of them are stored."""
    async with _database(store) as connection:
        stream = await Stream.open(shop, name="floor")
        began = time.perf_counter()
        await stream.start(SLOT, [SLOT], 0)
        decoder, stored, lsn, end = Decoder(), 0, 0, 0
        events: list[tuple[str, str, str]] = []
        index = 0
        while stored < rows:
            came = stream.next()
            if came is None:
                await stream.more(1.0)
                continue
            if isinstance(came, Life):
                continue
            message = decoder.decode(came)
            if isinstance(message, PgRow):
                events.append(_event(f"{lsn:X}/{index}", message))
                index += 1
            elif isinstance(message, PgBegin):
                lsn, index = message.commit_lsn, 0
            elif isinstance(message, PgCommit):
                end = message.end_lsn
            if len(events) == BATCH or stored + len(events) == rows:
                await _store(connection, events)
                stored += len(events)
                events = []
                stream.confirm(end)
        elapsed = time.perf_counter() - began
        await stream.close()
    await forget(shop)
    return rows / elapsed


async def forget(shop: str) -> None:
    """The slot: its name is shared by all databases of the server."""
    connection = await asyncpg.connect(shop)
    active = f"select active from pg_replication_slots where slot_name = '{SLOT}'"
    while await connection.fetchval(active):  # noqa: ASYNC110 it lasts a moment
        await asyncio.sleep(0.01)
    await connection.execute(f"select pg_drop_replication_slot('{SLOT}')")
    await connection.close()


def _event(identifier: str, row: PgRow) -> tuple[str, str, str]:
    key = digest("floor", "/shop/orders", identifier)
    run = digest("floor", AGENT, "/shop/orders", identifier)
    data = {"operation": row.operation, "table": row.relation.table, "new": row.new, "old": row.old}
    envelope = {"specversion": "1.0", "id": identifier, "source": "/shop/orders", "type": "orders.insert", "data": data}
    return key, run, to_json(envelope).decode()


async def _store(connection: Any, events: list[tuple[str, str, str]]) -> None:
    keys, runs, envelopes = zip(*events, strict=True)
    async with connection.transaction():
        await connection.execute(_ACCEPT_EVENTS, keys, envelopes, AGENT, now())
        await connection.execute(_ACCEPT_RUNS, runs, keys, AGENT, now())


def run(shop: str, store: str, rows: int) -> float:
    return asyncio.run(measure(shop, store, rows))
