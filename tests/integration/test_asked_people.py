"""A question reaches somebody: when it is asked, when three quarters of its time are over, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Run, TimedOut, on
from wakeful.channels import Channel, Message
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.alarms import ChangeAlarm
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.cancel import CancelRun


class Post(Channel):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Message] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got.extend(messages)

    @property
    def told(self) -> list[str]:
        return [message.body["what"] for message in self.got]


@pytest.fixture
def posts() -> dict[str, Post]:
    return {"ops": Post(), "finance": Post(), "shop": Post()}


@pytest.fixture
def app(new_app: NewApp, posts: dict[str, Post]) -> App:
    return new_app(alarms="ops", channels=dict(posts))


def asking(app: App, **options: Any) -> App:
    @app.agent(on("go"), owner="shop")
    async def pay(run: Run) -> Any:
        try:
            return await run.ask("May I refund order 7?", **options)
        except TimedOut:
            return "nobody"

    return app


async def the_question(runtime: Runtime) -> dict[str, Any]:
    (found,) = (await runtime.reader.approvals(state=None))["approvals"]
    return dict(found)


async def answer(runtime: Runtime, text: str) -> None:
    asked = await the_question(runtime)
    await runtime.store.do(AnswerApproval(asked["id"], text, by=Actor("ada", "code")))
    await runtime.drain()


async def the_alarm(runtime: Runtime) -> dict[str, Any]:
    (found,) = [one for one in (await runtime.reader.alarms())["alarms"] if one["key"].startswith("ask/")]
    return dict(found)


async def test_it_goes_to_the_channel_that_it_names_with_how_to_answer(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance", timeout="4h")) as runtime:
        run = await go(runtime)
        asked = await the_question(runtime)
        (message,) = posts["finance"].got
        assert message.subject == "Agent pay asks: May I refund order 7?"
        assert f"run {run['id']}, which waits until 2026-01-01 04:00 UTC" in message.body["text"]
        assert f"`wakeful approvals answer {asked['id']} ANSWER`" in message.body["text"]
        assert message.body["key"] == f"ask/app/pay/{asked['id']}"
        assert (posts["ops"].got, posts["shop"].got) == ([], [])


@pytest.mark.parametrize("to", [None, "nobody-of-that-name"])
async def test_else_to_the_owner_of_the_agent(app: App, posts: dict[str, Post], to: str | None):
    async with working(asking(app, to=to)) as runtime:
        await go(runtime)
        assert posts["shop"].told == ["opened"]
        assert (posts["ops"].got, posts["finance"].got) == ([], [])


async def test_it_is_told_once_more_at_three_quarters_and_when_its_time_is_over(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance", timeout="4h")) as runtime:
        await go(runtime)
        await pass_time(runtime, "2h59m")
        assert posts["finance"].told == ["opened"]
        await pass_time(runtime, "1m")
        assert posts["finance"].told == ["opened", "still open"]
        assert (posts["finance"].got[-1].subject or "").startswith("Still open after 3 h 0 m: Agent pay asks: ")
        await pass_time(runtime, "59m")
        assert posts["finance"].told == ["opened", "still open"]
        await pass_time(runtime, "2m")
        assert posts["finance"].told == ["opened", "still open", "resolved"]
        assert "Not answered in time." in posts["finance"].got[-1].body["text"]


async def test_who_answered_and_what_is_told(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance", timeout="4h", schema=bool)) as runtime:
        await go(runtime)
        await answer(runtime, "true")
        last = posts["finance"].got[-1]
        assert posts["finance"].told == ["opened", "resolved"]
        assert last.subject == "Resolved: Agent pay asks: May I refund order 7?"
        assert (last.body["ending"], (await the_alarm(runtime))["ending"]) == ("answered by ada: true",) * 2
        await pass_time(runtime, "30d")
        assert posts["finance"].told == ["opened", "resolved"]


async def test_one_that_is_asked_again_is_told_again(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance", timeout="4h", schema=int)) as runtime:
        await go(runtime)
        await answer(runtime, '"many"')
        assert posts["finance"].told[-1] == "opened"
        assert "asked again, the answer did not fit" in posts["finance"].got[-1].body["text"]
        await answer(runtime, "7")
        assert posts["finance"].told[-1] == "resolved"


async def test_one_whose_run_is_cancelled_is_over(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance")) as runtime:
        run = await go(runtime)
        await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code"), note="not needed"))
        await runtime.drain()
        assert posts["finance"].told == ["opened", "resolved"]
        assert "o answer is needed any more" in posts["finance"].got[-1].body["text"]


async def test_whoever_knows_is_not_told_again(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance", timeout="4h")) as runtime:
        await go(runtime)
        await runtime.store.do(ChangeAlarm((await the_alarm(runtime))["key"], "acknowledge", by=Actor("ada", "code")))
        await pass_time(runtime, "3h30m")
        assert posts["finance"].told == ["opened"]


async def test_one_without_a_time_limit_is_told_at_a_rate(app: App, posts: dict[str, Post]):
    async with working(asking(app, to="finance")) as runtime:
        await go(runtime)
        await pass_time(runtime, "4h")
        await pass_time(runtime, "4h")
        assert posts["finance"].told == ["opened", "still open", "still open"]


async def test_one_that_an_older_process_answered_is_over_at_the_next_look(
    app: App, posts: dict[str, Post], store_url: str
):
    from support.stores import query

    async with working(asking(app, to="finance")) as runtime:
        await go(runtime)
        await query(store_url, "update wakeful_approval set state = 'answered'")
        await runtime.resolver.tick()
        await runtime.drain()
        assert posts["finance"].told == ["opened", "resolved"]
