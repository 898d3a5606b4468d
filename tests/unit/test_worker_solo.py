"""When a run that must go alone is claimed, with a store whose answers come when the test says so."""

import asyncio
from collections.abc import Callable
from typing import Any

from wakeful.execution.endings import AttemptEnd
from wakeful.execution.worker import Worker
from wakeful.functions.options import AgentOptions
from wakeful.model import Claim
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, ForgetRuns


class Agent:
    """As much of an agent as a worker looks at."""

    options = AgentOptions()

    @staticmethod
    def function() -> None: ...


class HeldStore:
    """Hands each claim to the test, which answers it."""

    def __init__(self) -> None:
        self.claims: asyncio.Queue[tuple[ClaimRuns, asyncio.Future[Claimed]]] = asyncio.Queue()
        self.journal = self

    async def do(self, request: ClaimRuns | ForgetRuns) -> Claimed | int:
        if isinstance(request, ForgetRuns):
            return 0
        answer: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()
        if not request.rests:
            request.wanted = request.wants()
            self.claims.put_nowait((request, answer))
        return await answer

    def poke(self) -> None: ...


class HeldExecutor:
    """Runs end when the test says so."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Event] = {}

    async def execute(self, claim: Claim, agent: Any, on_run: Callable[[Any], None]) -> AttemptEnd:
        await self.running.setdefault(claim.id, asyncio.Event()).wait()
        return AttemptEnd()


def a_claim(identifier: str) -> Claim:
    return Claim(1, identifier, identifier, "agent", 1, "process", 0, 0, 0, 0, 0, True, None, "{}")


async def test_one_that_was_found_just_as_the_worker_became_idle_is_claimed_at_once() -> None:
    store, executor = HeldStore(), HeldExecutor()
    worker = Worker("app", {"agent": Agent()}, store, executor, lambda: "process", time_passes=False)  # type: ignore[dict-item, arg-type]  # stand-ins
    await worker.start()
    try:
        request, answer = await store.claims.get()
        answer.set_result(Claimed([a_claim("neighbour")], request.wanted.agents, None, solo_waiting=False))
        worker.look()
        async with asyncio.timeout(60):
            request, answer = await store.claims.get()
            assert not request.wanted.alone  # the neighbour runs
            executor.running["neighbour"].set()
            await worker.idle()
            answer.set_result(Claimed([], request.wanted.agents, None, solo_waiting=True))
            request, answer = await store.claims.get()
            assert request.wanted.alone
    finally:
        await worker.stop(0)


async def test_one_that_somebody_else_is_just_holding_is_looked_for_later_and_not_at_once() -> None:
    store = HeldStore()
    worker = Worker("app", {"agent": Agent()}, store, HeldExecutor(), lambda: "process")  # type: ignore[dict-item, arg-type]  # stand-ins
    await worker.start()
    try:
        request, answer = await store.claims.get()
        answer.set_result(Claimed([], request.wanted.agents, 3_600_000_000, solo_waiting=True, alone=True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert store.claims.empty()
    finally:
        await worker.stop(0)
