"""`wakeful circuits`: which dependencies are down, and a person's word that one works again."""

from __future__ import annotations

import argparse
import asyncio

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, actor_of, add_json, add_store
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.person import Token, needs_token
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, state, terminal
from wakeful.errors import NotFound, did_you_mean
from wakeful.stores.base import CHANNEL, CircuitChanged
from wakeful.stores.verbs.circuits import CloseCircuit

WORDS = ("list", "close")


def declare(parser: Parser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="list (the default), or close NAME")
    parser.add_argument(
        "--of", metavar="NAME", help="the app's name, where several apps have a dependency of that name"
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "circuits {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    if len(rest) != (1 if verb == "close" else 0):
        message = "circuits takes list, or close and a NAME, like: wakeful circuits close stripe"
        raise UsageError(message)
    if verb == "list":
        return _list(arguments)
    return _close(arguments, rest[0], needs_token("close a circuit", chosen_store(arguments)))


circuits_command = Command(
    declare, execute, 'A dependency is named by @step(dependency="…") or @action(dependency="…").'
)


def _list(arguments: argparse.Namespace) -> int:
    circuits = read(chosen_store(arguments), lambda reader: reader.circuits())
    if arguments.of is not None:
        circuits = [one for one in circuits if one["app"] == arguments.of]
    if arguments.json:
        print_json({"circuits": circuits})
        return 0
    if not circuits:
        print(
            "no dependency and no channel has failed here. A dependency is named by @step(dependency=…) or @action(dependency=…)."
        )
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["name"]),
            plain(one["app"]),
            state(one["state"]),
            str(one["failures"]),
            str(one["parked"] or one["waiting"]),
            ago(one["opened_at"] or one["changed_at"], present),
            ago(one["next_at"], present),
            Text(plain(one["error"] or ""), style="dim"),
        ]
        for one in circuits
    ]
    columns = ["circuit", "app", "state", "failures", "parked", "since", "next", "last error"]
    print_table(out, columns, rows, flexible="last error")
    return 0


def _close(arguments: argparse.Namespace, name: str, token: Token) -> int:
    circuits = read(chosen_store(arguments), lambda reader: reader.circuits())
    apps = sorted({one["app"] for one in circuits if one["name"] == name and arguments.of in {None, one["app"]}})
    if not apps:
        hint = did_you_mean(name, [one["name"] for one in circuits])
        message = f'there is no circuit "{plain(name)}" here.{hint} See `wakeful circuits`'
        raise NotFound(message)
    if len(apps) > 1:
        message = f"circuit {plain(name)} is in several apps ({', '.join(map(plain, apps))}): say which with --of NAME"
        raise UsageError(message)
    token.opens(apps)

    async def close() -> CircuitChanged | None:
        async with changing(chosen_store(arguments)) as store:
            return await store.do(CloseCircuit(apps[0], name, by=actor_of(arguments), note=arguments.note))

    closed = asyncio.run(close())
    if closed is None:  # it was forgotten since it was listed
        message = f'there is no circuit "{plain(name)}" here. See `wakeful circuits`'
        raise NotFound(message)
    circuit = closed.circuit
    if arguments.json:
        print_json({"app": apps[0], "name": name, "state": circuit.state})
    elif circuit.state == "recovering":
        print(f"circuit {plain(name)} (app {plain(apps[0])}) recovers: its parked runs come back a few at a time")
    elif name.startswith(CHANNEL):
        print(f"circuit {plain(name)} (app {plain(apps[0])}) is closed: its first message is tried now")
    else:
        print(f"circuit {plain(name)} (app {plain(apps[0])}) is closed: nobody is parked for it")
    return 0
