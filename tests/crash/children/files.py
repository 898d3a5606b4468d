"""A process that reads a folder, and dies where its plan says."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

from wakeful import App, Run, files
from wakeful.clock import SECOND
from wakeful.runtime import Runtime
from wakeful.stores.verbs.take_in import TakeIn


def main(plan: dict[str, Any]) -> None:
    """`point` and `number`: where it kills itself, at which of its batches."""
    asyncio.run(work(plan))


async def work(plan: dict[str, Any]) -> None:
    left = plan.get("number", 0)

    def probe(where: str, requests: Sequence[Any]) -> None:
        nonlocal left
        if where == plan.get("point") and any(isinstance(one, TakeIn) for one in requests):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    app = App("app", store=plan["store"])

    @app.agent(files(plan["pattern"], settle="0s"))
    async def note(run: Run) -> str:
        return run.event.id

    runtime = Runtime(app, lease=SECOND, probe=probe)
    await runtime.open()
    await runtime.start()
    await asyncio.Event().wait()
