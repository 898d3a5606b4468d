"""`wakeful expectations`: what should happen by when, and how it stands."""

from __future__ import annotations

import argparse

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, add_json, add_store
from wakeful.cli.opening import chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, state, terminal
from wakeful.watch.absence import WORDS

WIDE = 140


def declare(parser: Parser) -> None:
    parser.add_argument("--of", metavar="NAME", help="only those of this app")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    found = read(chosen_store(arguments), lambda reader: reader.expectations())
    found = [one for one in found if arguments.of in {None, one["app"]}]
    if arguments.json:
        print_json({"expectations": found})
        return 0
    if not found and arguments.of is not None:
        print(f"nothing is expected of app {plain(arguments.of)}")
        return 0
    if not found:
        print("nothing is expected here. Every schedule is; more is declared by app.expect(…).")
        return 0
    out, present = terminal(), now()
    columns = ["expectation", "state", "last met", "due", "what", "reason"]
    if len({one["app"] for one in found}) > 1:
        columns.insert(0, "app")
    if out.width < WIDE:
        columns.remove("reason")
    rows = []
    for one in found:
        cells: dict[str, Cell] = {
            "app": plain(one["app"]),
            "expectation": plain(one["name"]),
            "state": state(one["state"]) if one["absence"] is None else Text(WORDS[one["absence"]], style="red"),
            "last met": ago(one["met_at"], present),
            "due": ago(one["due_at"], present),
            "what": plain(one["what"]),
            "reason": Text(plain(one["reason"]), style="dim"),
        }
        rows.append([cells[column] for column in columns])
    print_table(out, columns, rows, flexible=columns[-1])
    return 0


expectations_command = Command(declare, execute, "wakeful why NAME tells the story of one of them.")
