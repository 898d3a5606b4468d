"""A process that takes in the changes of a database, and may be told to die at a commit. Its runs wait: only what came in counts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

from wakeful import App, Run, postgres_changes
from wakeful.clock import duration
from wakeful.runtime import Runtime
from wakeful.stores.verbs.take_in import TakeIn
from wakeful.testing.nursery import Voice


def main(plan: dict[str, Any]) -> None:
    asyncio.run(read(plan))


async def read(plan: dict[str, Any]) -> None:
    voice = Voice(plan["case"])
    app = App("app", store=plan["store"], backlog=None)

    @app.agent(postgres_changes(plan["shop"], table="orders"))
    async def note(run: Run) -> None: ...

    runtime = Runtime(app, lease=duration("1s"), probe=dying(plan.get("die_at")))
    await runtime.open()
    await runtime.start()
    runtime.worker.claim_nothing_more()
    (reading,) = runtime.sources.readings.values()
    while reading.state != "reading":
        await asyncio.sleep(0.01)
    voice.say("reading")
    await asyncio.Event().wait()


def dying(die_at: list[Any] | None) -> Any:
    """Killed at this point of the transaction of the n-th batch."""
    if die_at is None:
        return None
    point, number = die_at
    batches = 0

    def probe(now: str, requests: Sequence[Any]) -> None:
        nonlocal batches
        if now == point and any(isinstance(one, TakeIn) and one.accept is not None for one in requests):
            batches += 1
            if batches == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return probe
