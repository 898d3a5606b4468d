"""When a worker looks next: one timer, for the earliest moment that it was told of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from wakeful.execution.worker import Worker
from wakeful.functions.options import AgentOptions


class Poked:
    """A store that says that its journal was poked."""

    def __init__(self) -> None:
        self.journal = self
        self.count = 0
        self.looked = asyncio.Event()

    def poke(self) -> None:
        self.count += 1
        self.looked.set()


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("delays", [(0.0, 60.0), (60.0, 0.0), (0.0002, 0.0001)])
def test_of_several_moments_the_earliest_counts_however_near(
    factory: Callable[[], asyncio.AbstractEventLoop], delays: tuple[float, ...]
):
    async def told() -> int:
        store: Any = Poked()
        agents: Any = {"agent": SimpleNamespace(options=AgentOptions(), function=len)}
        executor: Any = None
        worker = Worker("app", agents, store, executor, lambda: "process")
        for delay in delays:
            worker._look_later(delay)
        await store.looked.wait()
        return int(store.count)

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(told()) == 1
