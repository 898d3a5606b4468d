"""demo: the main job, to be watched."""

from __future__ import annotations

import argparse

from wakeful.shell.arguments import Command, Parser, seconds


def some_time(text: str) -> float:
    if (value := seconds(text)) > 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a time above 0")


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--seconds", metavar="TIME", type=some_time, help="end by itself after so long (default: at Ctrl-C)"
    )
    parser.add_argument("--keep", action="store_true", help="keep its files, to look at with `wakeful runs --store`")


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.demo import main

    return main(arguments.seconds, keep=arguments.keep)


demo_command = Command(declare, execute)
