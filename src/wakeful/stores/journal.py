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
from wakeful.stores.request import Heard, Others, Ready, Request
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.claim import Claimed, ClaimRuns
from wakeful.stores.verbs.keys import lock, pass_on
from wakeful.stores.verbs.people import write_audits
from wakeful.stores.verbs.table import VERBS

R = TypeVar("R")

# From how many callers on there is load: then a transaction waits a few turns of the event loop for company. Those who
# were just answered are about to hand in the next thing, and a commit costs as much as the work of many turns.
LOAD = 16
TURNS_TO_GATHER = 4
# A transaction that carries more rows than this takes so long that its neighbours notice.
MOST_ROWS = 12_000
MOST_CHARACTERS = 16_000_000

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

    def __init__(self, request: Request[Any], future: asyncio.Future[Any]) -> None:
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
        self.heard = Heard()
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

    def submit(self, request: Request[R]) -> asyncio.Future[R]:
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
            if request.claims:
                request.wanted = request.wants()  # type: ignore[attr-defined]
                if not request.wanted:  # type: ignore[attr-defined]
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
                resolve(waiting, type(error)(str(error), locked=error.locked))
        except Exception as error:
            await self._one_by_one(batch, error)
        else:
            if self.is_dead():
                return
            for waiting, result in zip(batch, results, strict=True):
                if waiting.request.may_follow and not isinstance(result, BaseException):
                    waiting.request.follow(result, self.heard)
                if result is None and not waiting.future.done():  # the most frequent one
                    waiting.future.set_result(None)
                else:
                    resolve(waiting, result)
            self._tell_woken(batch)

    async def _one_by_one(self, batch: list[Waiting], error: Exception) -> None:
        """One of them is guilty: find out which, and spare the others. Claims come last here too, and see the rest."""
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
            if request.may_wake and request.woken:  # type: ignore[attr-defined]
                for app, agent in request.woken:  # type: ignore[attr-defined]
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
            waiting.request.ends_a_run and waiting.request.claim.id in self.awaited  # type: ignore[attr-defined]
            for waiting in batch
        ):
            self.on_awaited()
        if self.on_committed is not None:
            self.on_committed([waiting.request for waiting in batch])

    async def _clear_doubt(self, requests: list[Request[Any]]) -> None:
        """After an answer was lost, wait until that transaction is over, however it ends. Only then what we read is the
        last word (which runs do we own? is that step stored?). In a transaction of its own: the lock that it takes would
        keep the lease from being renewed, if what comes after it had to wait.
        """
        processes = sorted({process for process in map(process_of, requests) if process is not None})
        if processes:
            await self._backend.transact(lambda now: waited_for(now, processes))
            await self._backend.end_lost()  # what had begun has ended by now; what had not must not begin later
            self._in_doubt = False

    async def _transact(self, requests: list[Request[Any]]) -> list[Any]:
        notifies, probe = self._backend.notifies, self._probe
        if self._in_doubt:
            await self._clear_doubt(requests)
        kind = type(requests[0])
        plain = kind.plain and [*map(type, requests)].count(kind) == len(requests)
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


def process_of(request: Request[Any]) -> str | None:
    """The process whose lease a request needs."""
    return request.process if request.fenced else None  # type: ignore[attr-defined]


def whole(now: int | None, requests: Sequence[Request[Any]], *, notifies: bool) -> Transaction[list[Any]]:
    """One transaction: the fence, the keys, then each verb in the order of VERBS over all requests of its kind. Before the
    claims, which come last, the keys that were given up are passed on.

    Giving runs back waits at the fence until no other transaction of this process is under way: one whose answer was
    lost, or a user's own, may still bring the claim of such a run, or the checkpoint of its last step.
    """
    results: list[Any] = [None] * len(requests)
    groups: dict[type, list[int]] = {}
    processes = [request.process if request.fenced else None for request in requests]  # type: ignore[attr-defined]
    fenced = {process for process in processes if process is not None}
    lease_is_good: dict[str, bool] = {}
    claiming: dict[str, str] = {}
    if notifies:
        claiming = {request.process: request.app for request in requests if request.claims}  # type: ignore[attr-defined]
        shut = {app for request in requests if request.may_shut and (app := request.shuts()) is not None}
        if shut:
            yield "shut_gate", [(app,) for app in sorted(shut)]
    if fenced:
        alone = True in [request.may_give_back and request.gives_back() for request in requests]
        rows = yield from fence(now, sorted(fenced), claiming, alone=alone)
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


def refusal(process: str, *, buried: bool) -> Exception:
    """A lease that ran out may still be renewed while nobody has declared its process dead: that caller tries again."""
    if buried:
        return ClaimLost(f"process {process} was declared dead: its runs have other owners, nothing was written")
    return StoreUnavailable(f"the lease of process {process} ran out and is not renewed yet: nothing was written")


def left_over(requests: Sequence[Request[Any]], results: Sequence[Any]) -> list[tuple[str, str]]:
    """Agents of which others may take something now: places of a limited one that became free and were not taken again by
    the same transaction, and runs that a claim left to others.
    """
    free: Counter[tuple[str, str]] = Counter()
    left: list[tuple[str, str]] = []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        if request.ends_a_run:
            claim = request.claim  # type: ignore[attr-defined]
            if claim.limited:
                free[claim.app, claim.agent] += 1
        elif request.claims:
            app: str = request.app  # type: ignore[attr-defined]
            for claim in result.claims:
                free[app, claim.agent] -= 1
            # Only with something that was taken: each would answer the other's word with its own for ever.
            left += [(app, agent) for agent in result.left & {claim.agent for claim in result.claims}]
    return left + [place for place, count in free.items() if count > 0]


def unclaimed(requests: Sequence[Request[Any]], results: Sequence[Any], promoted: Sequence[Row] = ()) -> str | None:
    """What to tell other processes: "app agent agent …" of runs made ready that no claim of this transaction took. An
    empty text says that any process may have work, or a channel that no process has.
    """
    others = Others({claim.id for result in results if isinstance(result, Claimed) for claim in result.claims})
    for run, app, agent in promoted:  # whose turn it is now
        if run not in others.taken:
            others.hear(app, agent)
    for app, agent in left_over(requests, results):
        others.hear(app, agent)
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Exception):
            continue
        if request.may_wake and request.woken:  # type: ignore[attr-defined]
            for app, agent in request.woken:  # type: ignore[attr-defined]
                others.hear(app, agent)
        if request.may_tell:
            request.tell(result, others)
            if others.all:
                break
    return others.word
