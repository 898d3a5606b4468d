"""The director: feeds events, starts the worker, kills it in mid-run, starts another, and shows what becomes of it all.

The story of one round, in seconds at pace 1 (a short demonstration goes faster):

    0.0  events come in, no worker yet           2.6  data that does not fit       6.4  four payments at once
    0.8  the first worker                        3.8  a step that can never work   7.4  SIGKILL, as soon as enough runs are
    1.6  an event that nobody handles            5.0  a second delivery                 in the middle; then the next worker

Without a time limit rounds follow each other until Ctrl-C. Whatever ends it, the worker is stopped, the terminal is put
back, and the books are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import structlog
from rich.console import Console

from wakeful.demo.app import STEPS, app
from wakeful.demo.board import Board, Seen, moment
from wakeful.demo.child import Child
from wakeful.demo.counter import Counter
from wakeful.demo.feeder import Feeder
from wakeful.demo.pace import pace_for
from wakeful.demo.scene import Message, Scene, clock, reason_of, row_of
from wakeful.demo.summary import Kill, close_the_books, counted_noun, print_account
from wakeful.demo.view import View, choose_view
from wakeful.runtime import Runtime

PAINT_EVERY = 0.125
ROUND = 40.0
FEED_EVERY = 0.75
KILL_AT = 7.4
ENOUGH_RUNS = 5
WAIT_FOR_ENOUGH = 2.5
WITHOUT_WORKER = 2.2
LAST_RUNS = 5.0  # what the last runs need after the last event
AFTER_A_KILL = 9.0  # what a kill and its resume need before the end
OVERRUN = 12.0  # on a slow machine the story may take longer than was asked for, but not much
TOO_SHORT_TO_KILL = 5.0
HEADLINE_STAYS = 2.0
CALM = 4.0
REMEMBERED_ROWS = 60


class WorkerDied(Exception):
    """The worker ended and nobody had killed it."""


def direct(seconds: float | None, *, keep: bool) -> int:
    """Set the stage, play, clear up."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="wakeful-demo-"))
    try:
        with logs_into(folder / "director.log"):
            return asyncio.run(Director(console, folder, seconds, keep=keep).run())
    except WorkerDied as death:
        console.print(str(death), style="bold red", markup=False, soft_wrap=True)
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def logs_into(path: Path) -> Iterator[None]:
    """Structured logs of this process go to a file: the terminal is for the picture."""
    before = structlog.get_config()
    with path.open("a", encoding="utf-8") as file:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file), cache_logger_on_first_use=False)
        try:
            yield
        finally:
            structlog.configure(**before)


class Director:
    """One demonstration."""

    def __init__(self, console: Console, folder: Path, seconds: float | None, *, keep: bool) -> None:
        self._console = console
        self._folder = folder
        self._seconds = seconds
        self._keep = keep
        self._pace = pace_for(seconds)
        self._store = f"sqlite:///{folder}/wakeful.db"
        self._counter = Counter(folder / "steps.log")
        self._feeder = Feeder(app)
        self._messages: list[Message] = []
        self._headline = Message(0.0, "")
        self._child: Child | None = None
        self._working: int | None = None  # the worker that has joined
        self._kills: list[Kill] = []
        self._told: set[str] = set()
        self._told_retries = 0
        self._begun = time.monotonic()
        self._asked_to_stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._fed = asyncio.Event()
        self._looked = asyncio.Event()
        self._view: View = choose_view(console)
        self._runtime: Runtime
        self._board: Board

    async def run(self) -> int:
        """Everything from the first event to the account."""
        self._listen_to_signals()
        async with app.running(worker=False, store=self._store) as self._runtime:
            self._board = Board(self._runtime.reader)
            try:
                with self._view:
                    await self._perform()
            finally:
                if self._child is not None:
                    await self._child.kill()
            await self._look()
            account = close_the_books(self._board, self._counter, self._feeder)
        elapsed = self._elapsed()
        print_account(self._console, account, self._kills, elapsed=elapsed, folder=self._folder, keep=self._keep)
        return 0 if account.good else 1

    async def _perform(self) -> None:
        """Feed, paint and play until the story ends or somebody wants it to."""
        painting = asyncio.create_task(self._paint())
        story = asyncio.create_task(self._play())
        feeding = asyncio.create_task(self._feed())
        stop = asyncio.create_task(self._asked_to_stop.wait())
        pending: set[asyncio.Task[object]] = {painting, story, feeding, stop}
        try:
            while not story.done() and not stop.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # raises what went wrong
            await dropped(story, feeding)
            await self._stop_worker()
        finally:
            await dropped(painting, story, feeding, stop)

    def _listen_to_signals(self) -> None:
        def stop() -> None:
            (self._hurry if self._asked_to_stop.is_set() else self._asked_to_stop).set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)

    # the story

    async def _play(self) -> None:
        self._say("Events come in and no worker runs yet. Accepted means: it is on disk.")
        await self._at(0.8)
        await self._start_worker()
        self._say(f"Worker {self._working} is at work: {len(STEPS)} agents, and every step is a checkpoint.")
        number = 0
        while self._has_time_to_kill(number):
            await self._at(number * ROUND + KILL_AT)
            await self._kill_and_resume()
            number += 1
            if self._has_time_to_kill(number):
                await asyncio.sleep(CALM)
                self._say(f"All is calm. The next kill comes at about {clock(number * ROUND + KILL_AT)}.")
        await self._fed.wait()
        self._say("No more events: the last runs finish.")
        await self._until(lambda: not self._board.open_runs(), at_most=self._left() + OVERRUN / 2)
        if not self._board.open_runs():
            self._say("Everything that was accepted has ended. Nothing is left to do.", "bold green")
        await asyncio.sleep(max(0.0, self._left()))

    def _has_time_to_kill(self, number: int) -> bool:
        if self._seconds is None:
            return True
        if number == 0:
            return self._seconds >= TOO_SHORT_TO_KILL
        return number * ROUND + KILL_AT + AFTER_A_KILL < self._seconds

    async def _kill_and_resume(self) -> None:
        """SIGKILL in the middle of some runs; a moment without anybody; then another worker, and what it takes over."""
        await self._until(lambda: len(self._in_the_middle()) >= ENOUGH_RUNS, at_most=WAIT_FOR_ENOUGH * self._pace)
        await self._until(lambda: bool(self._in_the_middle()), at_most=OVERRUN)
        child, self._child = self._child, None
        if child is None:
            return
        self._working = None
        await child.kill()
        await self._look()
        struck = self._left_behind()
        for seen in struck:
            seen.kept = len(seen.recorded)
        kept = sum(len(list(seen.keys())) for seen in struck)
        self._counter.bury(child.pid, self._board.recorded())
        kill = Kill(child.pid, len(struck), kept)
        self._kills.append(kill)
        self._say(f"kill -9: worker {child.pid} dies in the middle of {counted_noun(len(struck), 'run')}.", "bold red")
        await asyncio.sleep(WITHOUT_WORKER * self._pace / 2)
        self._say(
            f"No worker. {counted_noun(kept, 'finished step')} are on disk, and events are still accepted.",
            "bold yellow",
        )
        await asyncio.sleep(WITHOUT_WORKER * self._pace / 2)
        self._say("Another worker is started on the same file.")
        await self._start_worker()
        joined_at = await self._joined_at()
        await self._until(lambda: self._gone_on(struck) is not None, at_most=OVERRUN)
        first = self._gone_on(struck)
        if first is not None and joined_at is not None:
            kill.resumed_after = max(0.0, first - joined_at)
        self._say(
            f"Worker {self._working} took over at once: {counted_noun(len(struck), 'run')} go on with their next step.",
            "bold green",
        )
        await self._until(lambda: not any(seen.is_open for seen in struck), at_most=OVERRUN)
        twice = len(self._counter.repeated)
        if not any(seen.is_open for seen in struck):
            self._say(
                f"All {len(struck)} ended. Of their {kept} steps finished before the kill, {twice} ran again.",
                "bold green" if not twice else "bold red",
            )

    def _in_the_middle(self) -> list[Seen]:
        return [seen for seen in self._board.runs.values() if seen.in_the_middle]

    def _left_behind(self) -> list[Seen]:
        """What a dead worker leaves behind: the store still says running."""
        return [seen for seen in self._board.runs.values() if seen.state == "running"]

    def _gone_on(self, struck: list[Seen]) -> float | None:
        """When the new worker began its first step of a run that it took over."""
        subjects = {seen.subject for seen in struck}
        began = [
            execution.began_at
            for (_, subject), executions in self._counter.executions.items()
            if subject in subjects
            for execution in executions
            if execution.worker == self._working
        ]
        return min(began, default=None)

    # the worker

    async def _start_worker(self) -> None:
        child = await Child.start(
            store=self._store,
            counter_file=self._folder / "steps.log",
            log=self._folder / "worker.log",
            speed=self._pace,
        )
        self._child = child
        await child.at_work(self._runtime.reader)
        self._working = child.pid

    async def _joined_at(self) -> float | None:
        for one in await self._runtime.reader.processes():
            if one["pid"] == self._working and one["state"] == "alive":
                return moment(one["started_at"])
        return None

    async def _stop_worker(self) -> None:
        child = self._child
        if child is None:
            return
        if self._asked_to_stop.is_set():
            self._say("Stopping: the worker finishes what it can and gives the rest back.", "bold yellow")
        stopping = asyncio.create_task(child.stop(10.0))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await child.kill()
        await dropped(stopping, hurry)
        self._child = self._working = None

    def _check_worker(self) -> None:
        if self._child is not None and self._child.died_by_itself:
            log = (self._folder / "worker.log").read_text(encoding="utf-8", errors="replace")
            raise WorkerDied("The worker ended by itself. The end of its log:\n" + "\n".join(log.splitlines()[-15:]))

    # the events

    async def _feed(self) -> None:
        """The steady mix, and what each round adds to it, until shortly before the end."""
        last = math.inf if self._seconds is None else max(1.0, self._seconds - LAST_RUNS * self._pace)
        specials = self._specials()
        next_special = next(specials)
        next_regular = 0.0
        while min(next_regular, next_special[0]) < last:
            await asyncio.sleep(max(0.0, min(next_regular, next_special[0]) - self._elapsed()))
            if next_special[0] <= next_regular:
                await next_special[1]()
                next_special = next(specials)
            else:
                await self._feeder.regular()
                next_regular += FEED_EVERY * self._pace
        self._fed.set()

    def _specials(self) -> Iterator[tuple[float, Callable[[], Awaitable[None]]]]:
        """What comes in beside the steady mix: when, and what."""
        number = 0
        while True:
            start = number * ROUND
            for at, what in (
                (1.6, self._send_unmatched),
                (2.6, self._feeder.poison),
                (3.8, self._feeder.unknown_host),
                (5.0, self._send_again),
                (6.4, self._feeder.payment),
                (6.5, self._feeder.payment),
                (6.7, self._feeder.payment),
                (6.8, self._feeder.payment),
            ):
                yield (start + at) * self._pace, what
            number += 1

    async def _send_unmatched(self) -> None:
        kind = await self._feeder.unmatched()
        self._say(f"No agent handles {kind}: it is kept and shown, not dropped.", minor=True)

    async def _send_again(self) -> None:
        payment = await self._feeder.again()
        if payment is not None:
            self._say(f"Payment {payment} was delivered a second time: still one run.", minor=True)

    # looking and showing

    async def _paint(self) -> None:
        while True:
            self._check_worker()
            await self._look()
            self._view.paint(self._scene())
            await asyncio.sleep(PAINT_EVERY)

    async def _look(self) -> None:
        """Read the store and the counter, and tell what is new in them."""
        await self._board.read()
        self._counter.read()
        self._tell_deaths()
        self._tell_retries()
        self._looked.set()
        self._looked.clear()

    def _tell_deaths(self) -> None:
        for seen in self._board.runs.values():
            if seen.state == "dead" and seen.id not in self._told:
                self._told.add(seen.id)
                self._say(f"Dead letter: {seen.agent}, {seen.subject}: {reason_of(seen)}", "red", minor=True)

    def _tell_retries(self) -> None:
        for step, subject in self._counter.retried[self._told_retries :]:
            if self._counter.retried.index((step, subject)) >= self._told_retries:  # the first of this step
                self._say(f"Step {step} failed for {subject}, which may pass: it is tried again.", "yellow", minor=True)
        self._told_retries = len(self._counter.retried)

    def _scene(self) -> Scene:
        board, counter = self._board, self._counter
        now = time.time()
        newest = list(board.runs.values())[-REMEMBERED_ROWS:]
        return Scene(
            elapsed=self._elapsed(),
            seconds=self._seconds,
            folder=self._folder,
            keep=self._keep,
            now=self._headline,
            messages=self._messages,
            worker=self._worker_in_words(),
            counts={
                "events accepted": len(board.events),
                "runs done": board.count("done"),
                "runs open": len(board.open_runs()),
                "steps finished": counter.finished,
                "retries": len(counter.retried),
                "dead letters": board.count("dead"),
                "runs resumed": sum(seen.kept is not None and seen.crashes > 0 for seen in board.runs.values()),
                "steps executed twice": len(counter.repeated),
            },
            rows=[row_of(seen, counter, self._working, now) for seen in newest],
        )

    def _worker_in_words(self) -> str:
        if self._child is None:
            return "none"
        return f"{self._child.pid} at work" if self._working is not None else f"{self._child.pid} starts"

    def _say(self, text: str, style: str = "", *, minor: bool = False) -> None:
        """Note what happened. The headline changes for what matters, and for the rest only when it has been read."""
        message = Message(self._elapsed(), text, style)
        self._messages.append(message)
        del self._messages[:-REMEMBERED_ROWS]
        if not minor or message.at - self._headline.at > HEADLINE_STAYS * self._pace:
            self._headline = message
        self._view.tell(message)

    # time

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _left(self) -> float:
        return math.inf if self._seconds is None else self._seconds - self._elapsed()

    async def _at(self, moment: float) -> None:
        """Until this moment of the story."""
        await asyncio.sleep(max(0.0, moment * self._pace - self._elapsed()))

    async def _until(self, condition: Callable[[], bool], *, at_most: float) -> None:
        """Until something is seen, but no longer than so many seconds. The painter looks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                while not condition():
                    await self._looked.wait()


async def dropped(*tasks: asyncio.Task[object]) -> None:
    """Cancel, and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
