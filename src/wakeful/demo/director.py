"""The director: has events fed, starts the worker, kills it in mid-run, starts another, and closes the books.

The story of one round, in seconds at pace 1 (a short demonstration goes faster):

    0.0  events come in, no worker yet           2.6  data that does not fit       6.4  four payments at once
    0.2  a refund by transfer                    3.2  a refund by cheque: held     7.4  SIGKILL, as soon as enough runs are
    0.8  the first worker                        3.8  a step that can never work        in the middle; a file that nobody sees,
    1.2  a file in a folder                      4.2  a webhook, wrongly signed         a webhook that is answered; then the
    1.4  a webhook, signed                       5.0  a second delivery                 next worker
    1.6  an event that nobody handles                                                   ...and when all of them have ended,
    2.0  a refund by card                                                               what waits for a person

Without a time limit rounds follow each other until Ctrl-C. Whatever ends it, the worker is stopped, the terminal is put
back, and the books are closed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from wakeful.demo import bank, counter, pace
from wakeful.demo.app import ACT, INBOX, STEPS, app
from wakeful.demo.board import Board, Seen, moment
from wakeful.demo.book import Book
from wakeful.demo.child import Bank, Worker
from wakeful.demo.command import CommandFailed
from wakeful.demo.counter import Counter
from wakeful.demo.desk import Desk
from wakeful.demo.feeder import ROUND, Feeder
from wakeful.demo.github import GitHub, github_beside
from wakeful.demo.scene import clock
from wakeful.demo.stage import Stage
from wakeful.demo.summary import Account, Kill, close_the_books, counted_noun, print_account
from wakeful.demo.view import choose_view
from wakeful.readers.reader import Reader

KILL_AT = 7.4
ENOUGH_RUNS = 5
WAIT_FOR_ENOUGH = 2.5
WITHOUT_WORKER = 2.2
CALM = 4.0
AFTER_A_KILL = 9.0  # what a kill and its resume need before the end
OVERRUN = 12.0  # on a slow machine the story may take longer than was asked for, but not much
TOO_SHORT_TO_KILL = 5.0


class ChildDied(Exception):
    """The worker or the bank ended and nobody had killed it."""


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
    async with app.running(worker=False, store=store) as runtime, github_beside(app) as github:
        view = choose_view(console)
        board, outside = Board(runtime.reader), (Counter(folder / "steps.log"), Book(folder / "bank.log"))
        stage = Stage(board, *outside, view, folder=folder, seconds=seconds, keep=keep)
        director = Director(stage, runtime.reader, github, store, folder, seconds)
        with view:
            account = await director.run()
    print_account(console, account, director.kills, elapsed=stage.elapsed, store=store, folder=folder, keep=keep)
    return 0 if account.good and not any(kill.stuck for kill in director.kills) else 1


class Director:
    """One demonstration."""

    def __init__(
        self, stage: Stage, reader: Reader, github: GitHub, store: str, folder: Path, seconds: float | None
    ) -> None:
        self._stage = stage
        self._reader = reader
        self._store = store
        self._folder = folder
        self._seconds = seconds
        self._pace = pace.pace_for(seconds)
        self._inbox = folder / "inbox"
        self._feeder = Feeder(app, self._inbox, github, partial(stage.say, minor=True))
        self._desk = Desk(stage, self._feeder.corrections, store, self._pace)
        self._worker: Worker | None = None
        self._bank: Bank | None = None
        self._asked_to_stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self.kills: list[Kill] = []

    async def run(self) -> Account:
        """Feed, show and play until the story ends or somebody wants it to."""
        self._listen_to_signals()
        self._inbox.mkdir()
        self._stage.advice = self._desk.advice
        showing = asyncio.create_task(self._stage.show(self._check_children))
        story = asyncio.create_task(self._play())
        feeding = asyncio.create_task(self._feeder.play(lambda: self._stage.elapsed, self._seconds, self._pace))
        stop = asyncio.create_task(self._asked_to_stop.wait())
        pending: set[asyncio.Task[object]] = {showing, story, feeding, stop}
        try:
            while not story.done() and not stop.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # raises what went wrong
            await dropped(story, feeding)
            await self._stop_worker()
        finally:
            await dropped(showing, story, feeding, stop)
            for child in (self._worker, self._bank):
                if child is not None:
                    await child.kill()
        await self._stage.look()
        return close_the_books(self._stage.board, self._stage.counter, self._stage.book, self._feeder)

    def _listen_to_signals(self) -> None:
        def stop() -> None:
            (self._hurry if self._asked_to_stop.is_set() else self._asked_to_stop).set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)

    # the story

    async def _play(self) -> None:
        stage = self._stage
        stage.say("Events come in and no worker runs yet. Accepted means: it is on disk.")
        self._bank = await Bank.open(book=stage.book.path, log=self._folder / "bank-errors.log")
        await self._at(0.8)
        await self._start_worker()
        stage.say(f"Worker {stage.worker} is at work: {len(STEPS)} agents, and every step is a checkpoint.")
        number = 0
        while self._has_time_to_kill(number):
            await self._at(number * ROUND + KILL_AT)
            await self._kill_and_resume()
            await self._desk.clear()
            number += 1
            if self._has_time_to_kill(number):
                await asyncio.sleep(CALM)
                stage.say(f"All is calm. The next kill comes at about {clock(number * ROUND + KILL_AT)}.")
        await self._feeder.over.wait()
        stage.say("No more events: the last runs finish.")
        longest = max(0.0, self._left()) + OVERRUN / 2
        await stage.until(lambda: all(seen.state == "held" for seen in stage.board.open_runs()), at_most=longest)
        await self._desk.clear()
        if await stage.until(lambda: not stage.board.open_runs(), at_most=max(0.0, self._left()) + OVERRUN / 2):
            stage.say("Everything that was accepted has ended. Nothing is left to do.", "bold green")
        await asyncio.sleep(max(0.0, self._left()))

    def _has_time_to_kill(self, number: int) -> bool:
        if self._seconds is None:
            return True
        if number == 0:
            return self._seconds >= TOO_SHORT_TO_KILL
        return number * ROUND + KILL_AT + AFTER_A_KILL < self._seconds

    async def _kill_and_resume(self) -> None:
        """SIGKILL in the middle of some runs; a moment without anybody; then another worker, and what it takes over.

        Refunds come first: a kill would only cut off an answer that nobody is going to hear anyway.
        """
        await self._stage.until(lambda: not self._acting(), at_most=OVERRUN)
        await self._stage.until(lambda: self._in_the_middle() >= ENOUGH_RUNS, at_most=WAIT_FOR_ENOUGH * self._pace)
        await self._stage.until(lambda: self._in_the_middle() > 0, at_most=OVERRUN)
        kill, struck = await self._kill()
        self._stage.say(
            f"kill -9: worker {kill.pid} dies in the middle of {counted_noun(kill.runs, 'run')}.", "bold red"
        )
        await asyncio.sleep(WITHOUT_WORKER * self._pace / 2)
        self._stage.say(
            f"No worker. Safe on disk: {counted_noun(kill.kept, 'finished step')}. Events still come in.", "bold yellow"
        )
        await self._feeder.file(", and nobody looks.")
        asked, status = await self._feeder.webhook()
        self._stage.say(f"GitHub calls about {asked}: stored and answered {status}, without a worker.", minor=True)
        await asyncio.sleep(WITHOUT_WORKER * self._pace / 2)
        self._stage.say("Another worker is started on the same file.")
        await self._watch_the_takeover(kill, struck, await self._start_worker())

    async def _kill(self) -> tuple[Kill, list[Seen]]:
        """SIGKILL, and what the dead leaves behind: runs that the store still calls running."""
        child, stage = self._worker, self._stage
        assert child is not None, "the story kills only what it has started"  # noqa: S101
        self._worker = stage.worker = None
        await child.kill()
        await stage.look()
        struck = [seen for seen in stage.board.runs.values() if seen.state == "running"]
        for seen in struck:
            seen.kept = len(seen.recorded)
        stage.counter.bury(child.pid, stage.board.recorded())
        kill = Kill(child.pid, len(struck), sum(len(list(seen.keys())) for seen in struck))
        self.kills.append(kill)
        return kill, struck

    async def _watch_the_takeover(self, kill: Kill, struck: list[Seen], joined_at: float | None) -> None:
        stage = self._stage
        if not await stage.until(lambda: all(self._went_on(seen) for seen in struck), at_most=OVERRUN):
            kill.stuck = sum(not self._went_on(seen) for seen in struck)
            stage.say(f"{counted_noun(kill.stuck, 'run')} did not go on within {OVERRUN:.0f} s.", "bold red")
            return
        began = [when for seen in struck for when in self._beginnings(seen)]
        if began and joined_at is not None:
            kill.resumed_after = max(0.0, min(began) - joined_at)
        runs = counted_noun(kill.runs, "run")
        stage.say(f"Worker {stage.worker} took over at once: {runs} went on with the next step.", "bold green")
        if await stage.until(
            lambda: not any(seen.is_open and seen.state != "held" for seen in struck), at_most=OVERRUN
        ):
            steps, twice = counted_noun(kill.kept, "step"), len(stage.counter.repeated)
            style = "bold red" if twice else "bold green"
            stage.say(f"{runs} ended. Of {steps} finished before the kill, {twice} ran again.", style)

    def _in_the_middle(self) -> int:
        return sum(seen.in_the_middle for seen in self._stage.board.runs.values())

    def _acting(self) -> bool:
        """Is there anything whose effect has not come to its end, or to a person?"""
        return any(
            not any(effect.state in {"confirmed", "held"} for effect in seen.effects)
            for seen in self._stage.board.open_runs()
            if ACT in STEPS[seen.agent]
        )

    def _went_on(self, seen: Seen) -> bool:
        return not seen.is_open or seen.state == "held" or bool(self._beginnings(seen))

    def _beginnings(self, seen: Seen) -> list[float]:
        """When the worker of now began steps of a run."""
        return [
            execution.began_at
            for step in STEPS[seen.agent]
            for execution in self._stage.counter.executions.get((step, seen.subject), [])
            if execution.worker == self._stage.worker
        ]

    # the worker

    async def _start_worker(self) -> float | None:
        """Another process, found at work: since when."""
        assert self._bank is not None, "the story opens the bank first"  # noqa: S101
        variables = {
            "WAKEFUL_STORE": self._store,
            counter.VARIABLE: str(self._stage.counter.path),
            pace.VARIABLE: str(self._pace),
            bank.VARIABLE: str(self._bank.port),
            INBOX: str(self._inbox),
        }
        child = self._worker = await Worker.start("wakeful.demo.worker", log=self._folder / "worker.log", **variables)
        self._stage.starting = child.pid
        joined_at = moment(await child.joined_at(self._reader))
        self._stage.worker, self._stage.starting = child.pid, None
        return joined_at

    async def _stop_worker(self) -> None:
        """Let it finish or give back what runs; a second Ctrl-C does not wait for that."""
        child = self._worker
        if child is None:
            return
        if self._asked_to_stop.is_set():
            self._stage.say("Stopping: the worker finishes what it can and gives the rest back.", "bold yellow")
        stopping = asyncio.create_task(child.stop(10.0))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await child.kill()
        await dropped(stopping, hurry)
        self._worker = self._stage.worker = None

    def _check_children(self) -> None:
        for what, child in (("Worker", self._worker), ("The bank", self._bank)):
            if child is not None and child.died_by_itself:
                said = child.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
                ending = f"{what} {child.pid} ended with {child.ending}, and not by this demonstration."
                raise ChildDied("\n".join([f"{ending} The end of its log:", *said]))

    # time

    def _left(self) -> float:
        return math.inf if self._seconds is None else self._seconds - self._stage.elapsed

    async def _at(self, when: float) -> None:
        """Until this moment of the story."""
        await asyncio.sleep(max(0.0, when * self._pace - self._stage.elapsed))


async def dropped(*tasks: asyncio.Task[object]) -> None:
    """Cancel, and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
