"""bench: run the benchmark of a checkout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wakeful.errors import NotFound, did_you_mean
from wakeful.shell.arguments import Command, Parser, UsageError, seconds


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--smoke", action="store_true", help="only check that every measurement runs; the figures mean nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="run only this measurement; repeatable"
    )
    parser.add_argument(
        "--before", metavar="FOLDER", help="another checkout for `idle` and `archive` to measure side by side"
    )
    parser.add_argument("--seconds", metavar="TIME", type=seconds, help="duration of each measurement, like 10s")
    parser.add_argument(
        "--count",
        action="store_true",
        help="count costs (statements, commits, calls, …) instead of measuring speed; exits with 1 if a number grew",
    )
    parser.add_argument("--write", action="store_true", help="with --count: record the numbers as the new baseline")
    parser.add_argument("--detail", action="store_true", help="with --count: list the most called functions")


def execute(arguments: argparse.Namespace) -> int:
    sys.path.insert(0, str(find_checkout()))
    try:
        from bench.main import COUNTED, NAMES, main
    except ImportError as error:
        message = f"the benchmark needs {error.name}: `make bench` installs it"
        raise NotFound(message) from None
    names = COUNTED if arguments.count else NAMES
    for name in arguments.only:
        if name not in names:
            message = f'bench --only: there is no measurement "{name}".{did_you_mean(name, names)}'
            raise UsageError(message)
    for name in ("write", "detail"):
        if getattr(arguments, name) and not arguments.count:
            raise UsageError(f"bench --{name} goes with --count")
    words = [f"--{name}" for name in ("smoke", "json", "count", "write", "detail") if getattr(arguments, name)]
    for name in arguments.only:
        words += ["--only", name]
    if arguments.before is not None:
        words += ["--before", arguments.before]
    if arguments.seconds is not None:
        words += ["--seconds", f"{arguments.seconds:g}"]
    code: int | None = main(words)
    return code or 0


bench_command = Command(declare, execute)


def find_checkout() -> Path:
    """The folder that contains bench/: the current folder, one of its parents, or the checkout of an editable install."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / "bench" / "main.py").is_file() and (folder / "src" / "wakeful").is_dir():
            return folder
    message = "the benchmark is not part of the package: run it in a checkout of Wakeful, with `make bench`"
    raise NotFound(message)
