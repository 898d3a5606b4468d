"""An application's outbox table as a source, with the columns that Debezium's router expects, in SQLite and in PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, working
from support.shops import PostgresShop, Shop
from wakeful import App, ConfigError, Event, Run, outbox
from wakeful.runtime import Runtime
from wakeful.stores.verbs.sources import find_source

INSERT = "insert into outbox (id, aggregatetype, aggregateid, type, payload) values ($1, 'order', $2, $3, $4)"


@pytest.fixture
def shop(any_shop: Shop) -> Shop:
    return any_shop


async def make(shop: Shop, payload: str | None = None, more: str = "") -> None:
    kinds = ("text", payload or "text") if shop.database == "sqlite" else ("uuid", payload or "jsonb")
    await shop.do(
        f"create table outbox (id {kinds[0]} primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, "
        f"type varchar(255), payload {kinds[1]}{more})"
    )


def number(count: int) -> str:
    return f"00000000-0000-4000-8000-{count:012}"


def taking(new_app: NewApp, seen: list[Event], *triggers: Any, **options: Any) -> App:
    app = new_app(**options)

    @app.agent(*triggers)
    async def note(run: Run) -> None:
        seen.append(run.event)

    return app


async def error_of(runtime: Runtime) -> str:
    (name,) = runtime.sources.readings
    found = await find_source(runtime.store.database, "app", name)
    assert found is not None
    return str(found.error)


async def test_each_row_is_an_event_in_the_words_of_the_application(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop, more=", tracingspancontext text")
    async with working(taking(new_app, seen, shop.outbox(type="order.*")), reading="drained") as runtime:
        await runtime.drain()
        await shop.do(INSERT, number(1), "7", "order.placed", '{"total": 5}')
        await shop.do(INSERT, number(2), "7", "parcel.sent", "{}")
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await shop.do("update outbox set tracingspancontext = 'x'")  # no insertion
        await shop.do(
            "insert into outbox values ($1, 'order', '8', 'order.placed', null, $2)",
            number(3),
            f"#a comment\ntraceparent={trace}",
        )
        await runtime.drain()
        first, second = sorted(seen, key=lambda event: event.id)
        assert (first.id, first.type, first.subject, first.data) == (number(1), "order.placed", "7", {"total": 5})
        assert first.extensions["aggregatetype"] == "order"
        assert first.source.startswith("/outbox/")
        assert first.time is not None
        assert (second.id, second.data, second.traceparent) == (number(3), None, trace)
        assert await shop.do("select count(*) from outbox") == [(3,)]


async def test_the_same_id_again_is_a_repeat(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop)
    async with working(taking(new_app, seen, shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        for _ in range(2):  # as an application does that deletes the row at once
            await shop.do(INSERT, number(1), "7", "order.placed", "{}")
            await shop.do("delete from outbox")
        await runtime.drain()
        assert len(seen) == 1


async def test_rows_are_deleted_once_they_are_stored(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop)
    async with working(taking(new_app, seen, shop.outbox(type="order.*", delete=True)), reading="drained") as runtime:
        await runtime.drain()
        await shop.do(INSERT, number(1), "7", "order.placed", "{}")
        await shop.do(INSERT, number(2), "7", "parcel.sent", "{}")
        await runtime.drain()
        await runtime.drain()
        assert [event.id for event in seen] == [number(1)]
        assert [str(row[0]) for row in await shop.do("select id from outbox")] == [number(2)]


async def test_a_row_that_a_run_wrote_itself_is_known_as_such(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop)
    mark = '{"run": "run-7", "event": "first", "chaindepth": 2, "chainpath": "app/a>app/b", "chainid": "root"}'
    async with working(taking(new_app, seen, shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        if shop.database == "sqlite":
            await shop.do("insert into wakeful_cause values ($1)", mark)
        else:
            await shop.do("select set_config('wakeful.cause', $1, false)", mark)
        await shop.do(INSERT, number(1), "7", "order.placed", "{}")
        await runtime.drain()
        (event,) = seen
        assert (event.extensions["causedby"], event.causationid, event.extensions["chaindepth"]) == (
            "run-7",
            "first",
            2,
        )


@pytest.mark.postgres
async def test_rows_that_may_not_be_deleted_are_said_with_the_right_that_is_missing(
    new_app: NewApp, postgres_shop: PostgresShop
):
    await make(postgres_shop)
    trigger = postgres_shop.outbox(delete=True)
    name = f"limited_{postgres_shop.url.rpartition('/')[2]}"
    await postgres_shop.do(f"create role {name} login password 'secret'")
    before, _, after = postgres_shop.url.partition("://")
    limited = outbox(f"{before}://{name}:secret@{after.rpartition('@')[2]}", delete=True)
    async with working(taking(new_app, [], trigger), reading="drained") as runtime:
        await runtime.drain()
    await postgres_shop.do(f"grant select, delete on wakeful_change to {name}")
    async with working(taking(new_app, [], limited), reading="drained") as runtime:
        await postgres_shop.do(INSERT, number(1), "7", "order.placed", "{}")
        await runtime.drain()
        assert f'GRANT SELECT, DELETE ON "public"."outbox" TO "{name}"' in await error_of(runtime)
        await postgres_shop.do(f'GRANT SELECT, DELETE ON "public"."outbox" TO "{name}"')
        await runtime.drain()
        await runtime.drain()
        assert await postgres_shop.do("select id from outbox") == []
    await postgres_shop.do(f"drop owned by {name}")
    await postgres_shop.do(f"drop role {name}")


async def test_a_payload_that_is_no_json_is_kept_and_the_others_go_on(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop, payload="text")
    async with working(taking(new_app, seen, shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        await shop.do(INSERT, number(1), "7", "order.placed", '{"total": ')
        await shop.do(INSERT, number(2), "7", "order.placed", '{"total": 5}')
        await shop.do(INSERT, number(3), "7", None, "{}")
        await shop.do(INSERT, number(4), "", "order.placed", "{}")
        await runtime.drain()
        assert [event.id for event in seen] == [number(2)]
        kept = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        reasons = sorted(one["reason"] for one in kept)
        assert "column aggregateid" in reasons[0]
        assert "column type" in reasons[1]
        assert "payload is not JSON" in reasons[2]


async def test_payloads_of_bytes_and_documents_that_are_only_text(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop, payload="blob" if shop.database == "sqlite" else "bytea")
    async with working(taking(new_app, seen, shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        await shop.do(INSERT, number(1), "7", "order.placed", b'{"total": 5}')
        await runtime.drain()
        assert seen[0].data == {"total": 5}


async def test_a_json_column_may_hold_a_plain_text(new_app: NewApp, postgres_shop: PostgresShop):
    seen: list[Event] = []
    await make(postgres_shop)
    async with working(taking(new_app, seen, postgres_shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        await postgres_shop.do(INSERT, number(1), "7", "order.placed", '"5"')
        await runtime.drain()
        assert seen[0].data == "5"


async def test_a_table_that_is_no_outbox_is_said(new_app: NewApp, shop: Shop):
    await shop.do("create table outbox (id integer primary key, type text, payload text)")
    (problem,) = await shop.outbox().problems()
    assert 'table outbox has no column "aggregateid"' in problem
    async with working(taking(new_app, [], shop.outbox()), reading="drained") as runtime:
        await runtime.drain()
        assert 'has no column "aggregateid"' in await error_of(runtime)


async def test_an_outbox_and_other_tables_of_one_database_share_a_reader(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    await make(shop)
    triggers = [shop.outbox(table="outbox", data="data.total"), shop.outbox(), shop.changes()]
    async with working(taking(new_app, seen, *triggers), reading="drained") as runtime:
        assert len(runtime.sources.readings) == 1
        await runtime.drain()
        await shop.do(INSERT, number(1), "7", "order.placed", '{"total": 5}')
        await shop.do("insert into orders values (1, 'Ann', 1)")
        await runtime.drain()
        assert len(seen) == 3
        assert 5 in [event.data for event in seen]


def test_what_is_declared_wrong_is_refused():
    with pytest.raises(ConfigError, match='via: unknown value "magic"'):
        outbox("shop.db", via="magic")
    with pytest.raises(ConfigError, match="type must be non-empty text"):
        outbox("shop.db", type="")
    with pytest.raises(ConfigError, match="table must be non-empty text"):
        outbox("shop.db", table="")
