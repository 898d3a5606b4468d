"""Runs a long operation for the person at the terminal, with progress and Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from wakeful.operations.pace import Pace, Progress
from wakeful.operations.redo import MANY
from wakeful.resources.words import number
from wakeful.shell.arguments import UsageError
from wakeful.shell.life import Stopping, live
from wakeful.shell.opening import changing
from wakeful.shell.terminal import say

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

    Work = Callable[[DatabaseStore, Pace, Progress], Awaitable[int]]

__all__ = ["number"]  # commands outside the table of resources import it from here

INTERRUPTED = 130


def carry_out(arguments: argparse.Namespace, work: Work) -> tuple[int, bool]:
    """Do the work while showing progress. Returns the count done, and whether Ctrl-C left work undone."""
    stopped = False
    done = 0

    async def go(stopping: Stopping) -> int:
        nonlocal stopped, done
        line, pace = ProgressLine(), Pace(arguments.rate, stopping.asked)
        encryption, resealing = getattr(arguments, "encryption", None), getattr(arguments, "resealing", False)
        async with changing(arguments.url, encryption=encryption, resealing=resealing) as store:
            try:
                done = await work(store, pace, line.show)
            finally:
                line.end()
        stopped = pace.cut_short
        return 0

    live(go)
    return done, stopped


class ProgressLine:
    """A progress line that overwrites itself on a terminal; prints nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty()
        self._written = False

    def show(self, done: int, of: int) -> None:
        if self._seen:
            self._written = True
            print(f"\rwakeful: {done:,} of {of:,} ({done * 100 // max(1, of)} %)", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._written:
            self._written = False
            print(file=sys.stderr, flush=True)


def said_stop(*, stopped: bool) -> int:
    if stopped:
        say("stopped; run the same command again to continue")
    return INTERRUPTED if stopped else 0


def refuse_many(arguments: argparse.Namespace, count: int, what: str) -> None:
    if count > MANY and not arguments.yes:
        message = f"{count:,} {what} are more than {MANY:,}: add --yes to include all of them"
        raise UsageError(message)
