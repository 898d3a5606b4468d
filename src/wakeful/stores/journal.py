"""Group commit: all waiting requests go into one transaction.

    callers ──submit──► waiting ──┐                     ┌──► each caller's own result, or its own refusal
                                  ├──► one transaction ─┤
    a resting claim ──(poke)──────┘                     └──► Ready: there may be work now

While one transaction is being committed, requests gather for the next one. So a commit carries one transition when the process is idle,
and hundreds under load. A refusal (claim lost, duplicate) is a result and concerns one caller. If the transaction itself fails (a bad
value, a deadlock), its requests are repeated one by one, so that only the faulty one fails. If the database is gone, all callers of
the batch get StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from wakeful.errors import ClaimLost, StoreForbidden, StoreUnavailable
from wakeful.stores.request import Heard, Others, Ready, Request
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.claim import Claimed, ClaimRuns
from wakeful.stores.verbs.keys import lock, pass_on
from wakeful.stores.verbs.people import write_audits
from wakeful.stores.verbs.table import VERBS

R = TypeVar("R")

# From this many callers on there is load: then a transaction waits a few turns of the event loop for more requests. Callers that were
# just answered are about to submit again, and a commit costs as much as the work of many turns.
LOAD = 16
TURNS_TO_GATHER = 4
# A transaction with more rows than this takes so long that other requests notice.
MOST_ROWS = 12_000
MOST_CHARACTERS = 16_000_000

# Points where a test may let the process die: "before" a transaction, "within" it when only the COMMIT is missing, and "after" it.
# Inert unless a test provides a probe. A probe with a true `plain` is content with before and after when a batch can be a single
# statement.
Probe = Callable[[str, Sequence[Any]], None]


class Died(BaseException):
    """Raised by a probe where its process is to count as dead: no caller gets an answer any more."""


class Backend(Protocol):
    """One database: how to carry out a transaction. It knows nothing about agents."""

    notifies: bool

    async def end_lost(self) -> None:
        """Make sure that no transaction whose answer was lost is still in flight."""
        ...

    async def transact(self, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:
        """Run the generator inside one transaction and commit it. Raises StoreUnavailable if the database is gone.

        `plain`: all requests are of one kind and no probe needs the point within, so the answers may be assumed in advance.
        """
        ...


class Waiting:
    """A request and the future of its caller."""

    __slots__ = ("future", "request")

    def __init__(self, request: Request[Any], future: asyncio.Future[Any]) -> None:
        self.request = request
        self.future = future


class Journal:
    """The only way in which a process writes."""

    def __init__(self, backend: Backend, *, most: int = 1000, probe: Probe | None = None) -> None:
        self._backend = backend
        self._most = most
        self._probe = probe
        self._waiting: list[Waiting] = []
        self._resting: list[Waiting] = []
        self._closed = False
        self._dead = False
        self._in_doubt = False  # a transaction whose answer was lost may still be about to commit
        self._draining: asyncio.Task[None] | None = None
        self.on_ready: Callable[[Ready], None] = lambda _: None
        self.on_unavailable: Callable[[StoreUnavailable], None] = lambda _: None
        self.on_alarm: Callable[[], None] = lambda: None
        self.heard = Heard()
        self.awaited: frozenset[str] = frozenset()  # runs whose end a caller in this process waits for
        self.on_awaited: Callable[[], None] = lambda: None
        self.on_committed: Callable[[Sequence[Any]], None] | None = (
            None  # only while a caller waits for the end of a run
        )
        self.transactions = 0
        self.transitions = 0

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, request: Request[R]) -> asyncio.Future[R]:
        """Submit a transition. The future gets its result once it is on disk."""
        waiting = Waiting(request, asyncio.get_running_loop().create_future())
        if self._closed:
            waiting.future.set_exception(StoreUnavailable("the store is closed"))
        elif request.rests:
            self._resting.append(waiting)
        elif not self._dead:
            self._waiting.append(waiting)
            self._go()
        return waiting.future

    def await_end(self, runs: frozenset[str], then: Callable[[], None]) -> None:
        """Call `then` when one of these runs ends. Replaces the previous callback."""
        self.awaited, self.on_awaited = runs, then

    def poke(self) -> None:
        """Let resting claims look for runs now."""
        if self._resting and not self._closed:
            self._waiting.extend(self._resting)
            self._resting.clear()
            self._go()

    def is_dead(self) -> bool:
        return self._dead

    def die(self) -> None:
        """From now on store and answer nothing, as if the process were gone. For tests."""
        self._dead = True
        self._waiting.clear()
        self._resting.clear()

    async def close(self) -> None:
        """Finish the submitted requests and refuse later ones."""
        self._closed = True
        for waiting in self._resting:
            waiting.future.cancel()
        self._resting.clear()
        while self._draining is not None:
            await asyncio.wait([self._draining])

    def _go(self) -> None:
        """Start a transaction, unless one is in flight: then waiting requests go into the next one."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="wakeful journal")

    async def _drain(self) -> None:
        """One transaction after the other, until no request waits. Two at a time were slower, on PostgreSQL too: each then carries half
        the requests, and the fixed cost of a transaction is paid twice.
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
            # Here and not in a callback: a request submitted before the callback runs would be forgotten.
            self._draining = None

    def _compose(self) -> list[Waiting]:
        """The requests of the next transaction. Claims say now how many runs they want, and rest on if none."""
        share = within_limits(self._waiting, self._most)
        batch, self._waiting = self._waiting[:share], self._waiting[share:]
        hints = [
            ready for waiting in batch if waiting.request.may_ready and (ready := waiting.request.readies()) is not None
        ]
        for ready in hints:
            self.on_ready(ready)
        if hints and self._resting:
            batch += self._resting
            self._resting = []
        composed = []
        for waiting in batch:
            request = waiting.request
            if waiting.future.done() and not request.worth_storing:
                continue  # its caller gave up
            if request.claims and isinstance(request, ClaimRuns):
                request.wanted = request.wants()
                if not request.wanted.agents:
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
            self._in_doubt = self._in_doubt or not error.locked  # a locked store never began the transaction: no doubt
            self.on_unavailable(error)
            if error.locked:  # requests behind it have waited as long, and would wait as long again
                batch, self._waiting = [*batch, *self._waiting], []
            for waiting in batch:
                resolve(waiting, type(error)(str(error), locked=error.locked))
        except Exception as error:
            await self._one_by_one(batch, error)
        else:
            if self.is_dead():
                return
            for waiting, result in zip(batch, results, strict=True):
                if waiting.request.may_follow and not isinstance(result, BaseException):
                    waiting.request.follow(result, self.heard)
                if result is None and not waiting.future.done():  # the most frequent case
                    waiting.future.set_result(None)
                else:
                    resolve(waiting, result)
            self._tell_woken(batch)

    async def _one_by_one(self, batch: list[Waiting], error: Exception) -> None:
        """One request is faulty: find out which, and carry out the others. Claims come last here too, to see the rest."""
        if len(batch) == 1:
            resolve(batch[0], error)
            return
        for waiting in sorted(batch, key=lambda waiting: waiting.request.claims):
            await self._commit([waiting])

    def _tell_woken(self, batch: list[Waiting]) -> None:
        agents: dict[str, set[str]] = {}
        alarmed = False
        for waiting in batch:
            request = waiting.request
            for app, agent in request.woken:
                agents.setdefault(app, set()).add(agent)
            if request.may_alarm and not alarmed:
                alarmed = request.alarming()
        if alarmed:
            self.on_alarm()
        for app, names in agents.items():
            self.on_ready(Ready(app, frozenset(names)))
        if agents:
            self.poke()
        if self.awaited and any(
            (ended := waiting.request.ended) is not None and ended.id in self.awaited for waiting in batch
        ):
            self.on_awaited()
        if self.on_committed is not None:
            self.on_committed([waiting.request for waiting in batch])

    async def _clear_doubt(self, requests: list[Request[Any]]) -> None:
        """After an answer was lost, wait until that transaction has ended, in either way. Only then do reads give the final answer
        (which runs do we own? is that step stored?). This is a transaction of its own: its lock would block the renewal of the lease
        if the statements after it had to wait.
        """
        processes = sorted({process for request in requests if (process := request.fenced_by) is not None})
        if processes:
            await self._backend.transact(lambda now: waited_for(now, processes))
            await self._backend.end_lost()  # transactions that had begun have ended; others must not begin later
            self._in_doubt = False

    async def _transact(self, requests: list[Request[Any]]) -> list[Any]:
        notifies, probe = self._backend.notifies, self._probe
        if self._in_doubt:
            await self._clear_doubt(requests)
        kind = type(requests[0])
        plain = kind.plain and [*map(type, requests)].count(kind) == len(requests)
        if probe is None:
            results = await self._backend.transact(lambda now: whole(now, requests, notifies=notifies), plain=plain)
        elif plain and getattr(probe, "plain", False):  # a single statement has no point within
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
    """Only the fence, once no other transaction of these processes is in flight."""
    yield "fence_alone", [(now, process) for process in processes]


def watched(transaction: Transaction[R], probe: Probe, requests: Sequence[Any]) -> Transaction[R]:
    """The same transaction, which calls the probe when only the COMMIT is missing."""
    results = yield from transaction
    probe("within", requests)
    return results


def within_limits(waiting: list[Waiting], share: int) -> int:
    """How many of the first `share` requests go into one transaction: large requests share it with fewer others."""
    rows = characters = 0
    for number in range(min(share, len(waiting))):
        request = waiting[number].request
        rows += 1
        if request.has_size:
            more, length = request.size()
            rows += more
            characters += length
        if rows > MOST_ROWS or characters > MOST_CHARACTERS:
            return max(1, number)
    return share


def resolve(waiting: Waiting, result: Any) -> None:
    """Give a caller its result, unless it no longer waits."""
    if waiting.future.done():
        return
    if isinstance(result, BaseException):
        waiting.future.set_exception(result)
    else:
        waiting.future.set_result(result)


def whole(now: int | None, requests: Sequence[Request[Any]], *, notifies: bool) -> Transaction[list[Any]]:
    """One transaction: the fence, the keys, then each verb in the order of VERBS over all requests of its kind. Claims come last; before
    them, keys that were given up go to the next runs.

    A request that gives runs back waits at the fence until no other transaction of this process is in flight: one whose answer was lost,
    or a user's own, may still commit the claim of such a run, or the checkpoint of its last step.
    """
    results: list[Any] = [None] * len(requests)
    groups: dict[type, list[int]] = {}
    processes = [request.fenced_by for request in requests]
    fenced = {process for process in processes if process is not None}
    lease_is_good: dict[str, bool] = {}
    passing: dict[str, str] = {}
    if notifies:
        at_gate = set()
        for request, process in zip(requests, processes, strict=True):
            if request.gate is None:
                continue
            if process is None:
                at_gate.add(request.gate)
            else:
                passing[process] = request.gate
        shut = {app for request in requests if request.may_shut and (app := request.shuts()) is not None}
        if shut:
            yield "shut_gate", [(app,) for app in sorted(shut)]
        if at_gate:
            yield "pass_gate", [(app,) for app in sorted(at_gate)]
    if fenced:
        alone = True in [request.may_give_back and request.gives_back() for request in requests]
        rows = yield from fence(now, sorted(fenced), passing, alone=alone)
        lease_is_good = {row[0]: bool(row[1]) for row in rows}
    for number, (request, process) in enumerate(zip(requests, processes, strict=True)):
        if process is not None and not lease_is_good.get(process, False):
            results[number] = refusal(process, buried=process not in lease_is_good)
        else:
            groups.setdefault(request.carried_with or type(request), []).append(number)
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
    if True in [request.audited for request in requests]:
        yield from write_audits(now, requests, results)
    if notifies:
        payload = unclaimed(requests, results, promoted)
        if payload is not None:
            yield "notify", [(payload,)]
    return results


def fence(
    now: int | None, processes: Sequence[str], passing: Mapping[str, str], *, alone: bool
) -> Transaction[list[Row]]:
    """Which of these processes are alive, and whether their leases are valid. On PostgreSQL, where several processes write at once,
    those in `passing` also pass the gate of their app: the pauses and the policy that they read then hold until the commit.
    """
    if alone:
        if passing:
            yield "pass_gate", [(app,) for app in sorted(set(passing.values()))]
        rows: list[Row] = yield "fence_alone", [(now, process) for process in processes]
        return rows
    fenced = [(now, process) for process in processes if process not in passing]
    found: list[Row] = list((yield "fence", fenced) if fenced else [])
    if passing:
        found += yield "fence_to_claim", [(now, process, passing[process]) for process in sorted(passing)]
    return found


def refusal(process: str, *, buried: bool) -> Exception:
    """An expired lease may still be renewed as long as its process has not been declared dead, so that caller retries."""
    if buried:
        return ClaimLost(f"process {process} was declared dead: its runs have other owners, nothing was written")
    return StoreUnavailable(f"the lease of process {process} expired and is not renewed yet: nothing was written")


def left_over(requests: Sequence[Request[Any]], results: Sequence[Any]) -> list[tuple[str, str]]:
    """Agents of which other processes may claim runs now: slots of a limited agent that became free and were not taken again by the same
    transaction, and runs that a claim left to others.
    """
    free: Counter[tuple[str, str]] = Counter()
    left: list[tuple[str, str]] = []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        ended = request.ended
        if ended is not None:
            if ended.limited:
                free[ended.app, ended.agent] += 1
        elif request.claims and isinstance(request, ClaimRuns):
            app = request.app
            for claim in result.claims:
                free[app, claim.agent] -= 1
            # Only together with a taken run: otherwise two processes would answer each other's notifications forever.
            left += [(app, agent) for agent in result.left & {claim.agent for claim in result.claims}]
    return left + [place for place, count in free.items() if count > 0]


def unclaimed(requests: Sequence[Request[Any]], results: Sequence[Any], promoted: Sequence[Row] = ()) -> str | None:
    """The notification to other processes: "app agent agent …" for ready runs that no claim of this transaction took. An empty text
    means that any process may have work, or that a channel has no process.
    """
    others = Others({claim.id for result in results if isinstance(result, Claimed) for claim in result.claims})
    for run, app, agent in promoted:  # runs whose turn it is now
        if run not in others.taken:
            others.hear(app, agent)
    for app, agent in left_over(requests, results):
        others.hear(app, agent)
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        for app, agent in request.woken:
            others.hear(app, agent)
        if request.may_tell:
            request.tell(result, others)
            if others.all:
                break
    return others.word
