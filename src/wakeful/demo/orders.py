"""What the director tells the other processes: how fast the demonstration goes, and when to end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

PACE = "WAKEFUL_DEMO_PACE"


def pace_for(seconds: float | None) -> float:
    """1 as it should be watched; less, so that the whole story, of 20 seconds, fits into a short time."""
    return 1.0 if seconds is None else min(1.0, max(0.3, seconds / 20))


def pace() -> float:
    """The pace that the director set."""
    return float(os.environ.get(PACE, "1"))


async def told_to_end() -> None:
    """Wait for SIGTERM, or for the end of standard input: that comes when the director is gone, however it went."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    loop.add_reader(sys.stdin, over.set)  # the director writes nothing: there is only an end to be read
    await over.wait()
    loop.remove_reader(sys.stdin)
