"""Seeing that somebody waits: how a test forces an order between two transactions on PostgreSQL without sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from wakeful.stores.journal import whole
from wakeful.stores.store import DatabaseStore

PATIENCE = 60.0
WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query like $1
"""


async def waiting_for_a_lock(url: str, *, like: str = "%", sessions: int = 1) -> None:
    """Returns once this many sessions of the database wait for a lock in a statement like this."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(PATIENCE):
            while await connection.fetchval(WAITING, like) < sessions:
                pass
    finally:
        await connection.close()


@asynccontextmanager
async def held_open(store: DatabaseStore, url: str, *requests: Any) -> AsyncIterator[list[Any]]:
    """These requests, carried out and not committed until the block ends."""
    database: Any = store.database
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield await database.drive(connection, lambda now: whole(now, list(requests), notifies=False))
    finally:
        await connection.close()
