"""migrate: bring a store's schema up to date. SQLite migrates automatically; PostgreSQL only with this command."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from wakeful.clock import SystemClock, duration, readable
from wakeful.errors import ConfigError, NotFound
from wakeful.settings import shown_store, sqlite_path
from wakeful.shell.arguments import Command, Parser, actor_of, add_app, add_json, add_store, seconds
from wakeful.shell.opening import chosen_store
from wakeful.shell.terminal import print_json
from wakeful.size import in_bytes
from wakeful.stores.grants import grants
from wakeful.stores.migration_plan import WHOLE_FILE, PlannedStep, plan
from wakeful.stores.migrations import Patience, Standing, standing
from wakeful.stores.request import Actor

LONGEST_STATEMENT = 100


def declare(parser: Parser) -> None:
    add_app(parser, optional=True)
    add_store(parser)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print the migrations to be applied, their locks and how long they take; apply nothing",
    )
    parser.add_argument(
        "--lock-timeout",
        type=seconds,
        default=2.0,
        metavar="DURATION",
        help="PostgreSQL: wait at most this long for a lock per try, because others queue behind it (default: 2s)",
    )
    parser.add_argument(
        "--give-up-after",
        type=seconds,
        default=600.0,
        metavar="DURATION",
        help="PostgreSQL: keep retrying for a lock for this long (default: 10m)",
    )
    parser.add_argument(
        "--grants",
        metavar="ROLE",
        help="PostgreSQL: only print the SQL that grants this role access to the store without owning its tables",
    )
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    app = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        app = load_app(arguments.app)
    url = chosen_store(arguments, app)
    if arguments.grants is not None:
        statements = asyncio.run(_grants(url, arguments.grants))
        if arguments.json:
            print_json({"store": shown_store(url), "role": arguments.grants, "grants": statements})
        else:
            print("\n".join(statements))
        return 0
    patience = Patience(duration(arguments.lock_timeout), duration(arguments.give_up_after))
    if arguments.plan:
        schema, steps = asyncio.run(_plan(url))
        _show_plan(url, schema, steps, json=arguments.json)
        return 0
    applied, left = asyncio.run(_migrate(url, actor_of(arguments), patience))
    if arguments.json:
        print_json({"store": shown_store(url), "applied": applied, **({"left": left} if left else {})})
    elif not applied and not left:
        print(f"{shown_store(url)} is already up to date")
    else:
        done = f"applied {', '.join(applied)}" if applied else "nothing applied"
        rest = f"; left for later {', '.join(left)}" if left else ""
        print(f"{shown_store(url)}: {done}{rest}")
    return 0


migrate_command = Command(declare, execute, "APP is needed only if the store is named in the app.")


def _show_plan(url: str, schema: Standing, steps: Sequence[PlannedStep], *, json: bool) -> None:
    names = [migration.label for migration in schema.pending]
    if json:
        print_json({"store": shown_store(url), "plan": names, "steps": [asdict(step) for step in steps]})
        return
    if not names:
        print(f"{shown_store(url)} is already up to date")
        return
    print(f"{shown_store(url)}: to apply: {', '.join(names)}")
    if not schema.applied:
        return  # a new store: no process waits for its locks
    for migration in schema.pending:
        kind = (
            f"contracts: all processes must know {migration.needs:04}"
            if migration.contracts
            else "expands: older processes keep working"
        )
        print(f"\n{migration.label} ({kind})")
        for step in steps:
            if step.migration == migration.label:
                print(f"  {shortened(step.statement)}\n    {cost(step)}")


def shortened(statement: str) -> str:
    return statement if len(statement) <= LONGEST_STATEMENT else statement[: LONGEST_STATEMENT - 1] + "…"


def cost(step: PlannedStep) -> str:
    """The lock and the time of a step, and what other processes can do meanwhile."""
    if step.lock == WHOLE_FILE:
        return "in one transaction with the other steps; other writers wait"
    if step.table is None:
        return "unknown" if step.work == "unknown" else "locks no table in use"
    size = f" (about {step.rows:,} rows, {in_bytes(step.bytes or 0)})" if step.rows is not None else ""
    takes = "a moment" if not step.microseconds else f"about {readable(step.microseconds)}"
    others = "" if step.lock == "ACCESS EXCLUSIVE" else "; others can read and write meanwhile"
    return f"{step.lock} on {step.table}{size}, {takes}{others}"


async def _grants(url: str, role: str) -> list[str]:
    from wakeful.stores.opening import open_database

    if sqlite_path(url) is not None:
        message = "a SQLite file has no roles: access is controlled by the permissions of the file and its folder"
        raise ConfigError(message)
    database = open_database(url, SystemClock())
    try:
        ((name, schema, _),) = await database.fetch("here")
        return grants(role, schema=schema, database=name)
    finally:
        await database.close()


async def _plan(url: str) -> tuple[Standing, list[PlannedStep]]:
    from wakeful.shell.opening import is_store
    from wakeful.stores.opening import open_database

    path = sqlite_path(url)
    if path is not None and (not path.exists() or not is_store(path)):
        return standing("sqlite", []), []
    database = open_database(url, SystemClock())
    try:
        schema = standing(database.dialect, await database.ledger())
        for one in schema.changed:
            say_changed(one.label)
        return schema, await plan(database, schema)
    finally:
        await database.close()


async def _migrate(url: str, by: Actor, patience: Patience) -> tuple[list[str], list[str]]:
    """The migrations that were applied, and those that wait for older processes to stop. The operator's row is part of
    the transactions that apply them.
    """
    from wakeful.stores.opening import open_database

    path = sqlite_path(url)
    if path is not None:
        refuse_other_files(path)
    database = open_database(url, SystemClock())
    try:
        if path is not None:
            await database.open(migrate=False)
        applied = await database.migrate(
            patience=patience, told=lambda words: print(f"wakeful: {words}", file=sys.stderr), by=by
        )
        schema = standing(database.dialect, await database.ledger())
        for one in schema.changed:
            say_changed(one.label)
        return [migration.label for migration in applied], [migration.label for migration in schema.pending]
    finally:
        await database.close()


def say_changed(label: str) -> None:
    print(
        f"wakeful: {label} was applied with a different text than this version has; see `wakeful doctor`",
        file=sys.stderr,
    )


def refuse_other_files(path: Path) -> None:
    """Raise NotFound if the file is not a SQLite database. Tables of other programs are allowed: run.transaction uses
    them.
    """
    from wakeful.shell.opening import is_store

    if path.exists() and path.stat().st_size and not is_store(path):
        import apsw

        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            connection.execute("select count(*) from sqlite_master").get  # noqa: B018 reading it is the test
            connection.close()
        except apsw.NotADBError:
            message = f"{path} is not a SQLite database: name another file with --store or WAKEFUL_STORE"
            raise NotFound(message) from None
