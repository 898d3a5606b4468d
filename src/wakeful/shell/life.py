"""The life of a long-running process: its event loop, its signals, and its end.

first SIGINT or SIGTERM    stop gracefully: claim nothing more, let running runs finish within the grace period
second                     release running runs at once, and exit
third                      exit immediately
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from wakeful.shell.terminal import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSING_TAKES_AT_MOST = 5.0


class Stopping:
    """How far the person or the supervisor has asked the process to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.signal = 0
        self._count = 0
        self._loop = asyncio.get_running_loop()

    def ask(self, signum: int = 0, _frame: FrameType | None = None) -> None:
        """Handle one more signal. Runs between two bytecodes of the main thread, so it can end even a stuck event loop."""
        self._count += 1
        self.signal = self.signal or signum
        if self._count > 2:
            os._exit(128 + signum)
        event = self.asked if self._count == 1 else self.hurry
        self._loop.call_soon_threadsafe(event.set)

    @property
    def exit_code(self) -> int:
        """0 for a graceful stop, 128 + signal for a hurried one."""
        return 128 + self.signal if self.hurry.is_set() and self.signal else 0


def live(main: Callable[[Stopping], Awaitable[int]], *, fast: bool = True) -> int:
    """Run until `main` returns, on uvloop if installed. Leftovers of a user's code cannot keep the process alive."""
    code = 1

    async def whole() -> int:
        nonlocal code
        stopping = Stopping()
        with signals_to(stopping):
            code = await main(stopping)
        return code

    factory = fast_loop() if fast else None
    # Install our handlers before the runner checks; it then leaves them alone.
    with signals_to(None):
        runner = asyncio.Runner(loop_factory=factory)
        try:
            return runner.run(whole())
        finally:
            # Closing cancels remaining tasks and waits for them and for threads; a user's may never end.
            closed = threading.Event()
            threading.Thread(target=leave_unless, args=(closed, lambda: code), daemon=True).start()
            runner.close()
            closed.set()


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def leave_unless(closed: threading.Event, code: Callable[[], int]) -> None:
    if not closed.wait(CLOSING_TAKES_AT_MOST):
        say("a task or thread of this process does not end; exiting without it")
        os._exit(code())


@contextmanager
def signals_to(stopping: Stopping | None) -> Iterator[None]:
    """Send signals to `stopping`; with None they end the process as usual, without a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handler = interrupted if stopping is None else stopping.ask
    before = {one: signal.signal(one, handler) for one in SIGNALS}
    try:
        yield
    finally:
        for one, previous in before.items():
            signal.signal(one, previous)
