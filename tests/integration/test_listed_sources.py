"""Sources for people: how each is, who reads it, and that somebody hears when nobody does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, working
from support.tape import Outside, TapeReader
from wakeful import App, Run
from wakeful.clock import VirtualClock, duration
from wakeful.runtime import Runtime
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.sources import EnterSources, ForgetSource, ReportSource
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher

NAME = "tape.txt"
SHORT = duration("15s")


@pytest.fixture
def tape(tmp_path: Path) -> Outside:
    return Outside(tmp_path / NAME)


def an_app(new_app: NewApp, tape: Outside, name: str = "app") -> App:
    app = new_app(name)

    @app.agent(tape.trigger)
    async def note(run: Run) -> None:
        pass

    return app


async def the_source(runtime: Runtime) -> dict[str, Any]:
    found = await runtime.reader.source(NAME)
    assert found is not None
    return found


async def test_one_that_is_read(new_app: NewApp, tape: Outside):
    tape.write("a", "?b", "c")
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
        (listed,) = await runtime.reader.sources()
        assert (listed["app"], listed["name"], listed["kind"], listed["state"]) == ("app", NAME, "tape", "reading")
        assert (listed["taken"], listed["quarantined"], listed["kept"], listed["agents"]) == (2, 1, 1, ["note"])
        assert (listed["lag"], listed["behind"], listed["unread"]) == (0.0, 0, None)
        assert listed["holder"]["process"] == runtime.membership.process
        assert listed["holder"]["alive"]
        found = await the_source(runtime)
        assert (found["cursor"], found["token"], found["alarms"]) == ("3", 1, [])
        assert await runtime.reader.sources(app="other") == []
        assert await runtime.reader.source("other") is None
    async with working(new_app("other")) as runtime:
        assert (await the_source(runtime))["unread"] == "not read: no worker of app app is alive"


async def test_one_that_cannot_be_read(new_app: NewApp, tape: Outside):
    tape.tear("the tape is torn: mend it")
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
        found = await the_source(runtime)
        assert (found["state"], found["reason"]) == ("failing", "the tape is torn: mend it")
        assert [one["key"] for one in found["alarms"]] == [f"source/app/{NAME}"]
        told = await runtime.reader.why(NAME)
        assert told is not None
        assert told["subject"] == {"kind": "source", "id": NAME}
        assert "the tape is torn: mend it. It is retried automatically." in " ".join(told["story"])
        assert runtime.states_of_sources() == {"failing": 1}


async def test_one_that_is_let_go_between_two_tries_is_not_one_that_nobody_has(
    new_app: NewApp, tape: Outside, clock: VirtualClock
):
    tape.tear("the tape is torn: mend it")
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
        found = await the_source(runtime)
        assert (found["holder"], found["unread"]) == (None, None)
    clock.move("5m")
    async with working(new_app()) as runtime:  # its trigger was removed
        assert "`wakeful sources forget tape.txt`" in (await the_source(runtime))["unread"]


async def test_one_that_nobody_holds_is_said_to_be_read_only_while_somebody_says_so(
    new_app: NewApp, clock: VirtualClock
):
    async with working(new_app()) as runtime:  # a worker; the server that was called at /hook was killed
        await runtime.store.do(EnterSources("app", [("/hook", "webhook")]))
        await runtime.store.do(ReportSource("app", "/hook", "reading"))
        (found,) = await runtime.reader.sources()
        assert found["unread"] is None
        clock.move("4m")
        (found,) = await runtime.reader.sources()
        assert "no process has reported reading it for 4 m" in found["unread"]


async def test_one_whose_trigger_was_removed_can_be_forgotten(new_app: NewApp, tape: Outside):
    tape.write("a")
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
    async with working(new_app()) as runtime:
        assert "`wakeful sources forget tape.txt`" in (await the_source(runtime))["unread"]
        assert await runtime.store.do(ForgetSource("app", NAME, by=Actor("ada", "code")))
        assert await runtime.reader.sources() == []


@pytest.fixture
async def outside(store_url: str, clock: VirtualClock) -> Any:
    """A watcher of its own, as `wakeful watch` is."""
    database = open_database(store_url, clock)
    store = DatabaseStore(database)
    await store.open(migrate=store.dialect == "sqlite")
    yield Watcher(Facts(database), store, time_passes=False)
    await store.close()


async def open_alarms(runtime: Runtime) -> dict[str, str]:
    return {one["key"]: one["text"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}


async def test_somebody_hears_that_a_dead_reader_was_not_replaced(
    new_app: NewApp, tape: Outside, outside: Watcher, clock: VirtualClock
):
    tape.write("a")
    dying = Runtime(an_app(new_app, tape), lease=SHORT, reading="drained")
    await dying.open(migrate=True)
    await dying.start()
    await dying.drain()
    await dying.die()
    async with working(new_app()) as runtime:  # another process of the app, which does not have the trigger
        clock.move("20s")
        await outside.run_once()
        assert await open_alarms(runtime) == {}
        assert "is dead" in (await the_source(runtime))["unread"]
        clock.move("1m")
        await outside.run_once()
        key = f"expect/app/{NAME}/not-read"
        assert "no other process took it over" in (await open_alarms(runtime))[key]
        assert [one["key"] for one in (await the_source(runtime))["alarms"]] == [key]
        async with working(an_app(new_app, tape), reading="drained") as taking:
            await taking.drain()
            await outside.run_once()
            assert await open_alarms(runtime) == {}


async def test_a_reader_that_hangs_is_an_alarm(new_app: NewApp, tape: Outside, outside: Watcher, clock: VirtualClock):
    tape.write("a")
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
        clock.move("2m")
        await outside.run_once()
        assert await open_alarms(runtime) == {}
        clock.move("2m")
        await outside.run_once()
        assert "has not looked since" in (await open_alarms(runtime))[f"expect/app/{NAME}/not-read"]
        assert "has not read it for 4 m" in (await the_source(runtime))["unread"]
        tape.write("b")
        await runtime.drain()
        await outside.run_once()
        assert await open_alarms(runtime) == {}


async def test_a_reader_that_never_gets_it_open_is_an_alarm(
    new_app: NewApp, tape: Outside, outside: Watcher, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    opening, go_on = asyncio.Event(), asyncio.Event()
    opened = TapeReader.open

    async def hang(reader: TapeReader, cursor: str | None) -> None:
        opening.set()
        await go_on.wait()
        await opened(reader, cursor)

    monkeypatch.setattr(TapeReader, "open", hang)
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        reading = asyncio.create_task(runtime.drain())
        await opening.wait()
        await outside.run_once()
        assert await open_alarms(runtime) == {}
        clock.move("4m")
        await outside.run_once()
        assert "has not looked since" in (await open_alarms(runtime))[f"expect/app/{NAME}/not-read"]
        assert "has not read it for 4 m" in (await the_source(runtime))["unread"]
        go_on.set()
        await reading
        await outside.run_once()
        assert await open_alarms(runtime) == {}


async def test_an_app_with_nothing_but_a_source_is_watched(
    new_app: NewApp, tape: Outside, outside: Watcher, clock: VirtualClock
):
    dying = Runtime(an_app(new_app, tape), lease=SHORT, reading="drained")
    await dying.open(migrate=True)
    await dying.start()
    await dying.drain()
    await dying.die()
    clock.move("2m")
    await outside.run_once()
    async with working(new_app("other")) as runtime:
        assert list(await open_alarms(runtime)) == ["down/app"]


async def test_one_that_was_let_go_in_order_is_nobodys_alarm(
    new_app: NewApp, tape: Outside, outside: Watcher, clock: VirtualClock
):
    async with working(an_app(new_app, tape), reading="drained") as runtime:
        await runtime.drain()
    clock.move("1d")
    async with working(new_app("other")) as runtime:
        await outside.run_once()
        assert await open_alarms(runtime) == {}
