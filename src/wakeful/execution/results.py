"""The end of a run, for callers that wait for its output: `app.result`, `POST /v1/events?wait=10s`.

    wait ──► announce ──► look ──► rest ──┬─ a commit of this process ended one of the runs ─┐
                           ▲              ├─ another process says that it ended one ─────────┤
                           │              ├─ another process changed the file (SQLite) ──────┤
                           │              └─ the safety net: half a second, then longer ─────┤
                           └────────────── one query for all runs that are waited for ───────┘

On PostgreSQL a run may end in any process, and its end is not announced by default: that would cost every run a
notification. So the caller announces which runs it waits for, and the process that ends one of them answers. An
announcement that arrives just after the run has ended gets no answer: then the safety net finds the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable, seconds
from wakeful.errors import NotFound, RunFailed, StoreUnavailable, TimedOut
from wakeful.execution.surroundings import Cancellable, after_seconds
from wakeful.model import FINAL_RUN_STATES, Receipt
from wakeful.stored_errors import restore
from wakeful.stores.database import Database
from wakeful.stores.journal import Journal
from wakeful.stores.verbs.cancel import CancelRun, FinishCancelled
from wakeful.stores.verbs.commit import CloseRun, CommitRun
from wakeful.stores.verbs.progress import FinishRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.with_events import accept_of

# The safety net: the time until the first unprompted look, and the longest time between two of them.
FIRST_LOOK = 0.5
LAST_LOOK = 10.0
# How long a process remembers that another one waits for a run. Each look of the safety net announces it again.
REMEMBERED = 60.0
MOST_REMEMBERED = 20_000
RUNS_A_WORD = 200  # a PostgreSQL notification holds less than 8,000 bytes

AWAITS, ENDED = "awaits", "ended"
ENDS = frozenset({FinishRun, CommitRun, CloseRun, FinishCancelled})
# These end runs that no process has claimed. Which run it was, the next look finds out.
BY_PEOPLE = frozenset({CancelRun, RedoRun})


class End(NamedTuple):
    """A run as it was at the last look."""

    id: str
    app: str
    agent: str
    state: str
    output: str | None
    error: str | None
    reason: str | None

    @property
    def over(self) -> bool:
        return self.state in FINAL_RUN_STATES

    def shown(self) -> dict[str, Any]:
        """The end of a run without output, for JSON."""
        error = None if self.error is None else from_json(self.error)
        return {
            "state": self.state,
            "reason": self.reason,
            "error": None if error is None else {"type": error.get("type"), "message": error.get("message")},
        }


class Ends(NamedTuple):
    """The runs that were waited for. Runs that are no longer stored are in neither of the two."""

    over: dict[str, End]
    open: dict[str, End]


class Waiter:
    """One caller, and the runs that it waits for."""

    __slots__ = ("done", "found", "pending")

    def __init__(self, runs: Iterable[str]) -> None:
        self.pending = set(runs)
        self.found: dict[str, End] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class RunResults:
    """The callers in this process that wait for the end of runs, and the runs that other processes wait for."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        *,
        listen: Callable[[], Awaitable[None]],
        later: Callable[[], Callable[[float, Callable[[], None]], Cancellable]] = lambda: after_seconds,
    ) -> None:
        self._database = database
        self._journal = journal
        self._listen = listen
        self._later = later
        self._waiters: set[Waiter] = set()
        self._elsewhere: dict[str, float] = {}  # runs that other processes wait for, and until when to remember them
        self._looking: asyncio.Task[None] | None = None
        self._suspects: set[str] | None = set()  # runs that may have ended; None: any
        self._net: asyncio.TimerHandle | None = None
        self._forgetting: Cancellable | None = None
        self._rest = FIRST_LOOK
        self._telling: set[asyncio.Task[None]] = set()
        self._stopped = False

    # waiting

    async def wait(self, runs: Collection[str], limit: Microseconds | None) -> Ends:
        """The ends of these runs, as soon as all of them are over, or as far as they are after `limit`."""
        seen = await self._look_up(runs)
        open_runs = {run for run, end in seen.items() if not end.over}
        if not open_runs or self._stopped or limit == 0:
            return _sorted_out(seen)
        waiter = Waiter(open_runs)
        timer = None if limit is None else self._later()(seconds(limit), waiter.finish)
        self._waiters.add(waiter)
        try:
            self._hear_commits()
            await self._listen()
            self._tell(AWAITS, open_runs)
            self._rest = FIRST_LOOK
            self._cast_net()
            self.wake(open_runs)
            await waiter.done
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()
            if not self._waiters:
                self._draw_net_in()
            self._hear_commits()
        return _sorted_out(seen | waiter.found)

    async def result(self, run: Receipt | str, limit: Microseconds | None) -> End:
        """The end of one run. Raises RunFailed, TimedOut or NotFound."""
        identifier = only_run(run)
        ends = await self.wait([identifier], limit)
        end = ends.over.get(identifier)
        if end is None:
            raise self._not_ended(identifier, ends.open.get(identifier), limit)
        if end.state != "done":
            raise failure(end)
        return end

    def _not_ended(self, run: str, end: End | None, limit: Microseconds | None) -> Exception:
        if end is None:
            return NotFound(f"no run {run} in this store: was it removed, or is its event not committed yet?")
        if self._stopped:
            return StoreUnavailable(
                f"the app stopped while run {run} was waited for; the run continues when the app does"
            )
        why = f", {end.reason}" if end.reason else ""
        return TimedOut(
            f"run {run} of agent {end.agent} is not over within {readable(limit)}: it is {end.state}{why}. "
            f"It goes on; `wakeful why {run}` shows what it is doing"
        )

    # signals

    def wake(self, runs: Iterable[str] | None = None) -> None:
        """A run may have ended: one of these, or any."""
        if not self._waiters or self._stopped:
            return
        if runs is None:
            self._suspects = None
        elif self._suspects is not None:
            self._suspects.update(runs)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="wakeful results")

    def hear(self, word: str) -> None:
        """A notification: another process waits for runs, or has ended some."""
        kind, *runs = word.split(" ")
        if kind == ENDED:
            if awaited := self._awaited(runs):
                self.wake(awaited)
        elif kind == AWAITS and not self._stopped:
            loop = asyncio.get_running_loop()
            if len(self._elsewhere) < MOST_REMEMBERED:
                self._elsewhere |= dict.fromkeys(runs, loop.time() + REMEMBERED)
            if self._forgetting is None:
                self._forgetting = loop.call_later(REMEMBERED, self._forget)
            self._hear_commits()

    def _forget(self) -> None:
        """Forget runs that no other process has asked for in a while, so that commits need not be checked for them."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._elsewhere = {run: until for run, until in self._elsewhere.items() if until > now}
        self._forgetting = loop.call_later(REMEMBERED, self._forget) if self._elsewhere else None
        self._hear_commits()

    def _committed(self, requests: Sequence[Any]) -> None:
        """This process has committed these requests."""
        ended = [
            request.claim.id
            for request in requests
            if type(request) in ENDS and not (type(request) is CommitRun and request.then != "done")
        ]
        if self._waiters:
            if any(map(_may_end, requests)):
                self.wake()
            elif awaited := self._awaited(ended):
                self.wake(awaited)
        if self._elsewhere:
            self._tell(ENDED, [run for run in ended if self._elsewhere.pop(run, None) is not None])
            self._hear_commits()

    def _awaited(self, runs: Iterable[str]) -> list[str]:
        """Those of these runs that a caller here waits for."""
        return [run for run in runs if any(run in waiter.pending for waiter in self._waiters)]

    def _hear_commits(self) -> None:
        """Listen to commits only while a caller, here or elsewhere, waits for a run: otherwise they cost nothing."""
        wanted = bool(self._waiters or self._elsewhere) and not self._stopped
        self._journal.on_committed = self._committed if wanted else None

    def _tell(self, kind: str, runs: Collection[str]) -> None:
        if not runs or not self._database.notifies or self._stopped:
            return
        ordered = sorted(runs)
        words = [" ".join([kind, *ordered[at : at + RUNS_A_WORD]]) for at in range(0, len(ordered), RUNS_A_WORD)]
        task = asyncio.get_running_loop().create_task(self._say(words), name="wakeful results, a word")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _say(self, words: Sequence[str]) -> None:
        try:
            for word in words:
                await self._database.fetch("tell_results", word)
        except StoreUnavailable:
            pass  # the safety net of the waiting process looks anyway

    # looking

    async def _look(self) -> None:
        try:
            while (self._suspects is None or self._suspects) and self._waiters:
                suspects, self._suspects = self._suspects, set()
                runs = suspects or {run for waiter in self._waiters for run in waiter.pending}
                try:
                    seen = await self._look_up(runs)
                except StoreUnavailable:
                    return  # the safety net looks again
                for waiter in list(self._waiters):
                    _bring(waiter, seen, runs)
        finally:
            self._looking = None

    async def _look_up(self, runs: Collection[str]) -> dict[str, End]:
        rows = await self._database.fetch("ends_of_runs", to_json(sorted(runs)).decode())
        return {row[0]: End(*row) for row in rows}

    def _cast_net(self) -> None:
        """Schedule the next unprompted look, never later than it is now: new callers must not delay the look for
        earlier ones.
        """
        loop = asyncio.get_running_loop()
        if self._net is not None:
            if self._net.when() <= loop.time() + self._rest:
                return
            self._net.cancel()
        self._net = loop.call_later(self._rest, self._look_anyway)

    def _look_anyway(self) -> None:
        self._net = None
        if self._waiters and not self._stopped:
            self._rest = min(self._rest * 2, LAST_LOOK)
            self._tell(AWAITS, {run for waiter in self._waiters for run in waiter.pending})
            self._cast_net()
            self.wake()

    def _draw_net_in(self) -> None:
        if self._net is not None:
            self._net.cancel()
            self._net = None

    async def stop(self) -> None:
        """Give the waiting callers what is known, and stop."""
        self._stopped = True
        self._draw_net_in()
        self._hear_commits()
        self._elsewhere.clear()
        if self._forgetting is not None:
            self._forgetting.cancel()
        for waiter in list(self._waiters):
            waiter.finish()
        for task in [*self._telling, *([] if self._looking is None else [self._looking])]:
            task.cancel()
            await asyncio.wait([task])


def only_run(run: Receipt | str) -> str:
    """The id of the run that is meant. ValueError for a receipt with no run or with several."""
    if not isinstance(run, Receipt):
        return run
    if len(run.runs) == 1:
        return run.runs[0]
    if run.runs:
        message = f"event {run.id} has {len(run.runs)} runs: wait for one of them by its id: {', '.join(run.runs)}"
        raise ValueError(message)
    why = "; ".join(f"agent {agent}: {words}" for agent, words in run.skipped.items())
    message = (
        f"event {run.id} is {run.status} and has no run{f' ({why})' if why else ''}: `wakeful why {run.id}` shows why"
    )
    raise ValueError(message)


def failure(end: End) -> RunFailed:
    """The error of a run that is dead, denied or cancelled."""
    told = None if end.error is None else from_json(end.error)
    error = None if told is None else restore(told)
    why = end.reason or "no reason was given" if told is None else f"{told.get('type')}: {told.get('message')}"
    failed = RunFailed(
        f"run {end.id} of agent {end.agent} is {end.state}: {why}", run=end.id, state=end.state, error=error
    )
    failed.__cause__ = error
    return failed


def _may_end(request: Any) -> bool:
    """Whether the request may have ended an unclaimed run: a person cancelled or discarded it, or a newer event
    superseded it.
    """
    if type(request) in BY_PEOPLE:
        return True
    accept = accept_of(request)
    return accept is not None and any(
        one.flow is not None and (one.flow.overlap == "replace" or one.flow.debounce is not None)
        for arrival in accept.arrivals
        for one in arrival.admissions
    )


def _bring(waiter: Waiter, seen: dict[str, End], asked: Collection[str]) -> None:
    for run in list(waiter.pending):
        end = seen.get(run)
        if end is not None:
            waiter.found[run] = end
        if run in asked and (end is None or end.over):  # None: it was removed meanwhile
            waiter.pending.discard(run)
    if not waiter.pending:
        waiter.finish()


def _sorted_out(seen: dict[str, End]) -> Ends:
    return Ends(
        {run: end for run, end in seen.items() if end.over}, {run: end for run, end in seen.items() if not end.over}
    )
