"""`wakeful deliveries`: messages on their way to channels, and those that were given up.

replay    a dead one is tried again, under the same id
discard   a dead one shall not be sent
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, add_json, add_limit, add_store, one_of, operator_of
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, short, state, terminal, value
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import DeliveryState
from wakeful.stores.base import RecordOperation, RedoDelivery
from wakeful.stores.reading import LONGEST_PAGE, Reader

WORDS = ("list", "show", "replay", "discard")
DONE = {"replay": "is tried again", "discard": "is discarded"}


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show ID, or replay or discard an ID or --all"
    )
    known = sorted(get_args(DeliveryState))
    parser.add_argument("--channel", metavar="NAME", help="only those to this channel")
    parser.add_argument("--state", metavar="STATE", type=one_of(known, what="state"), help=", ".join(known))
    parser.add_argument("--all", action="store_true", help="with replay or discard: all dead ones")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_limit(parser)
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "deliveries {verb}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    if verb == "list" and not rest:
        return _list(arguments)
    many = verb in DONE and not rest and (arguments.all or arguments.channel)
    if len(rest) != 1 and not many:
        message = f"deliveries {verb} takes one ID" + (", --channel NAME or --all" if verb in DONE else "")
        raise UsageError(message)
    if verb == "show":
        print_json(_find(arguments, rest[0]))
        return 0
    chosen = (
        [_find(arguments, rest[0])] if rest else read(chosen_store(arguments), lambda reader: _dead(reader, arguments))
    )
    if not chosen:
        message = "no delivery is dead" + (f" on channel {plain(arguments.channel)}" if arguments.channel else "")
        raise NotFound(message)
    if rest and chosen[0]["state"] != "dead":
        message = f"delivery {chosen[0]['id']} is {chosen[0]['state']}: only a dead one can be {verb}ed"
        raise NotFound(message)
    return _redo(arguments, verb, [one["id"] for one in chosen])


deliveries_command = Command(declare, execute, "wakeful trace RUN shows what a run sent, and what became of it.")


def _find(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    found = read(chosen_store(arguments), lambda reader: reader.delivery(identifier))
    if found is None:
        message = f'there is no delivery "{plain(identifier)}": see `wakeful deliveries`'
        raise NotFound(message)
    return found


async def _dead(reader: Reader, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All dead ones, oldest first: the order in which they were sent."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page = await reader.deliveries(channel=arguments.channel, state="dead", limit=LONGEST_PAGE, after=after)
        found += page["deliveries"]
        after = page["next"]
        if after is None:
            return found[::-1]


def _redo(arguments: argparse.Namespace, verb: str, identifiers: list[str]) -> int:
    async def redo() -> int:
        operator, done = operator_of(arguments), 0
        async with changing(chosen_store(arguments)) as store:
            requests = [RedoDelivery(one, operator, arguments.note, discard=verb == "discard") for one in identifiers]
            for answer in await asyncio.gather(*map(store.redo_delivery, requests)):
                done += answer == "dead"
            target = identifiers[0] if len(identifiers) == 1 else f"{done} of {len(identifiers)}"
            await store.record_operation(RecordOperation(operator, f"deliveries {verb}", None, target, arguments.note))
        return done

    done = asyncio.run(redo())
    if arguments.json:
        print_json({"redone": done, "of": len(identifiers), "deliveries": identifiers[:20]})
    elif len(identifiers) == 1 and done:
        print(f"delivery {identifiers[0]} {DONE[verb]}")
    else:
        print(f"{done:,} of {len(identifiers):,} dead deliveries: each {DONE[verb]}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    page = read(
        chosen_store(arguments),
        lambda reader: reader.deliveries(channel=arguments.channel, state=arguments.state, limit=arguments.limit),
    )
    if arguments.json:
        print_json(page)
        return 0
    if not page["deliveries"]:
        narrowed = arguments.state or arguments.channel
        print("no deliveries like that" if narrowed else "no deliveries yet. An agent makes one with `run.send(…)`.")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["id"]),
            plain(one["channel"]),
            state(one["state"]),
            short(one["run"], out),
            ago(one["committed_at"], present),
            Text(plain(_words(one)), style="dim"),
        ]
        for one in page["deliveries"]
    ]
    print_table(out, ["delivery", "channel", "state", "run", "committed", "message"], rows, flexible="message")
    return 0


def _words(one: dict[str, Any]) -> str:
    if one["error"] and one["state"] in {"pending", "dead"}:
        return f"{one['error'].get('type')}: {one['error'].get('message')}"
    return value(one["message"])
