"""One cause is one alarm: held runs of one agent and action, the failure of a scheduled run."""

from __future__ import annotations

from typing import Any

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Operation, Persistent, Run, action, every, on
from wakeful.channels import Channel, Message
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.settling import SettleEffect


class Post(Channel):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Message] = []

    async def deliver(self, messages: Any) -> None:
        self.got.extend(messages)


class Bank:
    """An action that may have happened, each time."""

    def __init__(self, app: App) -> None:
        @action
        async def transfer(op: Operation, number: int) -> str:
            raise TimeoutError

        @app.agent(on("go"), owner="platform")
        async def pay(run: Run, number: int) -> None:
            await run.act(transfer, number)


async def alarms_of(runtime: Runtime) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in (await runtime.reader.alarms())["alarms"]}


async def settle(runtime: Runtime, run: dict[str, Any]) -> None:
    (effect,) = run["effects"]
    await runtime.store.do(
        SettleEffect(effect["id"], "confirmed", result='"ok"', by=Actor("ada", "code"), note="it is in the statement")
    )
    await runtime.drain()


async def test_held_runs_of_one_agent_and_action_are_one_alarm_with_a_count(new_app: NewApp):
    post = Post()
    app = new_app(alarms="ops", channels={"ops": post})
    Bank(app)
    async with working(app) as runtime:
        runs = [await go(runtime, number) for number in range(4)]
        assert [run["state"] for run in runs] == ["held"] * 4
        (alarm,) = (await alarms_of(runtime)).values()
        assert (alarm["key"], alarm["count"], alarm["owner"]) == ("held/app/pay/transfer", 4, "platform")
        assert alarm["subject"] == "4 runs of agent pay are held for a person: transfer"
        assert [message.subject for message in post.got] == ["A run of agent pay is held for a person: transfer"]


async def test_it_is_over_with_the_last_of_them_and_says_who_did_that(new_app: NewApp):
    post = Post()
    app = new_app(alarms="ops", channels={"ops": post})
    Bank(app)
    async with working(app) as runtime:
        first, second, third = [await go(runtime, number) for number in range(3)]
        await settle(runtime, first)
        assert (await alarms_of(runtime))["held/app/pay/transfer"]["state"] == "open"
        # What it did is to be undone first, and nobody knows whether it did: it is held for that.
        await runtime.store.do(CancelRun(second["id"], by=Actor("ada", "code"), note="not needed"))
        await runtime.drain()
        await settle(runtime, third)
        assert (await alarms_of(runtime))["held/app/pay/transfer"]["state"] == "open"
        await settle(runtime, second)
        alarm = (await alarms_of(runtime))["held/app/pay/transfer"]
        assert (alarm["state"], alarm["ending"]) == ("resolved", "confirmed by ada: it is in the statement")
        assert post.got[-1].body["what"] == "resolved"
        assert "Confirmed by ada: it is in the statement." in post.got[-1].body["text"]


async def test_the_alarm_that_an_older_version_raised_for_one_run_is_over_too(new_app: NewApp):
    app = new_app()
    Bank(app)
    async with working(app) as runtime:
        run = await go(runtime, 1)
        runtime.alarm(f"held/app/pay/{run['id']}", "held", agent="pay")
        await runtime.drain()
        await settle(runtime, run)
        assert {one["state"] for one in (await alarms_of(runtime)).values()} == {"resolved"}


async def test_a_scheduled_run_that_fails_is_one_alarm(new_app: NewApp):
    app = new_app()

    @app.agent(every("1d"), alarm_after=None)
    async def nightly(run: Run) -> None:
        raise Persistent("no space left")

    async with working(app) as runtime:
        await pass_time(runtime, "1d")
        await runtime.watcher.look()
        assert [key.rpartition("/")[0] for key in await alarms_of(runtime)] == ["dead/app/nightly"]
        (expected,) = await runtime.reader.expectations()
        assert (expected["state"], expected["absence"]) == ("absent", "failed")


async def test_a_scheduled_run_that_is_held_is_one_alarm(new_app: NewApp):
    app = new_app()

    @app.agent(every("1d"), checks=[lambda _: "look at this"])
    async def nightly(run: Run) -> str:
        return "done"

    async with working(app) as runtime:
        await pass_time(runtime, "1d")
        await pass_time(runtime, "23h")
        await runtime.watcher.look()
        assert list(await alarms_of(runtime)) == ["held/app/nightly/output"]
