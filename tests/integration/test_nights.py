"""A night: everything outside is down from half past one to seven, and nobody is there. In the morning everything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from wakeful import App, Circuit, NotSent, Operation, Persistent, RateLimited, Run, Transient, action, cron, on, step
from wakeful.clock import VirtualClock
from wakeful.output.channels.base import Channel, Message
from wakeful.stores.request import Actor
from wakeful.stores.verbs.circuits import CloseCircuit
from wakeful.stores.verbs.redo import RedoRun
from wakeful.testing import World
from wakeful.triggers.base import Trigger

MIDNIGHT = datetime(2026, 1, 5, 0, 0, tzinfo=UTC)


class Unreachable(Exception):
    """As HTTP clients have it: no ConnectionError, but caused by one."""


class Outside:
    """Everything that the app calls. Down: nothing answers."""

    def __init__(self) -> None:
        self.is_down = False
        self.calls = 0
        self.done: dict[str, int] = {}

    def call(self, what: str = "") -> str:
        self.calls += 1
        if self.is_down:
            try:
                raise ConnectionRefusedError("refused")
            except ConnectionRefusedError as error:
                raise Unreachable("all connection attempts failed") from error
        self.done[what] = self.done.get(what, 0) + 1
        return "ok"


class Letters(Channel):
    """A channel whose other side may be down."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self.bodies: list[Any] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.outside.call(f"letter {message.body}")
            self.bodies.append(message.body)


AGENTS = ("reads", "prices", "charges", "books", "rings", "posts", "handles")


def shop(outside: Outside, letters: Letters, agents: Sequence[str] = AGENTS) -> App:
    """One agent for every way in which something can fail and be tried again; `agents` get orders."""

    def order(agent: str) -> Trigger:
        return on("order" if agent in agents else "nothing")

    app = App("shop", channels={"letters": letters}, circuits={"stripe": Circuit(failures=3)})

    @step
    async def read(number: int) -> str:
        return outside.call(f"read {number}")

    @step(dependency="stripe")
    async def price(number: int) -> str:
        return outside.call(f"price {number}")

    @action(safety="idempotent")
    async def charge(op: Operation, number: int) -> str:
        return outside.call(f"charge {number}")

    async def find_booking(op: Operation, number: int) -> str | None:
        outside.call(f"find {number}")
        return None

    @action(safety="reconcile", find=find_booking)
    async def book(op: Operation, number: int) -> str:
        return outside.call(f"book {number}")

    @action
    async def ring(op: Operation, number: int) -> str:
        try:
            return outside.call(f"ring {number}")
        except Unreachable as error:
            raise NotSent("nobody answers") from error

    @action(safety="idempotent")
    async def post(op: Operation, number: int) -> str:
        return outside.call(f"post {number}")

    @app.agent(order("reads"))
    async def reads(run: Run, number: int) -> str:
        return await run.step(read, number)

    @app.agent(order("prices"))
    async def prices(run: Run, number: int) -> str:
        return await run.step(price, number)

    @app.agent(order("charges"))
    async def charges(run: Run, number: int) -> str:
        return await run.act(charge, number)

    @app.agent(order("books"))
    async def books(run: Run, number: int) -> str:
        return await run.act(book, number)

    @app.agent(order("rings"))
    async def rings(run: Run, number: int) -> str:
        return await run.act(ring, number)

    @app.agent(order("posts"))
    async def posts(run: Run, number: int) -> None:
        run.send("letters", number)
        run.stage(post, number)

    @app.agent(order("handles"), key="'all'")
    async def handles(run: Run, number: int) -> str:
        if outside.is_down:
            raise Transient("not now")
        return outside.call(f"handle {number}")

    @app.agent(cron("0 2 * * *", tz="UTC"))
    async def nightly(run: Run) -> str:
        return await run.step(read, -1)

    return app


@pytest.fixture
def outside() -> Outside:
    return Outside()


def at(hour: int, minute: int) -> datetime:
    return MIDNIGHT.replace(hour=hour, minute=minute)


async def until(world: World, hour: int, minute: int) -> None:
    """Let time pass, with a look at every quarter of an hour."""
    while world.clock.now() < (end := int(at(hour, minute).timestamp() * 1e6)):
        await world.skip(f"{min(900, (end - world.clock.now()) / 1e6)}s")
        await world.look()


def states(shown: Sequence[dict[str, Any]]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for one in shown:
        counted[one["state"]] = counted.get(one["state"], 0) + 1
    return counted


async def test_everything_down_all_night_is_done_by_itself_in_the_morning(store_url: str, outside: Outside):
    letters = Letters(outside)
    app = shop(outside, letters)
    clock = VirtualClock(at(1, 15))
    async with World(app, store=store_url, clock=clock, deliver=True) as world:
        sent = 0
        await world.emit("order", sent, id=str(sent))
        await until(world, 1, 29)
        assert states(await world.runs()) == {"done": 7}
        assert await world.alarms() == []

        outside.is_down = True
        await until(world, 1, 30)
        for hour in (1, 4, 6):
            sent += 1
            await world.emit("order", sent, id=str(sent))
            await until(world, hour, 45)
            if hour == 1:  # heard of within a quarter of an hour
                early = {one["key"]: one for one in await world.alarms()}
        assert {one["state"] for one in early.values()} == {"open"}
        assert set(early) == {
            "retrying/shop/reads/read",
            "retrying/shop/charges/charge",
            "retrying/shop/books/book",
            "retrying/shop/rings/ring",
            "retrying/shop/posts/post",
            "retrying/shop/handles/handler",
            "circuit/shop/stripe",
            "delivery/shop/letters/late",
        }
        text = early["retrying/shop/reads/read"]["text"]
        assert text.startswith(
            "agent reads: read has been failing since 2026-01-05T01:30:00Z (Unreachable: all connection attempts"
        )
        assert "until 2026-01-06T01:30:00Z" in text
        assert "It has been down since 2026-01-05T01:30:0" in early["circuit/shop/stripe"]["text"]
        await until(world, 7, 0)
        assert set(states(await world.runs())) == {"done", "waiting", "parked", "ready"}

        outside.is_down = False
        await until(world, 7, 15)
        runs = await world.runs()
        assert states(runs) == {"done": 7 * 4 + 1}
        assert {one["state"] for one in await world.effects()} == {"confirmed"}
        assert states(await world.deliveries()) == {"delivered": 4}
        assert letters.bodies == sorted(letters.bodies) == list(range(4))
        assert {one["state"] for one in await world.alarms()} == {"resolved"}
    assert {count for what, count in outside.done.items() if not what.startswith("find")} == {1}


async def test_what_does_not_come_back_is_given_up_after_a_day(outside: Outside):
    letters = Letters(outside)
    app = shop(outside, letters, ["reads", "prices", "charges", "handles"])
    outside.is_down = True
    async with World(app, clock=VirtualClock(at(2, 1)), deliver=True) as world:
        await world.emit("order", 1, id="1")
        await world.skip("23h")
        assert set(states(await world.runs())) <= {"waiting", "ready", "parked"}
        await world.skip("70m")
        ended = {one["agent"]: (one["state"], one["reason"]) for one in await world.runs()}
        assert {agent: state for agent, (state, _) in ended.items() if agent != "nightly"} == {
            "reads": "dead",
            "prices": "parked",  # for as long as its circuit is open: it loses nothing
            "charges": "held",
            "handles": "dead",
        }
        assert str(ended["reads"][1]).startswith("failing for 1 d 0 h, since 2026-01-05T02:01:0")


async def test_a_message_is_given_up_after_a_day_and_so_are_those_that_waited_behind_it(
    store_url: str, outside: Outside
):
    letters = Letters(outside)
    app = App("post", channels={"letters": letters})

    @app.agent(on("go"))
    async def write(run: Run, number: int) -> None:
        run.send("letters", number)

    outside.is_down = True
    async with World(app, store=store_url, clock=VirtualClock(at(1, 30)), deliver=True) as world:
        for number in range(3):
            await world.emit("go", number, id=str(number))
        await world.drain(skip=False)
        await world.skip("1h")
        (alarm,) = await world.alarms()
        assert (alarm["key"], alarm["state"]) == ("delivery/post/letters/late", "open")
        assert "has accepted no deliveries since 2026-01-05T01:3" in alarm["text"]
        (circuit,) = await world.runtime.reader.circuits()
        assert (circuit["name"], circuit["state"], circuit["waiting"]) == ("channel:letters", "open", 3)
        assert circuit["rest"] == 300
        await world.skip("22h")
        assert states(await world.deliveries()) == {"pending": 3}
        await world.emit("go", 3, id="3")
        calls = outside.calls
        await world.skip("70m")
        assert states(await world.deliveries()) == {"dead": 3, "pending": 1}
        assert outside.calls - calls < 30
        outside.is_down = False
        await world.skip("6m")
        assert letters.bodies == [3]
        assert (await world.runtime.reader.circuits())[0]["state"] == "closed"


@pytest.mark.parametrize("agent", ["reads", "rings"])
async def test_what_a_person_replays_has_a_day_of_its_own(outside: Outside, agent: str):
    await replayed(None, outside, agent)


async def test_a_handler_that_a_person_replays_has_a_day_of_its_own(store_url: str, outside: Outside):
    await replayed(store_url, outside, "handles")


async def replayed(store: str | None, outside: Outside, agent: str) -> None:
    app = shop(outside, Letters(outside), [agent])
    outside.is_down = True
    async with World(app, store=store, clock=VirtualClock(at(2, 1))) as world:
        await world.emit("order", 1, id="1")
        await world.skip("23h50m")
        (run,) = await world.runs(agent=agent)
        assert run["state"] == "waiting"
        await world.skip("20m")
        (run,) = await world.runs(agent=agent)
        assert run["state"] == "dead"
        await world.runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await world.skip("1h")
        assert (await world.run(run))["state"] == "waiting"
        outside.is_down = False
        await world.skip("6m")
        assert (await world.run(run))["state"] == "done"


async def test_processes_that_die_in_between_forget_nothing(store_url: str, outside: Outside):
    letters = Letters(outside)
    app = shop(outside, letters)
    outside.is_down = True
    async with World(app, store=store_url, clock=VirtualClock(at(2, 1)), deliver=True) as world:
        await world.emit("order", 1, id="1")
        for _ in range(3):
            await world.skip("10m")
            await world.look()
            await world.crash()
        await world.look()
        told = {one["key"]: one for one in await world.alarms()}
        assert {one["state"] for one in told.values()} == {"open"}
        assert {key.partition("/")[0] for key in told} == {"retrying", "circuit", "delivery"}
        for key, one in told.items():
            assert "since 2026-01-05T02:01:" in one["text"], key
        outside.is_down = False
        await world.skip("11m")
        await world.look()
        assert states(await world.runs()) == {"done": 7}
        assert states(await world.deliveries()) == {"delivered": 1}
        assert {one["state"] for one in await world.alarms()} == {"resolved"}
    assert {count for what, count in outside.done.items() if not what.startswith("find")} == {1}


async def test_a_person_who_knows_better_closes_the_circuit_of_a_channel(store_url: str, outside: Outside):
    letters = Letters(outside)
    patient = Circuit(failures=2, rest="1h", most="2h")
    app = App("post", channels={"letters": letters}, circuits={"channel:letters": patient})

    @app.agent(on("go"))
    async def write(run: Run, number: int) -> None:
        run.send("letters", number)

    outside.is_down = True
    async with World(app, store=store_url, deliver=True) as world:
        for number in range(3):
            await world.emit("go", number, id=str(number))
        await world.skip("5m")
        outside.is_down = False
        await world.skip("5m")
        assert letters.bodies == []
        await world.runtime.store.do(CloseCircuit("post", "channel:letters", by=Actor("ada", "code")))
        await world.drain(skip=False)
        assert letters.bodies == [0, 1, 2]
        assert [one["state"] for one in await world.alarms()] == ["resolved"]


async def test_a_message_that_cannot_be_written_does_not_stop_its_channel(store_url: str):
    """An error of an unknown kind is about one message, and not about the channel."""
    arrived: list[Any] = []

    class Picky(Channel):
        async def deliver(self, messages: Sequence[Message]) -> None:
            arrived.extend(message.body["number"] for message in messages)

    app = App("post", channels={"letters": Picky()})

    @app.agent(on("go"))
    async def write(run: Run, body: dict[str, int]) -> None:
        run.send("letters", body)

    async with World(app, store=store_url, deliver=True) as world:
        await world.emit("go", {"nummer": 1}, id="1")
        await world.emit("go", {"number": 2}, id="2")
        await world.skip("15m")
        assert states(await world.deliveries()) == {"dead": 1, "delivered": 1}
        assert arrived == [2]
        assert await world.runtime.reader.circuits() == []


@pytest.mark.parametrize(
    ("error", "tries"), [(KeyError("typo"), 3 * 5), (Persistent("no"), 1), (PermissionError("no"), 1)]
)
async def test_a_mistake_in_the_code_does_not_last_for_a_day(store_url: str, error: Exception, tries: int):
    app = App("desk")
    calls = 0

    async def look() -> None:
        nonlocal calls
        calls += 1
        raise error

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.step(look)

    async with World(app, store=store_url) as world:
        run = await world.handle("go")
        assert (run["state"], calls) == ("dead", tries)
        assert world.clock.now() < VirtualClock().now() + 3600 * 10**6


async def test_attempts_of_a_user_are_that_many(store_url: str, outside: Outside):
    app = App("desk")

    @step(attempts=4, backoff="1s")
    async def look() -> str:
        return outside.call()

    @app.agent(on("go"), attempts=2)
    async def agent(run: Run) -> str:
        return await run.step(look)

    outside.is_down = True
    async with World(app, store=store_url) as world:
        run = await world.handle("go")
        assert (run["state"], run["reason"], outside.calls) == ("dead", "failed 2 times, 2 allowed", 8)


async def test_a_second_outage_days_later_has_a_day_of_its_own(store_url: str, outside: Outside):
    app = App("desk")

    @step(attempts=1)
    async def look(number: int) -> str:
        return outside.call(f"look {number}")

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.step(look, 1)
        await run.sleep("3d")
        await run.step(look, 2)

    outside.is_down = True
    async with World(app, store=store_url) as world:
        receipt = await world.emit("go")
        await world.skip("20h")
        outside.is_down = False
        await world.skip("1d")
        outside.is_down = True
        await world.skip("3d")
        assert (await world.run(receipt))["state"] == "waiting"
        outside.is_down = False
        await world.skip("6m")
        assert (await world.run(receipt))["state"] == "done"


async def test_why_tells_since_when_and_what_would_end_it(store_url: str, outside: Outside):
    letters = Letters(outside)
    app = shop(outside, letters)
    outside.is_down = True
    async with World(app, store=store_url, clock=VirtualClock(at(1, 30))) as world:
        await world.emit("order", 1, id="1")
        await world.skip("30m")
        runs = {one["agent"]: one for one in await world.runs()}

        async def story(agent: str) -> str:
            return " ".join((await world.runtime.reader.why(runs[agent]["id"]) or {})["story"])

        assert "step read fails since 2026-01-05T01:30:00Z" in await story("reads")
        assert "tried until 2026-01-06T01:30:00Z" in await story("reads")
        assert "effect charge fails since 2026-01-05T01:30:00Z" in await story("charges")
        assert "failing since 2026-01-05T01:30:00Z, tried until 2026-01-06T01:30:00Z" in await story("handles")
        assert "Circuit stripe has been open since 2026-01-05 01:30" in await story("prices")
        assert "all parked runs resume once it answers" in await story("prices")


class TestRateLimits:
    def limited(self, way: str, limit: Callable[[], bool], **options: Any) -> App:
        app = App("desk")

        def ask() -> str:
            if limit():
                raise RateLimited(retry_after="11m")
            return "at last"

        @step
        async def look() -> str:
            return ask()

        @action(safety="idempotent")
        async def do(op: Operation) -> str:
            return ask()

        @app.agent(on("go"), **options)
        async def agent(run: Run) -> str:
            match way:
                case "look":
                    return await run.step(look)
                case "do":
                    return await run.act(do)
                case _:
                    return ask()

        return app

    @pytest.mark.parametrize("way", ["look", "do", "handler"])
    async def test_without_end_are_told_after_an_hour_and_over_when_it_gets_through(self, store_url: str, way: str):
        busy = True
        async with World(self.limited(way, lambda: busy), store=store_url) as world:
            first, second = await world.emit("go", id="1"), await world.emit("go", id="2")
            await world.skip("55m")
            await world.look()
            assert await world.alarms() == []
            await world.skip("6m")
            await world.look()
            (alarm,) = await world.alarms()
            assert (alarm["key"], alarm["state"], alarm["count"]) == (f"limited/desk/agent/{way}", "open", 1)
            assert "has been rate limited since 2026-01-01T00:00:00Z" in alarm["text"]
            await world.skip("25h")
            assert {(await world.run(one))["state"] for one in (first, second)} == {"waiting"}
            busy = False
            await world.skip("12m")
            await world.look()
            assert (await world.alarms())[0]["state"] == "resolved"
            assert {(await world.run(one))["output"] for one in (first, second)} == {"at last"}

    @pytest.mark.parametrize("way", ["look", "do", "handler"])
    async def test_count_for_the_deadline(self, store_url: str, way: str):
        async with World(self.limited(way, lambda: True, deadline="25m"), store=store_url) as world:
            receipt = await world.emit("go")
            await world.skip("24m")
            assert (await world.run(receipt))["state"] == "waiting"
            await world.skip("2m")
            run = await world.run(receipt)
            assert (run["state"], run["reason"]) == ("dead", "deadline passed")
