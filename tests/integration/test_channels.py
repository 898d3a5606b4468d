"""Channels with what they lead to: events by the door of a real app, on both stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import NewApp, the_run, working
from support.messages import COMMITTED_AT, message
from wakeful import App, Run, on
from wakeful.channels import event
from wakeful.clock import to_datetime
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.failures import classify
from wakeful.model import Event
from wakeful.output.channels.base import Surroundings
from wakeful.output.channels.event import EventChannel
from wakeful.runtime import Runtime


def around(runtime: Runtime) -> Surroundings:
    return Surroundings(accept=runtime.door.accept)


async def opened(runtime: Runtime, kind: str = "report.ready") -> EventChannel:
    channel = event(kind)
    await channel.open(around(runtime))
    return channel


def listening(app: App) -> list[Event]:
    """An agent that takes reports, and what it was handed."""
    taken: list[Event] = []

    @app.agent(on("report.ready"), name="reader")
    async def reader(run: Run) -> Any:
        taken.append(run.event)
        return run.event.data

    return taken


async def test_a_message_becomes_an_event(app: App):
    taken = listening(app)
    async with working(app) as runtime:
        channel = await opened(runtime)
        await channel.deliver([message("0f9e", {"pages": 7}, subject="order 7")])
        await runtime.drain()
    (came,) = taken
    assert (came.type, came.source, came.id) == ("report.ready", "/billing/remind", "0f9e")
    assert (came.subject, came.data, came.time) == ("order 7", {"pages": 7}, to_datetime(COMMITTED_AT))
    assert came.extensions == {"run": "abc123"}


async def test_what_is_delivered_again_starts_nothing(app: App):
    taken = listening(app)
    async with working(app) as runtime:
        channel = await opened(runtime)
        await channel.deliver([message("a", 1), message("b", 2)])
        await channel.deliver([message("a", 1, tries=2)])
        await channel.deliver([message("b", 2, tries=2), message("c", 3)])
        await runtime.drain()
        assert sorted(one.id for one in taken) == ["a", "b", "c"]
        shown = await runtime.reader.event("a")
        assert shown is not None
        assert (shown["duplicates"], shown["conflicts"]) == (1, [])


async def test_the_same_from_several_processes_at_once_is_one_event(new_app: NewApp):
    first, second = new_app(), new_app()
    taken = listening(first)
    listening(second)
    async with working(first) as runtime, second.running(worker=False) as other:
        channels = [await opened(runtime), await opened(other)]
        batch = [message(str(number), number) for number in range(50)]
        await asyncio.gather(*(channel.deliver(batch) for channel in channels))
        await runtime.drain()
        assert sorted(int(one.id) for one in taken) == list(range(50))


async def test_a_batch_goes_in_whole(app: App):
    listening(app)
    async with app.running(worker=False) as runtime:
        channel = await opened(runtime)
        deep: Any = None
        for _ in range(200):
            deep = [deep]
        with pytest.raises(InvalidEvent) as caught:
            await channel.deliver([message("a", "fine"), message("b", deep)])
        assert classify(caught.value).failure == "persistent"
        assert (await runtime.reader.events())["events"] == []
        await channel.deliver([message("a", "fine")])
        (stored,) = (await runtime.reader.events())["events"]
        assert (stored["id"], stored["state"]) == ("a", "accepted")


async def test_an_event_that_nobody_takes_is_kept(app: App):
    async with app.running(worker=False) as runtime:
        await (await opened(runtime, "nobody.listens")).deliver([message("a")])
        (stored,) = (await runtime.reader.events())["events"]
        assert stored["state"] == "unmatched"


async def test_the_run_it_starts_can_be_found(app: App):
    listening(app)
    async with working(app) as runtime:
        channel = await opened(runtime)
        receipts = await runtime.door.accept([channel._event(message("a", {"n": 1}))])
        await channel.deliver([message("a", {"n": 1})])
        await runtime.drain()
        run = await the_run(runtime, receipts[0])
        assert (run["state"], run["output"]) == ("done", {"n": 1})


async def test_a_channel_has_one_door(new_app: NewApp):
    first, second = new_app("one"), new_app("two")
    channel = event("report.ready")
    async with first.running(worker=False) as runtime, second.running(worker=False) as other:
        await channel.open(around(runtime))
        await channel.open(around(runtime))
        with pytest.raises(ConfigError, match="in use by another app: declare a separate channel for each"):
            await channel.open(around(other))
        await channel.close()
        await channel.open(around(other))
        await channel.close()
        with pytest.raises(RuntimeError, match="is not open"):
            await channel.deliver([message()])


@pytest.mark.parametrize("kind", ["", " a", "a.*", "a\nb", None, 7, "x" * 2000])
def test_a_bad_type_is_refused(kind):
    with pytest.raises(ConfigError, match=r"^event\("):
        event(kind)


def test_what_it_says_of_itself():
    assert event("report.ready").describe() == {"kind": "event", "type": "report.ready"}
    assert repr(event("report.ready")) == 'event("report.ready")'
    assert event("report.ready").most == 200
