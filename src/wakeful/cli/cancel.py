"""`wakeful cancel`: runs stop at their next step, and what they did is undone. Each is cancelled or refused by itself."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from wakeful.cli.trace import no_run
from wakeful.errors import NotFound
from wakeful.operations.cancelling import MEANS
from wakeful.shell.arguments import Command, Parser, actor_of, add_json, add_store
from wakeful.shell.opening import changing, chosen_store, read
from wakeful.shell.terminal import print_json, say
from wakeful.stores.verbs.cancel import Cancelled, CancelRun

SOME_REFUSED = 1


def declare(parser: Parser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's id, or the beginning of it")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    url = chosen_store(arguments)
    found = [find(url, identifier) for identifier in arguments.runs]  # all of them, before anything is done
    requests = [CancelRun(run["id"], by=actor_of(arguments), note=arguments.note) for run in found]
    answers = asyncio.run(_cancel(url, requests))
    if arguments.json:
        print_json(
            {"runs": [{"run": one.run, "was": one.was, "state": one.now, "refused": one.refused} for one in answers]}
        )
    for one in answers:
        if one.refused is not None:
            say(f"run {one.run} {one.refused}")
        elif not arguments.json:
            print(f"run {one.run}: {MEANS[one.now]}; was {one.was}")
    return SOME_REFUSED if any(one.refused is not None for one in answers) else 0


cancel_command = Command(declare, execute, "wakeful why RUN tells how far it is; wakeful replay RUN does it after all.")


def find(url: str, identifier: str) -> dict[str, Any]:
    run = read(url, lambda reader: reader.run(identifier))
    if run is None:
        message = no_run(identifier)
        raise NotFound(message)
    return run


async def _cancel(url: str, requests: list[CancelRun]) -> list[Cancelled]:
    async with changing(url) as store:
        answers = [await store.do(request) for request in requests]
    return [one for one in answers if one is not None]
