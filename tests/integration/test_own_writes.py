"""An agent that hears of changes in its own store, and makes them: by the real readers, through the mark of `run.transaction`."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, working
from support.shop import drop_slots
from support.stores import OpenStore, query
from wakeful import App, Run, postgres_changes, sqlite_changes
from wakeful.clock import VirtualClock
from wakeful.settings import sqlite_path
from wakeful.why import why


def changes(url: str, **options: Any) -> Any:
    """A trigger on the table `orders` of the store's own database."""
    path = sqlite_path(url)
    if path is None:
        return postgres_changes(url, table="orders", **options)
    return sqlite_changes(path, table="orders", **options)


def writer(dialect: str) -> Any:
    def insert(db: Any, number: int) -> None:
        db.execute("insert into orders (number) values (?)", (number,))

    async def insert_async(db: Any, number: int) -> None:
        await db.execute("insert into orders (number) values ($1)", number)

    insert_async.__name__ = "insert"
    return insert if dialect == "sqlite" else insert_async


@pytest.fixture
async def orders(store_url: str, stores: OpenStore) -> str:
    await stores(store_url)
    await query(store_url, "create table orders (number integer primary key)")
    return store_url


async def stopped(new_app: NewApp, url: str, dialect: str, **options: Any) -> None:
    app, insert = new_app(chain_depth=3), writer(dialect)

    @app.agent(changes(url, **options))
    async def next_one(run: Run) -> None:
        await run.transaction(insert, run.event.data["new"]["number"] + 1)

    async with working(app, reading="drained") as runtime:
        await runtime.drain()  # from here on, changes are heard of
        await query(url, "insert into orders (number) values (1)")
        await runtime.drain()
        assert await query(url, "select max(number) from orders") == [(5,)]  # of a person, and four of runs
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert alarm["key"] == "loop/app/next_one"
        newest = (await runtime.reader.events(limit=1))["events"][0]
        told = await why(runtime.reader, newest["key"])
        assert told is not None
        words = " ".join(told["story"])
        assert "of agent next_one wrote (number 4 of its chain: next_one → next_one" in words


async def test_an_agent_that_answers_its_own_change_with_another_is_stopped(new_app: NewApp, orders: str, dialect: str):
    try:
        await stopped(new_app, orders, dialect)
    finally:
        if dialect == "postgres":
            await drop_slots(orders)


@pytest.mark.postgres
async def test_it_is_stopped_where_triggers_tell_of_changes_too(
    postgres_url: str, stores: OpenStore, clock: VirtualClock
):
    await stores(postgres_url)
    await query(postgres_url, "create table orders (number integer primary key)")

    def new_app(**options: Any) -> App:
        return App("app", store=postgres_url, clock=clock, **options)

    await stopped(new_app, postgres_url, "postgres", via="triggers")


async def test_an_agent_that_wants_nothing_of_its_own_writes_says_so(new_app: NewApp, orders: str, dialect: str):
    app, insert = new_app(), writer(dialect)
    seen: list[int] = []

    @app.agent(changes(orders, where="!has(event.causedby)"))
    async def next_one(run: Run) -> None:
        seen.append(run.event.data["new"]["number"])
        await run.transaction(insert, seen[-1] + 100)

    try:
        async with working(app, reading="drained") as runtime:
            await runtime.drain()
            await query(orders, "insert into orders (number) values (1)")
            await runtime.drain()
            assert seen == [1]
            assert (await runtime.reader.alarms())["alarms"] == []
    finally:
        if dialect == "postgres":
            await drop_slots(orders)
