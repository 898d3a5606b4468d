"""`wakeful fork`: a run is done again from a step on; what was finished before that is kept, and can be edited."""

from __future__ import annotations

import argparse
import asyncio

from wakeful.cli.cancel import find
from wakeful.errors import InvalidData, NotFound
from wakeful.operations.forking import plan_fork
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_store, read_data
from wakeful.shell.carrying import number
from wakeful.shell.opening import changing, chosen_store
from wakeful.shell.person import needs_token
from wakeful.shell.terminal import print_json
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.redo import Redone


def declare(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="the id of a run that is over, or the beginning of it")
    parser.add_argument(
        "--from", dest="step", metavar="STEP", required=True, help="the first step that is done anew, like fetch#2"
    )
    parser.add_argument("--show", action="store_true", help="only print what would be kept, ready to be edited")
    parser.add_argument("--edit", metavar="FILE", help="keep this instead: what --show prints, edited; - reads it here")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    url = chosen_store(arguments)
    token = None if arguments.show else needs_token("fork a run", url)
    run = find(url, arguments.run)
    plan = plan_fork(run, arguments.step)
    if token is None:
        print_json(plan.shown())
        return 0
    token.opens([run["app"]])
    edit = None
    if arguments.edit is not None:
        source = "-" if arguments.edit == "-" else f"@{arguments.edit}"
        edit = read_data(source, what="--edit", shown=arguments.edit)
    try:
        request = plan.request(edit, by=actor_of(arguments), note=arguments.note)
    except InvalidData as error:
        raise UsageError(f"--edit {arguments.edit}: {error}") from None
    forked = asyncio.run(_fork(url, request))
    if forked is None or forked.refused is not None:
        message = f"run {request.id} {forked.refused if forked else 'is gone'}"
        raise NotFound(message)
    if arguments.json:
        print_json({"run": forked.run, "was": forked.was, "kept": [one["name"] for one in plan.kept]})
    else:
        print(f"run {forked.run}: forked from {request.id} at {request.step}; {number(len(plan.kept), 'step')} kept")
    return 0


fork_command = Command(
    declare, execute, "wakeful trace RUN shows its steps; confirmed effects are found, not repeated."
)


async def _fork(url: str, request: ForkRun) -> Redone | None:
    async with changing(url) as store:
        return await store.do(request)
