"""migrate: bring a store's schema up to date. SQLite does that by itself; PostgreSQL only when asked."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from wakeful.cli.arguments import Command, Parser, add_app, add_json, add_store, operator_of
from wakeful.cli.opening import chosen_store
from wakeful.cli.terminal import print_json
from wakeful.clock import SystemClock
from wakeful.errors import NotFound
from wakeful.settings import shown_store, sqlite_path
from wakeful.stores.base import RecordOperation
from wakeful.stores.migrations import Migration, missing
from wakeful.stores.store import DatabaseStore


def declare(parser: Parser) -> None:
    add_app(parser, optional=True)
    add_store(parser)
    parser.add_argument("--plan", action="store_true", help="only say what would be applied")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    app = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        app = load_app(arguments.app)
    url = chosen_store(arguments, app)
    pending = asyncio.run(_plan(url) if arguments.plan else _migrate(url, operator_of(arguments)))
    names = [f"{migration.number:04}_{migration.name}" for migration in pending]
    if arguments.json:
        print_json({"store": shown_store(url), "plan" if arguments.plan else "applied": names})
    elif not names:
        print(f"{shown_store(url)} is already up to date")
    else:
        print(f"{shown_store(url)}: {'to be applied' if arguments.plan else 'applied'} {', '.join(names)}")
    return 0


migrate_command = Command(declare, execute, "APP is only needed for the store that it names.")


async def _plan(url: str) -> list[Migration]:
    from wakeful.cli.opening import is_store
    from wakeful.stores.opening import open_database

    path = sqlite_path(url)
    if path is not None and (not path.exists() or not is_store(path)):
        return missing("sqlite", set())
    database = open_database(url, SystemClock())
    try:
        return missing(database.dialect, {row[0] for row in await database.applied_migrations()})
    finally:
        await database.close()


async def _migrate(url: str, operator: str) -> list[Migration]:
    from wakeful.stores.opening import open_database

    path = sqlite_path(url)
    if path is not None:
        refuse_somebody_elses(path)
    database = open_database(url, SystemClock())
    store = DatabaseStore(database)
    try:
        if path is not None:
            await database.open(migrate=False)
        applied = await database.migrate()
        if applied:
            detail = ", ".join(f"{migration.number:04}_{migration.name}" for migration in applied)
            await store.record_operation(RecordOperation(operator, "migrate", detail=detail))
        return applied
    finally:
        await store.close()


def refuse_somebody_elses(path: Path) -> None:
    """Our tables go into our own file or a new one. (run.transaction uses tables of the same file: those may be there.)"""
    from wakeful.cli.opening import is_store

    if path.exists() and path.stat().st_size and not is_store(path):
        import apsw

        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            connection.execute("select count(*) from sqlite_master").get  # noqa: B018 reading it is the test
            connection.close()
        except apsw.NotADBError:
            message = f"{path} is not a SQLite database: name another file with --store or WAKEFUL_STORE"
            raise NotFound(message) from None
