"""`wakeful heartbeat`: the checks of heartbeats, what became of each, and when it comes next; and one of them, now."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from wakeful.cli.working import prepare
from wakeful.errors import did_you_mean
from wakeful.operations.checks import find_check, list_checks
from wakeful.settings import default_app
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_logs, add_store
from wakeful.shell.opening import chosen_store, read, sending
from wakeful.shell.terminal import Cell, ago, now, plain, print_json, print_table, say, state, terminal

NONE = (
    "there are no checks here. A heartbeat is declared with app.heartbeat(…); each ## section of its file is a check once a "
    "worker has read it"
)

NARROW = 100


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="nothing (list the checks), or run [APP] CHECK (APP: default WAKEFUL_APP, else app.py here)",
    )
    parser.add_argument("--note", metavar="TEXT", help="why it is run now, for the record")
    add_json(parser)
    add_store(parser)
    add_logs(parser)
    parser.set_defaults(in_flight=None)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    match verb:
        case "list" if not rest:
            return _list(arguments)
        case "list":
            raise UsageError("heartbeat list takes nothing more")
        case "run":
            return _run(arguments, rest)
    message = f'there is no "heartbeat {plain(verb)}".{did_you_mean(verb, ("list", "run"))}'
    raise UsageError(message)


heartbeat_command = Command(
    declare, execute, "A check that is run now is not run again at its next beat, if that is within its spacing."
)


def _list(arguments: argparse.Namespace) -> int:
    checks = read(chosen_store(arguments), list_checks)
    if arguments.json:
        print_json({"checks": checks})
    elif not checks:
        print(NONE)
    else:
        _show(checks)
    return 0


def _show(checks: list[dict[str, Any]]) -> None:
    out, present = terminal(), now()
    columns = ["check", "last", "result", "failures", "next", "every", "says"]
    if len({one["app"] for one in checks}) > 1:
        columns.insert(0, "app")
    if out.width < NARROW:
        columns.remove("every")
    rows = []
    for one in checks:
        cells: dict[str, Cell] = {
            "app": plain(one["app"]),
            "check": plain(one["name"]),
            "last": ago(one["last_at"], present) if one["last_at"] else "never",
            "result": state(one["result"]) if one["result"] else "–",
            "failures": str(one["failures"]) if one["failures"] else "–",
            "next": ago(one["next_at"], present) if one["state"] == "live" else plain(one["state"]),
            "every": plain(one["every"]),
            "says": plain(_says(one)),
        }
        rows.append([cells[column] for column in columns])
    print_table(out, columns, rows, flexible="says")


def _says(check: dict[str, Any]) -> str:
    """What went wrong, or what it said last."""
    return str(check["error"] or check["text"] or "–")


def _run(arguments: argparse.Namespace, words: list[str]) -> int:
    usual = default_app()
    if len(words) == 1 and usual is not None:
        words = [usual, *words]
    if len(words) != 2:
        message = (
            "heartbeat run takes APP and CHECK, like: wakeful heartbeat run app.py heartbeat/mail. Without APP, WAKEFUL_APP or "
            "an app.py in this folder is used"
        )
        raise UsageError(message)
    arguments.app, wanted = words
    app = prepare(arguments)

    async def fire() -> tuple[dict[str, Any], bool]:
        async with sending(app, arguments.store) as runtime:
            name = find_check(await list_checks(runtime.reader), wanted, app=app.name)
            receipt = await runtime.schedules.fire(name, by=actor_of(arguments), note=arguments.note)
            working = any(one["state"] == "alive" and one["lease_left"] > 0 for one in await runtime.reader.processes())
            return {"check": name, "event": receipt.id, "run": receipt.runs[0]}, working

    fired, working = asyncio.run(fire())
    if arguments.json:
        print_json(fired)
    else:
        print(f"check {plain(fired['check'])} → run {fired['run']}")
    if not working:
        say(f"no worker is alive on this store: `wakeful once {plain(arguments.app)}` runs it here")
    return 0
