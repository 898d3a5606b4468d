"""Carrying out a long piece of work for the person at the terminal: how far it is, and what Ctrl-C means."""

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

__all__ = ["number"]  # commands that are not made from the table take it from here

INTERRUPTED = 130


def carry_out(arguments: argparse.Namespace, work: Work) -> tuple[int, bool]:
    """Do it, with a line that says how far it is; how many were done, and whether Ctrl-C left something undone."""
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
    """One line that is written over on a terminal; nothing where nobody looks."""

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
        say("stopped; the same command goes on where it stopped")
    return INTERRUPTED if stopped else 0


def refuse_many(arguments: argparse.Namespace, count: int, what: str) -> None:
    if count > MANY and not arguments.yes:
        message = f"{count:,} {what} are more than {MANY:,}: add --yes if you mean all of them"
        raise UsageError(message)
