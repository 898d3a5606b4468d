"""Messages and staged effects: they leave with the run's commit, in order, at least once, or not at all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, ConfigError, Operation, Persistent, RateLimited, Run, Transient, action, on
from wakeful.channels import Channel, Message
from wakeful.functions.options import Backoff
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, EffectFacts
from wakeful.stores.request import Actor
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.redo import RedoRun


class Post(Channel):
    """Keeps what it gets, and fails as told."""

    repeats = "known"

    def __init__(self, *, most: int = 1, attempts: int = 8) -> None:
        self.most = most
        self.attempts = attempts
        self.backoff = Backoff(first="1s", cap="1m")
        self.got: list[Message] = []
        self.failing: dict[str, list[Exception]] = {}  # by the body, as text
        self.calls = 0

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.calls += 1
        for message in messages:
            for error in self.failing.get(str(message.body), [])[:1]:
                self.failing[str(message.body)].pop(0)
                raise error
        self.got.extend(messages)

    @property
    def bodies(self) -> list[Any]:
        return [message.body for message in self.got]


class Service:
    """An outside service: what was done there, by operation."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        self.failing: list[Exception] = []


service = Service()
numbers = itertools.count()


@action(safety="idempotent")
async def book(op: Operation, what: str) -> str:
    if service.failing:
        raise service.failing.pop(0)
    service.done.append((op.id, what))
    return f"booked {what}"


@action(safety="idempotent", checks=[lambda what: what != "bad" or "bad is not for sale"])
async def buy(op: Operation, what: str) -> None:
    service.done.append((op.id, what))


@action
async def risky(op: Operation, what: str) -> None:
    if service.failing:
        raise service.failing.pop(0)
    service.done.append((op.id, what))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    service.done.clear()
    service.failing.clear()


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def app(new_app: NewApp, post: Post) -> App:
    return new_app(channels={"ops": post})


class TestSending:
    async def test_messages_leave_when_the_run_is_done_in_order(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            for number in range(5):
                run.send("ops", {"number": number}, subject=f"s{number}")

        async with working(app) as runtime:
            run = await go(runtime)
            assert [message.body for message in post.got] == [{"number": number} for number in range(5)]
            assert [message.subject for message in post.got] == [f"s{number}" for number in range(5)]
            assert {(message.agent, message.run, message.channel) for message in post.got} == {
                ("tell", run["id"], "ops")
            }
        assert len({message.id for message in post.got}) == len(post.got)

    async def test_the_run_shows_them_and_its_outcome(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "one")

        async with working(app) as runtime:
            run = await go(runtime)
        (delivery,) = run["deliveries"]
        assert run["outcome"]["delivery"] == "delivered"
        assert (delivery["state"], delivery["message"], delivery["channel"]) == ("delivered", "one", "ops")
        assert delivery["id"] == post.got[0].id

    async def test_a_run_that_fails_sends_nothing(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "never")
            run.stage(book, "never")
            raise Persistent("no")

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert (post.got, run["deliveries"], run["effects"], service.done) == ([], [], [], [])

    async def test_a_retried_run_sends_once(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", run.attempt)
            run.send("ops", "same")
            if run.attempt < 3:
                raise Transient("not yet")

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
            await pass_time(runtime)
        assert post.bodies == [3, "same"]

    async def test_equal_messages_are_two(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "same")
            run.send("ops", "same")

        async with working(app) as runtime:
            await go(runtime)
        assert post.bodies == ["same", "same"]
        assert len({message.id for message in post.got}) == 2

    async def test_the_output_goes_to_the_channel_of_the_agent(self, app: App, post: Post):
        @app.agent(on("go"), deliver="ops")
        async def tell(run: Run) -> dict[str, int]:
            return {"answer": 42}

        @app.agent(on("nothing"), deliver="ops")
        async def quiet(run: Run) -> None:
            return None

        async with working(app) as runtime:
            await go(runtime)
            silent = await ended(runtime, await app.emit("nothing"))
        assert post.bodies == [{"answer": 42}]
        assert silent["outcome"]["silent_by_choice"]

    async def test_every_channel_goes_its_own_way(self, new_app: NewApp):
        class Stuck(Post):
            async def deliver(self, messages: Sequence[Message]) -> None:
                raise Transient("down")

        good = Post()
        app = new_app(channels={"bad": Stuck(), "good": good})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("bad", "x")
            run.send("good", "y")

        async with working(app) as runtime:
            for number in range(3):
                run = await go(runtime, id=str(number))
        assert good.bodies == ["y"] * 3
        assert run["outcome"]["delivery"] == "pending"

    async def test_a_batch_is_handed_over_at_once_and_one_by_one_after_a_failure(self, new_app: NewApp):
        post = Post(most=100)
        app = new_app(channels={"ops": post})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            for number in range(10):
                run.send("ops", number)

        async with working(app) as runtime:
            await go(runtime)
            assert (post.calls, post.bodies) == (1, list(range(10)))
            post.got.clear()
            post.failing["4"] = [Transient("x"), Transient("x")]
            await go(runtime, id="again")
            assert post.bodies == [0, 1, 2, 3], "those behind it wait"
            await pass_time(runtime, "1m")
            assert post.bodies == list(range(10))

    async def test_a_channel_can_lead_back_in(self, new_app: NewApp):
        from wakeful.channels import event

        app = new_app(channels={"next": event("second")})
        seen: list[Any] = []
        chain: list[tuple[str | None, str | None]] = []

        @app.agent(on("go"))
        async def first(run: Run) -> None:
            run.send("next", {"n": 1})

        @app.agent(on("second"))
        async def second(run: Run) -> None:
            seen.append(run.event.data)
            chain.append((run.event.causationid, run.event.correlationid))

        async with working(app) as runtime:
            await go(runtime, id="cause")
        assert seen == [{"n": 1}]
        assert chain == [("cause", "cause")]


class TestTrouble:
    async def test_what_may_go_away_is_tried_again_under_the_same_id(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "m")

        post.failing["m"] = [Transient("down"), RateLimited("later", retry_after=30)]
        async with working(app) as runtime:
            run = await go(runtime)
            (delivery,) = run["deliveries"]
            assert (delivery["state"], delivery["tries"]) == ("pending", 1)
            assert delivery["error"]["message"] == "down"
            await pass_time(runtime, "10s")
            assert post.got == []
            await pass_time(runtime, "29s")
            assert post.got == []
            await pass_time(runtime, "2s")
            run = await runtime.reader.run(run["id"]) or {}
        assert post.bodies == ["m"]
        assert post.got[0].id == delivery["id"]
        assert run["deliveries"][0]["state"] == "delivered"

    async def test_what_will_not_is_a_dead_letter_and_the_next_one_goes(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "bad")
            run.send("ops", "good")

        post.failing["bad"] = [Persistent("400")]
        async with working(app) as runtime:
            run = await go(runtime)
            assert post.bodies == ["good"]
            assert [one["state"] for one in run["deliveries"]] == ["dead", "delivered"]
            assert run["outcome"]["delivery"] == "failed"
            alarms = (await runtime.reader.alarms())["alarms"]
            assert any(alarm["key"].startswith("delivery/app/ops/") for alarm in alarms)
            identifier = run["deliveries"][0]["id"]
            assert await runtime.store.do(RedoDelivery(identifier, by=Actor("me", "code"), note="repaired")) == "dead"
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
            assert await runtime.store.do(RedoDelivery(identifier, by=Actor("me", "code"))) == "delivered"
        assert post.bodies == ["good", "bad"]
        assert run["outcome"]["delivery"] == "delivered"
        (remedy,) = run["remedies"]
        assert (remedy["verb"], remedy["operator"], remedy["note"]) == ("redeliver", "me", "repaired")
        assert (remedy["error"]["delivery"], remedy["error"]["message"]) == (identifier, "400")

    async def test_it_is_given_up_after_its_attempts(self, new_app: NewApp):
        post = Post(attempts=3)
        app = new_app(channels={"ops": post})

        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "m")

        post.failing["m"] = [Transient("down") for _ in range(9)]
        async with working(app) as runtime:
            run = await go(runtime)
            for _ in range(5):
                await pass_time(runtime)
            run = await runtime.reader.run(run["id"]) or {}
        assert run["deliveries"][0]["state"] == "dead"
        assert run["deliveries"][0]["tries"] == 3

    async def test_it_can_be_discarded(self, app: App, post: Post):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", "bad")

        post.failing["bad"] = [Persistent("400")]
        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(
                RedoDelivery(run["deliveries"][0]["id"], discard=True, by=Actor("me", "code"), note="old")
            )
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert run["deliveries"][0]["state"] == "discarded"
        assert run["deliveries"][0]["reason"] == "discarded by me: old"
        assert post.got == []

    async def test_a_second_process_takes_over_what_a_dead_one_left(self, new_app: NewApp):
        posts = [Post(), Post()]
        apps = [new_app(channels={"ops": one}) for one in posts]
        stuck = asyncio.Event()

        async def never(messages: Sequence[Message]) -> None:
            stuck.set()
            await asyncio.get_running_loop().create_future()

        posts[0].deliver = never  # type: ignore[method-assign]
        for app in apps:

            @app.agent(on("go"))
            async def tell(run: Run) -> None:
                run.send("ops", run.event.id)

        from wakeful.stores.verbs.processes import BuryProcess

        async with working(apps[0], grace=0) as first:
            await apps[0].emit("go", id="1")
            first.worker.look()
            await stuck.wait()
            async with working(apps[1]) as second:
                await second.drain()
                assert posts[1].got == [], "one process at a time has the lane"
                await second.store.do(BuryProcess(first.membership.process, certain=True))
                await second.drain()
                assert posts[1].bodies == ["1"]


class TestStaging:
    async def test_an_effect_is_released_by_the_commit(self, app: App):
        seen: list[int] = []

        @app.agent(on("go"))
        async def order(run: Run) -> str:
            run.stage(book, "a")
            run.stage(book, "b")
            seen.append(len(service.done))
            return "ok"

        async with working(app) as runtime:
            run = await go(runtime)
        assert seen == [0]
        assert [what for _, what in service.done] == ["a", "b"]
        assert run["state"] == "done"
        assert run["output"] == "ok"
        assert [effect["state"] for effect in run["effects"]] == ["confirmed", "confirmed"]
        assert {effect["id"] for effect in run["effects"]} == {identifier for identifier, _ in service.done}

    async def test_a_staged_effect_that_waits_keeps_its_run_and_the_handler_runs_once(self, app: App):
        handled: list[int] = []

        @app.agent(on("go"))
        async def order(run: Run) -> str:
            handled.append(1)
            run.stage(book, "a")
            run.send("ops", "sent")
            return "ok"

        service.failing = [RateLimited("later", retry_after=60)]
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["output"]) == ("waiting", "ok")
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], run["output"], handled) == ("done", "ok", [1])
        assert [what for _, what in service.done] == ["a"]
        assert run["outcome"]["commit"] == "committed"

    async def test_one_that_is_refused_makes_a_dead_letter_whose_replay_only_releases(self, app: App):
        handled: list[int] = []

        @app.agent(on("go"))
        async def order(run: Run) -> str:
            handled.append(1)
            run.stage(book, "a")
            run.stage(book, "b")
            return "ok"

        service.failing = [Persistent("400")]
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["output"], service.done) == ("dead", "ok", [])
            assert (run["outcome"]["execution"], run["outcome"]["commit"]) == ("failed", "committed")
            await runtime.store.do(RedoRun(run["id"], by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], run["output"], handled) == ("done", "ok", [1])
        assert [what for _, what in service.done] == ["a", "b"]

    async def test_an_unknown_one_is_held_and_the_others_wait_for_it(self, app: App):
        from wakeful.stores.verbs.settling import SettleEffect

        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(risky, "a")
            run.stage(book, "b")

        service.failing = [TimeoutError("no answer")]
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            assert [effect["state"] for effect in run["effects"]] == ["held", "staged"]
            await runtime.store.do(SettleEffect(run["effects"][0]["id"], "confirmed", by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert run["state"] == "done"
        assert [what for _, what in service.done] == ["b"]

    async def test_policy_is_asked_when_it_is_released(self, new_app: NewApp):
        asked: list[str] = []

        def rule(facts: Any) -> Decision | None:
            if isinstance(facts, EffectFacts):
                asked.append(facts.action)
                return Decision("deny", "no bookings", "closed")
            return None

        app = new_app(rules=(rule, *DEFAULT_RULES))

        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(book, "a")

        async with working(app) as runtime:
            run = await go(runtime)
        assert asked == ["book"]
        assert run["state"] == "denied"
        assert service.done == []

    async def test_again_finds_what_was_done_and_sent(self, app: App, post: Post):
        @app.agent(on("go"))
        async def order(run: Run) -> str:
            run.stage(book, "a")
            run.send("ops", "sent")
            return "ok"

        async with working(app) as runtime:
            run = await go(runtime)
            redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("me", "code")))
            await runtime.drain()
            assert redone is not None
            again = await runtime.reader.run(redone.run) or {}
        assert again["state"] == "done"
        assert len(service.done) == 1
        assert post.bodies == ["sent"]

    async def test_with_other_arguments_it_is_held(self, app: App):
        prices = iter(["a", "b"])

        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(book, next(prices))

        async with working(app) as runtime:
            run = await go(runtime)
            redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("me", "code")))
            await runtime.drain()
            assert redone is not None
            again = await runtime.reader.run(redone.run) or {}
        assert again["state"] == "held"
        assert 'arguments changed: was ("a"), now ("b")' in again["reason"]
        assert len(service.done) == 1


class Answer(BaseModel):
    text: str
    score: int = 0


class TestChecks:
    async def test_the_wrong_type_is_held_with_all_that_would_have_left(self, app: App, post: Post):
        @app.agent(on("go"), deliver="ops")
        async def answer(run: Run) -> Answer:
            run.stage(book, "a")
            return {"score": "many"}  # type: ignore[return-value]

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
        assert run["state"] == "held"
        assert "text: Field required" in run["reason"]
        assert run["output"] == {"score": "many"}
        assert (run["outcome"]["verification"], run["outcome"]["commit"]) == ("failed", "held")
        assert [one["state"] for one in run["deliveries"]] == ["held"]
        assert [one["state"] for one in run["effects"]] == ["staged"]
        assert (post.got, service.done) == ([], [])

    async def test_what_fits_is_passed_as_its_type(self, app: App):
        @app.agent(on("go"))
        async def answer(run: Run) -> Answer:
            return {"text": "yes"}  # type: ignore[return-value]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["output"] == {"text": "yes", "score": 0}
        assert run["outcome"]["verification"] == "passed"

    @pytest.mark.parametrize("check", ["says no", "raises", "is false", "is async"])
    async def test_a_check_that_does_not_pass_holds_it(self, app: App, post: Post, check: str):
        def says_no(output: Answer) -> str | None:
            return "too short" if len(output.text) < 5 else None

        def raises(output: Answer) -> None:
            raise ValueError("too short")

        def is_false(output: Answer) -> bool:
            return False

        async def is_async(output: Answer) -> str:
            return "too short"

        checks = {"says no": says_no, "raises": raises, "is false": is_false, "is async": is_async}

        @app.agent(on("go"), deliver="ops", checks=[checks[check]])
        async def answer(run: Run) -> Answer:
            return Answer(text="no")

        async with working(app) as runtime:
            run = await go(runtime)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert run["state"] == "held"
        assert checks[check].__name__ in run["reason"]
        assert post.got == []
        assert alarms[0]["key"] == "held/app/answer/output"

    async def test_arguments_of_a_staged_effect_are_checked_before_anything_leaves(self, app: App, post: Post):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(buy, "good")
            run.stage(buy, "bad")
            run.send("ops", "bought")

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "held"
        assert "bad is not for sale" in run["reason"]
        assert (post.got, service.done) == ([], [])

    async def test_a_person_lets_it_out(self, app: App, post: Post):
        handled: list[int] = []

        @app.agent(on("go"), deliver="ops", checks=[lambda _: "look at this"])
        async def answer(run: Run) -> str:
            handled.append(1)
            run.stage(book, "a")
            return "text"

        async with working(app) as runtime:
            run = await go(runtime)
            released = await runtime.store.do(ReleaseRun(run["id"], by=Actor("me", "code"), note="looks fine"))
            assert released is not None
            assert released.refused is None
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
            again = await runtime.store.do(ReleaseRun(run["id"], by=Actor("me", "code")))
        assert again is not None
        assert again.refused == "is done: only a held output can be released"
        assert (run["state"], post.bodies, handled) == ("done", ["text"], [1])
        assert [what for _, what in service.done] == ["a"]
        assert run["outcome"] == {
            "execution": "ok",
            "verification": "failed",
            "commit": "committed",
            "delivery": "delivered",
            "silent_by_choice": False,
        }
        assert run["remedies"][-1]["verb"] == "release"
        assert run["remedies"][-1]["note"] == "looks fine"


class TestBadInput:
    async def test_a_channel_that_nobody_declared(self, app: App):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("opps", "x")

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert 'has no channel "opps"' in run["error"]["message"]
        assert "ops" in run["error"]["message"]
        assert run["error"]["type"] == "UnknownChannel"

    async def test_deliver_to_one_is_refused_before_anything_runs(self, app: App):
        @app.agent(on("go"), deliver="opps")
        async def tell(run: Run) -> None: ...

        with pytest.raises(ConfigError, match=r'deliver="opps".*Did you mean "ops"'):
            async with working(app):
                pass

    async def test_a_message_that_is_not_json(self, app: App):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send("ops", object())

        async with working(app) as runtime:
            run = await go(runtime)
        assert "the message to channel ops cannot be stored as JSON" in run["error"]["message"]

    async def test_staging_a_plain_function(self, app: App):
        async def plain(what: str) -> None: ...

        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(plain, "x")  # type: ignore[arg-type]

        async with working(app) as runtime:
            run = await go(runtime)
        assert "@action" in run["error"]["message"]

    async def test_sending_from_inside_a_step(self, app: App):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            async def inner() -> None:
                run.send("ops", "lost on resume")

            await run.step(inner)

        async with working(app) as runtime:
            run = await go(runtime)
        assert "run.send inside step inner" in run["error"]["message"]

    def test_what_is_no_channel(self, new_app: NewApp):
        with pytest.raises(ConfigError, match="is not a channel"):
            new_app(channels={"ops": "https://example.com"})


@given(
    plan=st.lists(
        st.tuples(
            st.sampled_from(["send", "stage"]),
            st.integers(0, 3),
            st.sampled_from(["ok", "ok", "retry", "fail", "hold"]),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
async def test_things_leave_if_and_only_if_the_run_committed(new_app: NewApp, plan: list[tuple[str, int, str]]):
    """Each tuple is a run: what it lets out, how often, and how it ends."""
    post = Post(most=3)
    app = new_app(f"app{next(numbers)}", channels={"ops": post})
    service.done.clear()

    @app.agent(on("go"), checks=[lambda output: output != "hold" or "held"], attempts=3)
    async def agent(run: Run) -> str:
        kind, count, ending = run.event.data
        for number in range(count):
            if kind == "send":
                run.send("ops", [run.id, number])
            else:
                run.stage(book, f"{run.id} {number}")
        if ending == "fail":
            raise Persistent("no")
        if ending == "retry" and run.attempt < 2:
            raise Transient("again")
        return str(ending)

    async with working(app) as runtime:
        receipts = [await app.emit("go", list(one)) for one in plan]
        await runtime.drain()
        await pass_time(runtime)
        expected_posts, expected_effects = [], []
        for receipt, (kind, count, ending) in zip(receipts, plan, strict=True):
            run = await the_run(runtime, receipt)
            committed = ending in {"ok", "retry"}
            assert run["state"] == ("done" if committed else {"fail": "dead", "hold": "held"}[ending])
            if committed and kind == "send":
                expected_posts += [[run["id"], number] for number in range(count)]
            elif committed:
                expected_effects += [f"{run['id']} {number}" for number in range(count)]
    assert sorted(post.bodies) == sorted(expected_posts)
    assert sorted(what for _, what in service.done) == sorted(expected_effects)
    for receipt in receipts:
        places = [number for run_id, number in post.bodies if run_id == receipt.runs[0]]
        assert places == sorted(places), "in order"


class TestReplayOfWhatWasCommitted:
    async def test_other_data_lets_the_handler_say_anew_what_shall_go(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            for what in run.event.data:
                run.stage(book, what)

        service.failing = [Persistent("400")]
        async with working(app) as runtime:
            run = await go(runtime, ["wrong", "old"])
            assert [effect["state"] for effect in run["effects"]] == ["failed", "staged"]
            await runtime.store.do(RedoRun(run["id"], data='["right"]', by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert run["state"] == "done"
        assert [what for _, what in service.done] == ["right"]
        assert {effect["arguments"][0]: effect["state"] for effect in run["effects"]}["old"] == "abandoned"

    async def test_a_held_output_can_be_done_again(self, app: App, post: Post):
        good = False

        @app.agent(on("go"), deliver="ops", checks=[lambda text: text == "good" or "bad"])
        async def answer(run: Run) -> str:
            run.stage(book, "a")
            run.send("ops", "the same")
            return "good" if good else "bad"

        async with working(app) as runtime:
            run = await go(runtime)
            good = True
            await runtime.store.do(RedoRun(run["id"], by=Actor("me", "code"), note="mended"))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], post.bodies) == ("done", ["the same", "good"])
        assert [what for _, what in service.done] == ["a"]
        assert [(one["message"], one["state"]) for one in run["deliveries"]] == [
            ("bad", "discarded"), ("the same", "delivered"), ("good", "delivered"),
        ]  # fmt: skip

    async def test_a_held_output_can_be_discarded(self, app: App, post: Post):
        @app.agent(on("go"), deliver="ops", checks=[lambda _: "bad"])
        async def answer(run: Run) -> str:
            run.stage(book, "a")
            return "bad"

        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(RedoRun(run["id"], discard=True, by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], post.got, service.done) == ("cancelled", [], [])
        assert [one["state"] for one in run["deliveries"]] == ["discarded"]
        assert [one["state"] for one in run["effects"]] == ["abandoned"]
        assert {alarm["state"] for alarm in alarms} == {"resolved"}


class TestWhatAReviewFound:
    async def test_what_is_delivered_is_what_was_checked(self, app: App, post: Post):
        @app.agent(on("go"), deliver="ops")
        async def answer(run: Run) -> Answer:
            return {"text": "fine", "secret": "not for others"}  # type: ignore[return-value]

        async with working(app) as runtime:
            await go(runtime)
        assert post.bodies == [{"text": "fine", "score": 0}]

    async def test_a_committed_run_that_was_discarded_does_what_it_staged_when_it_is_replayed(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            run.stage(book, "a")
            run.stage(book, "b")

        service.failing = [Persistent("400")]
        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(RedoRun(run["id"], discard=True, by=Actor("me", "code")))
            run = await runtime.reader.run(run["id"]) or {}
            assert [effect["state"] for effect in run["effects"]] == ["failed", "abandoned"]
            await runtime.store.do(RedoRun(run["id"], by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert run["state"] == "done"
        assert [what for _, what in service.done] == ["a", "b"]

    async def test_what_was_staged_may_be_done_at_once_by_mended_code(self, app: App):
        mended = False

        @app.agent(on("go"), checks=[lambda output: output == "good" or "bad"])
        async def order(run: Run) -> str:
            if mended:
                await run.act(book, "a")
                return "good"
            run.stage(book, "a")
            return "bad"

        async with working(app) as runtime:
            run = await go(runtime)
            mended = True
            await runtime.store.do(RedoRun(run["id"], by=Actor("me", "code")))
            await runtime.drain()
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], [what for _, what in service.done]) == ("done", ["a"])

    async def test_an_output_that_is_neither_of_its_type_nor_json_is_held(self, app: App):
        @app.agent(on("go"))
        async def answer(run: Run) -> Answer:
            return object()  # type: ignore[return-value]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "held"
        assert "object object" in run["output"]

    @pytest.mark.parametrize(("channel", "subject"), [(None, None), (["ops"], None), ("ops", 7)])
    async def test_odd_channels_and_subjects(self, app: App, channel: Any, subject: Any):
        @app.agent(on("go"))
        async def tell(run: Run) -> None:
            run.send(channel, "x", subject=subject)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert run["error"]["message"].startswith("run.send: ")

    async def test_a_wait_of_a_staged_effect_is_kept_past_the_deadline(self, app: App):
        @app.agent(on("go"), deadline="10s")
        async def order(run: Run) -> None:
            run.stage(book, "a")

        service.failing = [RateLimited("later", retry_after=3600) for _ in range(3)]
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1m")
            assert len(service.failing) == 2, "told to wait an hour, it waits an hour"
            for _ in range(3):
                await pass_time(runtime, "61m")
            run = await runtime.reader.run(run["id"]) or {}
        assert run["state"] == "done"
