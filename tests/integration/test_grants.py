"""A role that owns nothing: with the grants that `wakeful migrate --grants` prints it can do all of the work, and without one of
them it is told which is missing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import structlog

from support.schemas import knowing, later
from support.stores import accept, an_arrival, join, query
from wakeful import App, Operation, Run, action, on
from wakeful.channels import file
from wakeful.clock import SystemClock
from wakeful.errors import StoreForbidden
from wakeful.stores.grants import grants, needed
from wakeful.stores.opening import open_database
from wakeful.stores.queries import load_queries
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.testing.waiting import until
from wakeful.triggers.every import every

pytestmark = pytest.mark.postgres


@pytest.fixture
async def role(postgres_dsn: str) -> AsyncIterator[str]:
    name = f"Least_{secrets.token_hex(4)}"
    await query(postgres_dsn, f"create role \"{name}\" login password 'least'")
    yield name
    await query(postgres_dsn, f'drop owned by "{name}"')
    await query(postgres_dsn, f'drop role "{name}"')


@pytest.fixture
async def owned(postgres_dsn: str) -> str:
    """A store that was migrated by its owner, and that nobody else may use."""
    database = open_database(postgres_dsn, SystemClock())
    try:
        await database.open(migrate=True)
    finally:
        await database.close()
    return postgres_dsn


@pytest.fixture
def as_role(owned: str, role: str) -> str:
    parts = urlsplit(owned)
    return urlunsplit(parts._replace(netloc=f"{role}:least@{parts.hostname}:{parts.port}"))


async def let_in(owned: str, role: str) -> None:
    name = urlsplit(owned).path.removeprefix("/")
    for statement in grants(role, schema="public", database=name):
        await query(owned, statement)


@pytest.fixture
async def let_in_already(owned: str, role: str) -> None:
    await let_in(owned, role)


async def store_of(url: str) -> DatabaseStore:
    store = DatabaseStore(open_database(url, SystemClock()))
    await store.open(migrate=False)
    return store


@pytest.mark.usefixtures("let_in_already")
async def test_every_query_is_allowed(as_role: str):
    """EXPLAIN checks the rights of a statement, and does nothing."""
    connection = await asyncpg.connect(as_role, statement_cache_size=0)
    refused: dict[str, str] = {}
    try:
        for name, one in load_queries("postgres").items():
            nothing = ", ".join(["null"] * len(one.parameters))
            given = f"({nothing})" if nothing else ""
            if name in {"record_migration", "begin_migration", "finish_migration"}:
                continue  # the owner's
            try:
                await connection.execute(f"prepare one as {one.sql}")
                await connection.execute(f"explain execute one{given}")
            except asyncpg.InsufficientPrivilegeError as error:
                refused[name] = str(error)
            finally:
                await connection.execute("deallocate all")
    finally:
        await connection.close()
    assert refused == {}


@pytest.mark.usefixtures("let_in_already")
async def test_the_engine_works_as_a_role_that_owns_nothing(as_role: str, owned: str, tmp_path: Path):
    await query(owned, "create table booking (amount bigint)")
    await query(owned, "grant select, insert on booking to public")
    app = App("app", store=as_role, channels={"post": file(tmp_path / "post")}, retention="1h", archive=tmp_path)

    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> str:
        return op.id

    async def book(db: Any, amount: int) -> int:
        await db.execute("insert into booking values ($1)", amount)
        return await db.fetchval("select sum(amount)::bigint from booking")

    @app.agent(on("order"), key="data.customer", concurrency=4)
    async def fulfil(run: Run) -> dict[str, Any]:
        await run.act(charge, 5)
        async with run.lock("till"):
            booked = await run.transaction(book, 5)
        paid = await run.wait_for("paid", subject="o1")
        run.send("post", "done")
        await run.emit("told", {"paid": paid.id})
        return {"booked": booked}

    @app.agent(every("1h"))
    async def tick(run: Run) -> None: ...

    async with app.running() as runtime:
        receipt = await app.emit("order", {"customer": "ada"}, subject="o1")
        await runtime.drain()
        await app.emit("paid", subject="o1")
        await runtime.drain()
        await until((tmp_path / "post").exists)
        run = await runtime.reader.run(receipt.runs[0])
        assert run is not None
        assert (run["state"], run["output"]) == ("done", {"booked": 5})
        gone = await join(runtime.store, "gone")
        assert await runtime.store.do(BuryProcess(gone.process, certain=True)) == 0
        assert await runtime.database.end_sessions(gone.process) == 1  # of the same role: nobody need be superuser
        health = await runtime.reader.health()
        assert health["store"] == "postgres"


@pytest.mark.usefixtures("let_in_already")
async def test_a_server_that_does_not_tell_which_it_is(as_role: str, owned: str):
    """One role may ask, the other not: that does not make it another server."""
    await query(owned, "revoke execute on function pg_control_system() from public")
    origins = await query(owned, "select number, identity from wakeful_origin")
    for url in (as_role, owned, as_role):
        store = await store_of(url)
        await accept(store, an_arrival(url))
        await store.close()
    assert await query(owned, "select number, identity from wakeful_origin") == origins


async def test_a_missing_right_is_told_with_the_grant(as_role: str, owned: str, role: str):
    with pytest.raises(StoreForbidden, match=rf'role {role}: permission denied.*GRANT .* TO "{role}".*--grants {role}'):
        await store_of(as_role)
    await let_in(owned, role)
    store = await store_of(as_role)
    try:
        await query(owned, f'revoke insert on wakeful_admission from "{role}"')
        wanted = rf'permission denied for table wakeful_admission.*GRANT SELECT, INSERT, UPDATE, DELETE ON wakeful_admission TO "{role}"'
        with pytest.raises(StoreForbidden, match=wanted):
            await accept(store, an_arrival("1"))
        await query(owned, f'grant insert on wakeful_admission to "{role}"')
        assert (await accept(store, an_arrival("1")))[0].status == "accepted"
        more = later(9001, "alter table wakeful_run add column later text;")
        with knowing(more), pytest.raises(StoreForbidden, match="Migrate as the role that owns the tables"):
            await store.database.migrate()
    finally:
        await store.close()


@pytest.mark.usefixtures("let_in_already")
async def test_what_one_may_not_spares_the_others(as_role: str, owned: str, role: str):
    """In one transaction of the journal: only the guilty one is told, and it goes on once the right is there."""
    store = await store_of(as_role)
    try:
        await query(owned, f'revoke insert on wakeful_process from "{role}"')
        both = await asyncio.gather(accept(store, an_arrival("1")), join(store), return_exceptions=True)
        assert isinstance(both[1], StoreForbidden)
        assert not isinstance(both[0], BaseException)
        assert both[0][0].status == "accepted"
    finally:
        await store.close()


@pytest.mark.usefixtures("let_in_already")
async def test_a_migration_lets_the_role_into_new_tables(as_role: str, owned: str):
    more = later(9001, "create table wakeful_later (id bigint primary key);")
    database = open_database(owned, SystemClock())
    try:
        with knowing(more):
            await database.migrate()
    finally:
        await database.close()
    await query(as_role, "insert into wakeful_later values (1)")
    await query(as_role, "update wakeful_later set id = 2")
    await query(as_role, "delete from wakeful_later")


class TestCommands:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """A folder of its own; and logs as they were, which a command configures for its whole process."""
        monkeypatch.chdir(tmp_path)
        handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
        yield
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)

    async def test_migrate_prints_grants_that_can_be_run(
        self, owned: str, role: str, as_role: str, capsys: pytest.CaptureFixture[str]
    ):
        from wakeful.cli import main

        assert await asyncio.to_thread(main, ["migrate", "--grants", role, "--store", owned]) == 0
        script = capsys.readouterr().out
        assert f'GRANT USAGE ON SCHEMA public TO "{role}";' in script
        for statement in script.splitlines():
            await query(owned, statement)
        assert await query(as_role, "select count(*) from wakeful_run") == [(0,)]
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await query(as_role, "delete from wakeful_migration")
        for table in set(needed()[0]):
            assert (await query(as_role, f"select count(*) from {table}"))[0][0] >= 0

    @pytest.mark.usefixtures("let_in_already")
    async def test_doctor_names_the_rights_that_are_missing(
        self, owned: str, role: str, as_role: str, capsys: pytest.CaptureFixture[str]
    ):
        from wakeful.cli import main

        await query(owned, f'revoke update, delete on wakeful_effect from "{role}"')
        assert await asyncio.to_thread(main, ["doctor", "--store", as_role]) == 1
        said = capsys.readouterr().out
        assert "✗ rights" in said
        assert f'GRANT UPDATE, DELETE ON wakeful_effect TO "{role}"' in said

    async def test_a_command_says_it_in_one_line(self, as_role: str, role: str, capsys: pytest.CaptureFixture[str]):
        from wakeful.cli import main

        assert await asyncio.to_thread(main, ["runs", "--store", as_role]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"wakeful: PostgreSQL refuses role {role}: permission denied")
        assert "unexpected" not in said
        assert said.count("\n") == 1

    def test_a_file_has_no_roles(self, capsys: pytest.CaptureFixture[str]):
        from wakeful.cli import main

        assert main(["migrate", "--grants", "app"]) == 1
        assert "a SQLite file has no roles" in capsys.readouterr().err
