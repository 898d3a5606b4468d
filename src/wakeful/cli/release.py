"""`wakeful release`: a person lets an output out as it is, although it did not pass its checks."""

from __future__ import annotations

import argparse
import asyncio

from wakeful.cli.trace import no_run
from wakeful.errors import NotFound
from wakeful.operations.redo import what_leaves
from wakeful.shell.arguments import Command, Parser, actor_of, add_json, add_store
from wakeful.shell.carrying import number
from wakeful.shell.opening import changing, chosen_store, read
from wakeful.shell.person import people_only
from wakeful.shell.terminal import print_json
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.redo import Redone


def declare(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="the id of a held run, or the beginning of it")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    token = people_only("release an output", chosen_store(arguments))
    run = read(chosen_store(arguments), lambda reader: reader.run(arguments.run))
    if run is None:
        message = no_run(arguments.run)
        raise NotFound(message)
    token.opens([run["app"]])
    request = ReleaseRun(run["id"], by=actor_of(arguments), note=arguments.note)
    released = asyncio.run(_release(chosen_store(arguments), request))
    if released is None or released.refused is not None:
        message = f"run {run['id']} {released.refused if released else 'is gone'}"
        raise NotFound(message)
    leaving = what_leaves(run)
    if arguments.json:
        print_json({"run": run["id"], "was": released.was, **leaving})
    else:
        messages, effects = number(leaving["deliveries"], "message"), number(leaving["effects"], "staged effect")
        print(f"run {run['id']}: released, with {messages} and {effects}")
    return 0


release_command = Command(
    declare,
    execute,
    "wakeful runs --held lists what waits for a person; wakeful trace RUN shows what it would put out.",
)


async def _release(url: str, request: ReleaseRun) -> Redone | None:
    async with changing(url) as store:
        return await store.do(request)
