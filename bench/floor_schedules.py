"""The floor of schedules: bare statements that store what an occurrence needs, with nothing of a scheduler around them.

An event, its admission, a run, a row of the ledger and the schedule's next occurrence for each occurrence, 500 to a transaction.
"""

import asyncio
import sqlite3
import time
from pathlib import Path

BATCH = 500
_TABLES = """
create table event (key text primary key, source text not null, id text not null, envelope text not null);
create table admission (event_key text not null, agent text not null, run text not null, primary key (event_key, agent));
create table run (id text primary key, event_key text not null, agent text not null, state text not null, due_at bigint not null);
create index run_ready on run (agent, due_at) where state = 'ready';
create table schedule (name text primary key, next_at bigint, due_at bigint, last_run text);
create index schedule_due on schedule (due_at) where due_at is not null;
create table occurrence (schedule text not null, state text not null, from_at bigint not null, to_at bigint not null, run text);
create index occurrence_instant on occurrence (schedule, to_at);
"""
ENVELOPE = '{"specversion":"1.0","type":"wakeful.schedule","source":"/timed/schedules/s","id":"2026-01-01T00:00:00Z"}'
_MOVE_ON = "update schedule set next_at = null, due_at = null, last_run = {} where name = {} and next_at = {}"
_INSERTS = {"event": 4, "admission": 3, "run": 5, "occurrence": 5}


def rows(first: int, count: int, moment: int) -> dict[str, list[tuple[object, ...]]]:
    names = [f"s{number}" for number in range(first, first + count)]
    return {
        "event": [(f"{name}/{moment}", name, str(moment), ENVELOPE) for name in names],
        "admission": [(f"{name}/{moment}", "timed", f"run {name}") for name in names],
        "run": [(f"run {name}", f"{name}/{moment}", "timed", "ready", moment) for name in names],
        "occurrence": [(name, "fired", moment, moment, f"run {name}") for name in names],
        "move": [(f"run {name}", name, moment) for name in names],
    }


def sqlite(folder: Path, count: int) -> float:
    """Seconds for so many, on a file with the engine's durability."""
    connection = sqlite3.connect(folder / f"floor-{time.monotonic_ns()}.db", isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.executescript(_TABLES)
    connection.execute("begin")
    connection.executemany("insert into schedule values (?, 1, 1, null)", [(f"s{number}",) for number in range(count)])
    connection.execute("commit")
    began = time.perf_counter()
    for first in range(0, count, BATCH):
        made = rows(first, min(BATCH, count - first), 1)
        connection.execute("begin immediate")
        connection.execute("select name from schedule where due_at <= 1 order by due_at limit ?", (BATCH,)).fetchall()
        connection.executemany(_MOVE_ON.format("?", "?", "?"), made["move"])
        for table, columns in _INSERTS.items():
            connection.executemany(f"insert into {table} values ({', '.join('?' * columns)})", made[table])
        connection.execute("commit")
    took = time.perf_counter() - began
    connection.close()
    return took


async def postgres(dsn: str, count: int) -> float:
    """As above, on PostgreSQL."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_TABLES)
        await connection.executemany("insert into schedule values ($1, 1, 1)", [(f"s{n}",) for n in range(count)])
        began = time.perf_counter()
        for first in range(0, count, BATCH):
            made = rows(first, min(BATCH, count - first), 1)
            async with connection.transaction():
                await connection.fetch("select name from schedule where due_at <= 1 order by due_at limit $1", BATCH)
                await connection.executemany(_MOVE_ON.format("$1", "$2", "$3"), made["move"])
                for table, columns in _INSERTS.items():
                    marks = ", ".join(f"${number}" for number in range(1, columns + 1))
                    await connection.executemany(f"insert into {table} values ({marks})", made[table])
        return time.perf_counter() - began
    finally:
        await connection.close()


def measure(store: str, folder: Path, count: int) -> float:
    return asyncio.run(postgres(store, count)) if store.startswith("postgresql") else sqlite(folder, count)
