"""Who waits for the end of runs, and the look that is taken though nothing was heard."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import from_json

from wakeful.execution import results
from wakeful.execution.results import RunResults


class Runs:
    """A store whose runs end without a word to anybody."""

    notifies = False

    def __init__(self) -> None:
        self.states: dict[str, str] = {}

    async def fetch(self, name: str, *parameters: Any) -> list[Any]:
        assert name == "ends_of_runs"
        return [
            (run, "app", "agent", self.states[run], "1", None, None)
            for run in from_json(parameters[0])
            if run in self.states
        ]


async def nothing() -> None: ...


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def waiting(runs: Runs) -> RunResults:
    database: Any = runs
    journal: Any = SimpleNamespace(on_committed=None)
    return RunResults(database, journal, listen=nothing)


async def test_callers_that_keep_coming_do_not_put_off_the_look_for_those_that_wait(
    waiting: RunResults, runs: Runs, monkeypatch: pytest.MonkeyPatch
):
    """On PostgreSQL the end of a run is not told when it comes before the word that somebody waits for it."""
    monkeypatch.setattr(results, "FIRST_LOOK", 0.1)
    runs.states |= {"first": "running", "others": "running"}
    first = asyncio.create_task(waiting.result("first", None))
    while not waiting._waiters or waiting._looking:
        await asyncio.sleep(0)
    runs.states["first"] = "done"
    others = []
    async with asyncio.timeout(30):
        while not first.done():
            others.append(asyncio.create_task(waiting.wait(["others"], 1_000)))
            await asyncio.sleep(0.01)
    assert (await first).state == "done"
    await asyncio.gather(*others)
    assert not waiting._waiters
    assert waiting._net is None
    await waiting.stop()
