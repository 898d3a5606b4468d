"""Workers that are killed while they take in a bucket, by listing and by notifications: every object once, none lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from crash.harness import Place
from support.clouds import Cloud
from support.command_line import CommandLine
from wakeful.connect.s3 import listing

APP = """
from wakeful import App, Run, bucket
from wakeful.connect.s3 import listing

listing.PAGE = {page}
app = App("boxes")


@app.agent(bucket("{url}", **{options}), name="note")
async def note(run: Run) -> None: ...
"""
OBJECTS = 120
LIVES = 2


@contextlib.asynccontextmanager
async def working(place: Place) -> AsyncIterator[CommandLine]:
    worker = await asyncio.to_thread(CommandLine, "worker", "boxes.py", "--store", place.url, folder=place.folder)
    try:
        yield worker
    finally:
        await asyncio.to_thread(worker.close)


async def taken(place: Place, so_many: int, worker: CommandLine) -> None:
    async with asyncio.timeout(100):
        while (await place.query("select count(*) from wakeful_event"))[0][0] < so_many:
            assert worker.process.poll() is None, worker.output
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("by", ["listing", "notifications"])
async def test_killed_again_and_again(place: Place, cloud: Cloud, by: str):
    box, line = await cloud.new_bucket(), await cloud.new_queue(visibility=2)
    options = dict(cloud.where)
    keys = [f"in/{number:04}.csv" for number in range(OBJECTS)]
    if by == "notifications":
        options["queue"] = line.address
        await box.tells(line)
    page = 10 if by == "listing" else listing.PAGE
    app = APP.format(page=page, url=f"s3://{box.name}/in/*.csv", options=options)
    (place.folder / "boxes.py").write_text(app, encoding="utf-8")
    box.put_at_once(keys)
    for life in range(1, LIVES + 1):
        async with working(place) as worker:
            await taken(place, OBJECTS * life // LIVES, worker)
            worker.process.kill()
    events = await place.query("select count(*), count(distinct subject) from wakeful_event")
    assert events == [(OBJECTS, OBJECTS)]
    runs = await place.query("select count(*), count(distinct event_seq) from wakeful_run")
    assert runs == [(OBJECTS, OBJECTS)]
    async with working(place) as worker:  # what was stored and not deleted yet comes again, and is known
        async with asyncio.timeout(100):
            while by == "notifications" and await line.left() != (0, 0):
                await asyncio.sleep(0.05)
    assert await place.query("select count(*) from wakeful_event") == [(OBJECTS,)]
