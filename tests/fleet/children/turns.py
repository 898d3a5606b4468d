"""Runs that wait many times over, of an agent that starts from the top when it meets other code: each time that one is claimed is a
chance to go over to the code of another process.
"""

from __future__ import annotations

import os
from pathlib import Path

from crash.children.workload import Counter
from wakeful import App, Run, on, step
from wakeful.testing.waiting import until

TURNS = 8
FOR_EVER = 3600.0


def loaded(version: str) -> App:
    """The app of a worker, whose surroundings name the store, the file that counts, and the gate."""
    counter, gate = Counter(Path(os.environ["FLEET_COUNTER"])), Path(os.environ["FLEET_GATE"])
    return build_turns(os.environ["WAKEFUL_STORE"], counter, gate, version)


def build_turns(url: str, counter: Counter, gate: Path, version: str) -> App:
    """The app. Every run waits in its middle until the gate is open for its event."""
    app = App("fleet", store=url)

    @app.agent(on("turns.*"), version=version, on_change="restart")
    async def turns(run: Run) -> str:
        event = run.event.id

        @step
        async def fetch() -> str:
            counter.note(event, f"fetch.{version}")
            return version

        fetched = await run.step(fetch)
        for number in range(TURNS):
            await run.sleep("20ms")
            counter.note(event, f"turn.{version}")
            if number == TURNS // 2:
                await until(lambda: gate.is_file() or (gate / event).is_file(), within=FOR_EVER)
        return f"{version}, with what {fetched} fetched"

    return app
