"""`wakeful effects`: what runs did to the outside world, and a person's word about what nobody else can know.

confirm   it was done: the run goes on as if the call had returned (with --result, if its result matters)
repeat    it was not done: the call is made again
abandon   it shall not be done: the handler is told so, and the run ends as a dead letter unless it catches that
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, one_of, operator_of, read_data
from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, short, state, terminal
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import EffectState
from wakeful.operations.redo import ANSWERS, settle, which_stands
from wakeful.stores.base import Settled
from wakeful.stores.reading import SHORTEST_PREFIX
from wakeful.values import to_text

WORDS = ("list", "show", *ANSWERS)


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show ID, or confirm, repeat or abandon ID"
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.add_argument("--result", metavar="JSON", help="with confirm: what the call would have returned")
    known = sorted(get_args(EffectState))
    parser.add_argument("--state", metavar="STATE", type=one_of(known, what="state"), help=", ".join(known))
    add_listing(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb == "list" and not rest:
        return _list(arguments)
    if verb not in WORDS:
        message = f'there is no "effects {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    if len(rest) != 1 or verb == "list":
        message = (
            "effects takes list, or show, confirm, repeat or abandon and an ID, like: wakeful effects confirm 3f2a91"
        )
        raise UsageError(message)
    found = _find(arguments, rest[0])
    if verb == "show":
        print_json(found)
        return 0
    if arguments.result is not None and verb != "confirm":
        message = f"--result is for confirm: {verb} has none"
        raise UsageError(message)
    result = (
        None if arguments.result is None else to_text(read_data(arguments.result, what="--result"), what="--result")
    )
    return _tell(arguments, verb, asyncio.run(_settle(arguments, found["id"], verb, result)))


effects_command = Command(declare, execute, "wakeful runs --held lists what waits for a person.")


def _find(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    found = read(chosen_store(arguments), lambda reader: reader.effect(identifier))
    if found is None:
        more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(identifier) < SHORTEST_PREFIX else ""
        message = f'there is no effect "{plain(identifier)}": see `wakeful effects`{more}'
        raise NotFound(message)
    return found


def _list(arguments: argparse.Namespace) -> int:
    page = read(
        chosen_store(arguments),
        lambda reader: paged(reader.effects(state=arguments.state, limit=arguments.limit, after=arguments.after)),
    )
    if arguments.json:
        print_json(page)
        return 0
    if not page["effects"]:
        print(
            "no effects like that"
            if arguments.state or arguments.after
            else "no effects yet. An agent makes one with `run.act(action, …)`."
        )
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            short(one["id"], out),
            plain(one["action"]),
            state(one["state"]),
            short(one["run"], out),
            ago(one["opened_at"], present),
            Text(plain(one["reason"] or one["note"] or ""), style="dim"),
        ]
        for one in page["effects"]
    ]
    print_table(out, ["effect", "action", "state", "run", "opened", "note"], rows, flexible="note")
    say_more(page, "effects")
    return 0


async def _settle(arguments: argparse.Namespace, effect: str, verb: str, result: str | None) -> Settled | None:
    operator = operator_of(arguments)
    async with changing(chosen_store(arguments)) as store:
        return await settle(store, effect, verb, operator=operator, note=arguments.note, result=result)


def _tell(arguments: argparse.Namespace, verb: str, settled: Settled | None) -> int:
    if settled is None:
        message = f'there is no effect "{plain(arguments.words[1])}"'
        raise NotFound(message)
    effect = settled.effect
    if arguments.json:
        print_json({"id": effect.id, "state": effect.state, "run": settled.run, "first": settled.first})
    elif settled.first:
        print(f"{effect.action} {effect.id}: {effect.state}. Run {settled.run} goes on.")
    if settled.first:
        return 0
    raise NotFound(which_stands(settled, verb))
