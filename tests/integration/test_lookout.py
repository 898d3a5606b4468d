"""The lookout: what no word was said of is found all the same, and what it costs does not grow with the agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import NewApp, working
from wakeful import App, Run, on
from wakeful.execution.hearing import Hearing
from wakeful.output.channels.base import Channel, Message
from wakeful.runtime import Runtime
from wakeful.service import Service
from wakeful.stores.alarm import Alarm
from wakeful.stores.verbs.people import RaiseAlarm


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process hears a word of another one."""
    monkeypatch.setattr(Hearing, "hear", lambda _: None)


class Noted(Channel):
    def __init__(self) -> None:
        self.came: asyncio.Queue[Any] = asyncio.Queue()

    async def deliver(self, messages: Sequence[Message]) -> None:
        for one in messages:
            self.came.put_nowait(one.body)


def many(app: App, count: int, heard: asyncio.Queue[str] | None = None) -> App:
    for number in range(count):

        @app.agent(on(f"go{number}"), name=f"agent{number}")
        async def agent(run: Run) -> None:
            if heard is not None:
                heard.put_nowait(run.event.id)

    return app


@pytest.mark.usefixtures("deaf")
async def test_a_run_that_another_process_made_ready_without_a_word(new_app: NewApp):
    heard: asyncio.Queue[str] = asyncio.Queue()
    sender = many(new_app(clock=None), 3)
    async with working(many(new_app(clock=None), 3, heard)) as worker, working(sender, worker=False):
        await worker.worker.drained()
        await sender.emit("go1", id="1")
        await look(worker)
        assert await asyncio.wait_for(heard.get(), 30) == "1"


@pytest.mark.usefixtures("deaf")
async def test_an_alarm_that_another_process_raised_without_a_word(new_app: NewApp):
    told = Noted()
    app, other = (new_app(clock=None, channels={"ops": told}, alarms="ops") for _ in range(2))
    async with working(app) as worker, working(other, worker=False) as sender:
        await sender.store.do(RaiseAlarm(Alarm("app", "key", "the disk is full")))
        await look(worker)
        assert "the disk is full" in str(await asyncio.wait_for(told.came.get(), 30))


async def look(runtime: Runtime) -> None:
    """As when its time has come: at the start it only rests."""
    runtime.lookout._rested = True
    await runtime.lookout.run_once()


@pytest.mark.parametrize("agents", [1, 60])
async def test_an_idle_process_wakes_none_of_its_parts_however_many_agents_it_has(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch, agents: int
):
    async with working(many(new_app(clock=None), agents)) as runtime:
        await runtime.worker.drained()
        seen = await runtime.lookout._look()
        woken: list[str] = []
        monkeypatch.setattr(Service, "wake", lambda part: woken.append(part.name))
        monkeypatch.setattr(runtime.store.journal, "poke", lambda: woken.append("worker"))
        for act in runtime.lookout._acts:
            act(seen)
        assert woken == []
