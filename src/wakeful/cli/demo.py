"""demo: watch the main features at work."""

from __future__ import annotations

import argparse

from wakeful.shell.arguments import Command, Parser, seconds


def some_time(text: str) -> float:
    if (value := seconds(text)) > 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a time above 0")


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--seconds", metavar="TIME", type=some_time, help="stop after this time, like 30s (default: run until Ctrl-C)"
    )
    parser.add_argument("--keep", action="store_true", help="keep its files, to inspect with `wakeful runs --store`")


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.demo import main

    return main(arguments.seconds, keep=arguments.keep)


demo_command = Command(declare, execute)
