"""How the other processes learn that they are to end: SIGTERM, or the end of their standard input.

The second happens when the director is gone, however it went.
"""

from __future__ import annotations

import asyncio
import signal
import sys


async def told_to_end() -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    loop.add_reader(sys.stdin, over.set)  # the director writes nothing: there is only an end to be read
    await over.wait()
    loop.remove_reader(sys.stdin)
