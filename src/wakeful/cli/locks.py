"""`wakeful locks`: what runs have locked now, and how many wait for it."""

from __future__ import annotations

import argparse

from wakeful.cli.arguments import Command, Parser, add_json, add_store
from wakeful.cli.opening import chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, short, terminal


def declare(parser: Parser) -> None:
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    locks = read(chosen_store(arguments), lambda reader: reader.locks())
    if arguments.json:
        print_json({"locks": locks})
        return 0
    if not locks:
        print("no run has a lock now. An agent takes one with `async with run.lock(…)`.")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["name"]),
            plain(one["app"]),
            plain(one["agent"]),
            short(one["run"], out),
            ago(one["taken_at"], present),
            str(one["token"]),
            str(one["waiting"]),
        ]
        for one in locks
    ]
    print_table(out, ["lock", "app", "agent", "run", "taken", "token", "waiting"], rows, flexible="lock")
    return 0


locks_command = Command(declare, execute, "A lock is free as soon as its run does not run any more.")
