"""The worker of the demonstration: a process of its own, because it is going to be killed.

It works until SIGTERM, or until its standard input ends: that happens when the director is gone, however it went.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import structlog

from wakeful.demo.app import app
from wakeful.demo.pace import pace

GRACE = 2.5


async def run() -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)

    def hear() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            over.set()

    loop.add_reader(sys.stdin.fileno(), hear)
    async with app.running(grace=GRACE * pace()):
        await over.wait()


if __name__ == "__main__":
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
            structlog.dev.ConsoleRenderer(colors=False),
        ]
    )
    asyncio.run(run())
