"""The life of a process that works: its event loop, what signals mean, and an end that comes.

first SIGINT or SIGTERM    stop gracefully: claim nothing more, let what runs finish within the time of grace
second                     give back at once what runs, and exit
third                      exit, now
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
    """What the person, or the supervisor, asked for so far."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.signal = 0
        self._count = 0
        self._loop = asyncio.get_running_loop()

    def ask(self, signum: int = 0, _frame: FrameType | None = None) -> None:
        """One more signal. Called between two bytecodes of the main thread, so even a loop that is stuck can be left."""
        self._count += 1
        self.signal = self.signal or signum
        if self._count > 2:
            os._exit(128 + signum)
        event = self.asked if self._count == 1 else self.hurry
        self._loop.call_soon_threadsafe(event.set)

    @property
    def exit_code(self) -> int:
        """0 for a graceful stop, 128 + signal for one in a hurry."""
        return 128 + self.signal if self.hurry.is_set() and self.signal else 0


def live(main: Callable[[Stopping], Awaitable[int]], *, fast: bool = True) -> int:
    """Run until `main` is over, on uvloop where there is one. Whatever a user's code left behind cannot keep us."""
    code = 1

    async def whole() -> int:
        nonlocal code
        stopping = Stopping()
        with signals_to(stopping):
            code = await main(stopping)
        return code

    factory = fast_loop() if fast else None
    # The handlers are ours before the runner looks: it then leaves them alone.
    with signals_to(None):
        runner = asyncio.Runner(loop_factory=factory)
        try:
            return runner.run(whole())
        finally:
            # Closing cancels what is left and waits for it, and for threads: both may be a user's, and never end.
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
        say("something in this process does not end; leaving it")
        os._exit(code())


@contextmanager
def signals_to(stopping: Stopping | None) -> Iterator[None]:
    """Signals go to `stopping`; None: they end the process the usual way, without a traceback."""
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
