"""`wakeful remind` makes a reminder; `wakeful reminders` lists, moves and cancels them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, get_args

from rich.text import Text

from wakeful.cli.arguments import APP_HELP, Command, Parser, UsageError, add_json, add_store, one_of, operator_of
from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.opening import changing, chosen_store, read, reading, sending
from wakeful.cli.terminal import Cell, ago, now, plain, plain_lines, print_json, print_table, say, state, terminal
from wakeful.cli.terminal import moment as moment_of
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import ReminderState
from wakeful.stores.reading import Reader
from wakeful.triggers.calendar_words import in_words
from wakeful.triggers.zones import zone_named

if TYPE_CHECKING:
    from wakeful.triggers.reminders import Reminder, Reminders

    Made = tuple[Reminder, dict[str, Any], int, bool]  # and what time it is, and whether anybody works

WORDS = {"list": 0, "show": 1, "move": 2, "cancel": 1}  # and how many words follow
TAKES = 'reminders takes list, show ID, move ID WHEN or cancel ID, like: wakeful reminders move r-7kq3xm "tomorrow 9am"'
SPOKEN = (
    'WHEN is a time in words: "in 20 minutes", "at 3pm", "tomorrow 9:30", "friday 10:00", "24 dec 18:00". What was '
    "understood is printed; what is past or can be read in two ways is refused."
)

WHOSE = "remind: whose reminder? Give --app app.py, or set WAKEFUL_APP, or go where there is an app.py"

Shown = dict[str, Any]


# making


def declare_remind(parser: Parser) -> None:
    parser.add_argument("when", metavar="WHEN", help='a time in words, like "in 20 minutes" or "tomorrow 9am"')
    parser.add_argument("text", metavar="TEXT", help="what to be reminded of")
    parser.add_argument(
        "--app",
        metavar="APP",
        help=f"{APP_HELP} (default: WAKEFUL_APP, else app.py here, else the one that the store has)",
    )
    parser.add_argument("--to", metavar="CHANNEL", help="to whom (default: the channel reminders, else log)")
    parser.add_argument(
        "--unless-event", dest="unless", metavar="TYPE", help="not if an event of this type has come by then"
    )
    parser.add_argument("--where", metavar="CEL", help="with --unless-event: and this holds of it")
    add_zone(parser)
    add_json(parser)
    add_store(parser)


def add_zone(parser: Parser) -> None:
    parser.add_argument(
        "--tz", metavar="ZONE", help="the zone of WHEN, like Europe/London (default: WAKEFUL_TIME_ZONE, else UTC)"
    )


def remind(arguments: argparse.Namespace) -> int:
    from wakeful.loading import load_app
    from wakeful.settings import default_app, sqlite_path
    from wakeful.telemetry.logs import configure_logs

    where = arguments.app or default_app()
    configure_logs(level="none")  # what matters is told by the answer

    async def with_code(place: str) -> Made:
        async with sending(load_app(place), arguments.store) as runtime:
            return await _make(arguments, runtime.reminders, runtime.reader)

    async def without_code(url: str) -> Made:
        from wakeful.triggers.reminders import Reminders

        async with reading(url) as reader, changing(url) as store:
            return await _make(arguments, Reminders(await the_app(reader), store), reader)

    url = chosen_store(arguments)
    path = sqlite_path(url)
    if where is None and path is not None and not path.exists():
        raise UsageError(WHOSE)
    made, shown, present, alive = asyncio.run(without_code(url) if where is None else with_code(where))
    if arguments.json:
        print_json(shown)
        return 0
    print(plain(made.describe(present)))
    if not alive:
        say(f"no worker is alive on this store: `wakeful serve {where or 'APP'}` tells it, late if it starts later")
    return 0


async def _make(arguments: argparse.Namespace, reminders: Reminders, reader: Reader) -> Made:
    made = await reminders.make(
        arguments.when,
        arguments.text,
        to=arguments.to,
        unless=arguments.unless,
        where=arguments.where,
        tz=arguments.tz,
        operator=operator_of(arguments),
    )
    shown = await reader.reminder(made.id)
    alive = any(one["state"] == "alive" and one["lease_left"] > 0 for one in await reader.processes())
    return made, shown or {}, await reader.time(), alive


async def the_app(reader: Reader) -> str:
    """The one app that works on this store: a reminder needs none of its code."""
    known = sorted(await reader.apps())
    if len(known) == 1:
        return known[0]
    several = f" This store has several apps: {', '.join(map(plain, known))}." if known else ""
    raise UsageError(f"{WHOSE}.{several}")


remind_command = Command(declare_remind, remind, SPOKEN)


# the others


def declare_reminders(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show ID, move ID WHEN or cancel ID"
    )
    known = get_args(ReminderState)
    parser.add_argument(
        "--state", metavar="STATE", type=one_of(known, what="state"), help=f"with list: {', '.join(known)}"
    )
    parser.add_argument("--of", metavar="NAME", help="with list: only those of the app of this name")
    parser.add_argument("--note", metavar="TEXT", help="with move and cancel: why, for the record")
    add_zone(parser)
    add_listing(parser)


def reminders(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        raise UsageError(f'there is no "reminders {plain(verb)}".{did_you_mean(verb, WORDS)}')
    if len(rest) != WORDS[verb]:
        raise UsageError(TAKES)
    url = chosen_store(arguments)
    if verb == "list":
        return _list(url, arguments)
    if verb == "show":
        return _show(url, arguments, rest[0])
    operator = operator_of(arguments)
    if verb == "move":
        return _change(
            url,
            arguments,
            rest[0],
            lambda kept, name: kept.move(name, rest[1], tz=arguments.tz, operator=operator, note=arguments.note),
        )
    return _change(
        url, arguments, rest[0], lambda kept, name: kept.cancel(name, operator=operator, note=arguments.note)
    )


reminders_command = Command(declare_reminders, reminders, SPOKEN)


def _list(url: str, arguments: argparse.Namespace) -> int:
    async def ask(reader: Reader) -> tuple[Shown, bool]:
        page = await paged(
            reader.reminders(app=arguments.of, state=arguments.state, limit=arguments.limit, after=arguments.after)
        )
        return page, bool(page["reminders"] or (await reader.reminders(limit=1))["reminders"])

    page, some = read(url, ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["reminders"]:
        print(
            "no such reminders"
            if some
            else 'no reminders yet. Make one: wakeful remind "in 20 minutes" "call the bank"'
        )
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["id"]),
            state(one["state"]),
            spoken(one).removeprefix("on "),
            ago(one["due_at"], present),
            plain(one["to"]),
            plain(one["text"]) + (f" ({plain(one['reason'])})" if one["reason"] else ""),
        ]
        for one in page["reminders"]
    ]
    print_table(out, ["reminder", "state", "due", "", "to", "text"], rows, flexible="text")
    say_more(page, "reminders")
    return 0


def _show(url: str, arguments: argparse.Namespace, identifier: str) -> int:
    async def ask(reader: Reader) -> tuple[Shown, Shown]:
        one = await the_reminder(reader, identifier)
        return one, await reader.why(one["id"]) or {"story": []}

    one, why = read(url, ask)
    if arguments.json:
        print_json(one)
        return 0
    out = terminal()
    for sentence in why["story"]:
        out.print(Text(plain_lines(sentence)))
    return 0


def _change(
    url: str, arguments: argparse.Namespace, identifier: str, change: Callable[[Reminders, str], Awaitable[Reminder]]
) -> int:
    async def do() -> tuple[Reminder, Shown, int]:
        from wakeful.triggers.reminders import Reminders

        async with reading(url) as reader:
            known = await the_reminder(reader, identifier)
            async with changing(url) as store:
                changed = await change(Reminders(known["app"], store), known["id"])
            return changed, await the_reminder(reader, known["id"]), await reader.time()

    changed, shown, present = asyncio.run(do())
    if arguments.json:
        print_json(shown)
    elif shown["state"] == "cancelled":
        print(f"reminder {changed.id} is cancelled: {plain(changed.text)}")
    else:
        print(plain(changed.describe(present)))
    return 0


async def the_reminder(reader: Reader, identifier: str) -> Shown:
    found = await reader.reminder(identifier)
    if found is None:
        known = [one["id"] for one in (await reader.reminders(limit=100))["reminders"]]
        guess = did_you_mean(identifier, known)
        guess = guess if "Did" in guess else ""
        message = f'there is no reminder "{plain(identifier)}": see `wakeful reminders`.{guess}'
        raise NotFound(message)
    return found


def spoken(one: Shown) -> str:
    return in_words(moment_of(one["due_at"]) or 0, zone_named(one["zone"], where=f"reminder {one['id']}"))
