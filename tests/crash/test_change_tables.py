"""Processes that take in changes of rows are killed in the middle, over and over: each change is taken in, and none twice."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from pydantic_core import from_json

from support.shops import Shop, until
from support.stores import query

CHILD = Path(__file__).parent / "children" / "change_tables.py"
ROWS = 4_000
KILLS = 4


@pytest.fixture
def shop(any_shop: Shop) -> Shop:
    return any_shop


@pytest.mark.slow
async def test_killed_over_and_over_while_an_application_writes(store_url: str, shop: Shop, tmp_path: Path):
    async def start() -> asyncio.subprocess.Process:
        with (tmp_path / "log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, str(CHILD), store_url, shop.url, stdout=log, stderr=log
            )

    async def is_watched() -> bool:
        if shop.database == "sqlite":
            return bool(await shop.do("select 1 from sqlite_master where type = 'trigger'"))
        return bool(await shop.do("select 1 from pg_trigger where tgname = 'wakeful_app'"))

    async def taken(at_least: int) -> bool:
        ((count,),) = await query(store_url, "select count(*) from wakeful_event where type like '%.orders.insert'")
        return int(count) >= at_least

    child = await start()
    try:
        await until(is_watched, limit=60)
        each = ROWS // (KILLS + 1)
        for turn in range(KILLS + 1):
            rows = list(range(turn * each, (turn + 1) * each))
            for begin in range(0, each, 100):
                await shop.many(
                    "insert into orders values ($1, 'Ann', 1)", [(one,) for one in rows[begin : begin + 100]]
                )
            await until(lambda: taken(turn * each + 1), limit=60)  # noqa: B023 awaited here
            if turn < KILLS:
                child.kill()
                await child.wait()
                child = await start()
        await until(lambda: taken(ROWS), limit=60)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    found = await query(store_url, "select envelope from wakeful_event where type like '%.orders.insert'")
    numbers = sorted(from_json(envelope)["data"]["key"]["id"] for (envelope,) in found)
    assert numbers == list(range(ROWS))
