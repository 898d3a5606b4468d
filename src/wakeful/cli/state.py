"""`wakeful state`: what an agent keeps from run to run, shown and changed by a person.

A run that has read the state and would save its own change over a person's is done again with the person's.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from rich.console import Console
from rich.text import Text

from wakeful.errors import InvalidState, NotFound, did_you_mean
from wakeful.shell.arguments import APP_HELP, Command, Parser, UsageError, actor_of, add_json, add_store, read_data
from wakeful.shell.opening import changing, chosen_store, read
from wakeful.shell.person import Token, needs_token
from wakeful.shell.terminal import (
    Cell,
    ago,
    is_piped,
    now,
    plain,
    plain_lines,
    print_json,
    print_table,
    say,
    short,
    terminal,
    value,
)
from wakeful.stores.reading import Reader
from wakeful.stores.verbs.state import ChangeState
from wakeful.values import to_text

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

WORDS = ("show", "set", "clear")
RUN_ID = re.compile(r"[0-9a-f]{26}(\.[0-9]+)?")


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="show [AGENT] (the default), set AGENT JSON, or clear AGENT"
    )
    parser.add_argument("--app", metavar="APP", help=f"check the JSON against the agent's model: {APP_HELP}")
    parser.add_argument("--of", metavar="NAME", help="the app's name, where several apps have an agent of that name")
    parser.add_argument("--key", metavar="KEY", help="what an agent with key= keeps for this key")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["show"]
    if verb not in WORDS:
        message = f'there is no "state {verb}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    takes = {"show": (0, 1), "set": (2, 2), "clear": (1, 1)}[verb]
    if not takes[0] <= len(rest) <= takes[1]:
        message = {"show": "state show takes at most one AGENT", "clear": "state clear takes an AGENT"}.get(
            verb, "state set takes an AGENT and JSON (or @file)"
        )
        raise UsageError(message)
    app: Declarations | None = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        app = load_app(arguments.app)
    if app is not None and arguments.of not in {None, app.name}:
        message = f"--of {plain(arguments.of)} is another app than {app.name}, which --app names: give one of them"
        raise UsageError(message)
    arguments.url = chosen_store(arguments, app)
    arguments.of = arguments.of if app is None else app.name
    if verb == "show":
        return _show(arguments, rest[0] if rest else None)
    token = needs_token("change a state", arguments.url)
    text = to_text(read_data(rest[1], what="state set"), what="the state") if verb == "set" else None
    if app is not None:
        _refuse_misfit(app, rest[0], text)
    return _change(arguments, rest[0], text, token)


state_command = Command(declare, execute, "An agent has a state with @app.agent(…, state=Model).")


# looking


def _show(arguments: argparse.Namespace, agent: str | None) -> int:
    states: list[dict[str, Any]] = read(arguments.url, lambda reader: reader.states(agent))
    if arguments.of is not None:
        states = [one for one in states if one["app"] == arguments.of]
    if arguments.key is not None:
        states = [one for one in states if one["key"] == arguments.key]
    if agent is not None and not states:
        names = [one["agent"] for one in read(arguments.url, lambda reader: reader.states())]
        message = f'agent "{plain(agent)}" keeps no state here.{did_you_mean(agent, names)} See `wakeful state`'
        raise NotFound(message)
    if arguments.json:
        print_json({"states": states})
    elif not states:
        print("no agent keeps a state here yet. It takes one with @app.agent(…, state=Model).")
    elif agent is not None:
        _print_whole(states)
    else:
        _print_listing(states)
    return 0


def _print_listing(states: list[dict[str, Any]]) -> None:
    out, present = terminal(), now()
    several = len({one["app"] for one in states}) > 1
    keyed = any(one["key"] for one in states)
    columns = [
        *(["app"] if several else []),
        "agent",
        *(["key"] if keyed else []),
        "version",
        "changed by",
        "changed",
        "state",
    ]
    rows: list[list[Cell]] = [
        [
            *([plain(one["app"])] if several else []),
            plain(one["agent"]),
            *([plain(one["key"])] if keyed else []),
            str(one["version"]),
            _by(one, out),
            ago(one["changed_at"], present),
            "–" if one["value"] is None else value(one["value"]),
        ]
        for one in states
    ]
    print_table(out, columns, rows, flexible="state")


def _print_whole(states: list[dict[str, Any]]) -> None:
    out, present = terminal(), now()
    for one in states:
        of = f", key {plain(one['key'])}" if one["key"] else ""
        head = f"{plain(one['agent'])} (app {plain(one['app'])}{of}), version {one['version']}"
        if one["changed_at"] is not None:
            head += f", changed by {_by(one, out)} {ago(one['changed_at'], present)}"
            head += f" ({plain(one['note'])})" if one["note"] else ""
        if one["run"] is not None:
            head += f"; run {short(one['run'], out)} has it now"
        out.print(Text(head, style="dim"), soft_wrap=is_piped(out))
        if one["value"] is None:
            print("nothing is kept: the next run begins with the defaults of the model")
        else:
            print(plain_lines(to_json(one["value"], indent=2, inf_nan_mode="strings").decode()))


def _by(one: dict[str, Any], out: Console) -> str:
    """The run that saved it, or the person who changed it."""
    who = one["changed_by"]
    if who is None:
        return "–"
    return short(who, out) if RUN_ID.fullmatch(who) else plain(who)


# changing


def _change(arguments: argparse.Namespace, agent: str, text: str | None, token: Token) -> int:
    app, has_state = read(arguments.url, lambda reader: _app_of(reader, agent, arguments))
    token.opens([app])
    if not has_state and arguments.app is None:
        say(f"no run of agent {plain(agent)} has had a state yet: --app APP checks whether it has one")

    async def change() -> int:
        async with changing(arguments.url) as store:
            key = arguments.key or ""
            return await store.do(ChangeState(app, agent, key, text, by=actor_of(arguments), note=arguments.note))

    version = asyncio.run(change())
    if arguments.json:
        print_json({"app": app, "agent": agent, "version": version})
    else:
        print(f"state of {plain(agent)} (app {plain(app)}): {'cleared' if text is None else 'set'}, version {version}")
    return 0


async def _app_of(reader: Reader, agent: str, arguments: argparse.Namespace) -> tuple[str, bool]:
    """Which app's agent is meant, the one that is named or the only one that has been seen here; and does it keep a state?"""
    keeping = {one["app"] for one in await reader.states(agent)}
    if arguments.of is not None:
        return str(arguments.of), arguments.of in keeping
    seen = keeping | set(await reader.apps_of_agent(agent))
    if len(seen) == 1:
        return next(iter(seen)), bool(keeping)
    if seen:
        names = ", ".join(map(plain, sorted(seen)))
        message = f"agent {plain(agent)} is in several apps ({names}): say which with --of NAME"
        raise UsageError(message)
    hint = did_you_mean(agent, await reader.known_agents())
    message = f'no agent "{plain(agent)}" has run here.{hint} With --app APP or --of NAME it is changed all the same'
    raise NotFound(message)


def _refuse_misfit(app: Declarations, agent: str, text: str | None) -> None:
    """A state that the next run could not read, or one of an agent that has none."""
    from wakeful.operations.declared import Declared

    try:
        Declared(app).refuse_misfit_state(agent, text)
    except InvalidState as error:
        raise UsageError(str(error)) from None
