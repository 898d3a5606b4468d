"""Watchers of two versions look at one store: each has its own words, and what they find is counted by its facts."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import pass_time, working
from support.stores import OpenStore, query
from wakeful import App, Run, on, step
from wakeful.clock import VirtualClock
from wakeful.operations.checking_in import check_in
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Actor
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher

OLDER = "as an older version says it"
BACKUP = "expect/app/backup/not-fired"


@pytest.fixture
async def watcher(stores: OpenStore, store_url: str) -> Watcher:
    store = await stores(store_url)
    return Watcher(Facts(store.database), store, time_passes=False)


async def look_as_before(url: str, key: str, app: str = "app") -> None:
    """What a watcher of a version before migration 0021 does: it raises an alarm whose text is not its own."""
    columns = "text = $1, count = count + 1, last_at = last_at + 1"
    await query(url, f"update wakeful_alarm set {columns} where key = $2 and app = $3 and text <> $1", OLDER, key, app)


async def stored(url: str, key: str) -> dict[str, Any]:
    names = ("state", "text", "count", "told", "incident", "opened_at", "last_at")
    ((*row,),) = await query(url, f"select {', '.join(names)} from wakeful_alarm where key = $1", key)
    return dict(zip(names, row, strict=True))


def expecting(app: App) -> App:
    app.expect("backup", by="03:00", tz="UTC")
    return app


async def test_an_alarm_in_other_words_is_not_raised_again(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    async with working(expecting(app)) as runtime:
        await pass_time(runtime, "4h")
        await runtime.store.do(RaiseAlarm(Alarm("app", BACKUP, OLDER)))
        await runtime.teller.tick()  # people are notified once
        before = await stored(store_url, BACKUP)
        for _ in range(3):
            await watcher.run_once()
            assert await stored(store_url, BACKUP) == before
            clock.move("1m")


async def test_two_versions_do_not_count_against_each_other(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    async with working(expecting(app)) as runtime:
        await pass_time(runtime, "4h")
        await watcher.run_once()
        assert (await stored(store_url, BACKUP))["count"] == 1
        counts = []
        for _ in range(4):
            await look_as_before(store_url, BACKUP)
            await watcher.run_once()
            counts.append((await stored(store_url, BACKUP))["count"])
            clock.move("1m")
        assert counts == [2, 2, 2, 2]  # once for the words of the older version
        assert (await stored(store_url, BACKUP))["text"] == OLDER


@pytest.mark.parametrize("older_first", [True, False])
async def test_the_next_absence_counts(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str, *, older_first: bool
):
    """Another deadline has passed: a fact, and not a word, has changed."""
    async with working(expecting(app)) as runtime:
        await pass_time(runtime, "4h")
        if older_first:
            await runtime.store.do(RaiseAlarm(Alarm("app", BACKUP, OLDER)))
        await watcher.run_once()
        clock.move("1d")
        for _ in range(3):
            await watcher.run_once()
        found = await stored(store_url, BACKUP)
        assert (found["count"], found["incident"]) == (2, 1)
        assert "by 2026-01-02T03:00:00Z" in found["text"]


async def test_an_absence_that_the_older_version_counted_is_not_counted_twice(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    async with working(expecting(app)) as runtime:
        await pass_time(runtime, "4h")
        await watcher.run_once()
        clock.move("1d")
        await look_as_before(store_url, BACKUP)
        for _ in range(3):
            await watcher.run_once()
        assert (await stored(store_url, BACKUP))["count"] == 2


async def test_an_alarm_in_other_words_is_resolved_and_opens_again(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    async with working(expecting(app)) as runtime:
        await pass_time(runtime, "4h")
        await runtime.store.do(RaiseAlarm(Alarm("app", BACKUP, OLDER)))
        await watcher.run_once()
        await check_in(runtime.door, "app", "backup", by=Actor("ada", "cli"))
        await watcher.run_once()
        assert (await stored(store_url, BACKUP))["state"] == "resolved"
        clock.move("1d")
        await watcher.run_once()
        found = await stored(store_url, BACKUP)
        assert (found["state"], found["count"], found["incident"]) == ("open", 1, 2)


async def test_waiting_and_retried_work_in_other_words_is_not_counted(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    @step()
    async def look_up() -> None:
        raise ConnectionError

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.step(look_up)

    async with working(app) as runtime:
        await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "20m")
        await watcher.run_once()
        clock.move("1m")
        ((key,),) = await query(store_url, "select key from wakeful_alarm where state = 'open'")
        assert key == "retrying/app/handle/look_up"
        await look_as_before(store_url, key)
        await runtime.teller.tick()  # people are notified once
        before = await stored(store_url, key)
        for _ in range(3):
            await watcher.run_once()
            assert await stored(store_url, key) == before


async def test_a_number_in_the_words_that_grows_is_no_new_cause(
    app: App, watcher: Watcher, clock: VirtualClock, store_url: str
):
    """The run that waits is the same, and so is what holds it back; other runs of the agent begin meanwhile."""

    @app.agent(on("go"))
    async def handle(run: Run) -> None: ...

    async with working(app) as runtime:
        await runtime.worker.stop()
        await app.emit("go")
        await app.emit("go")
        await app.emit("go")
        clock.move("6m")
        await watcher.run_once()
        await runtime.teller.tick()  # people are notified once
        before = await stored(store_url, "waiting/app/handle")
        for number in (2, 3):
            await query(store_url, "update wakeful_run set state = 'running', claimed_at = 0 where seq = $1", number)
            await watcher.run_once()
            after = await stored(store_url, "waiting/app/handle")
            assert after == before
