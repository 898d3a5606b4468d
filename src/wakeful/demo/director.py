"""The director: has events fed, starts the worker, kills it in mid-run, starts another, and closes the books.

A round of the story: events come in before there is a worker, and then trouble of every kind (`Feeder` has the timetable);
SIGKILL, as soon as enough runs are in the middle; a file and a webhook without a worker; the next worker, and when all runs
have ended, what waits for a person. Without a time limit rounds follow each other until Ctrl-C. Whatever ends it, the
worker is stopped, the terminal is put back, and the books are closed.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from wakeful.demo.account import close_the_books
from wakeful.demo.app import STEPS, app
from wakeful.demo.bank import Book
from wakeful.demo.board import Board
from wakeful.demo.child import Bank, ChildDied
from wakeful.demo.command import CommandFailed
from wakeful.demo.counter import Counter
from wakeful.demo.desk import Desk
from wakeful.demo.feeder import ROUND, Feeder
from wakeful.demo.github import github_beside
from wakeful.demo.scene import clock
from wakeful.demo.stage import Stage
from wakeful.demo.summary import print_account
from wakeful.demo.takeover import Takeover
from wakeful.demo.view import choose_view

FIRST_WORKER_AT = 0.8
KILL_AT = 7.4
CALM = 4.0
AFTER_A_KILL = 9.0  # what a kill and its resume need before the end
OVERRUN = 6.0  # on a slow machine the story may take longer than was asked for, but not much
TOO_SHORT_TO_KILL = 5.0


def direct(seconds: float | None, *, keep: bool) -> int:
    """Set the stage, play, clear up."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="wakeful-demo-"))
    try:
        logging.basicConfig(filename=folder / "director.log")  # the terminal is for the picture
        return asyncio.run(perform(console, folder, seconds, keep=keep))
    except (ChildDied, CommandFailed) as failure:
        console.print(str(failure), style="bold red", markup=False, soft_wrap=True)
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def perform(console: Console, folder: Path, seconds: float | None, *, keep: bool) -> int:
    """Everything from the first event to the account."""
    store = f"sqlite:///{quote(str(folder))}/wakeful.db"
    inbox = folder / "inbox"
    inbox.mkdir()
    async with app.running(worker=False, store=store) as runtime, github_beside(app) as github:
        board, counter, book = Board(runtime.reader), Counter(folder / "steps.log"), Book(folder / "bank.log")
        stage = Stage(board, counter, book, choose_view(console), store, folder, seconds, keep)
        feeder = Feeder(app, inbox, github, partial(stage.say, minor=True))
        takeover = Takeover(stage, feeder)
        with stage.view.screen():
            await Director(stage, feeder, takeover, Desk(stage, feeder.corrections)).run()
    account = close_the_books(board, counter, book, feeder, takeover.kills)
    print_account(console, account, stage)
    return 0 if account.good else 1


@dataclass(slots=True)
class Director:
    """One demonstration."""

    stage: Stage
    feeder: Feeder
    takeover: Takeover
    desk: Desk
    interrupted: bool = False

    async def run(self) -> None:
        """Feed, show and play until the story ends or a signal ends it."""
        stage = self.stage
        stage.advice = self.desk.advice
        try:
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(stage.show())
                feeding = group.create_task(self.feeder.play(lambda: stage.elapsed, stage.seconds, stage.pace))
                story = group.create_task(self._play())
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    asyncio.get_running_loop().add_signal_handler(number, self._interrupt, story)
                await asyncio.wait({story})
                feeding.cancel()
                await self._stop_worker()
                showing.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            for child in (stage.worker, stage.bank):
                if child is not None:
                    child.kill()
                    await child.process.wait()
        await stage.look()

    def _interrupt(self, story: asyncio.Task[None]) -> None:
        """End the story. The second time, do not wait for the worker either."""
        if self.interrupted and self.stage.worker is not None:
            self.stage.worker.kill()
        self.interrupted = True
        story.cancel()

    async def _stop_worker(self) -> None:
        """Let it finish or give back what runs."""
        if self.stage.worker is not None:
            if self.interrupted:
                self.stage.say("Stopping: the worker finishes what it can and gives the rest back.", "bold yellow")
            await self.stage.worker.stop(10.0)
            self.stage.worker = None

    async def _play(self) -> None:
        stage, desk = self.stage, self.desk
        stage.say("Events come in and no worker runs yet. Accepted means: it is on disk.")
        stage.bank = await Bank.open(book=stage.book.path, log=stage.folder / "bank-errors.log")
        await self._at(FIRST_WORKER_AT)
        await self.takeover.start_worker()
        stage.say(f"Worker {stage.at_work} is at work: {len(STEPS)} agents, and every step is a checkpoint.")
        kill_at = KILL_AT
        while self._has_time_to_kill(kill_at):
            await self._at(kill_at)
            await self.takeover.kill_and_resume()
            await desk.clear()
            kill_at += ROUND
            if self._has_time_to_kill(kill_at):
                await asyncio.sleep(CALM)
                stage.say(f"All is calm. The next kill comes at about {clock(kill_at)}.")
        await self.feeder.over.wait()
        stage.say("No more events: the last runs finish.")
        await stage.until(
            lambda: all(seen.state == "held" for seen in stage.board.open_runs()), at_most=stage.left + OVERRUN
        )
        await desk.clear()
        if await stage.until(lambda: not stage.board.open_runs(), at_most=stage.left + OVERRUN):
            stage.say("Everything that was accepted has ended. Nothing is left to do.", "bold green")
        await asyncio.sleep(stage.left)

    def _has_time_to_kill(self, at: float) -> bool:
        """The first kill is made to fit, by the pace, unless the time is very short."""
        if self.stage.seconds is None:
            return True
        if at == KILL_AT:
            return self.stage.seconds >= TOO_SHORT_TO_KILL
        return at + AFTER_A_KILL < self.stage.seconds

    async def _at(self, when: float) -> None:
        """Until this moment of the story."""
        await asyncio.sleep(max(0.0, when * self.stage.pace - self.stage.elapsed))
