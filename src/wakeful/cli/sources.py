"""`wakeful sources`: what brings events in from outside, how each of them is, and who reads it.

NAME     one of them: where it stands, what it brought, its alarms
forget   one that the code does not declare any more, with its cursor and what it has seen
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.console import Console
from rich.text import Text

from wakeful.clock import SECOND, readable
from wakeful.errors import NotFound
from wakeful.model import ShownSourceState
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_store, one_of
from wakeful.shell.carrying import number
from wakeful.shell.narrow import print_fitted
from wakeful.shell.opening import changing, chosen_store, read
from wakeful.shell.terminal import Cell, ago, is_piped, now, plain, print_json, state, terminal
from wakeful.size import in_bytes
from wakeful.stores.reading import Reader
from wakeful.stores.verbs.sources import ForgetSource

FORGET = "forget"

Shown = dict[str, Any]


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="NAME", nargs="*", help="one of them, whole; or forget NAME: one that is declared no more"
    )
    known = get_args(ShownSourceState)
    parser.add_argument(
        "--state", metavar="STATE", type=one_of(known, what="state"), help=f"only those that are {', '.join(known)}"
    )
    parser.add_argument("--of", metavar="NAME", help="the app's name, where the store has several")
    parser.add_argument("--note", metavar="TEXT", help="with forget: why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    words = arguments.words
    arguments.url = chosen_store(arguments)
    if len(words) == 2 and words[0] == FORGET:
        return _forget(arguments, words[1])
    if len(words) > 1 or words == [FORGET]:
        message = "sources takes a NAME, or forget NAME, or nothing: then it lists them"
        raise UsageError(message)
    if words:
        return _show(arguments, words[0])
    return _list(arguments)


sources_command = Command(
    declare,
    execute,
    "wakeful why NAME tells the story of one of them. What could not be read is listed by wakeful quarantine.",
)


def _list(arguments: argparse.Namespace) -> int:
    listed = read(arguments.url, lambda reader: reader.sources())
    found = [one for one in listed if arguments.state in {None, one["state"]} and arguments.of in {None, one["app"]}]
    if arguments.json:
        print_json({"sources": found})
        return 0
    if not found:
        remedy = (
            "An agent that takes a trigger which is read from outside, or a webhook, makes one when its app starts."
        )
        print("no sources like that" if listed else f"no sources yet. {remedy}")
        return 0
    out, present = terminal(), now()
    columns = ["source", "kind", "state", "lag", "behind", "last event", "taken", "kept", "wakes", "note"]
    rows: list[dict[str, Cell]] = []
    for one in found:
        cells: dict[str, Cell] = {
            "source": plain(one["name"]),
            "kind": plain(one["kind"]),
            "state": state(one["state"]),
            "lag": lag(one),
            "behind": "–" if one["behind"] is None else f"{one['behind']:,}",
            "last event": ago(one["event_at"], present),
            "taken": f"{one['taken']:,}",
            "kept": f"{one['kept']:,}",
            "wakes": plain(", ".join(one["agents"]) or "–"),
            "note": Text(
                plain("; ".join(part for part in (one["reason"], one["unread"], cut(one)) if part)), style="dim"
            ),
        }
        rows.append(cells)
    less = ("wakes", "behind", "kept", "lag", "taken", "last event", "kind")
    print_fitted(out, columns, rows, note="note", less=less, flexible="source")
    return 0


def lag(one: Shown) -> str:
    return "–" if one["lag"] is None else readable(round(one["lag"] * SECOND))


def _show(arguments: argparse.Namespace, name: str) -> int:
    found = read(arguments.url, lambda reader: shown(reader, name, arguments.of))
    if arguments.json:
        print_json(found)
        return 0
    print_source(found)
    return 0


async def shown(reader: Reader, name: str, app: str | None) -> Shown:
    found = await reader.source(name, app)
    if found is None:
        raise await reader.of_sources.refusal(name, app)
    return found


def print_source(one: Shown) -> None:
    out, present = terminal(), now()
    head = Text.assemble((plain(one["name"]), "bold"), f"  {plain(one['kind'])} of app {plain(one['app'])}, ")
    out.print(head.append_text(state(one["state"])).append(f" since {ago(one['since'], present)}"))
    holder = one["holder"]
    alive = "" if holder is None or holder["alive"] else ", which is dead"
    lines = [
        ("", one["unread"]),
        ("", one["reason"]),
        ("wakes", ", ".join(one["agents"]) or None),
        ("read by", None if holder is None else f"pid {holder['pid']} on {holder['host']}{alive}"),
        ("looked", None if one["read_at"] is None else ago(one["read_at"], present)),
        ("last event", None if one["event_at"] is None else ago(one["event_at"], present)),
        ("lag", None if one["lag"] is None else lag(one)),
        ("behind", None if one["behind"] is None else f"{one['behind']:,} are known to wait"),
        ("brought", brought(one)),
        (
            "kept",
            None if not one["kept"] else f"{number(one['kept'], 'input')}: wakeful quarantine --source {one['name']}",
        ),
        ("cut", cut(one)),
        ("knows", None if not one["items"] else number(one["items"], "item")),
        ("cursor", one["cursor"]),
    ]
    for label, words in lines:
        if words is not None:
            out.print(Text(f"  {label:<10}  {plain(words)}" if label else f"  {plain(words)}"), soft_wrap=is_piped(out))
    print_alarms(out, one["alarms"])


def brought(one: Shown) -> str:
    """10 events, 2 of them again; 3 refused, 1 quarantined."""
    again = f", {one['repeated']:,} of them again" if one["repeated"] else ""
    rest = [f"{one[name]:,} {name}" for name in ("refused", "quarantined") if one[name]]
    return f"{number(one['taken'], 'event')}{again}" + (f"; {', '.join(rest)}" if rest else "")


def cut(one: Shown) -> str | None:
    """What was removed of its unverified inputs, in words; None if nothing was."""
    told = one["cut"]
    if told is None:
        return None
    return f"{number(told['count'], 'unverified input')} ({in_bytes(told['bytes'])}) removed since {told['since']}"


def print_alarms(out: Console, alarms: list[Shown]) -> None:
    for alarm in alarms:
        if alarm["state"] != "resolved":
            out.print(Text(f"  alarm       {plain(alarm['text'])}", style="red"), soft_wrap=is_piped(out))


def _forget(arguments: argparse.Namespace, name: str) -> int:
    found = read(arguments.url, lambda reader: shown(reader, name, arguments.of))

    async def forget() -> bool:
        async with changing(arguments.url) as store:
            return await store.do(ForgetSource(found["app"], name, by=actor_of(arguments), note=arguments.note))

    if not asyncio.run(forget()):
        message = f"source {name} is read by a process that is alive: remove its trigger from the code first"
        raise NotFound(message)
    if arguments.json:
        print_json({"source": name, "app": found["app"], "forgotten": True})
    else:
        print(f"source {plain(name)} of app {plain(found['app'])}: forgotten, with its cursor and what it has seen")
    return 0
