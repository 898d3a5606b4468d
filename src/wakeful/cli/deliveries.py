"""`wakeful deliveries`: messages on their way to channels, and those that were given up.

replay    dead ones are tried again, under the same id; by its ID also one that waits, now
discard   dead ones shall not be sent; by its ID also one that waits
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, actor_of, one_of
from wakeful.cli.carrying import carry_out, number, refuse_many, said_stop
from wakeful.cli.failures import failure_line
from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.person import Token, needs_token
from wakeful.cli.terminal import (
    Cell,
    ago,
    now,
    plain,
    print_json,
    print_table,
    say,
    short_delivery,
    state,
    terminal,
    value,
)
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import DeliveryState
from wakeful.operations.redelivery import REDOABLE, DeliveryPlan, plan_redelivery, redo_deliveries, why_not
from wakeful.operations.redo import MANY, Choice
from wakeful.stores.base import RedoDelivery
from wakeful.stores.reading import Reader

WORDS = ("list", "show", "replay", "discard")
DONE = {"replay": "tried again", "discard": "discarded"}


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show ID, replay [ID], discard [ID]"
    )
    known = sorted(get_args(DeliveryState))
    parser.add_argument("--channel", metavar="NAME", help="only those to this channel")
    parser.add_argument("--state", metavar="STATE", type=one_of(known, what="state"), help=", ".join(known))
    parser.add_argument(
        "--error", metavar="TEXT", help="with replay or discard: all dead ones whose error contains this"
    )
    parser.add_argument("--all", action="store_true", help="with replay or discard: all dead ones")
    parser.add_argument("--plan", action="store_true", help="with replay or discard: only say what would be done")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {MANY:,}")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_listing(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "deliveries {verb}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    refuse_wrong_words(arguments, verb, rest)
    arguments.url = chosen_store(arguments)
    if verb == "list":
        return _list(arguments)
    if verb == "show":
        print_json(find_delivery(arguments.url, rest[0]))
        return 0
    replays = verb == "replay" and not arguments.plan
    token = needs_token("replay a message", arguments.url) if replays else None
    if rest:
        return redo_one_delivery(arguments, rest[0], token, discard=verb == "discard")
    return _redo_many(arguments, token, discard=verb == "discard")


deliveries_command = Command(declare, execute, "wakeful why ID tells the story of one of them.")


def refuse_wrong_words(arguments: argparse.Namespace, verb: str, rest: list[str]) -> None:
    many = arguments.all or arguments.channel or arguments.error
    message = None
    if verb == "list" and rest:
        message = "deliveries list takes no ID: deliveries show ID shows one"
    elif verb == "show" and len(rest) != 1:
        message = "deliveries show takes one ID"
    elif verb in DONE and len(rest) > 1:
        message = f"deliveries {verb} takes one ID; for several there are --channel NAME, --error TEXT and --all"
    elif verb in DONE and rest and many:
        message = f"deliveries {verb} takes an ID, or --channel, --error and --all, and not both"
    elif verb in DONE and not rest and not many:
        message = "which ones? Give an ID, --channel NAME, --error TEXT or --all"
    elif verb in DONE and arguments.state not in {None, "dead"}:
        message = f"only dead deliveries can be {DONE[verb]}, and this is --state {arguments.state}"
    if message is not None:
        raise UsageError(message)


# one


def find_delivery(url: str, identifier: str) -> dict[str, Any]:
    found = read(url, lambda reader: reader.delivery(identifier))
    if found is None:
        message = f'there is no delivery "{plain(identifier)}": see `wakeful deliveries`'
        raise NotFound(message)
    return found


def redo_one_delivery(arguments: argparse.Namespace, identifier: str, token: Token | None, *, discard: bool) -> int:
    """Replay or discard a delivery that is dead, or waits."""
    delivery = find_delivery(arguments.url, identifier)
    if token is not None:
        token.opens_run(arguments.url, delivery["run"])
    what = f"delivery {delivery['id']} to channel {plain(delivery['channel'])}"
    word = "discard" if discard else "replay"
    if delivery["state"] not in REDOABLE:
        raise NotFound(why_not(delivery["id"], delivery["state"], discard=discard))
    if arguments.plan:
        words = f"would {word} {what}"
        print_json({"plan": words, "count": 1}) if arguments.json else print(words)
        return 0
    request = RedoDelivery(delivery["id"], discard=discard, waiting=True, by=actor_of(arguments), note=arguments.note)

    async def redo() -> str | None:
        async with changing(arguments.url) as store:
            return await store.do(request)

    before = asyncio.run(redo())
    if before not in REDOABLE:
        raise NotFound(why_not(delivery["id"], before or "gone", discard=discard))
    if arguments.json:
        print_json({"delivery": delivery["id"], "was": before})
    else:
        done = "discarded" if discard else "tried now" if before == "pending" else "pending again"
        print(f"{what}: {done}, was {before}")
    return 0


# many


def _redo_many(arguments: argparse.Namespace, token: Token | None, *, discard: bool) -> int:
    choice, word = Choice(error=arguments.error), "discard" if discard else "replay"
    plan = read(arguments.url, lambda reader: plan_redelivery(reader, choice, arguments.channel))
    if not plan.letters:
        message = "no dead delivery is like that: see `wakeful dead list`"
        raise NotFound(message)
    if token is not None:
        token.opens_agents(arguments.url, (one["agent"] for one in plan.letters))
    count = number(len(plan.letters), "dead delivery")
    if not arguments.json:
        say_groups(plan)
    if arguments.plan:
        words = f"would {word} {count}"
        print_json({"plan": words, **plan.to_json()}) if arguments.json else print(words)
        return 0
    refuse_many(arguments, len(plan.letters), "dead deliveries")
    arguments.rate = None
    done, stopped = carry_out(
        arguments,
        lambda store, pace, progress: redo_deliveries(
            store,
            plan.letters,
            by=actor_of(arguments),
            note=arguments.note,
            discard=discard,
            pace=pace,
            progress=progress,
        ),
    )
    if arguments.json:
        print_json({"redone": done, "of": len(plan.letters), "stopped": stopped})
    else:
        became = "discarded" if discard else f"{'is' if done == 1 else 'are'} pending again"
        print(f"{done:,} of {count} {became}")
    return said_stop(stopped=stopped)


def say_groups(plan: DeliveryPlan) -> None:
    for group in plan.groups:
        say(f"{len(group.letters):>7,}  to {plain(group.channel)}  {plain(group.signature)}")


# all


def _list(arguments: argparse.Namespace) -> int:
    async def ask(reader: Reader) -> tuple[dict[str, Any], bool]:
        page = await paged(
            reader.deliveries(
                channel=arguments.channel, state=arguments.state, limit=arguments.limit, after=arguments.after
            )
        )
        return page, bool(page["deliveries"] or (await reader.deliveries(limit=1))["deliveries"])

    page, some = read(arguments.url, ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["deliveries"]:
        print("no deliveries like that" if some else "no deliveries yet. An agent makes one with `run.send(…)`.")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            short_delivery(one["id"], out),
            plain(one["channel"]),
            plain(one["agent"]),
            state(one["state"]),
            str(one["tries"]),
            ago(one["committed_at"], present),
            Text(plain(_words(one)), style="dim"),
        ]
        for one in page["deliveries"]
    ]
    columns = ["delivery", "channel", "agent", "state", "tries", "committed", "message"]
    print_table(out, columns, rows, flexible="message")
    say_more(page, "deliveries")
    return 0


def _words(one: dict[str, Any]) -> str:
    """What is wrong with it, where something is; else what it says."""
    if one["error"] and one["state"] in {"pending", "dead"}:
        return failure_line(one["error"])
    if one["reason"] and one["state"] == "discarded":
        return str(one["reason"])
    return f"{one['subject']}: {value(one['message'])}" if one["subject"] else value(one["message"])
