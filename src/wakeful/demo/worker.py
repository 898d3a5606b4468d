"""The worker of the demonstration, in its own process because it will be killed."""

from __future__ import annotations

import asyncio
import sys

from wakeful.demo.app import app
from wakeful.demo.processes import pace, told_to_end
from wakeful.telemetry.logs import configure_logs


async def run() -> None:
    async with app.running(grace=2.5 * pace()):
        await told_to_end()


if __name__ == "__main__":
    configure_logs(json=False, stream=sys.stdout)
    asyncio.run(run())
