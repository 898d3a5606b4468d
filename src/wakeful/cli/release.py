"""`wakeful release`: a person lets an output out as it is, although it did not pass its checks."""

from __future__ import annotations

import argparse
import asyncio

from wakeful.cli.arguments import Command, Parser, add_json, add_store, operator_of
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import print_json
from wakeful.cli.trace import no_run
from wakeful.errors import NotFound
from wakeful.stores.base import RecordOperation, Redone, ReleaseRun


def declare(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="the id of a held run, or the beginning of it")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    run = read(chosen_store(arguments), lambda reader: reader.run(arguments.run))
    if run is None:
        message = no_run(arguments.run)
        raise NotFound(message)
    request = ReleaseRun(run["id"], operator_of(arguments), arguments.note)
    released = asyncio.run(_release(chosen_store(arguments), request))
    if released is None or released.refused is not None:
        message = f"run {run['id']} {released.refused if released else 'is gone'}"
        raise NotFound(message)
    deliveries = sum(one["state"] == "held" for one in run["deliveries"])
    effects = sum(one["state"] == "staged" for one in run["effects"])
    if arguments.json:
        print_json({"run": run["id"], "was": released.was, "deliveries": deliveries, "effects": effects})
    else:
        print(f"run {run['id']}: released, with {deliveries} message(s) and {effects} staged effect(s)")
    return 0


release_command = Command(
    declare, execute, "wakeful runs --held lists what waits for a person; wakeful trace shows it."
)


async def _release(url: str, request: ReleaseRun) -> Redone | None:
    async with changing(url) as store:
        released = await store.release(request)
        if released is not None and released.refused is None:
            await store.record_operation(RecordOperation(request.operator, "release", None, request.id, request.note))
        return released
