"""Messages that may have arrived although no answer came: repeated, looked for, or left to a person, as the channel declares."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, ended, go, pass_time, working
from support.backups import BackUp
from wakeful import App, NotSent, Persistent, Run, Transient, on
from wakeful.channels import Channel, Message, Sent
from wakeful.functions.options import Backoff
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.outbox import ConfirmDelivery, RedoDelivery
from wakeful.stores.verbs.processes import BuryProcess

ADA = Actor("ada", "code")


class Side(Channel):
    """The other side: keeps what arrives, and loses answers as it is told."""

    backoff = Backoff(first="1s", cap="10s")
    settle = "30s"

    def __init__(self, repeats: Any = "doubt", on_doubt: Any = "repeat") -> None:
        self.repeats = repeats
        self.on_doubt = on_doubt
        self.arrived: list[Message] = []
        self.before: list[BaseException] = []  # raised instead of taking a message
        self.lost: list[BaseException] = []  # raised after taking a message
        self.looked: list[str] = []
        self.hangs: asyncio.Event | None = None

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        if self.before:
            raise self.before.pop(0)
        self.arrived.extend(messages)
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        if self.lost:
            raise self.lost.pop(0)
        return [Sent(f"their-{message.body}", f"https://example.com/{message.body}") for message in messages]

    async def find(self, message: Message) -> Sent | None:
        self.looked.append(message.id)
        found = [one for one in self.arrived if one.id == message.id]
        return Sent(f"their-{message.body}") if found else None

    @property
    def bodies(self) -> list[Any]:
        return [one.body for one in self.arrived]


KNOWN = ("known", "repeat")
FIND = ("find", "repeat")
REPEAT = ("doubt", "repeat")
HOLD = ("doubt", "hold")
ALL = (KNOWN, FIND, REPEAT, HOLD)
kinds = pytest.mark.parametrize("kind", ALL, ids=["known", "find", "repeat", "hold"])


def refused() -> httpx2.HTTPStatusError:
    return status(400)


def status(number: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "https://example.com")
    return httpx2.HTTPStatusError(f"answered {number}", request=request, response=httpx2.Response(number))


def telling(app: App) -> App:
    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", run.event.data)

    return app


async def delivery(runtime: Runtime, run: str) -> dict[str, Any]:
    found = await runtime.reader.run(run)
    assert found is not None
    (one,) = found["deliveries"]
    return one


async def alarms(runtime: Runtime) -> set[str]:
    return {one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}


class TestEvidence:
    @kinds
    async def test_the_answer_of_the_other_side_is_kept(self, new_app: NewApp, kind: tuple[str, str]):
        async with working(telling(new_app(channels={"ops": Side(*kind)}))) as runtime:
            run = await go(runtime, "a")
        (one,) = run["deliveries"]
        assert (one["state"], one["tries"], one["doubt_at"]) == ("delivered", 1, None)
        assert one["evidence"] == {"id": "their-a", "url": "https://example.com/a"}

    @pytest.mark.parametrize("answer", [None, [], "yes", [Sent(), Sent()], [None]], ids=repr)
    async def test_an_answer_that_is_none_is_no_error(self, new_app: NewApp, answer: Any):
        class Curt(Side):
            async def deliver(self, messages: Sequence[Message]) -> Any:
                return answer

        async with working(telling(new_app(channels={"ops": Curt()}))) as runtime:
            run = await go(runtime, "a")
        assert [(one["state"], one["evidence"]) for one in run["deliveries"]] == [("delivered", None)]


class TestBeforeTheCall:
    @kinds
    async def test_the_try_is_stored_unless_the_other_side_knows_our_id(self, new_app: NewApp, kind: tuple[str, str]):
        seen: list[tuple[int, bool]] = []

        class Looking(Side):
            async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
                one = await delivery(runtime, messages[0].run)
                seen.append((one["tries"], one["doubt_at"] is not None))
                return await super().deliver(messages)

        async with working(telling(new_app(channels={"ops": Looking(*kind)}))) as runtime:
            await go(runtime, "a")
        assert seen == [(0, False) if kind == KNOWN else (1, True)]


class TestCertainlyNotSent:
    @kinds
    @pytest.mark.parametrize(
        "error",
        [NotSent("closed"), ConnectionRefusedError("refused"), status(429), httpx2.ConnectError("no route")],
        ids=["not-sent", "refused", "429", "no-connection"],
    )
    async def test_it_goes_again_without_a_doubt(self, new_app: NewApp, kind: tuple[str, str], error: Exception):
        side = Side(*kind)
        side.before = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            one = await delivery(runtime, run["id"])
            assert (one["state"], one["doubt_at"]) == ("pending", None)
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies, side.looked) == ("delivered", ["a"], [])
        assert not side.arrived[0].doubtful

    async def test_a_cause_tells_as_well(self, new_app: NewApp):
        side = Side(*HOLD)
        error = Transient("https://example.com: no answer")
        error.__cause__ = httpx2.ConnectTimeout("no connection within 5 s")
        side.before = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            assert (await delivery(runtime, run["id"]))["state"] == "pending"


class TestRefused:
    @kinds
    async def test_it_is_a_dead_letter(self, new_app: NewApp, kind: tuple[str, str]):
        side = Side(*kind)
        side.before = [refused()]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
        assert [(one["state"], one["doubt_at"]) for one in run["deliveries"]] == [("dead", None)]


LOST = [TimeoutError("no answer"), status(503), ConnectionResetError("reset"), RuntimeError("a mistake")]


@pytest.mark.parametrize("error", LOST, ids=["timeout", "503", "reset", "unknown"])
class TestALostAnswer:
    async def test_known_goes_again_under_its_id(self, new_app: NewApp, error: Exception):
        side = Side(*KNOWN)
        side.lost = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies, len({each.id for each in side.arrived})) == ("delivered", ["a", "a"], 1)

    async def test_found_does_not_go_again(self, new_app: NewApp, error: Exception):
        side = Side(*FIND)
        side.lost = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            one = await delivery(runtime, run["id"])
            assert (one["state"], one["doubt_at"] is None, side.looked) == ("pending", False, [])
            await pass_time(runtime, "29s")
            assert side.looked == [], "the other side has not settled yet"
            await pass_time(runtime, "2s")
            one = await delivery(runtime, run["id"])
        assert (one["state"], one["tries"], side.bodies, len(side.looked)) == ("delivered", 1, ["a"], 1)
        assert one["evidence"] == {"id": "their-a", "url": None}
        assert one["reason"] == "found there: an earlier try had arrived"

    async def test_what_is_not_found_goes_again(self, new_app: NewApp, error: Exception):
        side = Side(*FIND)
        side.before = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
        assert (one["state"], one["tries"], side.bodies, len(side.looked)) == ("delivered", 2, ["a"], 1)

    async def test_in_doubt_it_goes_again_as_a_possible_repetition(self, new_app: NewApp, error: Exception):
        side = Side(*REPEAT)
        side.lost = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies) == ("delivered", ["a", "a"])
        assert [each.doubtful for each in side.arrived] == [False, True]

    async def test_or_waits_for_a_person(self, new_app: NewApp, error: Exception):
        side = Side(*HOLD)
        side.lost = [error]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
            assert (one["state"], side.bodies) == ("unknown", ["a"])
            assert one["reason"].startswith("it may have arrived: ")
            assert "delivery/app/ops/unknown" in await alarms(runtime)
            await ended(runtime, await runtime.app.emit("go", "b"))
            assert side.bodies == ["a", "b"], "those behind it do not wait"


class TestAnEarlierDoubt:
    async def test_stays_when_the_next_try_is_certainly_not_sent(self, new_app: NewApp):
        side = Side(*FIND)
        side.before = [TimeoutError("no answer"), NotSent("closed")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
            assert (one["state"], one["doubt_at"] is None, len(side.looked)) == ("pending", False, 1)
            await pass_time(runtime, "1m")
        assert (side.bodies, len(side.looked)) == (["a"], 2)

    async def test_is_named_by_a_dead_letter(self, new_app: NewApp):
        side = Side(*REPEAT)
        side.lost = [TimeoutError("no answer")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            side.before = [refused()]
            await pass_time(runtime)
            one = await delivery(runtime, run["id"])
        assert one["state"] == "dead"
        assert one["reason"].endswith("an earlier try may have arrived")

    async def test_a_search_that_fails_is_tried_again(self, new_app: NewApp):
        class Blind(Side):
            async def find(self, message: Message) -> Sent | None:
                if self.before:
                    raise self.before.pop(0)
                return await super().find(message)

        side = Blind(*FIND)
        side.lost = [TimeoutError("no answer")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            side.before = [TimeoutError("the search hangs")]
            await pass_time(runtime, "31s")
            one = await delivery(runtime, run["id"])
            assert (one["state"], side.bodies) == ("pending", ["a"])
            await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies) == ("delivered", ["a"])


class TestACrash:
    """A process dies in the call, after the other side has the message."""

    async def _die(self, new_app: NewApp, side: Side) -> str:
        side.hangs = asyncio.Event()
        doomed = telling(new_app(clock=None, channels={"ops": side}))
        async with working(doomed) as runtime:
            receipt = await doomed.emit("go", "a")
            await side.hangs.wait()
            process = runtime.membership.process
            await runtime.die()
            async with working(new_app("other")) as undertaker:
                await undertaker.store.do(BuryProcess(process, certain=True))
        side.hangs = None
        return receipt.runs[0]

    @pytest.mark.parametrize(
        ("kind", "arrivals", "state"),
        [(KNOWN, 2, "delivered"), (FIND, 1, "delivered"), (REPEAT, 2, "delivered"), (HOLD, 1, "unknown")],
        ids=["known", "find", "repeat", "hold"],
    )
    async def test_the_next_process_knows_of_the_try(
        self, new_app: NewApp, kind: tuple[str, str], arrivals: int, state: str
    ):
        side = Side(*kind)
        side.settle = "1ms"
        run = await self._die(new_app, side)
        async with working(telling(new_app(clock=None, channels={"ops": side}))) as runtime:
            await runtime.drain()
            while (one := await delivery(runtime, run))["state"] == "pending":
                await runtime.drain()
            assert (one["state"], len(side.arrived)) == (state, arrivals)
            assert [each.doubtful for each in side.arrived] == [False, *[kind == REPEAT] * (arrivals - 1)]


class TestAPerson:
    async def _unknown(self, runtime: Runtime, side: Side) -> dict[str, Any]:
        side.lost = [TimeoutError("no answer")]
        run = await go(runtime, "a")
        return await delivery(runtime, run["id"])

    async def test_confirms_it(self, new_app: NewApp):
        side = Side(*HOLD)
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            one = await self._unknown(runtime, side)
            was = await runtime.store.do(ConfirmDelivery(one["id"], by=ADA, note="saw it"))
            after = await delivery(runtime, one["run"])
            assert (was, after["state"], after["reason"]) == ("unknown", "delivered", "confirmed by ada: saw it")
            assert "delivery/app/ops/unknown" not in await alarms(runtime)
            again = await runtime.store.do(ConfirmDelivery(one["id"], by=ADA))
        assert again == "delivered"

    @pytest.mark.parametrize("discard", [False, True])
    async def test_sends_it_again_or_gives_it_up(self, new_app: NewApp, discard: bool):
        side = Side(*HOLD)
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            one = await self._unknown(runtime, side)
            await runtime.store.do(RedoDelivery(one["id"], discard=discard, waiting=True, by=ADA))
            await runtime.drain()
            after = await delivery(runtime, one["run"])
            assert "delivery/app/ops/unknown" not in await alarms(runtime)
        assert (after["state"], side.bodies) == (("discarded", ["a"]) if discard else ("delivered", ["a", "a"]))

    async def test_finds_it_in_the_review(self, new_app: NewApp):
        side = Side(*HOLD)
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            one = await self._unknown(runtime, side)
            (waits,) = (await runtime.reader.review())["review"]
        assert (waits["kind"], waits["id"]) == ("delivery", one["id"])
        assert f"wakeful deliveries confirm {one['id']}" in waits["commands"]


class TestLanes:
    async def test_an_urgent_message_does_not_wait(self, new_app: NewApp):
        class Picky(Side):
            async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
                if not messages[0].urgent:
                    raise TimeoutError("slow")
                return await super().deliver(messages)

        side = Picky(*KNOWN)
        app = new_app(channels={"ops": side})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "routine")
            run.send("ops", "fire", urgent=True)

        async with working(app) as runtime:
            run = await go(runtime)
        assert side.bodies == ["fire"]
        assert [(one["urgent"], one["state"]) for one in run["deliveries"]] == [(False, "pending"), (True, "delivered")]

    async def test_order_holds_within_a_thread_only(self, new_app: NewApp):
        class Picky(Side):
            stuck = True

            async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
                if self.stuck and str(messages[0].body) == "a1":
                    raise TimeoutError("slow")
                return await super().deliver(messages)

        side = Picky(*KNOWN)
        app = new_app(channels={"ops": side})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "a1", thread="a")
            run.send("ops", "a2", thread="a")
            run.send("ops", "b1", thread="b")
            run.send("ops", "plain")
            run.send("ops", "a3", thread="a", urgent=True)
            run.send("ops", "b2", thread="b")

        async with working(app) as runtime:
            await go(runtime)
            assert sorted(side.bodies) == ["b1", "b2", "plain"]
            assert side.bodies.index("b1") < side.bodies.index("b2")
            side.stuck = False
            await pass_time(runtime)
        assert side.bodies[-3:] == ["a1", "a2", "a3"]

    async def test_an_urgent_message_stays_behind_its_thread(self, new_app: NewApp):
        side = Side(*KNOWN)
        side.before = [TimeoutError("slow")]
        app = new_app(channels={"ops": side})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", run.event.data, thread="a", urgent=run.event.data == 2)

        async with working(app) as runtime:
            await go(runtime, 1)
            await go(runtime, 2)
            assert side.bodies == []
            await pass_time(runtime)
        assert side.bodies == [1, 2]

    @pytest.mark.parametrize("thread", ["", "x" * 201, 7])
    async def test_a_thread_is_a_short_text(self, new_app: NewApp, thread: Any):
        app = new_app(channels={"ops": Side()})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "a", thread=thread)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["error"]["type"]) == ("dead", Persistent.__name__)
        assert "a thread is a text of 1 to 200 characters" in run["error"]["message"]


class TestALookThatCannotTell:
    @pytest.mark.parametrize(("on_doubt", "state"), [("repeat", "dead"), ("hold", "unknown")])
    async def test_is_a_dead_letter_or_waits_for_a_person(self, new_app: NewApp, on_doubt: str, state: str):
        class Blind(Side):
            async def find(self, message: Message) -> Sent | None:
                self.looked.append(message.id)
                raise Persistent("the list is too long")

        side = Blind("find", on_doubt)
        side.lost = [TimeoutError("no answer")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
            assert (one["state"], side.bodies, len(side.looked)) == (state, ["a"], 1)
            assert ("delivery/app/ops/unknown" in await alarms(runtime)) == (on_doubt == "hold")
            assert "may have arrived" in one["reason"]

    @pytest.mark.parametrize("on_doubt", ["repeat", "hold"])
    async def test_is_made_again_after_an_outage(self, new_app: NewApp, on_doubt: str):
        class Down(Side):
            async def find(self, message: Message) -> Sent | None:
                found = await super().find(message)
                if len(self.looked) < 3:
                    raise TimeoutError("no answer")
                return found

        side = Down("find", on_doubt)
        side.lost = [TimeoutError("no answer")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            for _ in range(3):
                await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies, len(side.looked)) == ("delivered", ["a"], 3)

    async def test_what_was_not_found_and_is_refused_then_is_a_dead_letter(self, new_app: NewApp):
        side = Side("find", "hold")
        side.before = [TimeoutError("no answer"), refused()]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            await pass_time(runtime, "1m")
            one = await delivery(runtime, run["id"])
        assert (one["state"], len(side.looked)) == ("dead", 1)

    async def test_a_last_try_in_doubt_waits_for_a_person(self, new_app: NewApp):
        side = Side("find", "hold")
        side.attempts = 1
        side.lost = [TimeoutError("no answer")]
        async with working(telling(new_app(channels={"ops": side}))) as runtime:
            run = await go(runtime, "a")
            one = await delivery(runtime, run["id"])
        assert (one["state"], side.bodies, side.looked) == ("unknown", ["a"], [])


@pytest.mark.parametrize("committed", ["and tried before the backup", "after the backup"])
@kinds
async def test_what_the_original_may_have_delivered_after_a_backup_is_in_doubt(
    new_app: NewApp, store_url: str, back_up: BackUp, kind: tuple[str, str], committed: str
):
    side = Side(*kind)
    ready = committed != "after the backup"

    def sending() -> App:
        app = new_app(channels={"ops": side})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            if not ready:
                await run.sleep("30m")
            run.send("ops", run.event.data)

        return app

    app = sending()
    async with working(app) as runtime:
        side.before = [NotSent("closed")] if ready else []
        receipt = await app.emit("go", "a")
        await runtime.drain()
        restore = await back_up(store_url)
        side.before = []
        await pass_time(runtime)
        assert side.bodies == ["a"]
    async with working(sending(), store=await restore()) as runtime:
        await pass_time(runtime)
        await pass_time(runtime)
        one = await delivery(runtime, receipt.runs[0])
        assert one["state"] == ("unknown" if kind == HOLD else "delivered")
        assert side.bodies == (["a"] if kind in {FIND, HOLD} else ["a", "a"])
        assert [each.doubtful for each in side.arrived] == [False, kind == REPEAT][: len(side.arrived)]
        if kind == HOLD:
            await runtime.store.do(RedoDelivery(one["id"], waiting=True, by=ADA))
            await runtime.drain()
            assert (await delivery(runtime, receipt.runs[0]))["state"] == "delivered"
