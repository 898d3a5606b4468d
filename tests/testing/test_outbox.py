"""Messages and staged effects in a world: their retries are skipped too, and a crash makes none leave twice or never."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wakeful import App, Operation, Persistent, Run, Transient, action, env, on
from wakeful.channels import Channel, Message, event, http
from wakeful.errors import ConfigError
from wakeful.testing import Call, World, crash_everywhere


class Mailbox(Channel):
    """Knows a message again by its id, and turns the first ones away if told to."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}
        self.turns_away = 0

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self.turns_away:
                self.turns_away -= 1
                raise Transient("not now")
            self.letters[message.id] = message.body


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def done() -> dict[str, str]:
    return {}


@pytest.fixture
def app(mailbox: Mailbox, done: dict[str, str]) -> App:
    app = App("app", channels={"mail": mailbox})

    @action(safety="idempotent")
    async def file_away(op: Operation, text: str) -> None:
        done[op.id] = text

    @app.agent(on("go"), deliver="mail")
    async def go(run: Run) -> str:
        run.send("mail", "first")
        run.stage(file_away, "a copy")
        return "last"

    return app


async def test_retries_of_deliveries_are_skipped(app: App, mailbox: Mailbox, store_url: str):
    mailbox.turns_away = 3
    async with World(app, store=store_url, deliver=True) as world:
        begun = world.clock.now()
        run = await world.handle("go")
        assert run["outcome"]["delivery"] == "delivered"
        assert [one["state"] for one in await world.deliveries(channel="mail")] == ["delivered"] * 2
        assert await world.deliveries(state="dead") == []
        assert world.clock.now() > begun
    assert list(mailbox.letters.values()) == ["first", "last"]


async def test_a_crash_makes_nothing_leave_twice_or_never(
    app: App, mailbox: Mailbox, done: dict[str, str], store_url: str
):
    def reset() -> None:
        mailbox.letters.clear()
        done.clear()

    report = await crash_everywhere(
        app,
        "go",
        store=store_url,
        observe=lambda: [*mailbox.letters.values(), *done.values()],
        reset=reset,
        deliver=True,
    )
    report.check()
    assert sorted(report.baseline.outside) == ["a copy", "first", "last"]
    assert len(report.baseline.deliveries) == 2
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert "WorkLane" in kinds


async def test_what_is_sent_reaches_nobody(app: App, mailbox: Mailbox, store_url: str):
    async with World(app, store=store_url) as world:
        run = await world.handle("go")
        assert run["outcome"]["delivery"] == "delivered"
        assert [one.body for one in world.messages(channel="mail")] == ["first", "last"]
        assert world.messages(channel="log") == []
        assert {one.run for one in world.messages()} == {run["id"]}
    report = await crash_everywhere(app, "go", store=store_url)
    report.check()
    assert len(report.baseline.deliveries) == 2
    assert mailbox.letters == {}


async def test_a_channel_that_cannot_be_opened_here_is_not_opened():
    app = App("app", channels={"hook": http("https://example.com/hook", secret=env("NOT_SET_ANYWHERE"))})

    @app.agent(on("go"), deliver="hook")
    async def go(run: Run) -> str:
        return "hello"

    async with World(app) as world:
        await world.handle("go")
        (message,) = world.messages()
        assert (message.channel, message.body) == ("hook", "hello")
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        await World(app, deliver=True).__aenter__()


async def test_a_message_that_comes_again_is_there_once(app: App, store_url: str):
    async with World(app, store=store_url) as world:
        await world.handle("go")
        await world.crash()
        await world.handle("go")
        assert [one.body for one in world.messages()] == ["first", "last"] * 2


async def test_a_channel_may_be_plain_functions(store_url: str):
    heard: list[str] = []

    class Plain(Channel):
        def open(self, around: object) -> None:  # type: ignore[override]
            heard.append("open")

        def deliver(self, messages: Sequence[Message]) -> None:  # type: ignore[override]
            heard.extend(one.body for one in messages)

        def close(self) -> None:  # type: ignore[override]
            heard.append("close")

    app = App("app", channels={"mail": Plain()})

    @app.agent(on("go"), deliver="mail")
    async def go(run: Run) -> str:
        return "hello"

    async with World(app, store=store_url, deliver=True) as world:
        assert (await world.handle("go"))["state"] == "done"
        (delivery,) = await world.deliveries()
        assert delivery["state"] == "delivered"
    assert heard == ["open", "hello", "close"]


async def test_events_lead_back_into_the_app(store_url: str):
    app = App("app", channels={"next": event("step.two")})

    @app.agent(on("step.one"), deliver="next")
    async def one(run: Run) -> str:
        return "hello"

    @app.agent(on("step.two"))
    async def two(run: Run, data: str) -> str:
        return data

    async with World(app, store=store_url) as world:
        await world.emit("step.one")
        await world.drain()
        (run,) = await world.runs(agent="two")
        assert run["output"] == "hello"
        assert [message.body for message in world.messages(channel="next")] == ["hello"]


async def test_a_channel_is_faked_to_let_it_fail(app: App, mailbox: Mailbox, store_url: str):
    async with World(app, store=store_url) as world:
        with world.fake("mail", answers=[Transient("not now"), None, Persistent("gone")]) as fake:
            await world.handle("go")
        assert [call.arguments[0].body for call in fake.calls] == ["first", "first", "last"]
        assert isinstance(fake.calls[0], Call)
        assert [one["state"] for one in await world.deliveries()] == ["delivered", "dead"]
        assert [one.body for one in world.messages()] == ["first"]
        with world.fake(mailbox, raises=Persistent("closed")):
            run = await world.handle("go")
        assert run["outcome"]["delivery"] == "failed"


async def test_what_cannot_be_asked_of_channels_is_refused(app: App):
    async with World(app) as world:
        with pytest.raises(ConfigError, match=r'no channel "mial".*Did you mean "mail"'):
            world.messages(channel="mial")
        with pytest.raises(ConfigError, match='no channel "mial"'):
            await world.deliveries(channel="mial")
        with pytest.raises(ConfigError, match="takes= is for steps and actions"):
            world.fake("mail", takes="5s")
        with pytest.raises(ConfigError, match="record= is for steps and actions"):
            world.fake("mail", record="file.json")
