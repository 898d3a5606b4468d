"""Messages and staged effects in a world: their retries are skipped too, and a crash makes none leave twice or never."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wakeful import App, Operation, Run, Transient, action, on
from wakeful.channels import Channel, Message
from wakeful.testing import World, crash_everywhere


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
    async with World(app, store=store_url) as world:
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
        app, "go", store=store_url, observe=lambda: [*mailbox.letters.values(), *done.values()], reset=reset
    )
    report.check()
    assert sorted(report.baseline.outside) == ["a copy", "first", "last"]
    assert len(report.baseline.deliveries) == 2
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert "WorkLane" in kinds
