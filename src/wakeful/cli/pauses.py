"""`wakeful pause` and `wakeful resume`: nothing more of an agent is claimed, until a person lets it go on."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from wakeful.errors import NotFound
from wakeful.operations.pausing import ALL, apps_to_change
from wakeful.rate import Rate
from wakeful.shell.arguments import Command, Parser, actor_of, add_json, add_store
from wakeful.shell.opening import changing, chosen_store, reading
from wakeful.shell.person import Token, needs_token
from wakeful.shell.terminal import Cell, ago, now, plain, print_json, print_table, terminal
from wakeful.stores.verbs.pauses import ChangePause, Paused

Shown = dict[str, Any]


def declare_pause(parser: Parser) -> None:
    parser.add_argument(
        "agent", metavar="AGENT|all", nargs="?", help="what to pause; without it, what is paused is listed"
    )
    declare(parser)


def declare_resume(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT|all", help="what goes on")
    parser.add_argument(
        "--rate",
        metavar="RATE",
        type=rate,
        help="no more than so many runs in a time, like 10/s, until what has gathered is done",
    )
    declare(parser)


def declare(parser: Parser) -> None:
    parser.add_argument("--of", metavar="NAME", help="the app's name, where the store has several")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def rate(text: str) -> str:
    try:
        Rate.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def pause(arguments: argparse.Namespace) -> int:
    url = chosen_store(arguments)
    if arguments.agent is None:
        return _list(url, arguments)
    changed, _ = asyncio.run(_change(url, arguments, paused=True))
    if arguments.json:
        print_json({"paused": [shown(app, agent, was) for app, agent, was in changed]})
        return 0
    for app, agent, was in changed:
        if was.paused:
            print(f"{named(app, agent)} was paused already")
        else:
            print(
                f"{named(app, agent)} is paused: what runs goes on to its end, nothing more is claimed. "
                f"`wakeful resume {plain(agent) or 'all'}` lets it go on"
            )
    return 0


def resume(arguments: argparse.Namespace) -> int:
    url = chosen_store(arguments)
    token = needs_token("lift a pause", url)
    changed, left = asyncio.run(_change(url, arguments, paused=False, token=token))
    if arguments.json:
        print_json({"resumed": [shown(app, agent, was) for app, agent, was in changed], "pauses": left})
        return 0
    slowly = f", at first no faster than {Rate.read(arguments.rate)}" if arguments.rate else ""
    for app, agent, _ in changed:
        print(f"{named(app, agent)} goes on{slowly}")
    for one in left:
        if one["paused"]:
            print(f"still paused: {named(one['app'], one['agent'] or ALL)}")
    return 0


pause_command = Command(declare_pause, pause, "Runs in flight finish, and messages go on being delivered.")
resume_command = Command(
    declare_resume,
    resume,
    "`resume all` lifts a `pause all`; an agent that was paused by its name stays paused until it is resumed by it.",
)


async def _change(
    url: str, arguments: argparse.Namespace, *, paused: bool, token: Token | None = None
) -> tuple[list[tuple[str, str, Paused]], list[Shown]]:
    """What was changed, with what it was before; and what is paused now."""
    agent = ALL if arguments.agent == "all" else arguments.agent
    given = None if paused else arguments.rate
    async with reading(url) as reader:
        apps = await apps_to_change(reader, agent, arguments.of)
        before = await reader.pauses()
        if not paused:
            meant, apps = apps, [app for app in apps if is_held_up(before, app, agent)]
            if not apps:
                raise NotFound(not_paused(before, meant, agent))
        if token is not None:
            token.opens(apps)
        async with changing(url) as store:
            changed = []
            for app in apps:
                request = ChangePause(app, agent, paused, rate=given, by=actor_of(arguments), note=arguments.note)
                changed.append((app, agent, await store.do(request)))
        return changed, await reader.pauses()


def is_held_up(pauses: list[Shown], app: str, agent: str) -> bool:
    return any(one["app"] == app and (one["agent"] or ALL) == agent for one in pauses)


def not_paused(pauses: list[Shown], apps: list[str], agent: str) -> str:
    if agent == ALL:
        names = ", ".join(sorted({plain(one["agent"]) for one in pauses if one["paused"] and one["agent"] is not None}))
        hint = f"; {names} by name: `wakeful resume AGENT`" if names else ""
        return f"nothing is paused as a whole{hint}"
    whole = any(one["paused"] and one["agent"] is None and one["app"] in apps for one in pauses)
    hint = ", but all of its app is: `wakeful resume all`" if whole else ""
    return f"agent {plain(agent)} is not paused{hint}"


def shown(app: str, agent: str, was: Paused) -> Shown:
    return {"app": app, "agent": agent or None, "was_paused": was.paused}


def named(app: str, agent: str) -> str:
    return f"agent {plain(agent)} (app {plain(app)})" if agent else f"all of app {plain(app)}"


def _list(url: str, arguments: argparse.Namespace) -> int:
    async def ask() -> list[Shown]:
        async with reading(url) as reader:
            return [one for one in await reader.pauses() if arguments.of in {None, one["app"]}]

    pauses = asyncio.run(ask())
    if arguments.json:
        print_json({"pauses": pauses})
    elif not pauses:
        print("nothing is paused")
    else:
        present = now()
        rows: list[list[Cell]] = [
            [
                plain(one["app"]),
                plain(one["agent"]) if one["agent"] else "all",
                "paused" if one["paused"] else f"comes back at {plain(one['rate'])}",
                ago(one["since"], present),
                plain(one["by"]),
                plain(one["note"]) if one["note"] else "–",
            ]
            for one in pauses
        ]
        print_table(terminal(), ["app", "agent", "is", "since", "by", "note"], rows, flexible="note")
    return 0
