"""run.transaction: the user's rows and the step's record are stored together, or neither is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from support.apps import NewApp, ended, go, pass_time, the_run, working
from support.locks import waiting_for_a_lock
from support.stores import OpenStore, a_step, accept, an_arrival, join, query
from wakeful import App, Run, Transient, on, step
from wakeful.clock import VirtualClock
from wakeful.errors import ClaimLost
from wakeful.stores.user_transaction import transact_step
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.progress import TransactStep

Write = Callable[..., Any]


@pytest.fixture
async def orders(store_url: str, stores: OpenStore) -> Callable[[], Any]:
    """A table of the user's own in the store's database; tells what is in it."""
    await stores(store_url)
    await query(store_url, "create table orders (number integer primary key, note text)")

    async def numbers() -> list[int]:
        return [row[0] for row in await query(store_url, "select number from orders order by number")]

    return numbers


@pytest.fixture
def insert(dialect: str) -> Write:
    """A function that inserts an order: a plain one on SQLite, an async one on PostgreSQL."""

    def insert_order(db: Any, number: int) -> str:
        db.execute("insert into orders (number, note) values (?, ?)", (number, "from a run"))
        return f"order {number}"

    async def insert_order_async(db: Any, number: int) -> str:
        await db.execute("insert into orders (number, note) values ($1, $2)", number, "from a run")
        return f"order {number}"

    if dialect == "sqlite":
        return insert_order
    insert_order_async.__name__ = "insert_order"
    return insert_order_async


def then(dialect: str, write: Write, after: Callable[[int], object]) -> Write:
    """A function that inserts an order and then does something, which may fail."""

    def insert_and_more(db: Any, number: int) -> Any:
        write(db, number)
        return after(number)

    async def insert_and_more_async(db: Any, number: int) -> Any:
        await write(db, number)
        return after(number)

    if dialect == "sqlite":
        return insert_and_more
    insert_and_more_async.__name__ = "insert_and_more"
    return insert_and_more_async


async def test_rows_and_record_are_stored_together_and_once(app: App, orders, insert: Write):
    seen = []

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        noted: str = await run.transaction(insert, 7)
        seen.append(noted)
        if run.attempt == 1:
            raise Transient("again")
        return noted

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        assert await orders() == [7]
        await pass_time(runtime)
        run = await the_run(runtime, receipt)
    assert (run["state"], run["output"]) == ("done", "order 7")
    assert seen == ["order 7", "order 7"]
    assert await orders() == [7]
    assert [(one["name"], one["state"], one["arguments"], one["result"]) for one in run["steps"]] == [
        ("insert_order", "done", [7], "order 7")
    ]


async def test_a_time_that_was_handed_to_it_is_the_same_again(app: App, orders, dialect: str, clock: VirtualClock):
    """Otherwise the second attempt would find no record under its arguments, and insert again."""

    def stamp(db: Any, moment: str) -> None:
        db.execute("insert into orders (note) values (?)", (moment,))

    async def stamp_async(db: Any, moment: str) -> None:
        await db.execute("insert into orders (number, note) values ((select count(*) from orders), $1)", moment)

    function = stamp if dialect == "sqlite" else stamp_async

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.transaction(function, run.now().isoformat())
        if run.attempt == 1:
            raise Transient("again")

    async with working(app) as runtime:
        await go(runtime)
        await pass_time(runtime)
        assert await runtime.reader.counts() == {"done": 1}
    assert len(await orders()) == 1


async def test_a_function_that_fails_leaves_nothing_behind(app: App, orders, insert: Write, dialect: str):
    class OutOfStock(Exception):
        pass

    def fail(number: int) -> None:
        raise OutOfStock(f"no {number} left")

    function = step(attempts=1)(then(dialect, insert, fail))

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        try:
            await run.transaction(function, 7)
        except OutOfStock as error:
            return str(error)
        return "not reached"

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["output"]) == ("done", "no 7 left")
    assert [(one["state"], one["error"]["type"]) for one in run["steps"]] == [("failed", "OutOfStock")]
    assert await orders() == []


async def test_it_is_tried_again_as_any_step_is(app: App, orders, insert: Write, dialect: str):
    calls = 0

    def flaky(number: int) -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError("not yet")
        return "done"

    function = step(attempts=3, backoff="1ms")(then(dialect, insert, flaky))

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        return await run.transaction(function, 7)

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["output"], run["steps"][0]["tries"]) == ("done", "done", 3)
    assert await orders() == [7]


@pytest.mark.parametrize("how", ["raises", "returns what is not JSON", "violates a constraint"])
async def test_neighbours_in_the_same_batch_are_not_disturbed(app: App, orders, insert: Write, dialect: str, how):
    together = asyncio.Barrier(8)

    def misbehave(number: int) -> object:
        if number != 3:
            return number
        if how == "raises":
            raise RuntimeError("number three")
        return object()

    function = insert if how == "violates a constraint" else step(attempts=1)(then(dialect, insert, misbehave))

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> None:
        number = run.event.data
        await together.wait()
        await run.transaction(
            step(attempts=1)(function), 0 if how == "violates a constraint" and number == 3 else number
        )

    async with working(app) as runtime:
        await asyncio.gather(*(app.emit("go", number) for number in range(8)))
        await runtime.drain()
        counts = await runtime.reader.counts()
    assert counts == {"dead": 1, "done": 7}
    expected = [0, 1, 2, 4, 5, 6, 7]
    assert await orders() == expected


async def test_several_functions_in_one_batch_are_all_stored(app: App, orders, insert: Write):
    @app.agent(on("go"))
    async def agent(run: Run) -> list[str]:
        return list(await asyncio.gather(*(run.transaction(insert, number) for number in range(6))))

    async with working(app) as runtime:
        run = await go(runtime)
    assert run["output"] == [f"order {number}" for number in range(6)]
    assert await orders() == list(range(6))


async def test_equal_calls_are_counted_and_others_told_apart(app: App, dialect: str, orders):
    def add(db: Any, note: str) -> int:
        return db.execute("insert into orders (note) values (?) returning number", (note,)).fetchone()[0]

    async def add_async(db: Any, note: str) -> int:
        return await db.fetchval(
            "insert into orders (number, note) values ((select count(*) + 1 from orders), $1) returning number", note
        )

    function = add if dialect == "sqlite" else add_async

    @app.agent(on("go"))
    async def agent(run: Run) -> list[int]:
        numbers = [await run.transaction(function, note) for note in ("a", "a", "b")]
        if run.attempt == 1:
            raise Transient("again")
        return numbers

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await pass_time(runtime)
        assert (await the_run(runtime, receipt))["output"] == [1, 2, 3]
    assert await orders() == [1, 2, 3]


async def test_run_calls_inside_are_refused(app: App, dialect: str, orders, insert: Write):
    refused: list[str] = []
    held: list[Run] = []

    async def inner() -> None: ...

    def attempt(call: Callable[[], Any]) -> None:
        try:
            value = call()
            if asyncio.iscoroutine(value):
                asyncio.run(value)
        except Exception as error:
            refused.append(str(error))

    def function(db: Any) -> None:
        run = held[0]
        for call in (lambda: run.step(inner), lambda: run.emit("x"), run.now, run.uuid):
            attempt(call)

    async def function_async(db: Any) -> None:
        run = held[0]
        for call in (lambda: run.step(inner), lambda: run.emit("x"), run.now, run.uuid):
            try:
                value = call()
                if asyncio.iscoroutine(value):
                    await value
            except Exception as error:
                refused.append(str(error))

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        held.append(run)
        await run.transaction(function if dialect == "sqlite" else function_async)

    async with working(app) as runtime:
        run = await go(runtime)
        types = [event["type"] for event in (await runtime.reader.events())["events"]]
    assert run["state"] == "done"
    assert len(refused) == 4
    assert all("inside run.transaction" in words for words in refused)
    assert types == ["go"]


@pytest.mark.parametrize(
    "statement",
    [
        "commit",
        " COMMIT ;",
        "begin",
        "rollback",
        "end",
        "/* so what */ commit",
        "-- so what\ncommit",
        "select 1; commit",
        "select 'type'; commit; select 'type'",
    ],
)
async def test_statements_about_the_transaction_itself_are_refused(
    app: App, orders, dialect: str, insert: Write, statement
):
    def function(db: Any) -> None:
        insert(db, 1)
        db.execute(statement)

    async def function_async(db: Any) -> None:
        await insert(db, 1)
        await db.execute(statement)

    @app.agent(on("go"), attempts=3)
    async def agent(run: Run) -> None:
        await run.transaction(function if dialect == "sqlite" else function_async)

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["attempts"]) == ("dead", 1)
    assert "inside run.transaction" in run["error"]["message"]
    assert await orders() == []


async def test_a_commit_that_was_hidden_is_noticed_postgres(postgres_url: str):
    app = App("app", store=postgres_url)

    async def function(db: Any) -> None:
        await db.unguarded.execute("commit; begin")

    @app.agent(on("go"), attempts=3)
    async def agent(run: Run) -> None:
        await run.transaction(function)

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["steps"][0]["state"]) == ("dead", "failed")
    assert "COMMIT or ROLLBACK inside run.transaction" in run["error"]["message"]


async def test_words_about_transactions_are_welcome_in_texts_and_comments(app: App, orders, dialect: str):
    statement = (
        "insert into orders (number, note) /* first; commit; then */ values (1, 'so I said; commit; and left; end') "
        "-- and so on; commit;\n"
    )

    def function(db: Any) -> None:
        db.execute(statement)

    async def function_async(db: Any) -> None:
        await db.execute(statement)

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.transaction(function if dialect == "sqlite" else function_async)

    async with working(app) as runtime:
        assert (await go(runtime))["state"] == "done"
    assert await orders() == [1]


async def test_a_lost_claim_stores_neither_rows_nor_record(new_app: NewApp, orders, insert: Write, dialect: str):
    slow, quick = new_app(), new_app()
    thinking, decided = asyncio.Event(), asyncio.Event()

    @slow.agent(on("go"), name="agent")
    async def zombie(run: Run) -> None:
        thinking.set()
        await decided.wait()
        await run.transaction(insert, 666)

    @quick.agent(on("go"), name="agent")
    async def heir(run: Run) -> None:
        await run.transaction(insert, 1)

    async with working(slow) as losing, working(quick) as winning:
        await winning.worker.stop(0)
        receipt = await slow.emit("go")
        await thinking.wait()
        await winning.store.do(BuryProcess(losing.membership.process, certain=True))
        decided.set()
        await losing.worker.idle()
        assert await orders() == []
        await winning.worker.start()
        run = await ended(winning, receipt)
    assert run["state"] == "done"
    assert await orders() == [1]


async def test_the_wrong_kind_of_function_is_refused_with_the_remedy(app: App, dialect: str):
    async def asynchronous(db: Any) -> None: ...

    def plain(db: Any) -> None: ...

    @app.agent(on("go"), attempts=3)
    async def agent(run: Run) -> None:
        await run.transaction(asynchronous if dialect == "sqlite" else plain)

    async with working(app) as runtime:
        run = await go(runtime)
    assert (run["state"], run["attempts"]) == ("dead", 1)
    assert ("plain def" if dialect == "sqlite" else "must be async") in run["error"]["message"]


class TestSqlite:
    @pytest.fixture
    def app(self, sqlite_url: str, clock: VirtualClock) -> App:
        return App("app", store=sqlite_url, clock=clock)

    async def test_a_function_that_takes_too_long_is_interrupted(self, app: App, monkeypatch: pytest.MonkeyPatch):
        from wakeful.stores import sqlite_user_function

        assert sqlite_user_function.USER_FUNCTION_LIMIT == 1.0
        monkeypatch.setattr(sqlite_user_function, "USER_FUNCTION_LIMIT", 0.05)

        def endless(db: Any) -> int:
            rows = db.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")
            return rows.fetchone()[0]

        def quick(db: Any) -> int:
            return db.execute("select 1").fetchone()[0]

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.transaction(endless)

        @app.agent(on("other"))
        async def other(run: Run) -> int:
            return await run.transaction(quick)

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], "was interrupted after 0.05 s" in run["error"]["message"]) == ("dead", True)
            assert (await ended(runtime, await app.emit("other")))["output"] == 1

    async def test_an_error_of_sqlite_inside_is_its_callers_alone(self, app: App):
        """Dropping a table that is being read is "locked" to SQLite: that is not the store being unavailable."""
        together = asyncio.Barrier(3)

        def foolish(db: Any) -> None:
            db.execute("create table t (a)")
            db.execute("insert into t values (1), (2)")
            for _ in db.execute("select a from t"):
                db.execute("drop table t")

        def good(db: Any, number: int) -> int:
            return number

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            await together.wait()
            if run.event.data == 0:
                await run.transaction(step(attempts=1)(foolish))
            else:
                await run.transaction(good, run.event.data)

        async with working(app) as runtime:
            await asyncio.gather(*(app.emit("go", number) for number in range(3)))
            await runtime.drain()
            assert await runtime.reader.counts() == {"dead": 1, "done": 2}

    @pytest.mark.parametrize(
        "statement",
        ["savepoint x", "release x", "attach ':memory:' as other", "pragma journal_mode = delete", "vacuum"],
    )
    async def test_other_statements_that_would_reach_beyond_it_are_refused(self, app: App, statement):
        def function(db: Any) -> None:
            db.execute(statement)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.transaction(function)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], "inside run.transaction" in run["error"]["message"]) == ("dead", True)

    async def test_a_trigger_has_a_begin_and_an_end_of_its_own(self, app: App):
        def function(db: Any) -> int:
            db.execute("create table a (n)")
            db.execute("create table b (n)")
            db.execute("create trigger copy after insert on a begin insert into b values (new.n); end")
            db.execute("insert into a values (7)")
            return db.execute("select n from b").fetchone()[0]

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            return await run.transaction(function)

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == 7

    async def test_rows_can_be_read_and_written_in_bulk(self, app: App):
        def bulk(db: Any) -> list[Any]:
            db.execute("create table numbers (n integer)")
            db.executemany("insert into numbers values (?)", [(n,) for n in range(5)])
            return [row[0] for row in db.execute("select n * n from numbers order by n")]

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            return await run.transaction(bulk)

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == [0, 1, 4, 9, 16]


@pytest.mark.postgres
class TestPostgres:
    async def test_it_has_a_connection_of_its_own_and_does_not_hold_up_the_journal(
        self, postgres_url: str, clock: VirtualClock
    ):
        app = App("app", store=postgres_url, clock=clock)
        inside, release = asyncio.Event(), asyncio.Event()

        async def slow(db: asyncpg.Connection) -> int:
            inside.set()
            await release.wait()
            return await db.fetchval("select 7")

        @app.agent(on("slow"))
        async def transacts(run: Run) -> int:
            return await run.transaction(slow)

        @app.agent(on("go"))
        async def other(run: Run) -> str:
            return "meanwhile"

        async with working(app) as runtime:
            receipt = await app.emit("slow")
            await inside.wait()
            quick = await app.emit("go")
            while (await the_run(runtime, quick))["state"] != "done":
                pass
            release.set()
            assert (await ended(runtime, receipt))["output"] == 7

    async def test_an_event_can_be_emitted_within_it(self, postgres_url: str, clock: VirtualClock):
        """It is stored with the user's rows and the step, or not at all."""
        app = App("app", store=postgres_url, clock=clock)
        await query(postgres_url, "create table orders (number int)")

        async def order(db: asyncpg.Connection, number: int) -> str:
            await db.execute("insert into orders values ($1)", number)
            receipt = await app.emit("ordered", number, within=db)
            if number == 2:
                raise LookupError("no two")
            return receipt.status

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> str:
            return await run.transaction(step(attempts=1)(order), run.event.data)

        async with working(app) as runtime:
            run = await go(runtime, 1)
            assert (run["state"], run["output"]) == ("done", "unmatched")
            assert (await go(runtime, 2))["state"] == "dead"
            assert len((await runtime.reader.events(type="ordered"))["events"]) == 1
        assert await query(postgres_url, "select number from orders") == [(1,)]

    async def test_a_nested_transaction_is_a_savepoint(self, postgres_url: str, clock: VirtualClock):
        app = App("app", store=postgres_url, clock=clock)
        await query(postgres_url, "create table orders (number int)")

        async def nested(db: asyncpg.Connection) -> None:
            await db.execute("insert into orders values (1)")
            try:
                async with db.transaction():
                    await db.execute("insert into orders values (2)")
                    raise LookupError("only this part")
            except LookupError:
                pass
            await db.execute("insert into orders values (3)")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.transaction(nested)

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert await query(postgres_url, "select number from orders order by number") == [(1,), (3,)]

    async def test_giving_the_run_back_waits_for_a_commit_that_is_under_way(self, stores: OpenStore, postgres_url: str):
        """Forced in order: the checkpoint is written and the COMMIT hangs; meanwhile the same process gives the run back.

        Had that gone through, another could have claimed the run without the step, and the rows would come twice.
        """
        await query(postgres_url, "create table orders (number int)")
        await query(
            postgres_url,
            "create function hang() returns trigger language plpgsql as "
            "$$ begin perform pg_advisory_xact_lock(42); return null; end $$",
        )
        await query(
            postgres_url,
            "create constraint trigger hang after insert on orders deferrable initially deferred "
            "for each row execute function hang()",
        )
        store = await stores(postgres_url)
        member = await join(store)
        await accept(store, an_arrival())
        claim = await member.claim_one()

        async def insert(db: asyncpg.Connection) -> int:
            await db.execute("insert into orders values (1)")
            return 1

        gate = await asyncpg.connect(postgres_url)
        try:
            await gate.execute("select pg_advisory_lock(42)")
            transacting = asyncio.ensure_future(
                transact_step(store, TransactStep(claim, "insert:", insert, lambda _: a_step("insert:", result="1")))
            )
            await waiting_for_a_lock(postgres_url, like="COMMIT%")
            leaving = asyncio.ensure_future(member.leave(claim))
            await waiting_for_a_lock(postgres_url, sessions=2)
            assert not leaving.done()
            await gate.execute("select pg_advisory_unlock(42)")
            await transacting
            await leaving
        finally:
            await gate.close()
        again = await member.claim_one()
        assert [one.key for one in again.steps] == ["insert:"]

    async def test_a_transaction_of_a_lost_claim_is_rolled_back(self, stores: OpenStore, postgres_url: str):
        await query(postgres_url, "create table orders (number int)")
        store = await stores(postgres_url)
        member, other = await join(store), await join(store)
        await accept(store, an_arrival())
        claim = await member.claim_one()

        async def insert(db: asyncpg.Connection) -> int:
            await db.execute("insert into orders values (1)")
            await other.bury(member)  # while the function works
            return 1

        with pytest.raises(ClaimLost):
            await transact_step(store, TransactStep(claim, "insert:", insert, lambda _: a_step("insert:")))
        assert await query(postgres_url, "select count(*) from orders") == [(0,)]
        assert [one.key for one in (await other.claim_one()).steps] == []
