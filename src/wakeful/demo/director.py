"""The director: feeds events, starts the worker, kills it in mid-run, starts another, and prints the account.

A round of the story: events come in before there is a worker, and then trouble of every kind (`Feeder` has the timetable);
SIGKILL, as soon as enough runs are in the middle; a file and a webhook without a worker; the next worker, and when all runs
have ended, the work that waits for a person. Without a time limit, rounds repeat until Ctrl-C. However it ends, the worker is
stopped, the terminal is restored, and the account is printed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from rich.console import Console

from wakeful.demo.account import BROKEN, Kill, Line, print_account
from wakeful.demo.app import ACT, HOOK_SECRET, INBOX, STEPS, app
from wakeful.demo.bank import HOST, PORT
from wakeful.demo.desk import Desk
from wakeful.demo.feeder import ROUND, Feeder
from wakeful.demo.outside import COUNTER, Book, Counter
from wakeful.demo.processes import PACE, Child, Failed
from wakeful.demo.stage import Stage, clock, keys_of, recorded_of, seconds_of, subject_of
from wakeful.demo.view import LiveView, PlainView, choose_view
from wakeful.resources.words import number
from wakeful.shell.terminal import terminal
from wakeful.tokens import new_token

PAINT_EVERY = 0.125
FIRST_WORKER_AT = 0.8
KILL_AT = 7.4
CALM = 4.0
AFTER_A_KILL = 9.0  # seconds that a kill and its recovery need before the end
OVERRUN = 6.0  # a slow machine may take a little longer than the given time
TOO_SHORT_TO_KILL = 5.0
ENOUGH_RUNS = 5
WAIT_FOR_ENOUGH = 2.5
WITHOUT_WORKER = 2.2
PATIENCE = 12.0  # on a slow machine everything takes longer


def direct(seconds: float | None, *, keep: bool) -> int:
    """Set the stage, play, clear up."""
    console = terminal()
    folder = Path(tempfile.mkdtemp(prefix="wakeful-demo-"))
    try:
        logging.basicConfig(filename=folder / "director.log")  # keep the terminal free for the picture
        return asyncio.run(perform(console, folder, seconds, keep=keep))
    except Failed as failure:
        console.print(str(failure), style="bold red", soft_wrap=True)
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def perform(console: Console, folder: Path, seconds: float | None, *, keep: bool) -> int:
    """Run everything from the first event to the account."""
    store, inbox = f"sqlite:///{quote(str(folder))}/wakeful.db", folder / "inbox"
    inbox.mkdir()
    os.environ[HOOK_SECRET] = secrets.token_hex(16)  # no other program knows the secret of the webhook, or the token
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app.asgi(token=new_token())), base_url="http://localhost")
    async with app.running(worker=False, store=store) as runtime, http:
        counter, book = Counter(folder / "steps.log"), Book(folder / "bank.log")
        stage = Stage(runtime.reader, folder, store, seconds, keep, counter, book)
        os.environ |= {"WAKEFUL_STORE": store, INBOX: str(inbox), COUNTER: str(counter.path), PACE: str(stage.pace)}
        feeder = Feeder(app, inbox, http, stage)
        director = Director(stage, feeder, Desk(stage), choose_view(console))
        with director.view.screen:
            await director.run()
    return 0 if print_account(console, stage, feeder, director.kills) else 1


@dataclass(slots=True)
class Director:
    """One demonstration."""

    stage: Stage
    feeder: Feeder
    desk: Desk
    view: LiveView | PlainView
    bank: Child | None = None
    kills: list[Kill] = field(default_factory=list)
    interrupted: bool = False

    async def run(self) -> None:
        """Feed, show and play until the story ends or a signal ends it."""
        stage = self.stage
        try:
            async with asyncio.TaskGroup() as group:
                showing, feeding = group.create_task(self._show()), group.create_task(self.feeder.play())
                story = group.create_task(self._play())
                for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    asyncio.get_running_loop().add_signal_handler(one, self._interrupt, story)
                await asyncio.wait({story})
                feeding.cancel()
                if stage.worker is not None:
                    if self.interrupted:
                        stage.say("Stopping: the worker finishes what it can and releases the rest.", "bold yellow")
                    await stage.worker.end(signal.SIGTERM)
                showing.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            for child in self._children():
                await child.end()
        await stage.look()
        self.view.paint(stage, None)

    def _children(self) -> list[Child]:
        return [child for child in (self.stage.worker, self.bank) if child is not None]

    async def _show(self) -> None:
        """Read the store and redraw, in a loop. Raises Failed."""
        while True:
            for child in self._children():
                child.check()
            await self.stage.look()
            self.view.paint(self.stage, self.desk.advice())
            await asyncio.sleep(PAINT_EVERY)

    def _interrupt(self, story: asyncio.Task[None]) -> None:
        """End the story. The second time, do not even wait for the worker."""
        if self.interrupted and self.stage.worker is not None:
            with suppress(ProcessLookupError):
                self.stage.worker.process.kill()
        self.interrupted = True
        story.cancel()

    # the story

    async def _play(self) -> None:
        stage = self.stage
        stage.say("Events arrive while no worker runs yet. Accepted means on disk.")
        self.bank = await open_bank(stage.folder)
        await self._at(FIRST_WORKER_AT)
        await self._start_worker()
        stage.say(f"Worker {stage.at_work} is running: {len(STEPS)} agents, and every step is a checkpoint.")
        kill_at = KILL_AT
        while self._has_time_to_kill(kill_at):
            await self._at(kill_at)
            await self._kill_and_resume()
            await self.desk.clear()
            kill_at += ROUND
            if self._has_time_to_kill(kill_at):
                await asyncio.sleep(CALM)
                stage.say(f"All is calm. The next kill is at about {clock(kill_at)}.")
        await self.feeder.over.wait()
        stage.say("No more events: the last runs finish.")
        await stage.until(lambda: not stage.going(), at_most=stage.left + OVERRUN)
        await self.desk.clear()
        if await stage.until(lambda: not stage.open_runs(), at_most=stage.left + OVERRUN):
            stage.say("All accepted events are finished. Nothing is left to do.", "bold green")
        await asyncio.sleep(stage.left)

    def _has_time_to_kill(self, at: float) -> bool:
        """The time of the next kill. The pace makes the first one fit, unless the time is very short."""
        seconds = self.stage.seconds
        return seconds is None or (seconds >= TOO_SHORT_TO_KILL if at == KILL_AT else at + AFTER_A_KILL < seconds)

    async def _at(self, when: float) -> None:
        """Until this moment of the story."""
        await asyncio.sleep(max(0.0, when * self.stage.pace - self.stage.elapsed))

    async def _start_worker(self) -> None:
        """Start another worker and wait until it is registered in the store."""
        stage = self.stage
        stage.joined_at = None
        worker = stage.worker = await Child.start("Worker", "wakeful.demo.worker", log=stage.folder / "worker.log")
        while stage.joined_at is None:
            for one in await stage.reader.processes():
                if one["pid"] == worker.process.pid and one["state"] == "alive":
                    stage.joined_at = seconds_of(one["started_at"])
            await asyncio.sleep(PAINT_EVERY)

    async def _kill_and_resume(self) -> None:
        """SIGKILL in the middle of some runs, a moment without a worker, then another worker that takes over.

        Refunds come first: a kill would only cut off an answer that never comes anyway.
        """
        stage, half = self.stage, WITHOUT_WORKER * self.stage.pace / 2
        await stage.until(lambda: not self._acting(), at_most=PATIENCE)
        await stage.until(lambda: self._in_the_middle() >= ENOUGH_RUNS, at_most=WAIT_FOR_ENOUGH * stage.pace)
        await stage.until(lambda: self._in_the_middle() > 0, at_most=PATIENCE)
        kill = await self._kill()
        stage.say(f"kill -9: worker {kill.pid} dies in the middle of {number(len(kill.runs), 'run')}.", "bold red")
        await asyncio.sleep(half)
        kept = number(kill.kept, "finished step")
        stage.say(f"No worker. Safe on disk: {kept}. Events still arrive.", "bold yellow")
        await self.feeder.file(", and no worker reads it.")
        await self.feeder.webhook("GitHub calls about {}: stored and answered {}, without a worker.")
        await asyncio.sleep(half)
        stage.say("Another worker is started on the same file.")
        await self._start_worker()
        await self._watch(kill)

    async def _kill(self) -> Kill:
        """Send SIGKILL, and record the runs that the store still shows as running."""
        stage, worker = self.stage, self.stage.worker
        assert worker is not None, "the story kills only what it has started"  # noqa: S101
        stage.worker = None
        await worker.end()
        await stage.look()
        struck = stage.in_state("running")
        stage.kept |= {run["id"]: len(recorded_of(run)) for run in struck}
        stage.counter.bury(worker.process.pid, stage.recorded())
        kill = Kill(worker.process.pid, [run["id"] for run in struck], sum(len(keys_of(run)) for run in struck))
        self.kills.append(kill)
        return kill

    async def _watch(self, kill: Kill) -> None:
        """Wait until the next worker has resumed each run, then until all of them have ended."""
        stage, runs = self.stage, number(len(kill.runs), "run")

        def going() -> list[dict[str, Any]]:
            return [run for run in stage.going() if run["id"] in kill.runs]

        def stuck() -> int:
            return sum(not self._beginnings(run) for run in going())

        if not await stage.until(lambda: not stuck(), at_most=PATIENCE):
            words = f"{number(stuck(), 'run')} not resumed"
            kill.recovery = Line("", f"{words} by the next worker", BROKEN)
            stage.say(f"{words} within {PATIENCE:.0f} s.", "bold red")
            return
        began = [when for one in kill.runs for when in self._beginnings(stage.runs[one])]
        if began and stage.joined_at is not None:
            after, kept = max(0.0, min(began) - stage.joined_at), number(kill.kept, "finished step")
            kill.recovery = Line("", f"resumed {after * 1000:.0f} ms after the next was up, {kept} kept")
        stage.say(f"Worker {stage.at_work} took over at once: {runs} resumed at the next step.", "bold green")
        if await stage.until(lambda: not going(), at_most=PATIENCE):
            twice = len(stage.counter.repeated)
            text = f"{runs} ended. Of {number(kill.kept, 'step')} finished before the kill, {twice} ran again."
            stage.say(text, "bold red" if twice else "bold green")

    def _in_the_middle(self) -> int:
        """How many runs have a recorded step and one left to do."""
        running = self.stage.in_state("running")
        return sum(0 < len(recorded_of(run)) < len(STEPS[run["agent"]]) for run in running)

    def _acting(self) -> bool:
        """Whether an effect is neither finished nor held."""
        refunds = [run for run in self.stage.open_runs() if ACT in STEPS[run["agent"]]]
        return any(not {"confirmed", "held"} & {effect["state"] for effect in run["effects"]} for run in refunds)

    def _beginnings(self, run: dict[str, Any]) -> list[float]:
        """When the current worker began steps of a run."""
        executions = self.stage.counter.executions
        some = [one for step in STEPS[run["agent"]] for one in executions.get((step, subject_of(run)), [])]
        return [one.began_at for one in some if one.worker == self.stage.at_work]


async def open_bank(folder: Path) -> Child:
    """Start the bank on a port that is already open, so that no call comes too early."""
    with socket.create_server((HOST, 0)) as listener:
        os.environ[PORT], descriptor = str(listener.getsockname()[1]), listener.fileno()
        words, log = (str(folder / "bank.log"), str(descriptor)), folder / "bank-errors.log"
        return await Child.start("The bank", "wakeful.demo.bank", *words, log=log, pass_fds=[descriptor])
