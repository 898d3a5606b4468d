"""The heart of the story: a worker is killed in mid-run, and another one takes over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from wakeful.demo import bank, counter, orders
from wakeful.demo.account import Kill
from wakeful.demo.app import ACT, INBOX, STEPS
from wakeful.demo.board import Seen
from wakeful.demo.child import Child
from wakeful.demo.feeder import Feeder
from wakeful.demo.stage import Stage
from wakeful.resources.words import number

ENOUGH_RUNS = 5
WAIT_FOR_ENOUGH = 2.5
WITHOUT_WORKER = 2.2
PATIENCE = 12.0  # on a slow machine everything takes longer


@dataclass(slots=True)
class Takeover:
    """Starts workers, and kills them."""

    stage: Stage
    feeder: Feeder
    kills: list[Kill] = field(default_factory=list)

    async def start_worker(self) -> None:
        """Another process, found at work."""
        stage = self.stage
        assert stage.bank is not None, "the story opens the bank first"  # noqa: S101
        variables = {
            "WAKEFUL_STORE": stage.store,
            counter.VARIABLE: str(stage.counter.path),
            orders.PACE: str(stage.pace),
            bank.VARIABLE: str(stage.bank.port),
            INBOX: str(stage.folder / "inbox"),
        }
        stage.worker = await Child.start("wakeful.demo.worker", log=stage.folder / "worker.log", **variables)
        await stage.worker.join(stage.board.desk)

    async def kill_and_resume(self) -> None:
        """SIGKILL in the middle of some runs; a moment without a worker; then another one, and what it takes over.

        Refunds come first: a kill would only cut off an answer that never comes anyway.
        """
        stage = self.stage
        await stage.until(lambda: not self._acting(), at_most=PATIENCE)
        await stage.until(lambda: self._in_the_middle() >= ENOUGH_RUNS, at_most=WAIT_FOR_ENOUGH * stage.pace)
        await stage.until(lambda: self._in_the_middle() > 0, at_most=PATIENCE)
        kill, struck = await self._kill()
        stage.say(f"kill -9: worker {kill.pid} dies in the middle of {number(kill.runs, 'run')}.", "bold red")
        await asyncio.sleep(WITHOUT_WORKER * stage.pace / 2)
        kept = number(kill.kept, "finished step")
        stage.say(f"No worker. Safe on disk: {kept}. Events still come in.", "bold yellow")
        await self.feeder.file(", and nobody looks.")
        asked, status = await self.feeder.webhook()
        stage.say(f"GitHub calls about {asked}: stored and answered {status}, without a worker.", minor=True)
        await asyncio.sleep(WITHOUT_WORKER * stage.pace / 2)
        stage.say("Another worker is started on the same file.")
        await self.start_worker()
        await self._watch(kill, struck)

    async def _kill(self) -> tuple[Kill, list[Seen]]:
        """SIGKILL, and what the dead leaves behind: runs that the store still calls running."""
        stage, child = self.stage, self.stage.worker
        assert child is not None, "the story kills only what it has started"  # noqa: S101
        stage.worker = None
        child.kill()
        await child.process.wait()
        await stage.look()
        struck = [seen for seen in stage.board.runs.values() if seen.state == "running"]
        for seen in struck:
            seen.kept = len(seen.recorded)
        stage.counter.bury(child.pid, stage.board.recorded())
        kill = Kill(child.pid, len(struck), sum(len(seen.keys()) for seen in struck))
        self.kills.append(kill)
        return kill, struck

    async def _watch(self, kill: Kill, struck: list[Seen]) -> None:
        """Wait until the next worker goes on with each run, then until all of them have ended."""
        stage, runs = self.stage, number(kill.runs, "run")

        def stuck() -> list[Seen]:
            return [seen for seen in struck if seen.is_open and seen.state != "held" and not self._beginnings(seen)]

        if not await stage.until(lambda: not stuck(), at_most=PATIENCE):
            kill.stuck = len(stuck())
            stage.say(f"{number(kill.stuck, 'run')} did not go on within {PATIENCE:.0f} s.", "bold red")
            return
        began = [when for seen in struck for when in self._beginnings(seen)]
        if began and stage.worker is not None and stage.worker.joined_at is not None:
            kill.resumed_after = max(0.0, min(began) - stage.worker.joined_at)
        stage.say(f"Worker {stage.at_work} took over at once: {runs} went on with the next step.", "bold green")
        if await stage.until(
            lambda: not any(seen.is_open and seen.state != "held" for seen in struck), at_most=PATIENCE
        ):
            steps, twice = number(kill.kept, "step"), len(stage.counter.repeated)
            style = "bold red" if twice else "bold green"
            stage.say(f"{runs} ended. Of {steps} finished before the kill, {twice} ran again.", style)

    def _in_the_middle(self) -> int:
        return sum(seen.in_the_middle for seen in self.stage.board.runs.values())

    def _acting(self) -> bool:
        """Is there an effect that has come neither to its end nor to a person?"""
        return any(
            not any(effect.state in {"confirmed", "held"} for effect in seen.effects)
            for seen in self.stage.board.open_runs()
            if ACT in STEPS[seen.agent]
        )

    def _beginnings(self, seen: Seen) -> list[float]:
        """When the worker of now began steps of a run."""
        return [
            execution.began_at
            for step in STEPS[seen.agent]
            for execution in self.stage.counter.executions.get((step, seen.subject), [])
            if execution.worker == self.stage.at_work
        ]
