"""Processes at work and `wakeful halt` in another one: once it has returned, nothing begins, and after the lift nothing is lost."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from support.stores import Onlooker
from wakeful.clock import SystemClock
from wakeful.stores.opening import open_database

RUNS, WORKERS = 6, 2
APP = f"""
import itertools, os
from wakeful import App, Operation, Run, action, on

app = App("shop")

@action(safety="idempotent")
async def pay(op: Operation, number: int) -> None:
    book = os.open(os.environ["BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, (op.id + chr(10)).encode())
    os.close(book)

def enough(number: int) -> bool:
    return os.path.exists("enough")

@app.agent(on("begin"))
async def begin(run: Run) -> None:
    for number in range({RUNS}):
        await run.emit("go", number)

@app.agent(on("go"), attempts=1)
async def billing(run: Run) -> None:
    for number in itertools.count():
        await run.act(pay, number)
        if await run.step(enough, number):
            return
"""


@pytest.mark.parametrize("place", [("all",), ("billing",), ("--action", "pay")], ids=" ".join)
async def test_nothing_begins_in_any_process_once_it_has_returned(
    store_url: str, tmp_path: Path, place: tuple[str, ...]
):
    (tmp_path / "shop.py").write_text(APP)
    database = open_database(store_url, SystemClock())
    await database.open(migrate=True)
    await database.close()
    book = tmp_path / "book"
    book.touch()
    environment = {**os.environ, "WAKEFUL_STORE": store_url, "BOOK": str(book)}

    async def command(*words: str) -> bytes:
        pipe = asyncio.subprocess.PIPE
        made = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "wakeful", *words, cwd=tmp_path, env=environment, stdout=pipe
        )
        out, _ = await made.communicate()
        assert made.returncode == 0
        return out

    @asynccontextmanager
    async def worker() -> AsyncIterator[None]:
        quiet = asyncio.subprocess.DEVNULL
        made = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "wakeful",
            "worker",
            "shop.py",
            cwd=tmp_path,
            env=environment,
            stdout=quiet,
            stderr=quiet,
        )
        try:
            yield
        finally:
            made.terminate()
            await made.wait()

    def begun() -> list[str]:
        return book.read_text().split()

    onlooker = Onlooker(store_url)

    async def runs(state: str) -> bool:
        query = f"select count(*) from wakeful_run where agent = 'billing' and state = '{state}'"
        return await onlooker.query(query) == [(RUNS,)]

    async with AsyncExitStack() as stack:
        for _ in range(WORKERS):
            await stack.enter_async_context(worker())
        await command("emit", "shop.py", "begin")
        await until(lambda: len(begun()) > 10 * RUNS)
        (told,) = from_json(await command("halt", *place, "--json"))["halts"]
        before = begun()
        await until_so(lambda: none_is_at_work(onlooker))
        assert set(begun()) - set(before) <= {one["effect"] for one in told["calls"]}
        (tmp_path / "enough").touch()
        await command("halt", *place, "--lift")
        await until_so(lambda: runs("done"))
    assert len(begun()) == len(set(begun())) >= len(before)
    await onlooker.close()


async def none_is_at_work(onlooker: Onlooker) -> bool:
    """Each run that was claimed has reached its next effect, and is parked."""
    return await onlooker.query("select count(*) from wakeful_run where state = 'running'") == [(0,)]


async def until(look: Callable[[], bool]) -> None:
    async def so() -> bool:
        return look()

    await until_so(so)


async def until_so(look: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.02)
