"""Fixtures that run a test twice, over SQLite and over PostgreSQL, and the words to say what a store is asked.

    store_url    a new, empty store with its schema: one file, or one database
    stores       opens stores on it, as many as a test wants; each stands for one process's way to the database
    clock        a virtual clock that they all share

A `Member` is a process at work on a store: it claims, and everything it writes carries its claims.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw
import asyncpg
import pytest

from support.databases import Databases
from support.transitions import look_away
from wakeful.clock import Clock, Duration, VirtualClock, duration, from_datetime
from wakeful.intake.cloudevents import content_digest, to_envelope
from wakeful.model import (
    WENT_WELL,
    Admission,
    AdmissionState,
    Arrival,
    Claim,
    Decision,
    Event,
    EventState,
    Receipt,
    RunOutcome,
    Step,
    StepState,
    event_key,
    run_id,
)
from wakeful.reader import Reader
from wakeful.settings import sqlite_path
from wakeful.stores.journal import Probe
from wakeful.stores.opening import open_database
from wakeful.stores.request import Request
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, ForgetRuns, Wanted
from wakeful.stores.verbs.processes import BuryProcess, RegisterProcess
from wakeful.stores.verbs.progress import FinishRun, LeaveRun, SaveSteps
from wakeful.testing.postgres_server import PostgresServer

APP = "app"
AGENT = "agent"

Row = Sequence[Any]
OpenStore = Callable[..., Awaitable[DatabaseStore]]


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> Databases:
    return Databases(postgres_server)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def dialect(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def store_url(dialect: str, request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{dialect}_url")
    return url


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, databases: Databases) -> Iterator[str]:
    """For tests of what only PostgreSQL has."""
    database = asyncio.run(databases.take())
    yield postgres_server.dsn(database)
    asyncio.run(databases.give_back(database))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and nothing else: to copy it takes a fraction of what all migrations take."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"

    async def make() -> None:
        database = open_database(f"sqlite:///{path}", VirtualClock())
        await database.open(migrate=True)
        await database.close()

    asyncio.run(make())
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """For tests of what only SQLite has."""
    path = tmp_path / "wakeful.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def stores(clock: VirtualClock) -> AsyncIterator[OpenStore]:
    """Opens stores by their address, and closes them after the test."""
    opened: list[DatabaseStore] = []

    async def open_store(url: str, *, clock: Clock = clock, probe: Probe | None = None) -> DatabaseStore:
        store = DatabaseStore(open_database(url, clock), probe=probe)
        opened.append(store)
        await store.open(migrate=store.dialect == "sqlite")
        return store

    yield open_store
    for store in opened:
        await store.close()


@pytest.fixture
async def store(stores: OpenStore, store_url: str) -> DatabaseStore:
    return await stores(store_url)


@pytest.fixture
async def member(store: DatabaseStore) -> Member:
    return await join(store, "first")


def an_event(
    identifier: str = "1",
    *,
    source: str = "/test",
    type: str = "thing.happened",  # noqa: A002 the field's own name
    data: Any = None,
) -> Event:
    return Event(source, identifier, type, data)


def an_arrival(
    identifier: str = "1",
    *,
    app: str = APP,
    agents: Sequence[str] = (AGENT,),
    state: EventState = "accepted",
    admission: AdmissionState = "started",
    reason: str | None = None,
    event: Event | None = None,
    data: Any = None,
    decision: Decision | None = None,
) -> Arrival:
    """An event on its way into the store, with what intake decided: a run for each agent unless told otherwise."""
    event = event or an_event(identifier, data=data)
    expires_at = None if event.expirytime is None else from_datetime(event.expirytime)
    return Arrival(
        event_key(app, event.source, event.id),
        event.source,
        event.id,
        event.type,
        event.subject,
        state,
        content_digest(event),
        to_envelope(event),
        reason,
        expires_at,
        [
            Admission(
                agent,
                admission,
                run_id=run_id(app, agent, event.source, event.id) if admission == "started" else None,
                reason=reason,
            )
            for agent in agents
        ],
        [(agent, decision) for agent in agents] if decision is not None else [],
    )


async def accept(store: DatabaseStore, *arrivals: Arrival, app: str = APP, **more: Any) -> list[Receipt]:
    return await store.do(AcceptEvents(app, list(arrivals), **more))


def a_step(
    key: str = "fetch:",
    *,
    state: StepState = "done",
    result: str | None = '"value"',
    error: str | None = None,
    **more: Any,
) -> Step:
    return Step(key=key, name=key.partition(":")[0], state=state, result=result, error=error, **more)


R = TypeVar("R")

_numbers = itertools.count(1)


async def join(store: DatabaseStore, name: str = "process", *, lease: Duration = "15s") -> Member:
    """A new process at a store."""
    process = f"{name}-{next(_numbers)}"
    await store.register(RegisterProcess(process, "host", 1, duration(lease)))
    return Member(store, process)


@dataclass
class Member:
    """A process at a store, which claims and writes as a worker does."""

    store: DatabaseStore
    process: str
    known: set[str] = field(default_factory=set)

    def wanting(
        self, *agents: str, most: int = 10, alone: bool = True, app: str = APP, rests: bool = False, **more: Any
    ) -> ClaimRuns:
        wanted = Wanted([(agent, most) for agent in agents or (AGENT,)], alone, **more)
        return ClaimRuns(app, self.process, lambda: wanted, rests=rests)

    async def ask(self, *agents: str, **more: Any) -> Claimed:
        return await self.store.do(self.wanting(*agents, **more))

    async def claim(self, *agents: str, **more: Any) -> list[Claim]:
        return (await self.ask(*agents, **more)).claims

    async def claim_one(self, *agents: str) -> Claim:
        (claim,) = await self.claim(*agents, most=1)
        return claim

    async def save(self, claim: Claim, *steps: Step) -> None:
        await self.store.do(SaveSteps(claim, list(steps)))

    async def finish(
        self, claim: Claim, state: Literal["done", "dead", "denied", "cancelled"] = "done", **more: Any
    ) -> None:
        more.setdefault("outcome", WENT_WELL if state == "done" else RunOutcome("failed"))
        await self.store.do(FinishRun(claim, state, **more))

    async def leave(self, claim: Claim, state: Literal["ready", "waiting"] = "ready", **more: Any) -> None:
        more.setdefault("outcome", "released" if state == "ready" else "waited")
        await self.store.do(LeaveRun(claim, state, **more))

    async def forget(self, *known: str) -> int:
        return await self.store.do(ForgetRuns(self.process, frozenset(known)))

    def renew(self, lease: Duration = "15s") -> bool:
        renewer = self.store.database.renewer()
        try:
            return renewer.renew(self.process, duration(lease))
        finally:
            renewer.close()

    async def renew_in_thread(self, lease: Duration = "15s") -> bool:
        """As the lease keeper does it, which has a thread of its own."""
        return await asyncio.to_thread(self.renew, lease)

    async def bury(self, other: Member, *, certain: bool = True) -> int:
        return await self.store.do(BuryProcess(other.process, certain=certain))


async def do_all(store: DatabaseStore, requests: Iterable[Request[R]]) -> list[R]:
    """Hand in all at once: they go into one transaction."""
    return await asyncio.gather(*map(store.do, requests))


def reader(store: DatabaseStore) -> Reader:
    return Reader(store.database)


async def state_of(store: DatabaseStore, run: str) -> dict[str, Any]:
    found = await reader(store).run(run)
    assert found is not None, f"run {run} is gone"
    return found


async def steps_of(store: DatabaseStore, run: str) -> dict[str, Any]:
    return {step["key"]: step["result"] for step in (await state_of(store, run))["steps"]}


class Onlooker:
    """Looks at, or reaches into, a store from outside, on a connection of its own. Parameters are $1, $2, …"""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def query(self, sql: str, *parameters: Any) -> list[Row]:
        path = sqlite_path(self._url)
        if path is None:
            if self._connection is None:
                self._connection = await asyncpg.connect(self._url)
            return [tuple(row) for row in await self._connection.fetch(sql, *parameters)]
        if self._connection is None:
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(10_000)
        return list(self._connection.execute(sql.replace("$", "?"), parameters or None))

    async def look_away(self) -> None:
        """From now on it may put rows into states that the code would not: no witness checks what it writes."""
        await self.query("select 1")
        await look_away(self._connection)

    async def close(self) -> None:
        if self._connection is not None:
            closing = self._connection.close()
            if closing is not None:
                await closing


async def query(url: str, sql: str, *parameters: Any) -> list[Row]:
    """One look from outside."""
    onlooker = Onlooker(url)
    try:
        return await onlooker.query(sql, *parameters)
    finally:
        await onlooker.close()


async def forge(url: str, sql: str, *parameters: Any) -> None:
    """Change a state in a way that the code never does."""
    onlooker = Onlooker(url)
    try:
        await onlooker.look_away()
        await onlooker.query(sql, *parameters)
    finally:
        await onlooker.close()


async def count(url: str, table: str) -> int:
    rows = await query(url, f"select count(*) from {table}")
    return int(rows[0][0])


def emptied(url: str, tables: Sequence[str]) -> str:
    """One transaction that empties tables: each commit by itself would wait for the disk, and TRUNCATE for many files."""
    deletes = [f"delete from wakeful_{table}" for table in tables]
    if sqlite_path(url) is None:
        return f"do $$ begin {'; '.join(deletes)}; end $$"
    return "; ".join(["begin", *deletes, "commit"])
