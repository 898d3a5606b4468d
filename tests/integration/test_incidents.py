"""Alarms with an app at work: who hears of them, how often, until when; and what becomes of an agent that fails in a row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.apps import NewApp, go, pass_time, working
from wakeful import App, ConfigError, Persistent, Run, on
from wakeful.channels import Channel, Message
from wakeful.errors import NotFound
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES
from wakeful.runtime import SILENT, Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.alarms import ChangeAlarm, TellAlarms
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.redo import RedoRun
from wakeful.watch.telling import TELLER
from wakeful.why import why

PATIENCE = 60.0


class Post(Channel):
    """Keeps what it gets, or says no."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.error: Exception | None = None
        self.came = asyncio.Event()

    async def deliver(self, messages: Sequence[Message]) -> None:
        if self.error is not None:
            raise self.error
        self.got.extend(messages)
        self.came.set()

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was told, and of which kind of alarm."""
        return [(message.body["what"], message.body["key"].split("/")[0]) for message in self.got]


@pytest.fixture
def ops() -> Post:
    return Post()


class Trouble:
    """A handler that fails as long as it is told to."""

    def __init__(self, app: App, **options: Any) -> None:
        self.error: Exception | None = Persistent("no")
        app.agent(on("go"), name="agent", **options)(self._handle)

    async def _handle(self, run: Run) -> None:
        if self.error is not None:
            raise self.error


async def change(runtime: Runtime, key: str, verb: Any, **more: Any) -> None:
    changed = await runtime.store.do(ChangeAlarm(key, verb, by=Actor("ada", "code"), **more))
    assert changed is not None
    if changed.refused is not None:
        raise NotFound(changed.refused)
    await runtime.drain()


async def the_alarm(runtime: Runtime, kind: str) -> dict[str, Any]:
    (found,) = [one for one in (await runtime.reader.alarms())["alarms"] if one["key"].split("/")[0] == kind]
    return dict(found)


# telling


async def test_an_alarm_is_told_through_the_channel_that_the_app_names(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    Trouble(app)
    async with working(app) as runtime:
        run = await go(runtime)
        (message,) = ops.got
        alarm = await the_alarm(runtime, "dead")
        assert message.subject == alarm["subject"] == "Agent agent has a dead letter"
        reason = f"agent agent: run {run['id']} is a dead letter (Persistent: no); will fail the same way again"
        assert message.body == {
            "what": "opened",
            "key": alarm["key"],
            "subject": message.subject,
            "text": (
                f"Agent agent has a dead letter. A{reason[1:]}. Since 2026-01-01 00:00 UTC. What to do: {alarm['do']}. "
                f"`wakeful alarms ack {alarm['key']}` acknowledges it."
            ),
            "do": alarm["do"],
            "reason": reason,
            "app": "app",
            "agent": "agent",
            "owner": None,
            "incident": 1,
            "number": 1,
            "count": 1,
            "opened_at": "2026-01-01T00:00:00Z",
            "last_at": "2026-01-01T00:00:00Z",
            "resolved_at": None,
            "loud": False,
            "ending": None,
        }
        assert message.agent == TELLER


async def test_it_is_told_again_at_a_rate_as_long_as_it_is_open(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops}, alarm_repeat="1h")
    Trouble(app)
    async with working(app) as runtime:
        await go(runtime)
        await go(runtime)
        await pass_time(runtime, "59m")
        assert ops.told == [("opened", "dead")]
        await pass_time(runtime, "1m")
        await pass_time(runtime, "1h")
        assert ops.told == [("opened", "dead"), ("still open", "dead"), ("still open", "dead")]
        assert [message.body["count"] for message in ops.got] == [1, 2, 2]


async def test_it_is_not_told_again_where_the_app_says_so(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops}, alarm_repeat=None)
    Trouble(app)
    async with working(app) as runtime:
        await go(runtime)
        await pass_time(runtime, "30d")
        assert ops.told == [("opened", "dead")]


async def test_whoever_acknowledges_it_is_not_told_again_until_it_resolves(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    trouble = Trouble(app)
    async with working(app) as runtime:
        run = await go(runtime)
        key = (await the_alarm(runtime, "dead"))["key"]
        await change(runtime, key, "acknowledge", note="on it")
        await pass_time(runtime, "1d")
        assert ops.told == [("opened", "dead")]
        trouble.error = None
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        assert ops.told == [("opened", "dead"), ("resolved", "dead")]
        alarm = await runtime.reader.alarm(key)
        assert alarm is not None
        assert [(one["verb"], one["by"], one["note"]) for one in alarm["changes"]] == [("acknowledge", "ada", "on it")]


async def test_a_muted_one_is_heard_of_when_that_time_is_over(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops}, alarm_repeat="1h")
    Trouble(app)
    async with working(app) as runtime:
        await go(runtime)
        await change(runtime, (await the_alarm(runtime, "dead"))["key"], "mute", span=2 * 3600 * 1_000_000)
        await pass_time(runtime, "1h")
        assert ops.told == [("opened", "dead")]
        await pass_time(runtime, "1h")
        assert ops.told == [("opened", "dead"), ("still open", "dead")]


async def test_after_it_was_resolved_it_opens_as_the_next_incident(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    Trouble(app)
    async with working(app) as runtime:
        await go(runtime)
        await change(runtime, (await the_alarm(runtime, "dead"))["key"], "resolve")
        await go(runtime)
        assert ops.told == [("opened", "dead"), ("resolved", "dead"), ("opened", "dead")]
        assert [message.body["incident"] for message in ops.got] == [1, 1, 2]


async def test_an_owner_hears_of_it_through_a_channel_of_that_name(new_app: NewApp, ops: Post):
    platform = Post()
    app = new_app(alarms="ops", channels={"ops": ops, "platform": platform})
    Trouble(app, owner="platform")

    @app.agent(on("other"), owner="nobody")
    async def another(run: Run) -> None:
        raise Persistent("no")

    async with working(app) as runtime:
        await go(runtime)
        await app.emit("other")
        await runtime.drain()
        assert [(message.body["agent"], message.body["owner"]) for message in platform.got] == [("agent", "platform")]
        assert [(message.body["agent"], message.body["owner"]) for message in ops.got] == [("another", "nobody")]


async def test_without_a_channel_it_is_told_in_the_log_and_makes_no_run(app: App):
    Trouble(app)
    async with working(app) as runtime:
        with capture_logs() as lines:
            await go(runtime)
        said = [line for line in lines if line["event"] == "alarm"]
        assert [(line["what"], line["log_level"]) for line in said] == [("opened", "error")]
        assert await runtime.reader.counts() == {"dead": 1}
        assert (await the_alarm(runtime, "dead"))["told"] == 1


async def test_a_channel_that_is_not_there_is_refused_at_the_start(new_app: NewApp, ops: Post):
    app = new_app(alarms="opps", channels={"ops": ops})
    with pytest.raises(ConfigError, match=r'alarms="opps".*no such channel\. Did you mean "ops"'):
        async with working(app):
            pass


async def test_the_alarm_is_not_told_through_the_channel_that_it_is_about(new_app: NewApp, ops: Post):
    """No loop: the channel that all alarms go to is down."""
    app = new_app(alarms="ops", channels={"ops": ops}, alarm_repeat="1h")
    Trouble(app)
    ops.error = Persistent("gone")
    async with working(app) as runtime:
        with capture_logs() as lines:
            await go(runtime)
            await pass_time(runtime, "10h")
        assert (await the_alarm(runtime, "delivery"))["told"] > 0
        about = [line["key"].split("/")[0] for line in lines if line["event"] == "alarm"]
        assert set(about) == {"delivery"}
        tellings = (await runtime.reader.runs(agent=TELLER))["runs"]
        assert len(tellings) == (await the_alarm(runtime, "dead"))["told"]


async def test_when_the_owners_channel_is_down_the_app_hears_of_that(new_app: NewApp, ops: Post):
    platform = Post()
    platform.error = Persistent("gone")
    app = new_app(alarms="ops", channels={"ops": ops, "platform": platform})
    Trouble(app, owner="platform")
    async with working(app) as runtime:
        await go(runtime)
        assert ops.told == [("opened", "delivery")]


async def test_trouble_of_the_teller_itself_is_only_in_the_log(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    async with working(app) as runtime:
        await runtime.app.start(TELLER, {"no": "channel"})
        with capture_logs() as lines:
            await runtime.drain()
            for _ in range(5):
                await pass_time(runtime)
        assert [line["what"] for line in lines if line["event"] == "alarm"] == ["opened"]
        assert ops.got == []


async def test_no_rule_keeps_an_alarm_from_being_told(new_app: NewApp, ops: Post):
    def broken(_: Any) -> Decision | None:
        raise ValueError("no idea")

    app = new_app(alarms="ops", channels={"ops": ops}, rules=(broken, *DEFAULT_RULES))
    Trouble(app)
    async with working(app) as runtime:
        await app.emit("go")
        await eventually(runtime, ops, 1)
        assert ops.told == [("opened", "rule")]


async def test_an_alarm_of_a_very_long_name_is_told_and_keeps_no_other_from_it(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    async with working(app) as runtime:
        source = "/" + "s" * 1_000
        for number in range(2):
            await app.emit("go", number, source=f"{source}/{'x' * 20}", id="1")
        await eventually(runtime, ops, 1)
        runtime.alarm("archive/app", "no room")
        await eventually(runtime, ops, 2)
        assert ops.told == [("opened", "conflict"), ("opened", "archive")]
        assert ops.got[0].body["key"] == f"conflict/app/{source}/{'x' * 20}"


async def eventually(runtime: Runtime, post: Post, most: int) -> None:
    """Alarms that are stored in the background, told."""
    async with asyncio.timeout(PATIENCE):
        while len(post.got) < most:
            await runtime.drain()
            await asyncio.sleep(0)


async def test_a_process_that_dies_after_raising_an_alarm_is_heard_of_through_another(new_app: NewApp, ops: Post):
    """The alarm is stored; whoever comes next tells it, once."""

    def probe(where: str, requests: Sequence[Any]) -> None:
        if where == "within" and any(isinstance(one, TellAlarms) for one in requests):
            raise Died

    app = new_app(alarms="ops", channels={"ops": ops})
    Trouble(app)
    runtime = Runtime(app, probe=probe)
    await runtime.open()
    await runtime.start()
    app.runtime = runtime
    await app.emit("go")
    await asyncio.wait_for(dead(runtime), PATIENCE)
    app.runtime = None
    await runtime.die()
    assert ops.got == []
    again = new_app(alarms="ops", channels={"ops": ops})
    Trouble(again)
    async with working(again) as other:
        await other.drain()
        assert ops.told == [("opened", "dead")]


async def dead(runtime: Runtime) -> None:
    while not runtime.store.journal.is_dead():
        await asyncio.sleep(0)


async def test_several_processes_tell_it_once(new_app: NewApp, ops: Post):
    apps = [new_app(alarms="ops", channels={"ops": ops}) for _ in range(3)]
    for app in apps:
        Trouble(app)
    async with working(apps[0]) as one, working(apps[1]) as two, working(apps[2]) as three:
        await apps[0].emit("go")
        await asyncio.gather(*(runtime.drain() for runtime in (one, two, three)))
        await asyncio.gather(*(runtime.drain() for runtime in (one, two, three)))
        assert ops.told == [("opened", "dead")]


async def test_with_real_time_it_is_told_at_once(new_app: NewApp, ops: Post):
    """Whoever tells is woken by the commit that raises the alarm."""
    app = new_app(alarms="ops", channels={"ops": ops}, clock=None)
    Trouble(app)
    async with app.running():
        await app.emit("go")
        await asyncio.wait_for(ops.came.wait(), PATIENCE)
        assert ops.told == [("opened", "dead")]


# over by themselves


async def test_the_alarm_of_a_dead_delivery_is_over_when_it_is_discarded(new_app: NewApp, ops: Post):
    post = Post()
    post.error = Persistent("no")
    app = new_app(alarms="ops", channels={"ops": ops, "post": post})

    @app.agent(on("go"), deliver="post")
    async def agent(run: Run) -> str:
        return "hello"

    async with working(app) as runtime:
        run = await go(runtime)
        assert ops.told == [("opened", "delivery")]
        (delivery,) = (await runtime.reader.run(run["id"]) or {})["deliveries"]
        await runtime.store.do(RedoDelivery(delivery["id"], discard=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert ops.told == [("opened", "delivery"), ("resolved", "delivery")]


async def test_an_agent_that_nobody_had_is_over_when_nothing_waits_for_it(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    Trouble(app).error = None
    async with working(app, worker=False):
        receipt = await app.emit("go")
    renamed = new_app(alarms="ops", channels={"ops": ops})
    async with working(renamed) as runtime:
        await stored(runtime, "agent")
        await runtime.drain()
        assert ops.told == [("opened", "agent")]
        await runtime.resolver.tick()
        assert (await the_alarm(runtime, "agent"))["state"] == "open"
    async with working(app) as runtime:
        await runtime.drain()
        assert (await runtime.reader.run(receipt.runs[0]) or {})["state"] == "done"
    async with working(renamed) as runtime:
        await runtime.resolver.tick()
        await runtime.drain()
        assert ops.told == [("opened", "agent"), ("resolved", "agent")]


async def test_an_agent_that_has_its_name_back_is_over_at_the_start(new_app: NewApp):
    app = new_app()
    Trouble(app).error = None
    async with working(app, worker=False):
        await app.emit("go")
    async with working(new_app()) as runtime:
        await stored(runtime, "agent")
    async with working(app) as runtime:
        await runtime.resolver.tick()
        assert (await the_alarm(runtime, "agent"))["state"] == "resolved"


async def stored(runtime: Runtime, kind: str) -> None:
    """Wait until an alarm of this kind, which is stored in the background, is there."""
    async with asyncio.timeout(PATIENCE):
        while not [one for one in (await runtime.reader.alarms())["alarms"] if one["key"].startswith(f"{kind}/")]:
            await asyncio.sleep(0)


async def test_a_full_disk_is_over_when_it_has_not_been_full_for_a_while(app: App):
    async with working(app) as runtime:
        runtime.alarm("full/app", "the disk is full")
        await stored(runtime, "full")
        await runtime.resolver.tick()
        assert (await the_alarm(runtime, "full"))["state"] == "resolved"


# failing in a row


async def test_an_agent_that_fails_three_times_in_a_row_raises_an_alarm_to_its_owner(new_app: NewApp, ops: Post):
    app = new_app(channels={"platform": ops})
    trouble = Trouble(app, owner="platform")
    async with working(app) as runtime:
        for _ in range(3):
            await go(runtime)
        assert ops.told == [("opened", "dead"), ("opened", "failing")]
        trouble.error = None
        await go(runtime)
        assert ops.told[2:] == [("resolved", "failing")]


async def test_one_that_goes_well_in_between_ends_the_row(app: App):
    trouble = Trouble(app)
    async with working(app) as runtime:
        for _ in range(5):
            trouble.error = Persistent("no")
            await go(runtime)
            await go(runtime)
            trouble.error = None
            await go(runtime)
        assert [one["key"].split("/")[0] for one in (await runtime.reader.alarms())["alarms"]] == ["dead"]


@pytest.mark.parametrize("how", ["sends", "nothing"])
async def test_however_it_ends_well_it_is_heard_of(new_app: NewApp, how: str):
    app = new_app(alarm_after=1)
    broken = True

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        if broken:
            raise Persistent("no")
        if how == "sends":
            run.send("log", "done")

    async with working(app) as runtime:
        await go(runtime)
        assert (await the_alarm(runtime, "failing"))["state"] == "open"
        broken = False
        await go(runtime)
        assert (await the_alarm(runtime, "failing"))["state"] == "resolved"


async def test_ten_in_a_row_pause_it_and_that_cannot_be_muted(new_app: NewApp, ops: Post):
    app = new_app(alarms="ops", channels={"ops": ops})
    trouble = Trouble(app)
    async with working(app) as runtime:
        for _ in range(9):
            await go(runtime)
        assert await runtime.reader.pauses() == []
        await go(runtime)
        (pause,) = await runtime.reader.pauses()
        assert (pause["agent"], pause["by"]) == ("agent", "wakeful")
        assert ("opened", "paused") in ops.told
        alarm = await the_alarm(runtime, "paused")
        with pytest.raises(NotFound, match="cannot be muted"):
            await change(runtime, alarm["key"], "mute", span=3600 * 1_000_000)
        waiting = await go(runtime)
        told = await why(runtime.reader, waiting["id"])
        assert told is not None
        assert "Agent agent has been paused since" in told["story"][-1]
        assert "10 runs in a row became dead letters" in told["story"][-1]
        trouble.error = None
        await runtime.store.do(ChangePause("app", "agent", paused=False, by=Actor("ada", "code")))
        await runtime.drain()
        assert {("resolved", "paused"), ("resolved", "failing")} <= set(ops.told)


async def test_how_many_is_for_the_app_or_the_agent_to_say(new_app: NewApp):
    app = new_app(alarm_after=1, pause_after=2)

    @app.agent(on("a"))
    async def strict(run: Run) -> None:
        raise Persistent("no")

    @app.agent(on("b"), alarm_after=None, pause_after=None)
    async def lenient(run: Run) -> None:
        raise Persistent("no")

    async with working(app) as runtime:
        for _ in range(12):
            await app.emit("b")
        await app.emit("a")
        await runtime.drain()
        kinds = [one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]]
        assert sorted(key for key in kinds if not key.startswith("dead/")) == ["failing/app/strict"]
        await app.emit("a")
        await runtime.drain()
        assert [one["agent"] for one in await runtime.reader.pauses()] == ["strict"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alarm_after": 0}, "alarm_after must be a whole number from 1 up"),
        ({"pause_after": "ten"}, "pause_after must be a whole number from 1 up"),
        ({"alarm_repeat": "soon"}, "alarm_repeat"),
        ({"alarms": 7}, "alarms must be the name of a channel"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        App("app", **options)


# is it ready?


async def test_parts_that_look_are_not_silent(app: App):
    async with working(app) as runtime:
        assert runtime.silent_parts() == {}


async def test_a_part_that_does_not_come_to_its_end_is_silent(app: App, monkeypatch: pytest.MonkeyPatch):
    async with working(app) as runtime:
        looking = asyncio.Event()

        async def hang(*_: object) -> int | None:
            looking.set()
            await asyncio.get_running_loop().create_future()
            return None

        monkeypatch.setattr("wakeful.watch.telling.first_to_tell", hang)
        runtime.teller.wake()
        await asyncio.wait_for(looking.wait(), PATIENCE)
        assert "teller" not in runtime.silent_parts()
        later = time.monotonic() + 2 * SILENT
        monkeypatch.setattr("wakeful.service.time", SimpleNamespace(monotonic=lambda: later))
        assert runtime.silent_parts()["teller"] > SILENT
        await runtime.teller.stop()
        assert "teller" not in runtime.silent_parts()
