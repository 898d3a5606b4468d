"""`wakeful remind` creates a reminder; `resources.reminders` has the other verbs."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from wakeful.resources.apps import names
from wakeful.resources.desk import Desk
from wakeful.resources.processes import living
from wakeful.resources.reminders import RESOURCE, make, understood
from wakeful.shell.arguments import APP_HELP, Command, Parser, UsageError, add_json, add_store
from wakeful.shell.opening import chosen_store
from wakeful.shell.terminal import plain, print_json, say

WHOSE = "remind: which app? Give --app app.py, set WAKEFUL_APP, or change to a folder with an app.py"
WISH = ("when", "text", "to", "unless", "where", "tz")


def declare_remind(parser: Parser) -> None:
    parser.add_argument("when", metavar="WHEN", help='when to remind, like "in 20 minutes" or "tomorrow 9am"')
    parser.add_argument("text", metavar="TEXT", help="what to be reminded of")
    parser.add_argument(
        "--app", metavar="APP", help=f"{APP_HELP} (default: WAKEFUL_APP, else ./app.py, else the only app in the store)"
    )
    parser.add_argument(
        "--to", metavar="CHANNEL", help="the channel to send it to (default: the channel reminders, else log)"
    )
    parser.add_argument(
        "--unless-event", dest="unless", metavar="TYPE", help="do not remind if an event of this type arrives first"
    )
    parser.add_argument("--where", metavar="CEL", help="with --unless-event: only events for which this is true")
    parser.add_argument(
        "--tz", metavar="ZONE", help="the zone of WHEN, like Europe/London (default: WAKEFUL_TIME_ZONE, else UTC)"
    )
    add_json(parser)
    add_store(parser)


def remind(arguments: argparse.Namespace) -> int:
    from wakeful.settings import default_app, sqlite_path
    from wakeful.surface.performing import Asked, desk_for
    from wakeful.telemetry.logs import configure_logs

    where = arguments.app or default_app()
    configure_logs(level="none")  # the answer says what matters
    path = sqlite_path(chosen_store(arguments))
    if where is None and path is not None and not path.exists():
        raise UsageError(WHOSE)
    making = next(verb for verb in RESOURCE.verbs if verb.run is make)
    asked = Asked(arguments, None, {name: getattr(arguments, name) for name in WISH}, where)

    async def do() -> tuple[Any, bool]:
        async with desk_for(making, asked) as desk:
            if where is None:
                await refuse_several(desk)
            made = await make(desk, **asked.given)
            return made, bool(await living(desk))

    made, alive = asyncio.run(do())
    if arguments.json:
        print_json(made)
        return 0
    print(understood(made))
    if not alive:
        say(
            f"no worker is alive on this store: start `wakeful serve {where or 'APP'}`; if it starts after the due time, the reminder is late"
        )
    return 0


async def refuse_several(desk: Desk) -> None:
    """Raise UsageError unless the store has exactly one app; without --app the reminder belongs to that one."""
    known = await names(desk)
    if len(known) != 1:
        several = f" This store has several apps: {', '.join(map(plain, known))}." if known else ""
        raise UsageError(f"{WHOSE}.{several}")


remind_command = Command(declare_remind, remind, RESOURCE.more)
