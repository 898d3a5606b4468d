"""checkin: report that an expected task was done, typically from the last line of a script."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any
from urllib.parse import quote

from wakeful.cli.posting import add_url, post, refusal
from wakeful.clock import SystemClock
from wakeful.errors import WakefulError
from wakeful.intake.accept import Door
from wakeful.intake.route import Router
from wakeful.operations.checking_in import app_expecting, check_in
from wakeful.resources.desk import Reads
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_data, add_json, add_store, read_data
from wakeful.shell.opening import changing, chosen_store
from wakeful.shell.terminal import plain, print_json


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help='the name of the expectation, like "nightly backup"')
    parser.add_argument("--of", metavar="NAME", help="the app, if several apps have an expectation of that name")
    add_data(parser)
    parser.add_argument(
        "--id", metavar="ID", help="the event id (default: a new one); a repeated id counts as a duplicate"
    )
    add_url(parser, "report to this server instead of the store")
    add_store(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    answer = _post(arguments) if arguments.url else asyncio.run(_store(arguments))
    if arguments.json:
        print_json({"events": [answer]})
    else:
        word = "again" if answer["status"] == "duplicate" else "in"
        print(f"checked {word}: {plain(arguments.name)}")
    return 0


checkin_command = Command(
    declare, execute, "Use it as the last line of a script: `backup.sh && wakeful checkin nightly-backup`."
)


async def _store(arguments: argparse.Namespace) -> dict[str, Any]:
    """Store the check-in without loading the app, so it wakes no agent. `wakeful emit APP wakeful.checkin --subject
    NAME` also wakes agents.
    """
    data = read_data(arguments.data)
    async with changing(chosen_store(arguments)) as store:
        app = await app_expecting(Reads(store.database), arguments.name, arguments.of)
        door = Door(app, Router([]), store, SystemClock(), owners={})
        by = actor_of(arguments)
        receipt = await check_in(door, app, arguments.name, data, arguments.id, by=by)
    return receipt.to_json()


def _post(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.store or arguments.operator or arguments.of:
        message = "checkin --url does not take --store, --of or --as: the server has its own"
        raise UsageError(message)
    from pydantic_core import to_json

    data = read_data(arguments.data)
    path = f"/v1/checkins/{quote(arguments.name)}"
    response = post(
        arguments.url,
        path,
        b"" if data is None else to_json(data),
        kind="application/json",
        insecure=arguments.insecure,
        params={} if arguments.id is None else {"id": arguments.id},
    )
    if response.status_code != 202:
        raise WakefulError(refusal(arguments.url, path, response))
    answer: dict[str, Any] = response.json()["events"][0]
    return answer
