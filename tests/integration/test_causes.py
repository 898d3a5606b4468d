"""An agent's own write that comes back as a change: `run.transaction` leaves a mark beside it, and the change says who wrote it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import asyncpg
import pytest

from support.apps import NewApp, go, working
from support.stores import OpenStore, query
from wakeful import App, Operation, Run, action, on
from wakeful.cel import Match
from wakeful.connect.rows.change import RowChange
from wakeful.connect.rows.rows import Rows, read_operations
from wakeful.model import Event
from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable
from wakeful.triggers.source import Batch, Context, Reader
from wakeful.why import why

# Tables that hear of changes, as those of sqlite_changes and of postgres_changes(via="triggers") do.
HEARING = {
    "sqlite": [
        "create table orders (number integer primary key)",
        "create table heard (seq integer primary key autoincrement, number integer, cause text)",
        "create table wakeful_cause (cause text)",
        """create trigger hears after insert on orders begin
        insert into heard (number, cause) values (new.number, (select cause from wakeful_cause limit 1)); end""",
    ],
    "postgres": [
        "create table orders (number integer primary key)",
        "create table heard (seq bigserial primary key, number integer, cause text)",
        """create function hear() returns trigger language plpgsql as $$ begin insert into heard (number, cause)
        values (new.number, current_setting('wakeful.cause', true)); return null; end $$""",
        "create trigger hears after insert on orders for each row execute function hear()",
    ],
}
ROWS = Rows("tests", "orders", read_operations(None, where="test"), None, None, None, "here")


class HeardReader(Reader):
    kind = "heard"

    def __init__(self, url: str) -> None:
        super().__init__("heard")
        self._url = url
        self._at = 0

    async def open(self, cursor: str | None) -> None:
        self._at = int(cursor or 0)

    async def read(self, within: float) -> Batch | None:
        rows = await query(self._url, "select seq, number, cause from heard where seq > $1 order by seq", self._at)
        if not rows:
            return None
        self._at = rows[-1][0]
        changes = [
            RowChange("orders", "insert", str(seq), {"number": number}, {"number": number}, cause=cause)
            for seq, number, cause in rows
        ]
        return Batch([ROWS.event(change) for change in changes], cursor=str(self._at))

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class Heard:
    url: str
    type: ClassVar[str] = ROWS.type
    source: ClassVar[str | None] = ROWS.source
    where: ClassVar[str | None] = None
    carries_data: ClassVar[bool] = True

    @property
    def shared(self) -> tuple[object, ...]:
        return ("heard", self.url)

    def describe(self) -> str:
        return "heard"

    def matches(self, event: Event) -> Match:
        return ROWS.matches(event)

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return HeardReader(self.url)

    async def problems(self) -> list[str]:
        return []


@pytest.fixture
async def hearing(store_url: str, stores: OpenStore, dialect: str) -> str:
    """The store's own database, with a table whose changes are heard of."""
    await stores(store_url)
    for statement in HEARING[dialect]:
        await query(store_url, statement)
    return store_url


def writer(dialect: str) -> Any:
    def insert(db: Any, number: int) -> None:
        db.execute("insert into orders (number) values (?)", (number,))

    async def insert_async(db: Any, number: int) -> None:
        await db.execute("insert into orders (number) values ($1)", number)

    insert_async.__name__ = "insert"
    return insert if dialect == "sqlite" else insert_async


async def test_an_agents_own_write_is_recognised_and_shown(new_app: NewApp, hearing: str, dialect: str):
    app, insert = new_app(), writer(dialect)

    @app.agent(on("go"))
    async def book(run: Run) -> str:
        await run.transaction(insert, 7)
        return run.id

    @app.agent(Heard(hearing))
    async def note(run: Run) -> dict[str, Any]:
        return run.event.extensions | {"causationid": run.event.causationid}

    async with working(app, reading="drained") as runtime:
        first = await go(runtime, id="first")
        await runtime.drain()
        (run,) = (await runtime.reader.runs(agent="note"))["runs"]
        shown = await runtime.reader.run(run["id"])
        assert shown is not None
        assert shown["output"]["causedby"] == first["id"]
        assert shown["output"]["causationid"] == "first"
        assert (shown["output"]["chaindepth"], shown["output"]["chainpath"]) == (1, "app/book")
        assert shown["chain"]["written_by"] == first["id"]
        told = await why(runtime.reader, run["id"])
        assert told is not None
        words = f"It is a change that run {first['id']} of agent book wrote (number 1 of its chain: book)."
        assert words in told["story"]


async def test_an_agent_that_answers_its_own_change_with_another_is_stopped(
    new_app: NewApp, hearing: str, dialect: str
):
    app, insert = new_app(chain_depth=3), writer(dialect)

    @app.agent(Heard(hearing))
    async def next_one(run: Run) -> None:
        await run.transaction(insert, run.event.data["new"]["number"] + 1)

    async with working(app, reading="drained") as runtime:
        await query(hearing, "insert into orders (number) values (1)")
        await runtime.drain()
        assert await query(hearing, "select max(number) from orders") == [(5,)]  # of a person, and four of runs
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert alarm["key"] == "loop/app/next_one"


async def test_the_mark_is_there_only_for_the_transaction_of_its_run(new_app: NewApp, hearing: str, dialect: str):
    app, insert = new_app(), writer(dialect)

    @app.agent(on("go"))
    async def book(run: Run, number: int) -> None:
        await run.transaction(insert, number)

    async with working(app) as runtime:
        await query(hearing, "insert into orders (number) values (1)")
        assert (await go(runtime, 2))["state"] == "done"
        assert (await go(runtime, 2))["state"] != "done"  # there is one of that number: nothing of it stays
        await query(hearing, "insert into orders (number) values (3)")
        causes = {row[0]: row[1] for row in await query(hearing, "select number, cause from heard")}
        assert not causes[1]
        assert json.loads(causes[2])["agent"] == "book"
        assert not causes[3]
        if dialect == "sqlite":
            assert await query(hearing, "select count(*) from wakeful_cause") == [(0,)]


async def test_a_users_own_connection_leaves_the_mark_by_hand(new_app: NewApp, hearing: str, dialect: str):
    app = new_app()

    async def insert(cause: str) -> None:
        if dialect == "sqlite":
            await query(
                hearing,
                f"begin immediate; insert into wakeful_cause values ('{cause}'); insert into orders values (1); "
                "delete from wakeful_cause; commit",
            )
            return
        connection = await asyncpg.connect(hearing)
        async with connection.transaction():
            await connection.execute("select set_config('wakeful.cause', $1, true)", cause)
            await connection.execute("insert into orders values (1)")
        await connection.close()

    @action(safety="idempotent")
    async def write(op: Operation) -> None:
        await insert(op.cause)

    @app.agent(on("go"))
    async def book(run: Run) -> bool:
        await run.act(write)
        return json.loads(run.cause)["run"] == run.id

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["output"] is True
        ((cause,),) = await query(hearing, "select cause from heard")
        assert json.loads(cause)["run"] == run["id"]


# PostgreSQL's log


@pytest.fixture(scope="module")
def logical_server() -> Any:
    server = PostgresServer(fsync=False, settings={"wal_level": "logical"})
    try:
        server.start()
    except PostgresUnavailable as reason:
        pytest.skip(f"PostgreSQL cannot be had here: {reason}")
    yield server
    server.close()


@pytest.fixture
async def logical_url(logical_server: PostgresServer) -> AsyncIterator[str]:
    database = await logical_server.create_database()
    yield logical_server.dsn(database)
    await logical_server.drop_database(database)


@pytest.mark.postgres
async def test_whoever_reads_the_log_finds_the_mark_before_the_changes(logical_url: str):
    app, insert = App("app", store=logical_url), writer("postgres")

    @app.agent(on("go"))
    async def book(run: Run, number: int) -> None:
        await run.transaction(insert, number)

    async with working(app, migrate=True) as runtime:
        connection = await asyncpg.connect(logical_url)
        await connection.execute("create table orders (number integer primary key)")
        await go(runtime, 1)  # nobody reads the log yet
        await connection.execute("create publication told for table orders")
        await connection.execute("select pg_create_logical_replication_slot('told', 'pgoutput')")
        run = await go(runtime, 2)
        await connection.execute("insert into orders values (3)")
        messages = [
            bytes(row[0])
            for row in await connection.fetch(
                "select data from pg_logical_slot_get_binary_changes('told', null, null, 'proto_version', '1', "
                "'publication_names', 'told', 'messages', 'true')"
            )
        ]
        kinds = "".join(chr(message[0]) for message in messages)
        assert kinds.count("I") == 2
        assert kinds.index("M") < kinds.index("I")
        (mark,) = [message for message in messages if message[:1] == b"M"]
        cause = json.loads(mark[mark.index(b"{") :])
        assert (cause["run"], cause["agent"], cause["chaindepth"]) == (run["id"], "book", 1)
        await connection.execute("select pg_drop_replication_slot('told')")
        await connection.close()
