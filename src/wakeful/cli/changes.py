"""`wakeful changes APP`: print the SQL that creates change tables, to be run by a database administrator; with
--remove, the SQL that removes them.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.shell.arguments import Command, Parser, add_app, add_json
from wakeful.shell.terminal import plain, print_json, say

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


def declare(parser: Parser) -> None:
    add_app(parser)
    parser.add_argument(
        "--remove", action="store_true", help="print the SQL that removes everything the app created there"
    )
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.loading import load_app

    app = load_app(arguments.app)
    found = asyncio.run(statements(app, remove=arguments.remove))
    if arguments.json:
        print_json({"databases": found})
    else:
        show(found)
    return 1 if any(one["error"] for one in found) else 0


changes_command = Command(declare, execute)


async def statements(app: Declarations, *, remove: bool) -> list[dict[str, Any]]:
    """For each database watched through change tables: the SQL that remains to be run there."""
    from wakeful.connect.rows.installing import sql_for
    from wakeful.errors import ConfigError
    from wakeful.triggers.source import SourceTrouble
    from wakeful.triggers.sources import shared

    found = []
    for triggers in shared({name: agent.triggers for name, agent in app.agents.items()}):
        database: dict[str, Any] = {"sql": [], "error": None}
        try:
            told = await sql_for(app.name, triggers, remove=remove)
        except (SourceTrouble, ConfigError) as error:
            found.append({"database": "", **database, "error": str(error)})
            continue
        if told is not None:
            place, sql = told
            found.append({"database": place, **database, "sql": sql})
    return found


def show(found: list[dict[str, Any]]) -> None:
    for one in found:
        if one["error"] is not None:
            say(plain(one["error"]))
            continue
        print(f"-- {one['database']}" if one["sql"] else f"-- {one['database']}: nothing to do")
        for statement in one["sql"]:
            print(f"{statement};")
    if not found:
        say("no agent uses a change table: there is nothing to create or remove")
