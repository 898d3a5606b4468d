"""`wakeful replay` and `wakeful dead`: what failed is done again, after a look at what that would mean.

A single run is replayed at once. Several are counted first: how many of which agent and error, and which confirmed effects
would be found instead of repeated. Then they go at a rate. Ctrl-C stops between two batches, and the same command goes on.

A delivery can be dead too. `dead` lists them, and takes the id of one; many at once are for `wakeful deliveries`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from rich.text import Text

from wakeful.errors import NotFound, did_you_mean
from wakeful.operations.pace import read_rate, shown_rate
from wakeful.operations.quarantine import dead_inputs
from wakeful.operations.redelivery import DeliveryPlan, plan_redelivery
from wakeful.operations.redo import MANY, Choice, Plan, plan_redo, redo_letters
from wakeful.readers.reader import Reader
from wakeful.resources import deliveries
from wakeful.resources.desk import looking
from wakeful.resources.run_words import show_delivery, show_letter
from wakeful.resources.runs import no_run
from wakeful.shell.arguments import APP_HELP, Command, Parser, UsageError, actor_of, add_json, add_store, read_data
from wakeful.shell.carrying import carry_out, number, refuse_many, said_stop
from wakeful.shell.opening import changing, chosen_store, read
from wakeful.shell.person import Token, needs_token
from wakeful.shell.terminal import Cell, ago, now, plain, print_json, print_table, say, short, short_delivery, terminal
from wakeful.stores.verbs.redo import Redone, RedoRun
from wakeful.surface.offers import Offer, offers_of
from wakeful.surface.performing import Asked, perform
from wakeful.surface.table import look_of, print_all
from wakeful.values import to_text

DEAD_WORDS = ("list", "show", "replay", "discard")
DEFAULT_RATE = 50.0
DASH = "-"  # in the id of a delivery, and never in that of a run


def add_choice(parser: Parser) -> None:
    """Which ones, and how."""
    parser.add_argument("--agent", metavar="NAME", help="all dead letters of this agent")
    parser.add_argument("--error", metavar="TEXT", help="all dead letters whose error contains this")
    parser.add_argument("--all", action="store_true", help="all dead letters")
    parser.add_argument("--plan", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {MANY:,}")
    parser.add_argument(
        "--rate", metavar="N/s", type=rate, default=DEFAULT_RATE, help="so many a second, or max (default 50/s)"
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.add_argument("--data", metavar="JSON", help="with one run: this instead of the event's data; JSON or @file")
    parser.add_argument("--app", metavar="APP", help=f"check against the agents of this app: {APP_HELP}")
    add_json(parser)
    add_store(parser)


def rate(text: str) -> float | None:
    try:
        return read_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def prepare(arguments: argparse.Namespace) -> None:
    """Load the app, if one is named, and choose the store."""
    if arguments.app is not None:
        from wakeful.loading import load_app

        arguments.app = load_app(arguments.app)
    arguments.url = chosen_store(arguments, arguments.app)


# replay


def declare_replay(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's id, or the beginning of it")
    parser.add_argument("--again", action="store_true", help="also a run that went well, as a new one of its family")
    parser.add_argument(
        "--events", metavar="TYPE", help="hand stored events of this type, like ticket.*, to --agent NAME"
    )
    parser.add_argument("--from", dest="since", metavar="TIME", help="with --events: accepted then or later, like 2h")
    parser.add_argument("--to", dest="until", metavar="TIME", help="with --events: accepted before then (default now)")
    parser.add_argument("--denied", action="store_true", help="with --events: also those that policy denied to it")
    add_choice(parser)


def replay(arguments: argparse.Namespace) -> int:
    prepare(arguments)
    token = None if arguments.plan else needs_token("replay", arguments.url)
    if arguments.events is not None:
        from wakeful.cli.feeding import feed

        return feed(arguments, token)
    if arguments.since is not None or arguments.until is not None:
        message = "--from and --to are for --events TYPE"
        raise UsageError(message)
    if arguments.denied:
        message = "--denied is for --events TYPE: what was denied has no run yet"
        raise UsageError(message)
    if arguments.run is not None:
        return redo_one(arguments, arguments.run, token, again=arguments.again)
    if arguments.again:
        message = "--again takes a RUN"
        raise UsageError(message)
    return redo_many(arguments, token)


replay_command = Command(declare_replay, replay, "wakeful dead list shows what there is, grouped by agent and error.")


# dead


def declare_dead(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="list (the default), show ID, replay [ID], discard [ID]: of a run or a delivery",
    )
    add_choice(parser)


def dead(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in DEAD_WORDS:
        message = f'there is no "dead {verb}".{did_you_mean(verb, DEAD_WORDS)}'
        raise UsageError(message)
    if len(rest) > 1 or (rest and verb == "list") or (verb == "show" and not rest):
        message = f"dead {verb} takes {'one ID' if verb == 'show' else 'at most one ID' if verb != 'list' else 'no ID'}"
        raise UsageError(message)
    prepare(arguments)
    if verb == "list":
        return list_dead(arguments)
    if verb == "show":
        return show_dead(arguments, rest[0])
    token = needs_token("replay", arguments.url) if verb == "replay" and not arguments.plan else None
    if rest and DASH in rest[0]:
        if arguments.data is not None:
            message = "--data is for a run: a delivery goes out as it was committed, or not at all"
            raise UsageError(message)
        return asyncio.run(perform(deliveries.RESOURCE, offer_of(verb), Asked(arguments, rest[0], {}, token=token)))
    if rest:
        refuse_done(arguments, rest[0], verb)
        return redo_one(arguments, rest[0], token, discard=verb == "discard")
    return redo_many(arguments, token, discard=verb == "discard")


dead_command = Command(declare_dead, dead, "wakeful why RUN tells how one of them came about.")


def offer_of(verb: str) -> Offer:
    """What is done to a delivery is done as `wakeful deliveries` does it."""
    return next(one for one in offers_of(deliveries.RESOURCE) if one.name == verb)


async def delivery_of(reader: Reader, identifier: str) -> deliveries.Delivery:
    desk = looking(reader)
    found = await deliveries.find(desk, identifier)
    if found is None:
        raise NotFound(await deliveries.missing(desk, identifier))
    return found


def show_dead(arguments: argparse.Namespace, identifier: str) -> int:
    out = terminal()
    if DASH in identifier:
        delivery = read(arguments.url, lambda reader: delivery_of(reader, identifier))
        print_json(delivery) if arguments.json else print_all(out, show_delivery(delivery, look_of(out)))
        return 0
    found = find(arguments, identifier)
    print_json(found) if arguments.json else print_all(out, show_letter(found, look_of(out)))
    return 0


def list_dead(arguments: argparse.Namespace) -> int:
    groups, deliveries = plan_of(arguments).groups, deliveries_of(arguments).groups
    inputs = [] if arguments.agent or arguments.error else read(arguments.url, dead_inputs)
    if arguments.json:
        print_json({"groups": [*(one.to_json() for one in groups), *(one.to_json() for one in deliveries), *inputs]})
        return 0
    if not groups and not deliveries and not inputs:
        print("no dead letters" + (" like that" if arguments.agent or arguments.error else ""))
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(group.agent),
            str(len(group.letters)),
            ago(group.letters[0]["finished_at"], present),
            short(group.letters[0]["id"], out),
            Text(plain(group.shown()), style="dim"),
        ]
        for group in groups
    ]
    if rows:
        print_table(out, ["agent", "count", "last", "newest run", "error"], rows, flexible="error")
    if rows and deliveries:
        print()
    rows = [
        [
            plain(one.channel),
            str(len(one.letters)),
            ago(one.letters[0]["finished_at"], present),
            short_delivery(one.letters[0]["id"], out),
            Text(plain(one.shown()), style="dim"),
        ]
        for one in deliveries
    ]
    if rows:
        print_table(out, ["channel", "count", "last", "newest delivery", "error"], rows, flexible="error")
    if inputs and (groups or deliveries):
        print()
    rows = [
        [
            plain(one["source"]),
            str(one["count"]),
            ago(one["last_at"], present),
            short(one["newest"], out),
            Text(plain(f"{one['quarantined']}: {one['newest_error']}"), style="dim"),
        ]
        for one in inputs
    ]
    if rows:
        print_table(out, ["source", "count", "last", "newest input", "error"], rows, flexible="error")
        print("Inputs are for `wakeful quarantine`: show ID, release APP ID, discard ID.")
    return 0


def deliveries_of(arguments: argparse.Namespace) -> DeliveryPlan:
    choice = Choice(arguments.agent, arguments.error)
    return read(arguments.url, lambda reader: plan_redelivery(reader, choice))


# one run


def find(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    run = read(arguments.url, lambda reader: reader.run(identifier))
    if run is None:
        message = no_run(identifier)
        if DASH in identifier:
            message += "; a delivery is replayed by `wakeful deliveries replay ID`"
        raise NotFound(message)
    return run


def refuse_done(arguments: argparse.Namespace, identifier: str, verb: str) -> None:
    run = find(arguments, identifier)
    if run["state"] == "done" and verb == "replay":
        message = (
            f"run {run['id']} is done, and no dead letter: `wakeful replay {run['id']} --again` does it once more, "
            "and finds its confirmed effects instead of repeating them"
        )
        raise NotFound(message)


def redo_one(
    arguments: argparse.Namespace, identifier: str, token: Token | None, *, again: bool = False, discard: bool = False
) -> int:
    run = find(arguments, identifier)
    if token is not None:
        token.opens([run["app"]])
    data = edited_data(arguments, run)
    confirmed: dict[str, int] = {}
    for effect in run["effects"]:
        if effect["state"] == "confirmed" and not effect["undoes"]:
            confirmed[effect["action"]] = confirmed.get(effect["action"], 0) + 1
    if arguments.plan:
        word = "discard" if discard else "replay"
        words = f"would {word} run {run['id']} ({run['agent']}, {run['state']})"
        if arguments.json:
            shown = {"count": 1, "confirmed_effects": sum(confirmed.values()), "confirmed_actions": confirmed}
            print_json({"plan": words, **shown})
        else:
            print(f"{words}; {said_confirmed(confirmed)} would be found and not repeated")
        return 0
    request = RedoRun(run["id"], data=data, again=again, discard=discard, by=actor_of(arguments), note=arguments.note)
    redone = asyncio.run(_redo(arguments.url, request))
    if redone is None or redone.refused is not None:
        message = f"run {run['id']} {redone.refused if redone else 'is gone'}"
        raise NotFound(message)
    if arguments.json:
        print_json({"run": redone.run, "was": redone.was, "confirmed_effects": sum(confirmed.values())})
        return 0
    found = f"; {said_confirmed(confirmed)} will not be repeated" if confirmed and not discard else ""
    print(f"run {redone.run}: {'discarded' if discard else 'ready again'}, was {redone.was}{found}")
    if data is not None and arguments.app is None:
        say(f"whether the data fits agent {run['agent']} is checked when the run starts; --app APP checks it at once")
    return 0


def edited_data(arguments: argparse.Namespace, run: dict[str, Any]) -> str | None:
    """The value of --data as it is stored. With --app it is refused here if it does not fit the agent."""
    if arguments.data is None:
        return None
    value = read_data(arguments.data)
    if (app := arguments.app) is not None:
        from wakeful.operations.declared import Declared

        declared = Declared(app)
        declared.refuse_unknown(run["agent"])
        declared.refuse_misfit(run["agent"], value)
    return to_text(value, what="--data")


async def _redo(url: str, request: RedoRun) -> Redone | None:
    async with changing(url) as store:
        return await store.do(request)


# many


def plan_of(arguments: argparse.Namespace) -> Plan:
    choice = Choice(arguments.agent, arguments.error)
    return read(arguments.url, lambda reader: plan_redo(reader, choice))


def refuse_unknown_agent(arguments: argparse.Namespace) -> None:
    agents = read(arguments.url, lambda reader: reader.known_agents())
    if arguments.agent not in agents:
        guess = did_you_mean(arguments.agent, agents)
        message = (
            f'no agent "{plain(arguments.agent)}" ever had to do with an event here.{guess} See `wakeful dead list`'
        )
        raise NotFound(message)


def redo_many(arguments: argparse.Namespace, token: Token | None, *, discard: bool = False) -> int:
    if not (arguments.agent or arguments.error or arguments.all):
        message = "which ones? Give a RUN, --agent NAME, --error TEXT or --all"
        raise UsageError(message)
    if arguments.data is not None:
        message = "--data is for one RUN: these have different payloads"
        raise UsageError(message)
    plan = plan_of(arguments)
    if arguments.agent is not None and not plan.letters:
        refuse_unknown_agent(arguments)
    if token is not None:
        token.opens_agents(arguments.url, (one["agent"] for one in plan.letters))
    others = len(deliveries_of(arguments).letters)
    words = f"{number(others, 'dead delivery')} like that: `wakeful deliveries {'discard' if discard else 'replay'} --all` is for those"
    if not plan.letters:
        message = (
            f"no dead run is like that, but {words}"
            if others
            else "no dead letter is like that: see `wakeful dead list`"
        )
        raise NotFound(message)
    if others:
        say(f"only runs; there {'is' if others == 1 else 'are'} also {words}")
    count = len(plan.letters)
    word = "discard" if discard else "replay"
    if not arguments.json:
        for group in plan.groups:
            say(f"{len(group.letters):>7,}  {plain(group.agent)}  {plain(group.signature)}")
    if arguments.plan:
        words = f"would {word} {number(count, 'dead letter')} {shown_rate(arguments.rate)}"
        if arguments.json:
            print_json({"plan": words, **plan.to_json()})
        else:
            print(f"{words}; {said_confirmed(plan.confirmed)} would be found and not repeated")
        return 0
    refuse_many(arguments, count, "dead letters")
    done, stopped = carry_out(
        arguments,
        lambda store, pace, progress: redo_letters(
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
        confirmed = sum(plan.confirmed.values())
        print_json({"redone": done, "of": count, "confirmed_effects": confirmed, "stopped": stopped})
    else:
        became = "discarded" if discard else f"{'is' if done == 1 else 'are'} ready again"
        print(f"{done:,} of {number(count, 'dead letter')} {became}")
    return said_stop(stopped=stopped)


# words


def said_confirmed(confirmed: dict[str, int]) -> str:
    """3 confirmed effects (charge 2, mail 1)."""
    which = ", ".join(f"{plain(action)} {count:,}" for action, count in confirmed.items())
    return number(sum(confirmed.values()), "confirmed effect") + (f" ({which})" if which else "")
