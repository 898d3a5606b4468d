"""`wakeful expectations`: what should happen by when, and how it stands."""

from __future__ import annotations

import argparse

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, add_json, add_store
from wakeful.cli.opening import chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, state, terminal
from wakeful.watch.absence import WORDS


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
    if not found:
        print("nothing is expected here. Every schedule is; more is declared by app.expect(…).")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["name"]),
            plain(one["app"]),
            plain(one["what"]),
            ago(one["met_at"], present),
            ago(one["due_at"], present),
            state(one["state"]) if one["absence"] is None else Text(WORDS[one["absence"]], style="red"),
            Text(plain(one["reason"]), style="dim"),
        ]
        for one in found
    ]
    columns = ["expectation", "app", "what", "last met", "due", "state", "reason"]
    print_table(out, columns, rows, flexible="reason")
    return 0


expectations_command = Command(declare, execute)
