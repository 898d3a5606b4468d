"""`wakeful apps`: the apps that have to do with a store, and what waits in each. `wakeful apps retire NAME` closes one for good, or
until its code is started again.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.errors import did_you_mean
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_store
from wakeful.shell.opening import changing, chosen_store, read, reading
from wakeful.shell.person import needs_token
from wakeful.shell.terminal import Cell, ago, now, plain, print_json, print_table, state, terminal

if TYPE_CHECKING:
    from wakeful.operations.retiring import Retirement

NONE = "no app has worked on this store yet: `wakeful serve APP` starts one"
SHOWN_NAMES = 4


def declare(parser: Parser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="list (the default), or retire NAME")
    parser.add_argument("--plan", action="store_true", help="with retire: only say what would be closed")
    parser.add_argument("--live", action="store_true", help="with retire: although live workers serve it")
    parser.add_argument("--note", metavar="TEXT", help="with retire: why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    match verb:
        case "list" if not rest:
            return _list(arguments)
        case "retire" if len(rest) == 1:
            return _retire(arguments, rest[0])
        case "list" | "retire":
            raise UsageError("apps takes list, or retire NAME, like: wakeful apps retire shop --plan")
    raise UsageError(f'there is no "apps {plain(verb)}".{did_you_mean(verb, ("list", "retire"))}')


apps_command = Command(
    declare,
    execute,
    "retire removes the app's schedules, cancels its runs that are not over, discards its messages that wait and resolves its "
    "alarms. Nothing is deleted, dead letters stay, and what runs did is not undone. Whoever starts the app brings it back.",
)


def _list(arguments: argparse.Namespace) -> int:
    apps = read(chosen_store(arguments), lambda reader: reader.listed_apps())
    if arguments.json:
        print_json({"apps": apps})
        return 0
    if not apps:
        print(NONE)
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["app"]),
            state(one["state"]),
            str(one["workers"]),
            str(one["schedules"]),
            str(one["alarms"]),
            ", ".join(f"{count} {name}" for name, count in one["runs"].items()) or "–",
            _note(one, present),
        ]
        for one in apps
    ]
    print_table(out, ("app", "state", "workers", "schedules", "alarms", "runs", "note"), rows, flexible="note")
    return 0


def _note(one: dict[str, Any], present: int) -> str:
    gone = one["retired"]
    if gone is None:
        return plain(", ".join(one["agents"])) or "–"
    words = f": {gone['note']}" if gone["note"] else ""
    return plain(f"retired {ago(gone['at'], present)} by {gone['by']}{words}")


def _retire(arguments: argparse.Namespace, app: str) -> int:
    from wakeful.operations.retiring import plan_retirement, retire

    url = chosen_store(arguments)
    if not arguments.plan:
        needs_token("retire an app", url).opens([app])

    async def do() -> Retirement:
        async with reading(url) as reader, changing(url) as store:
            plan = await plan_retirement(reader, store, app)
            if arguments.plan:
                return plan
            by = actor_of(arguments)
            return await retire(reader, store, plan, by=by, note=arguments.note, live=arguments.live)

    done = asyncio.run(do())
    if arguments.json:
        print_json(done.to_json())
        return 0
    if arguments.plan:
        before = f"; it was retired by {done.retired['by']} already" if done.retired else ""
        print(f"would retire app {plain(app)}{before}")
    else:
        print(f"app {plain(app)} is retired")
    for line in closed(done):
        print(f"  {plain(line)}")
    if arguments.plan and done.workers and not arguments.live:
        count = "1 live worker serves it" if done.workers == 1 else f"{done.workers} live workers serve it"
        print(f"  {count}: stop that first, or say --live")
    return 0


def closed(done: Retirement) -> list[str]:
    """What is closed, a line for each kind."""
    lines = [
        ("schedules", "removed", len(done.schedules), done.schedules),
        ("expectations", "excused", len(done.expectations), done.expectations),
        ("runs", "cancelled", sum(done.runs.values()), [f"{count} {name}" for name, count in done.runs.items()]),
        ("messages", "discarded", done.messages, []),
        ("alarms", "resolved", len(done.alarms), done.alarms),
    ]
    told = [
        f"{count} {noun if count != 1 else noun[:-1]} {verb}{_named(names)}"
        for noun, verb, count, names in lines
        if count
    ]
    if done.dead:
        letters = "1 dead letter stays" if done.dead == 1 else f"{done.dead} dead letters stay"
        told.append(f"{letters}: `wakeful dead list`")
    return told or ["nothing of it waits"]


def _named(names: list[str]) -> str:
    if not names:
        return ""
    return f": {', '.join(names[:SHOWN_NAMES])}" + (
        f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    )
