"""The alarm of a dead letter is known by the class of the error and its place: words of Wakeful may change between versions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import NewApp, pass_time, the_run, working
from support.stores import query
from wakeful import App, Operation, Persistent, Run, action, on, step
from wakeful.channels import http
from wakeful.output.channels.base import Channel, Message
from wakeful.stores.request import Actor
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.redo import RedoRun

ADA = Actor("ada", "code")
OLDER = "0123456789"  # a digest of words, as older versions make it


async def alarms(runtime, state: str = "open", kind: str = "dead/") -> dict[str, int]:
    found = (await runtime.reader.alarms(state=state))["alarms"]
    return {one["key"]: one["count"] for one in found if one["key"].startswith(kind)}


async def raised_by_older(url: str, key: str) -> str:
    """The alarm as an older version raised it, for the same dead letters."""
    older = f"{key.rpartition('/')[0]}/{OLDER}"
    await query(url, "update wakeful_alarm set key = $1, cause = null, cause_at = null where key = $2", older, key)
    for table in ("wakeful_run", "wakeful_delivery"):
        error = "replace(error, ',\"by_wakeful\":true', '')"
        await query(url, f"update {table} set alarm = $1, error = {error} where alarm = $2", older, key)
    return older


def in_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the next version says it."""
    monkeypatch.setattr("wakeful.execution.record.location", lambda function: f"some other place {function.__name__}")
    monkeypatch.setattr("wakeful.execution.endings.readable", lambda span: "the time that it had")


def nameless(app: App) -> App:
    """An agent whose runs end with an error that Wakeful raises, of a class that says nothing."""

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.step(lambda: 1)

    return app


def late(app: App) -> App:
    """An agent whose runs end with an error of a class of its own."""

    @app.agent(on("go"), deadline="1h")
    async def handle(run: Run) -> None:
        await run.sleep("30d")

    return app


@pytest.mark.parametrize("failing", [nameless, late])
async def test_the_same_error_in_other_words_is_the_same_alarm(app: App, failing: Any, monkeypatch: pytest.MonkeyPatch):
    async with working(failing(app)) as runtime:
        await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "3h")
        ((key, count),) = (await alarms(runtime)).items()
        assert count == 1
        in_other_words(monkeypatch)
        await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "3h")
        assert await alarms(runtime) == {key: 2}
        assert key in {"dead/app/handle/Persistent", "dead/app/handle/DeadlineExceeded"}


async def test_the_place_tells_two_failures_apart(app: App):
    @step(timeout="10ms", attempts=1)
    async def look_up() -> None:
        await asyncio.Event().wait()

    @step(timeout="10ms", attempts=1)
    async def write_down() -> None:
        await asyncio.Event().wait()

    @action(safety="idempotent", attempts=1)
    async def pay(operation: Operation) -> None:
        raise Persistent("no money")

    @app.agent(on("go"), attempts=1)
    async def handle(run: Run) -> None:
        if run.event.data == "pay":
            await run.act(pay)
        else:
            await run.step(look_up if run.event.data == "look" else write_down)

    async with working(app) as runtime:
        for data in ("look", "write", "look", "pay"):
            await app.emit("go", data)
            await runtime.drain()
        found = await alarms(runtime)
        assert found.pop("dead/app/handle/StepTimeout-look_up") == 2
        assert found.pop("dead/app/handle/StepTimeout-write_down") == 1
        assert len(found) == 1  # by its words: the class of the app's own error says nothing


async def test_errors_of_the_app_are_told_apart_by_their_words(app: App):
    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        raise Persistent(run.event.data)

    async with working(app) as runtime:
        for words in ("customer 17 is blocked", "customer 18 is blocked", "no such account"):
            await app.emit("go", words)
        await runtime.drain()
        assert sorted((await alarms(runtime)).values()) == [1, 2]


async def test_an_error_of_the_app_that_is_read_from_its_step_is_still_its_own(app: App):
    """It is raised again by Wakeful, which does not make its words those of Wakeful."""

    async def look_up(words: str) -> None:
        raise Persistent(words)

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        try:
            await run.step(look_up, run.event.data)
        except Persistent:
            await run.sleep("1h")
            raise

    @app.agent(on("go"))
    async def at_once(run: Run) -> None:
        await run.step(look_up, run.event.data)

    async with working(app) as runtime:
        for words in ("customer 17 is blocked", "no such account"):
            await app.emit("go", words)
        await runtime.drain()
        await pass_time(runtime, "2h")
        found = await alarms(runtime)
        assert len(found) == 4
        kinds = {
            agent: {key.rpartition("/")[2] for key in found if f"/{agent}/" in key} for agent in ("handle", "at_once")
        }
        assert kinds["handle"] == kinds["at_once"]


async def test_a_run_that_undoes_its_effects_first_has_the_same_alarm(app: App):
    async def unbook(operation: Operation) -> None: ...

    @action(safety="idempotent", undo=unbook)
    async def book(operation: Operation) -> None: ...

    @step(timeout="10ms", attempts=1)
    async def look_up() -> None:
        await asyncio.Event().wait()

    @app.agent(on("go"), on_failure="undo", attempts=1)
    async def handle(run: Run) -> None:
        await run.act(book)
        await run.step(look_up)

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "dead"
        assert list(await alarms(runtime)) == ["dead/app/handle/StepTimeout-look_up"]


# alarms that an older version raised


@pytest.mark.parametrize("failing", [nameless, late])
async def test_an_open_alarm_of_an_older_version_is_not_doubled(
    app: App, failing: Any, store_url: str, monkeypatch: pytest.MonkeyPatch
):
    async with working(failing(app)) as runtime:
        first, second = await app.emit("go"), await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "3h")
        ((key, count),) = (await alarms(runtime)).items()
        assert count == 2
        older = await raised_by_older(store_url, key)
        in_other_words(monkeypatch)
        await runtime.store.do(RedoRun(first.runs[0], by=ADA))  # the same run, seen again
        await runtime.drain()
        await pass_time(runtime, "3h")
        third = await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "3h")
        assert await alarms(runtime) == {older: 4}
        for one in (first, second, third):
            await runtime.store.do(RedoRun(one.runs[0], discard=True, by=ADA))
        assert await alarms(runtime) == {}
        assert list(await alarms(runtime, "resolved")) == [older]


async def test_an_alarm_of_an_older_version_resolves_with_its_last_dead_letter(app: App, store_url: str):
    async with working(nameless(app)) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        older = await raised_by_older(store_url, "dead/app/handle/Persistent")
        await runtime.store.do(RedoRun(receipt.runs[0], by=ADA))
        assert list(await alarms(runtime, "resolved")) == [older]
        await runtime.drain()
        assert list(await alarms(runtime)) == ["dead/app/handle/Persistent"]


async def test_an_open_alarm_about_another_error_is_left_alone(app: App, store_url: str):
    @app.agent(on("go"), deadline="1h")
    async def handle(run: Run) -> None:
        if run.event.data == "wait":
            await run.sleep("2h")
        elif run.event.data == "own":
            raise Persistent("no such account")
        await run.step(lambda: 1)

    async with working(app) as runtime:
        await app.emit("go", "wait")
        await runtime.drain()
        await pass_time(runtime, "3h")
        older = await raised_by_older(store_url, "dead/app/handle/DeadlineExceeded")
        await app.emit("go", "own")
        await app.emit("go", "nameless")
        await runtime.drain()
        found = await alarms(runtime)
        assert (found.pop(older), found.pop("dead/app/handle/Persistent")) == (1, 1)
        assert list(found.values()) == [1]


# deliveries


async def test_a_dead_delivery_is_known_by_the_class_of_its_error(new_app: NewApp, store_url: str):
    class Refusing(Channel):
        async def deliver(self, messages: Sequence[Message]) -> None:
            raise Persistent(messages[0].body)

    app = new_app(channels={"out": http("http://localhost:9/hook"), "mine": Refusing()})

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        run.send(run.event.subject or "out", run.event.data)

    async with working(app) as runtime:
        for words in ("no such account", "blocked"):
            await app.emit("go", words, subject="mine")
        first = await app.emit("go", "x")
        await runtime.drain()
        found = await alarms(runtime, kind="delivery/")
        assert len([key for key in found if key.startswith("delivery/app/mine/")]) == 2
        assert found["delivery/app/out/Persistent"] == 1
        older = await raised_by_older(store_url, "delivery/app/out/Persistent")
        await app.emit("go", "x")
        await runtime.drain()
        found = await alarms(runtime, kind="delivery/app/out")
        assert found == {older: 2}
        for (delivery,) in await query(store_url, "select id from wakeful_delivery where channel = 'out'"):
            await runtime.store.do(RedoDelivery(delivery, discard=True, by=ADA))
        assert await alarms(runtime, kind="delivery/app/out") == {}
        assert first.runs
