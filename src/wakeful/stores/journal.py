"""Group commit: everything that is waiting goes into one transaction.

    callers ──submit──► waiting ──┐                     ┌──► each caller's own result, or its own refusal
                                  ├──► one transaction ─┤
    a resting claim ──(poke)──────┘                     └──► Ready: somebody may have work now

While one transaction is on its way to the disk, requests gather for the next; so a commit carries one transition when
nothing else is going on, and hundreds under load. A refusal (claim lost, duplicate) is a result and concerns one
caller. An error of the transaction itself (a bad value, a deadlock) sends its requests through again one by one, so
that only the guilty one fails. When the database is gone, all of the batch are told StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from wakeful.errors import ClaimLost, StoreForbidden, StoreUnavailable
from wakeful.stores.alarms import ChangeAlarm, ResolveAlarms, TellAlarms
from wakeful.stores.backfill import FillInstants
from wakeful.stores.base import (
    AcceptEvents,
    AnswerApproval,
    AskPerson,
    BuryProcess,
    CancelRun,
    ChangeCircuit,
    ChangePause,
    CircuitChanged,
    Claimed,
    ClaimRuns,
    CloseRun,
    CommitRun,
    EndWait,
    FeedEvents,
    FinishCancelled,
    FinishRun,
    ForgetRuns,
    ForkRun,
    LeaveRun,
    LookAgain,
    NoteChange,
    OpenEffect,
    RaiseAlarm,
    Ready,
    RedoDelivery,
    RedoRun,
    RegisterProcess,
    ReleaseRun,
    RetireProcess,
    Row,
    SaveEffect,
    SaveSteps,
    SettleEffect,
    TakeOver,
    Transaction,
    WorkLane,
)
from wakeful.stores.heartbeat import ReportHeartbeat
from wakeful.stores.once import SaveOnce
from wakeful.stores.reminders import MakeReminder
from wakeful.stores.scheduling import ScheduleByRun
from wakeful.stores.sources import LetSourceGo, ReportSource, SettleQuarantine, TakeIn, TakenIn
from wakeful.stores.timing import ChangeSchedule, Fired, FireSchedule, SettleOccurrences, accept_of
from wakeful.stores.verbs.keys import ENDS, lock, pass_on
from wakeful.stores.verbs.table import VERBS
from wakeful.stores.watching import SettleLook

R = TypeVar("R")

# From how many callers on there is load: then a transaction waits a few turns of the event loop for company. Those who
# were just answered are about to hand in the next thing, and a commit costs as much as the work of many turns.
LOAD = 16
TURNS_TO_GATHER = 4
# A transaction that carries more rows than this takes so long that its neighbours notice.
MOST_ROWS = 12_000
MOST_CHARACTERS = 16_000_000

PLAIN = frozenset({SaveSteps, FinishRun, AcceptEvents})  # whose batches may be one statement
# The most frequent ones.
MAKE_NOTHING_READY = frozenset({SaveSteps, ClaimRuns, NoteChange, OpenEffect, SaveEffect, WorkLane})
# After these its agent has one run less.
ENDS_A_RUN = frozenset({FinishRun, CommitRun, CloseRun, LeaveRun, FinishCancelled})
# What was done is stored even if its caller has given up meanwhile.
WORTH_STORING = frozenset({SaveSteps, SaveEffect, SaveOnce})
# What may bring a run what it waited for: who it was is only known afterwards.
MAY_WAKE = frozenset(
    {
        AcceptEvents,
        FinishRun,
        CommitRun,
        CloseRun,
        LeaveRun,
        AnswerApproval,
        LookAgain,
        SettleOccurrences,
        FireSchedule,
        TellAlarms,
        FillInstants,
        TakeIn,
        SettleQuarantine,
        SaveEffect,
        SaveOnce,
    }
)
# What a person did, from wherever that was: anybody may have work now.
BY_PEOPLE = (
    SettleEffect,
    RedoRun,
    ReleaseRun,
    RedoDelivery,
    ChangePause,
    CancelRun,
    ForkRun,
    ChangeAlarm,
    AnswerApproval,
)
# After these there may be an alarm to tell: if they carry one, or always.
MAY_ALARM = frozenset(
    {
        FinishRun,
        CommitRun,
        CloseRun,
        LeaveRun,
        EndWait,
        LookAgain,
        NoteChange,
        WorkLane,
        SettleOccurrences,
        ReportSource,
        AcceptEvents,
        TakeIn,
        AskPerson,
    }
)
ALARMING = frozenset(
    {RaiseAlarm, ResolveAlarms, ChangeCircuit, FinishCancelled, ReportHeartbeat, SettleLook, *BY_PEOPLE}
)

# Where a test may let the process die: "before" a transaction, "within" it when only the COMMIT is missing, and "after"
# it. Inert unless a test hands in a probe. One with a true `plain` is content with before and after, where a batch can
# be a single statement.
Probe = Callable[[str, Sequence[Any]], None]


class Died(BaseException):
    """A probe raises this where its process is to count as dead: nobody is told anything any more."""


class Backend(Protocol):
    """One database: how a transaction is carried out, and nothing about agents."""

    notifies: bool

    async def end_lost(self) -> None:
        """Make sure that nothing whose answer was lost is still on its way."""
        ...

    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:
        """Run the generator inside one transaction and commit it. StoreUnavailable when the database is gone.

        `plain`: all requests are of one kind and nobody looks on, so that it may be told in advance that all went well.
        """
        ...


class Waiting:
    """A request and the caller who waits for its result."""

    __slots__ = ("future", "request")

    def __init__(self, request: Any, future: asyncio.Future[Any]) -> None:
        self.request = request
        self.future = future


class Journal:
    """The one way by which a process writes."""

    def __init__(self, backend: Backend, *, most: int = 1000, probe: Probe | None = None) -> None:
        self._backend = backend
        self._most = most
        self._probe = probe
        self._waiting: list[Waiting] = []
        self._resting: list[Waiting] = []
        self._closed = False
        self._dead = False
        self._in_doubt = False  # a transaction whose answer was lost may still be on its way to its COMMIT
        self._draining: asyncio.Task[None] | None = None
        self.on_ready: Callable[[Ready], None] = lambda _: None
        self.on_unavailable: Callable[[StoreUnavailable], None] = lambda _: None
        self.on_alarm: Callable[[], None] = lambda: None
        self.awaited: frozenset[str] = frozenset()  # runs whose end somebody here waits for
        self.on_awaited: Callable[[], None] = lambda: None
        self.on_committed: Callable[[Sequence[Any]], None] | None = (
            None  # only while a caller waits for the end of a run
        )
        self.transactions = 0
        self.transitions = 0

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, request: Any) -> asyncio.Future[Any]:
        """Hand in a transition; the future is its result once it is on disk."""
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        if self._closed:
            waiting.future.set_exception(StoreUnavailable("the store is closed"))
        elif not self._dead:
            self._waiting.append(waiting)
            self._go()
        return waiting.future

    def rest(self, request: ClaimRuns) -> asyncio.Future[Claimed]:
        """Hand in a claim that goes along with the next transaction that makes runs ready, or when it is poked."""
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        if self._closed:
            waiting.future.set_exception(StoreUnavailable("the store is closed"))
        else:
            self._resting.append(waiting)
        return waiting.future

    def poke(self) -> None:
        """Let resting claims look now."""
        if self._resting and not self._closed:
            self._waiting.extend(self._resting)
            self._resting.clear()
            self._go()

    def is_dead(self) -> bool:
        return self._dead

    def die(self) -> None:
        """From now on nothing is stored and nobody gets an answer, as if the process were gone. For tests."""
        self._dead = True
        self._waiting.clear()
        self._resting.clear()

    async def close(self) -> None:
        """Finish what was handed in; refuse what comes later."""
        self._closed = True
        for waiting in self._resting:
            waiting.future.cancel()
        self._resting.clear()
        while self._draining is not None:
            await asyncio.wait([self._draining])

    def _go(self) -> None:
        """Begin, unless a transaction is under way: then whatever waits goes into the next."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="wakeful journal")

    async def _drain(self) -> None:
        """One transaction after the other, until nothing waits. Two at a time were slower, on PostgreSQL too: each then
        carries half, and what a transaction costs it costs twice.
        """
        answered = 0
        try:
            while True:
                if answered + len(self._waiting) >= LOAD:
                    for _ in range(TURNS_TO_GATHER):
                        await asyncio.sleep(0)
                if not self._waiting:
                    break
                batch = self._compose()
                answered = len(batch)
                if batch:
                    await self._commit(batch)
        finally:
            # Here and not in a callback: what was handed in before that is called would be forgotten.
            self._draining = None

    def _compose(self) -> list[Waiting]:
        """What goes into the next transaction. Claims are asked now what they want, and rest on if it is nothing."""
        share = within_limits(self._waiting, self._most)
        batch, self._waiting = self._waiting[:share], self._waiting[share:]
        hints = [
            ready
            for waiting in batch
            if type(waiting.request) not in MAKE_NOTHING_READY and (ready := makes_ready(waiting.request)) is not None
        ]
        for ready in hints:
            self.on_ready(ready)
        if hints and self._resting:
            batch += self._resting
            self._resting = []
        composed = []
        for waiting in batch:
            kind = type(waiting.request)
            if kind not in WORTH_STORING and waiting.future.done():
                continue  # its caller gave up
            if kind is ClaimRuns:
                waiting.request.wanted = waiting.request.wants()
                if not waiting.request.wanted:
                    self._resting.append(waiting)
                    continue
            composed.append(waiting)
        return composed

    async def _commit(self, batch: list[Waiting]) -> None:
        if self.is_dead():
            return
        try:
            results = await self._transact([waiting.request for waiting in batch])
        except Died:
            self.die()
        except StoreForbidden as error:
            await self._one_by_one(batch, error)
        except StoreUnavailable as error:
            self._in_doubt = self._in_doubt or not error.locked  # then it never began: there is nothing to doubt
            self.on_unavailable(error)
            if error.locked:  # those behind it have waited as long, and would now wait for as long again
                batch, self._waiting = [*batch, *self._waiting], []
            for waiting in batch:
                settle(waiting, type(error)(str(error), locked=error.locked))
        except Exception as error:
            await self._one_by_one(batch, error)
        else:
            if self.is_dead():
                return
            for waiting, result in zip(batch, results, strict=True):
                if result is None and not waiting.future.done():  # the most frequent one
                    waiting.future.set_result(None)
                else:
                    settle(waiting, result)
            self._tell_woken(batch)

    async def _one_by_one(self, batch: list[Waiting], error: Exception) -> None:
        """One of them is guilty: find out which, and spare the others. Claims come last here too, and see the rest."""
        if len(batch) == 1:
            settle(batch[0], error)
            return
        for waiting in sorted(batch, key=lambda waiting: type(waiting.request) is ClaimRuns):
            await self._commit([waiting])

    def _tell_woken(self, batch: list[Waiting]) -> None:
        agents: dict[str, set[str]] = {}
        alarmed = False
        for waiting in batch:
            request = waiting.request
            kind = type(request)
            if kind in MAY_WAKE and request.woken:
                for app, agent in request.woken:
                    agents.setdefault(app, set()).add(agent)
            if kind in ALARMING or (kind in MAY_ALARM and carries_alarm(request)):
                alarmed = True
        if alarmed:
            self.on_alarm()
        for app, names in agents.items():
            self.on_ready(Ready(app, frozenset(names)))
        if agents:
            self.poke()
        if self.awaited and any(
            type(waiting.request) in ENDS_A_RUN and waiting.request.claim.id in self.awaited for waiting in batch
        ):
            self.on_awaited()
        if self.on_committed is not None:
            self.on_committed([waiting.request for waiting in batch])

    async def _clear_doubt(self, requests: list[Any]) -> None:
        """After an answer was lost, wait until that transaction is over, however it ends. Only then what we read is the
        last word (which runs do we own? is that step stored?). In a transaction of its own: the lock that it takes would
        keep the lease from being renewed, if what comes after it had to wait.
        """
        processes = sorted(
            {process for request in requests if (process := getattr(request, "process", None)) is not None}
        )
        if processes:
            await self._backend.transact(lambda now: waited_for(now, processes))
            await self._backend.end_lost()  # what had begun has ended by now; what had not must not begin later
            self._in_doubt = False

    async def _transact(self, requests: list[Any]) -> list[Any]:
        notifies, probe = self._backend.notifies, self._probe
        if self._in_doubt:
            await self._clear_doubt(requests)
        kind = type(requests[0])
        plain = kind in PLAIN and all(type(request) is kind for request in requests)
        if probe is None:
            results = await self._backend.transact(lambda now: whole(now, requests, notifies=notifies), plain=plain)
        elif plain and getattr(probe, "plain", False):  # a statement that is a transaction has no moment within it
            probe("before", requests)
            results = await self._backend.transact(lambda now: whole(now, requests, notifies=notifies), plain=True)
            probe("after", requests)
        else:
            probe("before", requests)
            results = await self._backend.transact(
                lambda now: watched(whole(now, requests, notifies=notifies), probe, requests)
            )
            probe("after", requests)
        self.transactions += 1
        self.transitions += len(requests)
        return results


def waited_for(now: int | None, processes: list[str]) -> Transaction[None]:
    """Nothing but the fence, once no other transaction of these processes is under way."""
    yield "fence_alone", [(now, process) for process in processes]


def watched(transaction: Transaction[R], probe: Probe, requests: Sequence[Any]) -> Transaction[R]:
    """The same transaction, with a word to the probe when only the COMMIT is missing."""
    results = yield from transaction
    probe("within", requests)
    return results


def within_limits(waiting: list[Waiting], share: int) -> int:
    """How many of the first `share` requests go into one transaction: large requests come in smaller company."""
    rows = characters = 0
    for number in range(min(share, len(waiting))):
        request = waiting[number].request
        kind = type(request)
        rows += 1
        if kind is SaveSteps:
            characters += sum([len(step.result) for step in request.steps if step.result is not None])
        elif kind is AcceptEvents or kind is SettleOccurrences or kind is TakeIn:
            arrivals = [] if (accept := accept_of(request)) is None else accept.arrivals
            rows += len(arrivals) - 1
            characters += sum([len(arrival.envelope) for arrival in arrivals])
        elif kind is FeedEvents:
            rows += len(request.runs) + len(request.denied) - 1
        elif kind is FinishRun and request.output is not None:
            characters += len(request.output)
        elif kind is CommitRun:
            rows += len(request.deliveries) + len(request.effects)
            characters += len(request.output) + sum([len(one.message) for one in request.deliveries])
        if rows > MOST_ROWS or characters > MOST_CHARACTERS:
            return max(1, number)
    return share


def settle(waiting: Waiting, result: Any) -> None:
    """Give a caller its result, unless it no longer waits."""
    if waiting.future.done():
        return
    if isinstance(result, BaseException):
        waiting.future.set_exception(result)
    else:
        waiting.future.set_result(result)


def carries_alarm(request: Any) -> bool:
    """Does it raise or resolve one?"""
    if type(request) in (AcceptEvents, EndWait, LookAgain) or (type(request) is LeaveRun and request.alarmed):
        return bool(request.alarmed)
    if type(request) is TakeIn:
        return request.accept is not None and request.accept.alarmed
    if type(request) is WorkLane:
        return any(one.alarm is not None or one.resolves is not None for one in request.results)
    kind = type(request)
    if kind is ReportSource and request.resolves is not None:
        return True
    return (kind is not CloseRun and request.alarm is not None) or (kind in ENDS and request.well_again)


def makes_ready(request: Any) -> Ready | None:
    """Which agents may have something to do once this request is committed."""
    if (accept := accept_of(request)) is not None:
        agents = frozenset(
            admission.agent
            for arrival in accept.arrivals
            for admission in arrival.admissions
            if admission.run_id is not None
        )
        return Ready(accept.app, agents) if agents else None
    if type(request) in ENDS:
        claim = request.claim
        return None if claim.key is None else Ready(claim.app, frozenset({claim.agent}))
    if isinstance(request, LeaveRun) and request.delay == 0 and request.state != "held":
        return Ready(None, frozenset({request.claim.agent}))
    if isinstance(request, FeedEvents):
        return Ready(request.app, frozenset({request.agent})) if request.runs else None
    if isinstance(request, TellAlarms):
        return Ready(request.app, frozenset({request.agent}))
    if isinstance(request, (BuryProcess, TakeOver, FinishCancelled, ForgetRuns, ChangeCircuit, *BY_PEOPLE)):
        return Ready()
    return None


def whole(now: int | None, requests: list[Any], *, notifies: bool) -> Transaction[list[Any]]:
    """One transaction: the fence, the keys, then each verb in the order of VERBS over all requests of its kind. Before the
    claims, which come last, the keys that were given up are passed on.

    Giving runs back waits at the fence until no other transaction of this process is under way: one whose answer was
    lost, or a user's own, may still bring the claim of such a run, or the checkpoint of its last step.
    """
    results: list[Any] = [None] * len(requests)
    groups: dict[type, list[int]] = {}
    processes = [getattr(request, "process", None) for request in requests]
    fenced = {process for process in processes if process is not None}
    lease_is_good: dict[str, bool] = {}
    claiming: dict[str, str] = {}
    if notifies:
        claiming = {request.process: request.app for request in requests if type(request) is ClaimRuns}
        shut = {request.app for request in requests if type(request) is ChangePause}
        # Other code may come with a process: no claim is to be under way that has not heard of it.
        shut |= {one.app for one in requests if type(one) is RegisterProcess and one.app and one.versions}
        if shut:
            yield "shut_gate", [(app,) for app in sorted(shut)]
    if fenced:
        alone = any(gives_back(request) for request in requests)
        rows = yield from fence(now, sorted(fenced), claiming, alone=alone)
        lease_is_good = {row[0]: bool(row[1]) for row in rows}
    for number, (request, process) in enumerate(zip(requests, processes, strict=True)):
        if process is not None and not lease_is_good.get(process, False):
            results[number] = refusal(process, buried=process not in lease_is_good)
        else:
            groups.setdefault(type(request), []).append(number)
    lanes = yield from lock([requests[number] for numbers in groups.values() for number in numbers])
    promoted: Sequence[Row] = ()
    for kind, verb in VERBS.items():
        if kind is ClaimRuns and lanes is not None:
            promoted = yield from pass_on(now, lanes)
        numbers = groups.get(kind)
        if numbers:
            answers = yield from verb(now, [requests[number] for number in numbers])
            for number, answer in zip(numbers, answers, strict=True):
                results[number] = answer
    if notifies:
        payload = unclaimed(requests, results, promoted)
        if payload is not None:
            yield "notify", [(payload,)]
    return results


def fence(
    now: int | None, processes: Sequence[str], claiming: Mapping[str, str], *, alone: bool
) -> Transaction[list[Row]]:
    """Which of these processes are alive, and is their lease good? Those that claim pass the gate of their app as well, where
    several processes write at once: what they see paused, or not, is so until the commit.
    """
    if alone:
        if claiming:
            yield "pass_gate", [(app,) for app in sorted(set(claiming.values()))]
        rows: list[Row] = yield "fence_alone", [(now, process) for process in processes]
        return rows
    fenced = [(now, process) for process in processes if process not in claiming]
    found: list[Row] = list((yield "fence", fenced) if fenced else [])
    if claiming:
        found += yield "fence_to_claim", [(now, process, claiming[process]) for process in sorted(claiming)]
    return found


def gives_back(request: Any) -> bool:
    kind = type(request)
    return kind is ForgetRuns or (kind is LeaveRun and request.outcome == "released")


def refusal(process: str, *, buried: bool) -> Exception:
    """A lease that ran out may still be renewed while nobody has declared its process dead: that caller tries again."""
    if buried:
        return ClaimLost(f"process {process} was declared dead: its runs have other owners, nothing was written")
    return StoreUnavailable(f"the lease of process {process} ran out and is not renewed yet: nothing was written")


def left_over(requests: list[Any], results: list[Any]) -> list[tuple[str, str]]:
    """Agents of which others may take something now: places of a limited one that became free and were not taken again by
    the same transaction, and runs that a claim left to others.
    """
    free: Counter[tuple[str, str]] = Counter()
    left: list[tuple[str, str]] = []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        kind = type(request)
        if kind in ENDS_A_RUN:
            claim = request.claim
            if claim.limited and not (kind is CommitRun and request.then == "running"):
                free[claim.app, claim.agent] += 1
        elif kind is ClaimRuns:
            for claim in result.claims:
                free[request.app, claim.agent] -= 1
            # Only with something that was taken: each would answer the other's word with its own for ever.
            left += [(request.app, agent) for agent in result.left & {claim.agent for claim in result.claims}]
    return left + [place for place, count in free.items() if count > 0]


def unclaimed(requests: list[Any], results: list[Any], promoted: Sequence[Row] = ()) -> str | None:
    """What to tell other processes: "app agent agent …" of runs made ready that no claim of this transaction took. An
    empty text says that anybody may have work, or a channel that nobody has.
    """
    taken = {claim.id for result in results if isinstance(result, Claimed) for claim in result.claims}
    waiting = [row for row in promoted if row[0] not in taken]  # whose turn it is now
    apps: set[str] = {row[1] for row in waiting}
    agents: set[str] = {row[2] for row in waiting}
    joined: str | None = None
    for app, agent in left_over(requests, results):
        apps.add(app)
        agents.add(agent)
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        if isinstance(request, RegisterProcess) or (isinstance(request, LetSourceGo) and request.leaves):
            joined = request.app
        if type(request) in MAY_WAKE and request.woken:
            apps |= {app for app, _ in request.woken}
            agents |= {agent for _, agent in request.woken}
        if isinstance(request, FinishCancelled):
            return ""  # runs that it called may have been asked to stop
        if isinstance(request, ChangeSchedule | ScheduleByRun | MakeReminder) or (
            isinstance(request, SettleOccurrences) and request.waits_for
        ):
            if result is not None:
                return ""  # somebody else may be the one who has it due next, or the run that it waits for
        elif (accept := accept_of(request)) is not None:
            receipts = result.receipts if isinstance(result, Fired | TakenIn) else result or []
            for arrival, receipt in zip(accept.arrivals, receipts, strict=False):
                if receipt.status != "duplicate":
                    left = {
                        one.agent for one in arrival.admissions if one.run_id is not None and one.run_id not in taken
                    }
                    agents |= left
                    apps |= {accept.app} if left else set()
        elif isinstance(request, TellAlarms):
            agents |= {request.agent} if result else set()
            apps |= {request.app} if result else set()
        elif isinstance(request, LeaveRun):
            if request.delay == 0 and request.state != "held" and request.claim.id not in taken:
                return ""
        elif isinstance(result, CircuitChanged):
            if result.changed:
                return ""
        elif isinstance(request, (BuryProcess, RetireProcess, TakeOver)):
            if result.gone:
                return ""
        elif isinstance(request, (FeedEvents, ForgetRuns, *BY_PEOPLE)) and result:
            return ""
    if not agents:
        return joined  # the name of an app alone: it has one process more, or a source that nobody reads
    return " ".join([next(iter(apps)), *sorted(agents)]) if len(apps) == 1 and len(agents) <= 50 else ""
