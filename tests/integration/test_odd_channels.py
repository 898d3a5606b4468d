"""Channels that misbehave, and channels in trouble: no message is forgotten, and no lane ends without a word."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, ConfigError, RateLimited, Run, on
from wakeful.channels import Channel, Message, event
from wakeful.functions.options import Backoff
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.testing.waiting import until


class Odd(BaseException):
    """Not an Exception: a library's own way to unwind."""


class Moody(Channel):
    """Raises what it is told to, then takes everything."""

    backoff = Backoff(first="1ms", cap="1ms")

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.got: asyncio.Queue[Any] = asyncio.Queue()

    async def deliver(self, messages: Sequence[Message]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        for message in messages:
            self.got.put_nowait(message.body)


def telling(app: App) -> App:
    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", run.event.data)

    return app


class TestWhatAChannelRaises:
    @pytest.mark.parametrize("error", [asyncio.CancelledError(), Odd("odd"), GeneratorExit(), SystemExit(3)], ids=repr)
    async def test_it_is_a_failure_like_any_other(self, new_app: NewApp, error: BaseException):
        channel = Moody(error)
        app = telling(new_app(clock=None, channels={"ops": channel}))
        async with working(app) as runtime:
            first = await app.emit("go", 1)
            assert await channel.got.get() == 1
            await app.emit("go", 2)
            assert await channel.got.get() == 2

            async def stored() -> bool:
                run = await runtime.reader.run(first.runs[0]) or {}
                return [one["state"] for one in run["deliveries"]] == ["delivered"]

            assert await until(stored)

    async def test_one_that_never_stops_raising_is_a_dead_letter(self, new_app: NewApp):
        channel = Moody(*(asyncio.CancelledError() for _ in range(9)))
        channel.attempts = 1
        app = telling(new_app(channels={"ops": channel}))
        async with working(app) as runtime:
            run = await go(runtime)
        (delivery,) = run["deliveries"]
        assert (delivery["state"], delivery["error"]["type"]) == ("dead", "Transient")
        assert "cancelled from inside" in delivery["error"]["message"]

    async def test_a_process_whose_channel_does_not_close_leaves_all_the_same(self, new_app: NewApp):
        class Clinging(Moody):
            async def close(self) -> None:
                raise OSError("it sticks")

        app = telling(new_app(channels={"ops": Clinging()}))
        async with working(app) as runtime:
            await go(runtime)
            process = runtime.membership.process
        async with working(telling(new_app(channels={"ops": Moody()}))) as runtime:
            left = {one["id"]: one["state"] for one in await runtime.reader.processes()}
        assert left[process] == "stopped"


class TestPlainFunctions:
    async def test_a_channel_may_be_made_of_them(self, new_app: NewApp):
        calls: list[tuple[str, bool]] = []

        class Plain(Channel):
            def note(self, word: str) -> None:
                calls.append((word, threading.current_thread() is threading.main_thread()))

            def open(self, around: object) -> None:  # type: ignore[override]
                self.note("open")

            def deliver(self, messages: Sequence[Message]) -> None:  # type: ignore[override]
                self.note(str(messages[0].body))

            def close(self) -> None:  # type: ignore[override]
                self.note("close")

        app = telling(new_app(channels={"ops": Plain()}))
        async with working(app) as runtime:
            run = await go(runtime, "hello")
        assert calls == [("open", False), ("hello", False), ("close", False)]
        assert [(one["state"], one["tries"]) for one in run["deliveries"]] == [("delivered", 1)]


class TestWhatAChannelDeclares:
    @pytest.mark.parametrize("timeout", ["5s", timedelta(seconds=5), 5, 5.0])
    async def test_a_time_limit_is_a_duration(self, new_app: NewApp, timeout: Any):
        channel = Moody()
        channel.timeout = timeout
        async with working(telling(new_app(channels={"ops": channel}))) as runtime:
            run = await go(runtime)
        assert [one["state"] for one in run["deliveries"]] == ["delivered"]

    async def test_it_ends_one_that_hangs(self, new_app: NewApp):
        class Hanging(Moody):
            timeout = "10ms"
            attempts = 1

            async def deliver(self, messages: Sequence[Message]) -> None:
                await asyncio.Event().wait()

        async with working(telling(new_app(channels={"ops": Hanging()}))) as runtime:
            run = await go(runtime)
        assert "longer than its time limit of 10 ms" in run["deliveries"][0]["error"]["message"]

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("timeout", "soon", "timeout: 'soon' is not a duration"),
            ("timeout", None, "timeout: a delivery needs a time limit"),
            ("timeout", 0, "timeout must be at least 1ms"),
            ("attempts", 0, "attempts must be a whole number from 1 up"),
            ("attempts", "3", "attempts must be a whole number from 1 up"),
            ("most", 0, "most must be a whole number from 1 up"),
            ("most", True, "most must be a whole number from 1 up"),
            ("backoff", "later", "backoff: 'later' is not a duration"),
        ],
    )
    def test_what_cannot_work_is_refused_when_it_is_declared(self, name: str, value: Any, words: str):
        channel = Moody()
        setattr(channel, name, value)
        with pytest.raises(ConfigError, match=words) as caught:
            App("app", channels={"ops": channel})
        assert "app app: channel 'ops'" in str(caught.value)

    def test_channels_without_names_are_refused(self):
        with pytest.raises(ConfigError, match="channels must be names and channels"):
            App("app", channels=[Moody()])  # type: ignore[arg-type]


class Failing(Moody):
    """Tells of every try, fails, and never gives up."""

    attempts = 1_000_000

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got.put_nowait(messages[0].body)
        raise ConnectionError("nobody is there")


class TestTwoProcesses:
    async def test_what_one_left_in_back_off_is_delivered_by_the_other(
        self, new_app: NewApp, monkeypatch: pytest.MonkeyPatch
    ):
        """Nobody tells the other: it looks anyway."""
        monkeypatch.setattr("wakeful.output.lane.LOOK_ANYWAY_EVERY", 0.05)
        failing, good = Failing(), Moody()
        async with working(new_app(clock=None, channels={"ops": good})):
            leaving = telling(new_app(clock=None, channels={"ops": failing}))
            async with working(leaving) as runtime:
                arrives = asyncio.ensure_future(good.got.get())
                number, failed = 0, False
                while not failed:  # the other one looks too, and may be the first to take it: then there is another
                    number += 1
                    await leaving.emit("go", number)
                    fails = asyncio.ensure_future(failing.got.get())
                    await asyncio.wait({arrives, fails}, return_when=asyncio.FIRST_COMPLETED)
                    failed = fails.done()
                    if not failed:
                        fails.cancel()
                        assert arrives.result() == number
                        arrives = asyncio.ensure_future(good.got.get())
                await runtime.stop(grace=0)
            assert await arrives == number

    @pytest.mark.parametrize("dies", [False, True], ids=["left", "died"])
    async def test_a_lane_that_becomes_free_is_heard_of(self, new_app: NewApp, dies: bool, monkeypatch):
        """Without the look that a lane takes anyway."""
        monkeypatch.setattr("wakeful.output.lane.LOOK_ANYWAY_EVERY", 3600.0)

        class Hanging(Moody):
            async def deliver(self, messages: Sequence[Message]) -> None:
                self.got.put_nowait(messages[0].body)
                await asyncio.Event().wait()

        hanging, good = Hanging(), Moody()
        other = new_app("other", clock=None)
        first = telling(new_app(clock=None, channels={"ops": hanging}))
        async with working(other) as undertaker, working(first) as runtime:
            await first.emit("go", 1)
            await hanging.got.get()  # the other one starts after that, or it could be the first to take the message
            async with working(new_app(clock=None, channels={"ops": good})) as second:
                await second.reaper.stop()
                second.courier.wake()  # finds it taken
                await second.courier.drain()
                if dies:
                    process = runtime.membership.process
                    await runtime.die()
                    await undertaker.store.do(BuryProcess(process, certain=True))
                else:
                    await runtime.stop(grace=0)
                assert await good.got.get() == 1


async def open_alarms(runtime: Runtime) -> dict[str, str]:
    return {one["key"]: one["text"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}


class TestChannelsThatWereRemoved:
    async def test_somebody_hears_of_messages_that_wait_for_one(self, new_app: NewApp):
        before = telling(new_app(channels={"ops": Failing()}))
        async with working(before) as runtime:
            run = await go(runtime)
        (delivery,) = run["deliveries"]
        async with working(new_app()) as runtime:
            await until(lambda: open_alarms(runtime))
            alarms = await open_alarms(runtime)
            for identifier in (run["id"], delivery["id"]):
                told = await runtime.reader.why(identifier)
                assert f"An alarm is open: {alarms['channel/app/ops']}." in (told or {})["story"]
        assert "1 delivery waits for channel ops, which app app does not have here" in alarms["channel/app/ops"]


LATE = "delivery/app/ops/late"


class TestLateMessages:
    async def test_somebody_hears_of_one_that_does_not_get_through(self, new_app: NewApp):
        channel = Moody(*(RateLimited("slow", retry_after="6m") for _ in range(3)))
        async with working(telling(new_app(channels={"ops": channel}))) as runtime:
            run = await go(runtime, "m")
            (delivery,) = run["deliveries"]
            await pass_time(runtime, "6m1s")
            assert LATE not in await open_alarms(runtime)
            await pass_time(runtime, "6m1s")
            text = (await open_alarms(runtime))[LATE]
            assert f"delivery {delivery['id']} was committed 12 m 2 s ago and is still not delivered" in text
            assert "RateLimited: slow" in text
            told = await runtime.reader.why(delivery["id"])
            assert f"An alarm is open: {text}." in (told or {})["story"]
            await pass_time(runtime, "6m1s")
            assert channel.got.get_nowait() == "m"
            assert LATE not in await open_alarms(runtime)

    async def test_no_wait_is_longer_than_an_hour(self, new_app: NewApp):
        channel = Moody(RateLimited("slow", retry_after="365d"))
        async with working(telling(new_app(channels={"ops": channel}))) as runtime:
            await go(runtime, "m")
            assert LATE in await open_alarms(runtime), "known at once"
            await pass_time(runtime, "1h1s")
            assert channel.got.get_nowait() == "m"
            assert LATE not in await open_alarms(runtime)

    @pytest.mark.parametrize("discard", [False, True], ids=["replay", "discard"])
    async def test_a_person_has_it_tried_now_or_lets_the_next_one_go(self, new_app: NewApp, discard: bool):
        channel = Moody(RateLimited("slow", retry_after="1h"))
        async with working(telling(new_app(channels={"ops": channel}))) as runtime:
            run = await go(runtime, "first")
            await go(runtime, "second", id="2")
            assert channel.got.empty()
            (delivery,) = run["deliveries"]
            request = RedoDelivery(delivery["id"], discard=discard, by=Actor("ada", "code"), note="no time")
            assert await runtime.store.do(request) == "pending", "a bulk replay of dead ones passes it over"
            await runtime.drain()
            assert channel.got.empty()
            assert await runtime.store.do(replace(request, waiting=True)) == "pending"
            await runtime.drain()
            assert [channel.got.get_nowait() for _ in range(channel.got.qsize())] == ["first", "second"][int(discard) :]
            assert LATE not in await open_alarms(runtime)
            run = await runtime.reader.run(run["id"]) or {}
        assert [one["state"] for one in run["deliveries"]] == ["discarded" if discard else "delivered"]
        assert [(one["verb"], one["operator"]) for one in run["remedies"]] == [
            ("drop" if discard else "redeliver", "ada")
        ]

    async def test_one_that_is_discarded_while_it_is_under_way_and_arrives_has_arrived(self, new_app: NewApp):
        channel = Moody()
        app = telling(new_app(channels={"ops": channel}))
        async with working(app) as runtime:

            async def deliver(messages: Sequence[Message]) -> None:
                await runtime.store.do(
                    RedoDelivery(messages[0].id, discard=True, waiting=True, by=Actor("ada", "code"))
                )

            channel.deliver = deliver  # type: ignore[method-assign]
            run = await go(runtime)
        assert [one["state"] for one in run["deliveries"]] == ["delivered"]


async def test_channels_are_closed_again_when_one_cannot_be_opened(new_app: NewApp):
    """The same app starts once what was missing is there; a channel that leads back in belongs to nobody until then."""
    missing = True

    class Needy(Channel):
        async def open(self, around: object) -> None:
            if missing:
                raise ConfigError("a secret is missing")

        async def deliver(self, messages: Sequence[Message]) -> None: ...

    app = new_app(channels={"next": event("second"), "needy": Needy()})
    with pytest.raises(ConfigError, match="a secret is missing"):
        async with working(app):
            pass
    missing = False
    async with working(app):
        pass
