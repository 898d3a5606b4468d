"""Killed while it settles that the store was restored into another cluster: nothing of it is there, or all of it, and the next
process finds what runs wait for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.backups import BackUp
from support.command_line import CommandLine
from support.stores import query
from wakeful import App, Run, on
from wakeful.stores.origins import ORIGIN_LOCK
from wakeful.testing.waiting import until

CODE = """
from wakeful import App, Run, on

app = App("orders")


@app.agent(on("go"))
async def fulfil(run: Run) -> str:
    await run.wait_for("shipped", subject="o1")
    return (await run.wait_for("paid", subject="o1")).id
"""
ORIGINS = "select number, event_seq from wakeful_origin order by number"


@pytest.fixture
async def onlooker() -> AsyncIterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for connection in opened:
        await connection.close()


# Where it is held, to be killed there: before it may look again, and when it is about to write.
BETWEEN = {
    "before it looks again": f"select pg_advisory_xact_lock({ORIGIN_LOCK})",
    "while it writes": "lock table wakeful_origin in share mode",
}


@pytest.mark.parametrize("held_by", BETWEEN.values(), ids=BETWEEN.keys())
async def test_killed_in_the_middle(
    postgres_url: str, back_up: BackUp, onlooker: list[Any], tmp_path: Path, held_by: str
):
    app = App("orders", store=postgres_url)

    @app.agent(on("go"))
    async def fulfil(run: Run) -> str:
        await run.wait_for("shipped", subject="o1")
        return (await run.wait_for("paid", subject="o1")).id

    async with app.running() as runtime:
        receipt = await app.emit("go", subject="o1")
        await runtime.drain()
        restore = await back_up(postgres_url)
    restored = await restore()
    (before,) = await query(restored, ORIGINS)

    (tmp_path / "app.py").write_text(CODE)
    holder = await asyncpg.connect(restored)
    onlooker.append(holder)
    watching = await asyncpg.connect(restored)
    onlooker.append(watching)
    async with holder.transaction():
        await holder.execute(held_by)
        killed = CommandLine("worker", "app.py", "--store", restored, folder=tmp_path)
        try:
            await until(lambda: is_held(watching))
            killed.process.kill()
            killed.process.wait()
        finally:
            killed.close()
        await watching.execute(END_OTHERS, holder.get_server_pid())
    assert await query(restored, ORIGINS) == [before]

    async with app.running(store=restored) as runtime:
        assert [row[0] for row in await query(restored, ORIGINS)] == [0, 1]
        await app.emit("paid", id="paid", subject="o1")
        await app.emit("shipped", subject="o1")
        await runtime.drain()
        run = await runtime.reader.run(receipt.runs[0])
        assert run is not None
        assert (run["state"], run["output"]) == ("done", "paid")


# The server notices by itself that the process is gone, some time later.
END_OTHERS = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid not in (pg_backend_pid(), $1)"""


async def is_held(watching: Any) -> bool:
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    return await watching.fetchval(waiting) is not None
