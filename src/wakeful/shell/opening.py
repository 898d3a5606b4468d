"""Opening a store for a command: which one, and never making one just to look at it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wakeful.clock import SystemClock
from wakeful.errors import NotFound, StoreUnavailable
from wakeful.resources.desk import Reads
from wakeful.settings import shown_store, sqlite_path, store_url

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.runtime import Runtime
    from wakeful.secrets import Secret
    from wakeful.stores.store import DatabaseStore

R = TypeVar("R")

# The last one that leaves a file has it for itself for a moment.
PATIENCE_MILLISECONDS = 10_000


def chosen_store(arguments: argparse.Namespace, app: Declarations | None = None) -> str:
    """--store, else the one the app names, else WAKEFUL_STORE, else the default."""
    return store_url(arguments.store or (app.store if app is not None else None))


def read(url: str, question: Callable[[Reads], Coroutine[None, None, R]]) -> R:
    """Ask one thing of a store."""

    async def ask() -> R:
        async with reading(url) as reads:
            return await question(reads)

    return asyncio.run(ask())


@contextlib.asynccontextmanager
async def reading(url: str) -> AsyncIterator[Reads]:
    """Read a store that exists and has the right schema."""
    from wakeful.stores.opening import open_database

    refuse_missing(url)
    database = open_database(url, SystemClock())
    try:
        reads = Reads(database)
        await reads.health()
        yield reads
    finally:
        await database.close()


@contextlib.asynccontextmanager
async def changing(
    url: str, *, encryption: Sequence[Secret] | None = None, resealing: bool = False
) -> AsyncIterator[DatabaseStore]:
    """The verbs of a store that exists, for a command that changes something and needs no app; or encrypts all of it anew."""
    from wakeful.stores.opening import open_database
    from wakeful.stores.store import DatabaseStore

    refuse_missing(url)
    store = DatabaseStore(open_database(url, SystemClock(), encryption=encryption))
    try:
        await store.open(migrate=False, resealing=resealing)
        yield store
    finally:
        await store.close()


def refuse_missing(url: str) -> None:
    """Looking at a SQLite file that is not there would make one, and looking at somebody else's would change it."""
    path = sqlite_path(url)
    if path is None:
        return
    if not path.exists():
        message = (
            f"there is no store at {shown_store(url)} yet: the first `wakeful serve APP`, `emit` or `run` makes it; "
            "another one is named by --store or WAKEFUL_STORE"
        )
        raise NotFound(message)
    if not is_store(path):
        message = f"{path} is not a store of Wakeful: name another one with --store or WAKEFUL_STORE"
        raise NotFound(message)


def is_store(path: Path) -> bool:
    """Does this file have our tables? Asked without write access, so that nothing in it changes."""
    import apsw

    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        with contextlib.closing(connection):
            connection.set_busy_timeout(PATIENCE_MILLISECONDS)
            return bool(connection.execute("select 1 from sqlite_master where name = 'wakeful_migration'").get)
    except apsw.NotADBError:
        return False
    except apsw.Error as error:
        message = f"cannot open {path}: {error}. May this user read it, and its folder?"
        raise StoreUnavailable(message) from None


@contextlib.asynccontextmanager
async def sending(app: Declarations, store: str | None, *, sources: bool = False) -> AsyncIterator[Runtime]:
    """A runtime that is connected to its store, for a command that puts something in. With `sources` it knows those of the app,
    and reads none of them.
    """
    from wakeful.runtime import running

    async with running(app, worker=False, store=store, reading="drained" if sources else "never") as runtime:
        yield runtime
