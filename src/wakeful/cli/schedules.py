"""`wakeful schedules`: what wakes when, what became of each instant, and changing it by hand.

show     one of them: its definition, the ledger of its instants, who changed it, alarms
next     its next instants, by the clock on the wall and in UTC
fire     now, beside its instants; needs the app's code
add      a new one, for an agent; edit changes only what is given; pause, resume and remove speak for themselves
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Any, get_args

from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.schedule_views import print_instants, print_schedule, print_schedules, wall
from wakeful.errors import did_you_mean
from wakeful.model import ScheduleState
from wakeful.operations.scheduling import (
    OPTIONS,
    RULES,
    app_for,
    edited,
    made,
    refuse_foreign,
    refuse_past,
    refuse_removal,
)
from wakeful.readers.reader import Reader
from wakeful.settings import default_app
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, one_of, read_data, whole_number
from wakeful.shell.opening import changing, chosen_store, read, reading, sending
from wakeful.shell.person import Token, needs_token
from wakeful.shell.terminal import ago, now, plain, print_json, say
from wakeful.triggers.schedule import CatchUp, ScheduleOverlap, as_stored
from wakeful.triggers.schedules import Schedules, refuse_name

# The verbs, and how many words follow each.
WORDS = {
    "list": (0, 0),
    "show": (1, 1),
    "next": (1, 1),
    "fire": (1, 2),
    "add": (2, 2),
    "edit": (1, 1),
    "pause": (1, 1),
    "resume": (1, 1),
    "remove": (1, 1),
}
TAKES = (
    "schedules takes list, or show, next, edit, pause, resume or remove and a NAME, add NAME AGENT, or fire NAME [APP], "
    'like: wakeful schedules add morning digest --cron "0 8 * * 1-5" --tz Europe/London'
)
NONE = "none"  # takes away what was given before
MOST_INSTANTS = 1_000
DEFINING = ("add", "edit")

Shown = dict[str, Any]


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="list (the default), show, next, edit, pause, resume or remove NAME, add NAME AGENT, fire NAME [APP]",
    )
    when = parser.add_argument_group("what add and edit take; with edit, what is not given stays as it is")
    when.add_argument(
        "--cron", metavar="FIELDS", help='the five fields of crontab, or @daily and its like: "0 8 * * 1-5"'
    )
    when.add_argument("--every", metavar="TIME", help="an interval, like 30m")
    when.add_argument("--active", metavar="HOURS", help='with --every: only in these hours, like "08:00-20:00"')
    when.add_argument("--days", metavar="DAYS", help='with --every: only on these days, like "mon-fri"')
    when.add_argument("--at", metavar="TIME", help="once, like 2026-12-24T18:00")
    when.add_argument("--tz", metavar="ZONE", help="whose clock, like Europe/London; else WAKEFUL_TIME_ZONE, else UTC")
    when.add_argument("--data", metavar="JSON", help="what its events carry: JSON, @file, or - for standard input")
    when.add_argument(
        "--overlap",
        metavar="WAY",
        type=one_of((*get_args(ScheduleOverlap), NONE), what="way"),
        help=f"while the run before is not over: {', '.join(get_args(ScheduleOverlap))}",
    )
    when.add_argument(
        "--catch-up",
        metavar="WHICH",
        type=one_of(get_args(CatchUp), what="way"),
        help=f"of what was due while nobody was there: {', '.join(get_args(CatchUp))}",
    )
    when.add_argument("--grace", metavar="TIME", help="how late the latest of them may still be done")
    when.add_argument("--max-age", metavar="TIME", help="with --catch-up all: no older than this")
    when.add_argument(
        "--max-count", metavar="N", type=_number_or_none, help="with --catch-up all: no more than so many"
    )
    when.add_argument("--jitter", metavar="TIME", help="fire up to so much later, always by the same")
    when.add_argument("--expires", metavar="TIME", help="what has not begun so long after its instant never does")
    when.add_argument("--starts-within", metavar="TIME", help="later than that, somebody hears that it has not begun")
    when.add_argument("--ends-within", metavar="TIME", help="longer than that, somebody hears that it is not over")
    parser.add_argument("--agent", metavar="NAME", help="with list: only those of this agent; with edit: for this one")
    known = get_args(ScheduleState)
    parser.add_argument(
        "--state", metavar="STATE", type=one_of(known, what="state"), help=f"with list: {', '.join(known)}"
    )
    parser.add_argument("--all", action="store_true", help="with list: reminders and removed ones too")
    parser.add_argument(
        "-n",
        "--count",
        metavar="N",
        type=whole_number(1, MOST_INSTANTS),
        default=5,
        help="with next: so many (default 5)",
    )
    parser.add_argument("--of", metavar="NAME", help="the app's name, where the store has several")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_listing(parser)
    parser.set_defaults(in_flight=None, log_level=None, log_format=None)  # as whoever loads an app expects them


def _number_or_none(text: str) -> int | str:
    return text if text == NONE else whole_number(1, 100_000)(text)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "schedules {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    least, most = WORDS[verb]
    if not least <= len(rest) <= most:
        raise UsageError(TAKES)
    given = given_options(arguments)
    if verb not in DEFINING and (given or arguments.data is not None):
        option = next(iter(given), "data")
        message = f"--{option.replace('_', '-')} is for add and edit: {verb} has no use for it"
        raise UsageError(message)
    arguments.url = chosen_store(arguments)
    verbs: dict[str, Callable[..., int]] = {"list": _list, "show": _show, "next": _next, "fire": _fire}
    if verb in verbs:
        return verbs[verb](arguments, *rest)
    token = needs_token("resume a schedule", arguments.url) if verb == "resume" else None
    return _change(arguments, verb, rest, given, token)


schedules_command = Command(
    declare,
    execute,
    'The word "none" takes an option (but --catch-up) away again: wakeful schedules edit NAME --expires none.\n'
    "wakeful why NAME tells the story of one of them.",
)


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given of a schedule; None where it is to be taken away."""
    values = {option: getattr(arguments, option, None) for option in OPTIONS}
    given = {option: value for option, value in values.items() if value is not None}
    for option in (*RULES, "tz"):
        if given.get(option) == NONE:
            message = f"--{option} none: a schedule cannot be without"
            raise UsageError(message)
    # "none" is also a way to catch up, and the default of that has a name.
    return {option: None if value == NONE and option != "catch_up" else value for option, value in given.items()}


# looking


def _list(arguments: argparse.Namespace) -> int:
    async def ask(reader: Reader) -> tuple[Shown, bool]:
        page = await paged(
            reader.schedules(
                app=arguments.of,
                agent=arguments.agent,
                state=arguments.state,
                whole=arguments.all,
                limit=arguments.limit,
                after=arguments.after,
            )
        )
        return page, bool(page["schedules"] or (await reader.schedules(limit=1))["schedules"])

    page, some = read(arguments.url, ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["schedules"]:
        remedy = 'An agent wakes by @app.agent(cron("0 8 * * *")) in its code, or by `wakeful schedules add NAME AGENT --every 30m`.'
        print("no schedules like that" if some else f"no schedules yet. {remedy}")
        return 0
    print_schedules(page["schedules"])
    say_more(page, "schedules")
    return 0


def _show(arguments: argparse.Namespace, name: str) -> int:
    found = read(arguments.url, lambda reader: shown(reader, name, arguments.of))
    if arguments.json:
        print_json(found)
    else:
        print_schedule(found)
    return 0


async def shown(reader: Reader, name: str, app: str | None) -> Shown:
    """One that there is, or was."""
    found = await reader.schedule(name, app)
    if found is None:
        await reader.of_schedules.stored(name, app)  # says so, with a guess
    return found or {}


def _next(arguments: argparse.Namespace, name: str) -> int:
    async def ask(reader: Reader) -> Shown:
        found = await reader.schedule_instants(name, arguments.of, arguments.count)
        if found is None:
            await reader.of_schedules.stored(name, arguments.of)
        return found or {}

    found = read(arguments.url, ask)
    if arguments.json:
        print_json(found)
    else:
        print_instants(found)
    return 0


# firing


def _fire(arguments: argparse.Namespace, name: str, app: str | None = None) -> int:
    from wakeful.cli.working import prepare

    arguments.app = app or default_app()
    if arguments.app is None:
        message = (
            "fire needs the app's code, which says what becomes of an event: wakeful schedules fire NAME app.py. Without APP, "
            "WAKEFUL_APP or an app.py in this folder is used"
        )
        raise UsageError(message)
    loaded = prepare(arguments)

    async def fire() -> tuple[Any, int]:
        async with sending(loaded, arguments.store) as runtime:
            await runtime.reader.of_schedules.stored(name, loaded.name)
            receipt = await runtime.schedules.fire(name, by=actor_of(arguments), note=arguments.note)
            alive = [
                one for one in await runtime.reader.processes() if one["state"] == "alive" and one["lease_left"] > 0
            ]
            return receipt, len(alive)

    receipt, workers = asyncio.run(fire())
    if arguments.json:
        print_json(
            {"app": loaded.name, "name": name, "event": receipt.id, "status": receipt.status, "runs": receipt.runs}
        )
        return 0
    run = f"run {receipt.runs[0]}" if receipt.runs else f"no run: `wakeful why {receipt.id}` tells why"
    print(f"fired {plain(name)} → {run}")
    if receipt.runs and not workers:
        say(f"no worker is alive on this store: start `wakeful serve {arguments.app}`")
    return 0


# changing


def _change(
    arguments: argparse.Namespace, verb: str, rest: list[str], given: dict[str, Any], token: Token | None
) -> int:
    name = rest[0]
    by = {"by": actor_of(arguments), "note": arguments.note}
    if verb == "add":
        return _add(arguments, name, rest[1], given, by)
    data = ... if arguments.data is None else read_data(arguments.data)

    async def carry_out() -> tuple[Shown, Shown]:
        async with reading(arguments.url) as reader, changing(arguments.url) as store:
            stored = await reader.of_schedules.stored(name, arguments.of)
            if token is not None:
                token.opens([stored.app])
            before = await shown(reader, name, stored.app)
            schedules = Schedules(stored.app, store)
            if verb == "edit":
                refuse_foreign(stored, "edit")
                wanted = edited(as_stored(stored.definition), given)
                if wanted is None and data is ... and arguments.agent is None:
                    message = f"edit {plain(name)}: nothing is given that would change; see wakeful schedules --help"
                    raise UsageError(message)
                if wanted is not None:
                    refuse_past(wanted, await reader.time())
                if arguments.agent is not None:
                    await app_for(reader, arguments.agent, stored.app)
                change = None if wanted is None else (lambda before: edited(before, given))
                await schedules.edit(name, change, agent=arguments.agent, data=data, **by)
            elif verb == "remove":
                await refuse_removal(reader, stored)
                await schedules.remove(name, **by)
            else:
                if stored.origin == "reminder":
                    refuse_foreign(stored, verb)
                await (schedules.pause if verb == "pause" else schedules.resume)(name, **by)
            return before, await shown(reader, name, stored.app)

    before, after = asyncio.run(carry_out())
    if arguments.json:
        print_json(after)
        return 0
    tell_change(verb, before, after)
    return 0


def _add(arguments: argparse.Namespace, name: str, agent: str, given: dict[str, Any], by: dict[str, Any]) -> int:
    refuse_name(name)
    schedule = made(given)
    data = read_data(arguments.data)

    async def add() -> tuple[Shown, bool]:
        async with reading(arguments.url) as reader, changing(arguments.url) as store:
            app, known = await app_for(reader, agent, arguments.of)
            refuse_past(schedule, await reader.time())
            await Schedules(app, store).add(name, schedule, agent, data=data, **by)
            return await shown(reader, name, app), known

    found, known = asyncio.run(add())
    if arguments.json:
        print_json(found)
        return 0
    print(f"schedule {plain(name)}: {plain(found['rule'])} wakes agent {plain(agent)} of app {plain(found['app'])}")
    print(coming(found))
    if not known:
        say(
            f"nobody has loaded app {plain(found['app'])} here yet: it fires once a worker runs that has agent {plain(agent)}"
        )
    return 0


def tell_change(verb: str, before: Shown, after: Shown) -> None:
    name = plain(after["name"])
    match verb:
        case "edit":
            was = "" if before["rule"] == after["rule"] else f", was {plain(before['rule'])}"
            print(f"schedule {name} (revision {after['revision']}): {plain(after['rule'])}{was}")
            print(coming(after))
        case "pause":
            print(
                f"schedule {name} is paused: what would be due is skipped. `wakeful schedules resume {name}` ends that"
            )
        case "resume":
            print(f"schedule {name} goes on")
            print(coming(after))
        case _:
            print(f"schedule {name} is removed: it fires no more, and its history stays")


def coming(found: Shown) -> str:
    """When it fires next, or why it does not."""
    if found["next"] is None:
        past = ": its time has passed" if found["state"] == "done" else ""
        return f"it does not fire any more{past}"
    return f"next: {wall(found['next'])}, {ago(found['next']['at'], now())}"
