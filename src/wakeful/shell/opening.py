"""Opens a store for a command, without creating one just to look at it."""

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

# The last process to close a file locks it exclusively for a moment.
PATIENCE_MILLISECONDS = 10_000


def chosen_store(arguments: argparse.Namespace, app: Declarations | None = None) -> str:
    """--store, else the one the app names, else WAKEFUL_STORE, else the default."""
    return store_url(arguments.store or (app.store if app is not None else None))


def read(url: str, question: Callable[[Reads], Coroutine[None, None, R]]) -> R:
    """Run one query with a reader of this store."""

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
    """An existing store, for a command that makes changes without an app, or that encrypts the whole store again."""
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
    """Raise NotFound if the SQLite file is missing or not a store: opening it would create it or change a foreign file."""
    path = sqlite_path(url)
    if path is None:
        return
    if not path.exists():
        message = (
            f"there is no store at {shown_store(url)} yet: the first `wakeful serve APP`, `emit` or `run` creates it; "
            "name another one with --store or WAKEFUL_STORE"
        )
        raise NotFound(message)
    if not is_store(path):
        message = f"{path} is not a Wakeful store: name another one with --store or WAKEFUL_STORE"
        raise NotFound(message)


def is_store(path: Path) -> bool:
    """Whether this file has Wakeful's tables. Opens it read-only, so that nothing in it changes."""
    import apsw

    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        with contextlib.closing(connection):
            connection.set_busy_timeout(PATIENCE_MILLISECONDS)
            return bool(connection.execute("select 1 from sqlite_master where name = 'wakeful_migration'").get)
    except apsw.NotADBError:
        return False
    except apsw.Error as error:
        message = f"cannot open {path}: {error}. Check that this user may read the file and its folder"
        raise StoreUnavailable(message) from None


@contextlib.asynccontextmanager
async def sending(app: Declarations, store: str | None, *, sources: bool = False) -> AsyncIterator[Runtime]:
    """A connected runtime, for a command that sends something. With `sources` it knows the app's sources but does not
    read them.
    """
    from wakeful.runtime import running

    async with running(app, worker=False, store=store, reading="drained" if sources else "never") as runtime:
        yield runtime
