"""Runs that wait: for time, an event, another run, a person. They hold no worker, survive restarts, and go on where they were."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, Run, on
from wakeful.clock import VirtualClock, to_datetime
from wakeful.errors import ChildFailed, Persistent, TimedOut
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval


def only(run: dict[str, Any], name: str) -> dict[str, Any]:
    (step,) = [one for one in run["steps"] if one["name"] == name]
    return step


class TestSleeping:
    async def test_a_sleeping_run_leaves_memory_and_goes_on_when_its_time_has_come(self, app: App):
        seen: list[str] = []

        @app.agent(on("go"))
        async def nap(run: Run) -> str:
            await run.step(note, "before")
            await run.sleep("2d")
            await run.step(note, "after")
            return "slept"

        def note(word: str) -> None:
            seen.append(word)

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], runtime.worker.in_flight, seen) == ("waiting", [], ["before"])
            assert run["attempts"] == 0
            await pass_time(runtime, "47h")
            assert seen == ["before"]
            await pass_time(runtime, "1h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"], seen) == ("done", "slept", ["before", "after"])
        assert only(run, "sleep")["state"] == "done"

    async def test_the_time_counts_from_the_first_call(self, app: App, clock: VirtualClock):
        """A failure in between does not begin it anew."""
        fails = [True]

        @app.agent(on("go"), backoff="1h")
        async def nap(run: Run) -> int:
            before = run.now()
            await run.sleep("3h")
            if fails:
                fails.clear()
                raise ConnectionError("no")
            return round((run.now() - before).total_seconds())

        async with working(app) as runtime:
            run = await go(runtime)
            first = only(run, "sleep")["due_at"]
            await pass_time(runtime, "3h")
            run = (await runtime.reader.run(run["id"])) or {}
            assert (run["state"], run["attempts"]) == ("waiting", 1)
            await pass_time(runtime, "2h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], only(run, "sleep")["due_at"]) == ("done", None)
        assert first is not None

    async def test_until_a_moment(self, app: App, clock: VirtualClock):
        moment = to_datetime(clock.now()) + timedelta(hours=5)

        @app.agent(on("go"))
        async def nap(run: Run) -> str:
            await run.sleep_until(moment)
            await run.sleep_until(datetime(2001, 1, 1, tzinfo=UTC))  # has passed: no wait
            return "up"

        async with working(app) as runtime:
            run = await go(runtime)
            assert only(run, "sleep_until")["due_at"] == moment.isoformat().replace("+00:00", "Z")
            await pass_time(runtime, "5h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert run["state"] == "done"

    async def test_another_process_takes_it_up(self, new_app: NewApp):
        def declare() -> App:
            app = new_app()

            @app.agent(on("go"))
            async def nap(run: Run) -> str:
                await run.sleep("1h")
                return "slept"

            return app

        async with working(declare()) as first:
            run = await go(first)
        async with working(declare()) as second:
            await pass_time(second, "1h")
            run = (await second.reader.run(run["id"])) or {}
        assert run["state"] == "done"

    @pytest.mark.parametrize(
        ("span", "words"), [("soon", "not a duration"), (-1, "from 0"), ("99999d", "from 0"), (None, "not a duration")]
    )
    async def test_a_span_that_makes_no_sense_is_refused(self, app: App, span: Any, words: str):
        @app.agent(on("go"))
        async def nap(run: Run) -> None:
            await run.sleep(span)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]
        assert "agent nap: run.sleep" in run["error"]["message"]


class TestWaitingForEvents:
    async def test_an_event_that_comes_later_wakes_the_run(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> Any:
            paid = await run.wait_for("paid", subject="order-7", timeout="1d")
            return [paid.data, paid.subject, paid.type]

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["reason"]) == ("waiting", "waits for event paid about order-7")
            other = await app.emit("paid", 1, subject="order-8")
            await runtime.drain()
            assert (await runtime.reader.run(run["id"]) or {})["state"] == "waiting"
            receipt = await app.emit("paid", 2, subject="order-7")
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", [2, "order-7", "paid"])
        assert (other.status, receipt.status) == ("unmatched", "accepted")

    async def test_one_that_came_since_the_run_was_made_is_seen(self, app: App):
        gate = asyncio.Event()

        @app.agent(on("go"))
        async def order(run: Run) -> Any:
            await gate.wait()
            return (await run.wait_for("paid")).data

        async with working(app) as runtime:
            await app.emit("paid", "too early")
            receipt = await app.emit("go")
            await app.emit("paid", "in time")
            gate.set()
            run = await ended(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "in time")

    async def test_each_wait_of_a_run_takes_an_event_of_its_own(self, app: App):
        @app.agent(on("go"))
        async def pair(run: Run) -> Any:
            first = await run.wait_for("vote")
            second, third = await asyncio.gather(run.wait_for("vote"), run.wait_for("vote"))
            return [first.data, *sorted([second.data, third.data])]

        async with working(app) as runtime:
            run = await go(runtime)
            for number in range(3):
                await app.emit("vote", number)
                await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", [0, 1, 2])

    async def test_one_event_wakes_every_run_that_waits_for_it(self, app: App):
        @app.agent(on("go"))
        async def listen(run: Run) -> Any:
            return (await run.wait_for("news")).data

        async with working(app) as runtime:
            receipts = [await app.emit("go") for _ in range(5)]
            await runtime.drain()
            await app.emit("news", "spring")
            await runtime.drain()
            runs = [await the_run(runtime, receipt) for receipt in receipts]
        assert [(run["state"], run["output"]) for run in runs] == [("done", "spring")] * 5

    async def test_a_value_that_is_not_given_is_refused(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.wait_for("paid", where="data.amount >= values.least", values={"last": 1})

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "dead"
            assert run["error"]["message"].endswith(
                'names values.least, which values={…} does not have. Did you mean "last"?'
            )

    async def test_a_condition_with_values_of_the_run(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run, data: dict[str, Any]) -> Any:
            paid = await run.wait_for("paid", where="data.amount >= values.least", values={"least": data["least"]})
            return paid.data["amount"]

        async with working(app) as runtime:
            run = await go(runtime, {"least": 10})
            for amount in (5, 9, 10, 50):
                await app.emit("paid", {"amount": amount})
            await app.emit("paid", {"other": 1})
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", 10)

    async def test_what_does_not_come_in_time_is_an_error_that_can_be_caught(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> str:
            try:
                await run.wait_for("paid", timeout="1h")
            except TimedOut as error:
                await run.sleep("1h")  # and it is the same again on resume
                return str(error)
            return "paid"

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1h")
            await app.emit("paid")  # too late
            await pass_time(runtime, "1h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert run["state"] == "done"
        assert run["output"] == "agent order: run.wait_for('paid'): no such event came within 1 h 0 m"

    async def test_without_a_timeout_it_ends_after_a_limit_that_names_the_remedy(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.wait_for("paid")

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "30d")
            run = (await runtime.reader.run(run["id"])) or {}
        assert run["state"] == "dead"
        assert "give it a timeout=" in run["error"]["message"]

    async def test_an_event_at_the_last_moment_is_not_lost(self, app: App, clock: VirtualClock):
        """Accepted before the run that timed out is claimed: the store has the last word."""

        @app.agent(on("go"))
        async def order(run: Run) -> str:
            return (await run.wait_for("paid", timeout="1h")).data

        async with working(app) as runtime:
            run = await go(runtime)
            clock.move("1h")
            await app.emit("paid", "just in time")
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", "just in time")

    async def test_a_wait_that_the_handler_gave_up_takes_nothing(self, app: App):
        """On resume it is not asked for any more: what it would have taken is there for the next one."""
        impatient = [False]

        @app.agent(on("go"))
        async def order(run: Run) -> Any:
            if not impatient[0]:
                await asyncio.gather(run.wait_for("paid", where="data > 1"), run.sleep("1h"))
            await run.sleep("2h")
            return (await run.wait_for("paid")).data

        async with working(app) as runtime:
            run = await go(runtime)
            impatient[0] = True
            await pass_time(runtime, "1h")
            await app.emit("paid", 7)
            await pass_time(runtime, "2h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", 7)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"type": "paid.*"}, "exactly one type"),
            ({"type": ""}, "exactly one type"),
            ({"type": "paid", "subject": ""}, "a non-empty text"),
            ({"type": "paid", "where": "data.amount >"}, "is not a CEL expression"),
            ({"type": "paid", "where": "amount > 3"}, 'Did you mean "data.amount"?'),
            ({"type": "paid", "timeout": "later"}, "not a duration"),
        ],
    )
    async def test_what_makes_no_sense_names_agent_call_and_remedy(
        self, app: App, arguments: dict[str, Any], words: str
    ):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.wait_for(arguments["type"], **{key: arguments[key] for key in arguments if key != "type"})

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]
        assert run["error"]["message"].startswith("agent order: run.wait_for(")


class TestCalling:
    async def test_a_child_s_output_comes_back(self, app: App):
        @app.agent(on("go"))
        async def parent(run: Run) -> Any:
            answers = await asyncio.gather(run.call("child", 1), run.call(child, 2))
            return sum(answers)

        @app.agent()
        async def child(run: Run, number: int) -> int:
            await run.sleep("1h")
            return number * 10

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            await pass_time(runtime, "1h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", 30)

    async def test_a_child_that_died_is_an_error(self, app: App):
        @app.agent(on("go"))
        async def parent(run: Run) -> str:
            try:
                await run.call("child")
            except ChildFailed as error:
                return str(error)
            return "went well"

        @app.agent()
        async def child(run: Run) -> None:
            message = "no such account"
            raise Persistent(message)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "done"
        assert "is dead: Persistent: no such account" in run["output"]

    async def test_nobody_calls_in_a_circle(self, app: App):
        @app.agent(on("go"))
        async def first(run: Run) -> None:
            await run.call("second")

        @app.agent()
        async def second(run: Run) -> None:
            await run.call("first")

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "first → second → first" in run["error"]["message"]

    async def test_an_unknown_agent(self, app: App):
        @app.agent(on("go"))
        async def parent(run: Run) -> None:
            await run.call("chidl")

        @app.agent()
        async def child(run: Run) -> None: ...

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert 'Did you mean "child"?' in run["error"]["message"]

    async def test_one_that_takes_too_long(self, app: App):
        @app.agent(on("go"))
        async def parent(run: Run) -> None:
            await run.call("child", timeout="1h")

        @app.agent()
        async def child(run: Run) -> None:
            await run.sleep("2h")

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1h")
            run = (await runtime.reader.run(run["id"])) or {}
        assert run["state"] == "dead"
        assert run["error"]["type"] == "TimedOut"


class Approval(BaseModel):
    approved: bool
    limit: int = 0


class TestAsking:
    async def answer(self, runtime: Any, value: str, **options: Any) -> Any:
        (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
        return await runtime.store.do(AnswerApproval(asked["id"], value, by=Actor("ada", "code"), **options))

    async def test_a_person_s_answer_lets_it_go_on(self, app: App):
        @app.agent(on("go"))
        async def refund(run: Run) -> Any:
            approval = await run.ask("Refund 80?", to="ops", schema=Approval, timeout="4h")
            return [approval.approved, approval.limit]

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["reason"]) == ("waiting", "asks ops: Refund 80?")
            answered = await self.answer(runtime, '{"approved": true, "limit": 100}', note="looks right")
            assert answered.first
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", [True, 100])

    async def test_the_first_answer_stands(self, app: App):
        @app.agent(on("go"))
        async def refund(run: Run) -> Any:
            return await run.ask("Refund?", schema=bool)

        async with working(app) as runtime:
            run = await go(runtime)
            (asked,) = (await runtime.reader.approvals())["approvals"]
            first = await runtime.store.do(AnswerApproval(asked["id"], "true", by=Actor("ada", "code")))
            second = await runtime.store.do(AnswerApproval(asked["id"], "false", by=Actor("bob", "code")))
            assert first is not None
            assert second is not None
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (first.first, second.first, second.answered_by, run["output"]) == (True, False, "ada", True)

    async def test_an_answer_that_does_not_fit_is_asked_for_again(self, app: App):
        @app.agent(on("go"))
        async def refund(run: Run) -> Any:
            return await run.ask("How much?", schema=int)

        async with working(app) as runtime:
            run = await go(runtime)
            await self.answer(runtime, '"a lot"')
            await runtime.drain()
            (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
            assert "did not fit" in asked["note"]
            await self.answer(runtime, "7")
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"]) == ("done", 7)

    async def test_nobody_answers(self, app: App):
        @app.agent(on("go"))
        async def refund(run: Run) -> None:
            await run.ask("Refund?", timeout="4h")

        async with working(app) as runtime:
            run = await go(runtime)
            (asked,) = (await runtime.reader.approvals())["approvals"]
            await pass_time(runtime, "4h")
            run = (await runtime.reader.run(run["id"])) or {}
            late = await runtime.store.do(AnswerApproval(asked["id"], "true", by=Actor("ada", "code")))
            assert late is not None
        assert (run["state"], run["error"]["type"]) == ("dead", "TimedOut")
        assert (late.first, late.state) == (False, "expired")


class TestRefusals:
    @pytest.mark.parametrize("call", ["sleep", "wait_for", "call", "ask"])
    async def test_no_wait_inside_a_step(self, app: App, call: str):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async def inside() -> None:
                await getattr(run, call)("1h")

            await run.step(inside)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert f"run.{call} inside step inside" in run["error"]["message"]
