"""The watchdog: finds runs that are alive but make no progress. Their process renews its lease, so no other part
notices.

It has its own thread and its own connection, because the event loop itself may hang in a handler that blocks it.
Progress is a step begun or finished, a log line, any other call of the run, or `run.progress()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wakeful.clock import Clock, Microseconds, readable, seconds
from wakeful.clock import to_second as time_text
from wakeful.errors import StoreUnavailable
from wakeful.execution.attempt import Attempt
from wakeful.execution.handler import Handler
from wakeful.stores.alarm import stuck_alarm
from wakeful.stores.database import Renewer
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import note_outage

LONGEST_REST = 30.0
SHORTEST_REST = 0.05
LOOK_AFTER_ONE = 1.0  # while a run is stuck: it may continue
LOOP_ANSWERS_WITHIN = 1.0
TIDY_EVERY = 600.0
FRAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Stalled:
    """A run without progress: since when, and for how long."""

    since: Microseconds
    silent_for: Microseconds


def stalled(progress_at: Microseconds, limit: Microseconds | None, now: Microseconds) -> Stalled | None:
    """Stalled if the run has made no progress for longer than it may, else None."""
    silent_for = now - progress_at
    return None if limit is None or silent_for < limit else Stalled(progress_at, silent_for)


def next_look(
    runs: Iterable[tuple[Microseconds, Microseconds | None]], limits: Iterable[Microseconds | None], now: Microseconds
) -> float:
    """Seconds until the first of these runs (last progress, limit), or one that begins now, could be stuck."""
    waits = [seconds(progress + limit - now) for progress, limit in runs if limit is not None]
    waits += [seconds(limit) for limit in limits if limit is not None]
    return min(LONGEST_REST, max(SHORTEST_REST, min(waits, default=LONGEST_REST)))


class Watchdog:
    """Watches the runs of one process."""

    def __init__(
        self,
        app: str,
        agents: Mapping[str, Handler],
        clock: Clock,
        in_flight: Callable[[], list[Attempt]],
        make_writer: Callable[[], Renewer],
    ) -> None:
        self._app = app
        self._agents = agents
        self._clock = clock
        self._in_flight = in_flight
        self._make_writer = make_writer
        self._writer: Renewer | None = None
        self._told: dict[str, Microseconds] = {}  # the alarms that were raised, and since when each run was stuck
        self._unhandled: set[str] = set()  # still to be interrupted: the loop did not answer
        self._tidied: float | None = None
        self._silent = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._log = logger_of(part="watchdog")

    # life

    def watch_loop(self) -> None:
        """Watch the runs of the current event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    async def start(self) -> None:
        self.watch_loop()
        if self._thread is None and any(one.options.stuck_after is not None for one in self._agents.values()):
            self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._keep, self._stopping),
                name="wakeful-watchdog",
                daemon=True,
            )
            self._thread.start()

    async def stop(self, *, silent: bool = False) -> None:
        """`silent`: end like a killed process. Otherwise alarms about released runs are resolved."""
        self._silent = silent
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.join)
        elif self._writer is not None:
            await asyncio.to_thread(self._end)

    def _keep(self, stopping: threading.Event) -> None:
        rest = 0.0
        try:
            while not stopping.wait(rest):
                try:
                    rest = self.look()
                except Exception as error:  # of any kind: without this thread stuck runs would go unnoticed
                    rest = LOOK_AFTER_ONE
                    if isinstance(error, StoreUnavailable):
                        note_outage(self._log, "cannot look; trying again", error)
                    else:
                        self._log.warning("cannot look; trying again", error=str(error) or type(error).__name__)
        finally:
            self._end()

    def _end(self) -> None:
        try:
            if self._told and not self._silent:
                with contextlib.suppress(StoreUnavailable):  # the next process to start resolves them
                    self._resolve(self._in_flight())
        finally:
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # looking

    def look(self) -> float:
        """Check every run once. Returns the seconds until the next look. Called in another thread than the loop's."""
        now, runs = self._clock.now(), self._in_flight()
        self._resolve(runs)
        stuck: list[tuple[Attempt, str, Stalled]] = []
        for attempt in runs:
            found = stalled(attempt.progress_at, self._agents[attempt.agent].options.stuck_after, now)
            key = stuck_alarm(self._app, attempt.agent, attempt.id)
            if found is not None and (self._told.get(key) != found.since or key in self._unhandled):
                stuck.append((attempt, key, found))
        stack = self._where_the_loop_hangs() if stuck else None  # asked once: each answer may take a while
        for attempt, key, found in stuck:
            if stack is None or self._told.get(key) != found.since:
                self._tell(attempt, key, found, stack)
        limits = [(attempt.progress_at, self._agents[attempt.agent].options.stuck_after) for attempt in runs]
        fresh = [one for one in limits if stalled(*one, now) is None]
        rest = next_look(fresh, [one.options.stuck_after for one in self._agents.values()], now)
        if self._told:
            return min(rest, LOOK_AFTER_ONE)
        self.close()  # no run may be stuck for years: keep no connection
        return rest

    def _tell(self, attempt: Attempt, key: str, found: Stalled, stack: str | None) -> None:
        """1. Raise the alarm and log it. 2. Do what the agent declared, if the loop answers; otherwise as soon as it
        does.
        """
        where, handling = attempt.whereabouts, self._agents[attempt.agent].options.on_stuck
        text = (
            f"agent {attempt.agent}: run {attempt.id} is stuck: no progress since {time_text(found.since)} "
            f"({readable(found.silent_for)}), {where}"
        )
        if stack is not None:
            text += (
                f". The event loop of its process does not answer, so nothing else in that process makes progress either"
                f"{'' if handling == 'alarm' else ', and the run cannot be interrupted'}: something blocks it, see the log. "
                "Use await, or a plain def, which runs in a thread"
            )
        elif handling == "alarm":
            text += f". It is left alone; `wakeful why {attempt.id}` shows more"
        else:
            text += ". It is interrupted, and " + (
                "ends as cancelled" if handling == "cancel" else "is retried as after a failure"
            )
        owner = self._agents[attempt.agent].options.owner
        self._write("raise_alarm", key, self._app, text, attempt.agent, owner, 0, None, None, None)
        self._told[key] = found.since
        self._log.error("alarm", key=key, text=text, **({} if stack is None else {"stack": stack}))
        if handling == "alarm" or self._loop is None:
            return
        if stack is not None:
            self._unhandled.add(key)
        else:
            self._unhandled.discard(key)
            self._loop.call_soon_threadsafe(
                attempt.interrupt_stuck, found.since, f"{where}, {readable(found.silent_for)}"
            )

    def _where_the_loop_hangs(self) -> str | None:
        """None if the loop answers; otherwise the current stack of its thread."""
        if self._loop is None:
            return None
        answered = threading.Event()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed: the process is stopping
            return None
        if answered.wait(LOOP_ANSWERS_WITHIN):
            return None
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 the only way to another thread's stack
        lines = [] if frame is None else traceback.format_stack(frame)[-FRAMES_SHOWN:]
        return "".join(lines) or "?"

    def _resolve(self, runs: list[Attempt]) -> None:
        """Resolve the alarms of runs that continue or have ended, and now and then those that dead processes left
        behind.
        """
        present = {stuck_alarm(self._app, attempt.agent, attempt.id): attempt.progress_at for attempt in runs}
        for key, since in list(self._told.items()):
            if present.get(key) != since:
                self._write("resolve_alarm", key, None)
                del self._told[key]
                self._unhandled.discard(key)
        tick = self._loop.time() if self._loop is not None else 0.0
        if self._tidied is None or tick - self._tidied > TIDY_EVERY:
            self._write("resolve_stuck", self._app)
            self._tidied = tick

    def _write(self, name: str, *parameters: object) -> None:
        if self._writer is None:
            self._writer = self._make_writer()
        self._writer.write(name, *parameters)
