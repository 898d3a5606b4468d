"""`run.decide`: rules first, a model second, a person third, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Choice, Run, Transient, fact, on, step
from wakeful.execution.deciding import DecideFacts
from wakeful.operations.answering import answer_approval
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.returning import ReturnRun

ADA = Actor("ada", "code")
OPTIONS = ["approve", "refuse"]
SMALL = ("data.amount < 10.0", "approve")


class Asked:
    """A model, and what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, list[str]]] = []

    async def __call__(self, question: str, options: list[str]) -> Any:
        self.calls.append((question, options))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def declare(app: App, *, before: Callable[[Run], None] = lambda _: None, **options: Any) -> None:
    @app.agent(on("go"), name="agent", attempts=1)
    async def agent(run: Run) -> str:
        before(run)
        return await run.decide("Refund it?", OPTIONS, **options)


def record_of(run: dict[str, Any], name: str = "decide") -> dict[str, Any]:
    (told,) = [one["result"] for one in run["steps"] if one["name"] == name]
    return dict(told)


async def story(runtime: Runtime, run: dict[str, Any]) -> str:
    found = await runtime.reader.why(run["id"])
    assert found is not None
    return " ".join(found["story"])


async def answer(runtime: Runtime, given: Any) -> dict[str, Any]:
    (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
    await answer_approval(runtime.store, asked["id"], given, by=ADA)
    await runtime.drain()
    return dict(asked)


class TestRules:
    async def test_the_first_that_matches_decides(self, app: App):
        model = Asked()
        declare(app, rules=[("data.amount < 0.0", "refuse"), SMALL, ("true", "refuse")], model=model, ask="ops")
        async with working(app) as runtime:
            run = await go(runtime, {"amount": 5})
            told = await story(runtime, run)
        assert (run["state"], run["output"], model.calls) == ("done", "approve", [])
        record = record_of(run)
        assert (record["answer"], record["by"], record["rule"]) == ("approve", "rule", '"data.amount < 10.0"')
        assert (record["question"], record["options"], record["policy"]) == ("Refund it?", OPTIONS, None)
        assert '"Refund it?" was decided by rule "data.amount < 10.0": approve.' in told

    async def test_may_be_functions_of_facts(self, app: App):
        def known(facts: DecideFacts) -> str | None:
            assert (facts.question, facts.options, facts.agent, facts.app) == (
                "Refund it?",
                tuple(OPTIONS),
                "agent",
                "app",
            )
            assert facts.event.data == {"amount": 50}
            return "refuse" if facts.facts["customer"] == "bob" and facts.facts.get("vip") is None else None

        def tell(run: Run) -> None:
            run.facts["customer"] = "bob"

        declare(app, rules=[SMALL, known], before=tell)
        async with working(app) as runtime:
            run = await go(runtime, {"amount": 50})
        assert run["output"] == "refuse"
        assert record_of(run)["rule"] == "known"
        assert record_of(run)["facts"] == {"customer": "bob"}

    async def test_that_cannot_be_told_do_not_match(self, app: App):
        declare(app, rules=[SMALL, ("facts.owner == 'ada'", "approve"), ("event.type == 'go'", "refuse")])
        async with working(app) as runtime:
            run = await go(runtime, {"amount": "much"})
        assert (run["output"], record_of(run)["rule"]) == ("refuse", "\"event.type == 'go'\"")

    @pytest.mark.parametrize(
        "rule",
        [
            ("facts.owner == 'ada'", "approve"),
            ("has(facts.owner) && facts.owner == 'ada'", "approve"),
            lambda facts: "approve" if facts.facts["owner"] == "ada" else None,
            lambda facts: "approve" if facts.facts.get("owner", "bob") == "bob" else None,
            lambda facts: "approve" if "owner" not in facts.facts else None,
            lambda facts: "approve" if dict(facts.facts) == {} else None,
            lambda facts: "approve" if len(list(facts.facts.values())) == 0 else None,
        ],
    )
    async def test_that_need_a_stale_fact_send_it_to_a_person(self, app: App, rule: Any):
        def tell(run: Run) -> None:
            run.facts["owner"] = fact("ada", as_of=run.now() - timedelta(hours=2), max_age="1h")

        model = Asked(Choice("approve", 1.0))
        declare(app, rules=[rule, ("true", "refuse")], model=model, ask="ops", before=tell)
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            assert "facts.owner, which is stale: as of" in record_of(run)["why"]
            asked = await answer(runtime, "refuse")
            assert "Refund it?" in asked["question"]
            assert "is stale" in asked["question"]
            run = await runtime.reader.run(run["id"])
        assert (run["output"], model.calls) == ("refuse", [])
        assert record_of(run)["facts"]["owner"].startswith("stale: as of")

    async def test_a_fact_that_a_matching_rule_does_not_need_may_be_stale(self, app: App):
        def tell(run: Run) -> None:
            run.facts["owner"] = fact("ada", as_of=run.now() - timedelta(hours=2), max_age="1h")

        declare(app, rules=[SMALL, ("facts.owner == 'ada'", "refuse")], before=tell)
        async with working(app) as runtime:
            assert (await go(runtime, {"amount": 5}))["output"] == "approve"

    @pytest.mark.parametrize("orders", ["many", None, [12], {"count": 12}])
    async def test_that_cannot_be_told_by_a_fact_send_it_to_a_person(self, app: App, orders: Any):
        def tell(run: Run) -> None:
            run.facts["orders"] = orders

        model = Asked(Choice("approve", 1.0))
        declare(app, rules=[("facts.orders > 10", "approve"), ("true", "refuse")], model=model, ask="ops", before=tell)
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            assert record_of(run)["why"].startswith(
                'rule "facts.orders > 10" is unknown: "facts.orders > 10" could not be'
            )
            await answer(runtime, "refuse")
            run = await runtime.reader.run(run["id"])
        assert (run["output"], record_of(run)["rule"], model.calls) == ("refuse", '"facts.orders > 10"', [])

    @pytest.mark.parametrize("rule", ["facts.orders > 10", "facts[data.name] > 10", "facts.orders > data.least"])
    async def test_that_miss_a_field_do_not_match(self, app: App, rule: str):
        def tell(run: Run) -> None:
            run.facts["customer"] = "ada"
            if rule.endswith("least"):
                run.facts["orders"] = 12

        declare(app, rules=[(rule, "approve"), ("true", "refuse")], before=tell)
        async with working(app) as runtime:
            run = await go(runtime, {"name": "orders"})
        assert (run["output"], record_of(run)["rule"]) == ("refuse", '"true"')

    async def test_that_fail_send_it_to_a_person(self, app: App):
        def broken(_: DecideFacts) -> str:
            raise ZeroDivisionError("oops")

        declare(app, rules=[broken, ("true", "refuse")])
        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "rule broken failed: ZeroDivisionError: oops; with ask= a person decides" in run["error"]["message"]


class TestModel:
    @pytest.mark.parametrize("sync", [True, False])
    async def test_decides_if_it_is_sure(self, app: App, sync: bool):
        calls: list[Any] = []

        def triage(question: str, options: list[str]) -> Choice:
            calls.append((question, options))
            return Choice("refuse", 0.8, model="triage-7", reason="seen before")

        async def triage_async(question: str, options: list[str]) -> Choice:
            return triage(question, options)

        declare(app, rules=[SMALL], model=triage if sync else triage_async, ask="ops")
        async with working(app) as runtime:
            run = await go(runtime, {"amount": 50})
            told = await story(runtime, run)
        assert (run["output"], calls) == ("refuse", [("Refund it?", OPTIONS)])
        record = record_of(run)
        assert (record["by"], record["model"], record["confidence"]) == ("model", "triage-7", 0.8)
        assert record["why"] == "no rule matched; model triage-7 chose refuse with confidence 0.8 (seen before)"
        assert "decided by model triage-7, with confidence 0.8: refuse." in told

    async def test_may_give_a_long_reason_with_anything_in_it(self, app: App):
        """A language model explains itself at length; the question to a person stays readable, and can be stored."""
        choice = Choice("approve", 0.5, model="m\n" * 500, reason="because\nof \x00 " + "x" * 5000)
        declare(app, model=Asked(choice), ask="ops")
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "waiting"
            asked = await answer(runtime, "refuse")
            run = await runtime.reader.run(run["id"])
            told = await story(runtime, run)
        assert asked["question"].startswith("Refund it?\n\nNo rule matched; model m ")
        assert "because of ␀ xxx" in asked["question"]
        assert len(asked["question"]) < 1500
        assert len(told) < 4000
        assert (run["output"], record_of(run)["by"]) == ("refuse", "person")

    @pytest.mark.parametrize("more", [{"model": 7}, {"reason": 7}, {"reason": ["a"]}])
    async def test_names_itself_and_its_reason_with_texts(self, app: App, more: dict[str, Any]):
        declare(app, model=Asked(Choice("approve", 0.9, **more)), ask="ops")
        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert f"{next(iter(more))} of a Choice is a text" in run["error"]["message"]

    async def test_is_retried_like_a_step_and_asked_once(self, app: App):
        model = Asked(Transient("busy", retry_after="1ms"), Choice("approve", 0.9))

        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> Any:
            first = await run.decide("Refund it?", OPTIONS, model=model)
            await run.sleep("1d")
            return first

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1d")
            run = await runtime.reader.run(run["id"])
        assert (run["output"], len(model.calls)) == ("approve", 2)
        (told,) = [one for one in run["steps"] if one["name"] == "decide"]
        assert told["tries"] == 2

    async def test_equal_questions_are_decided_apart(self, app: App):
        model = Asked(Choice("approve", 0.9), Choice("refuse", 0.9))

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> Any:
            return [await run.decide("Refund it?", OPTIONS, model=model) for _ in range(2)]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["output"] == ["approve", "refuse"]
        assert [one["name"] for one in run["steps"]] == ["decide", "decide#2"]

    @pytest.mark.parametrize(
        ("choice", "words"),
        [
            (
                Choice("aprove", 1.0),
                "chose 'aprove', which is not one of the options approve, refuse. Did you mean \"approve\"?",
            ),
            (Choice(7, 1.0), "chose 7, which is not one of the options"),  # type: ignore[arg-type]
            (Choice("approve", 1.2), "gave the confidence 1.2: it is a number from 0 to 1"),
            (Choice("approve", float("nan")), "gave the confidence nan"),
            (Choice("approve", True), "gave the confidence True"),
            ("approve", "returned 'approve', not a Choice(option, confidence)"),
        ],
    )
    async def test_what_it_cannot_mean_is_refused(self, app: App, choice: Any, words: str):
        declare(app, model=Asked(choice), ask="ops")
        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]

    async def test_is_asked_again_after_a_return(self, app: App):
        model = Asked(Choice("approve", 0.9), Choice("refuse", 0.9))

        @app.agent(on("go"), name="agent", checks=[lambda output: output == "refuse"])
        async def agent(run: Run) -> Any:
            return await run.decide("Refund it?", OPTIONS, model=model)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            await runtime.store.do(ReturnRun(run["id"], "look again", by=ADA))
            await runtime.drain()
            run = await runtime.reader.run(run["id"])
        assert run["output"] == "refuse"
        assert record_of(run)["answer"] == "approve"
        assert record_of(run, "decide@2")["answer"] == "refuse"


class TestPerson:
    async def test_decides_if_the_model_is_not_sure(self, app: App):
        model = Asked(Choice("approve", 0.79))
        declare(app, rules=[SMALL], model=model, ask="ops")
        async with working(app) as runtime:
            run = await go(runtime, {"amount": 50})
            assert run["state"] == "waiting"
            assert "The run could not decide" in await story(runtime, run)
            asked = await answer(runtime, "refuse")
            run = await runtime.reader.run(run["id"])
            told = await story(runtime, run)
        assert (asked["to"], asked["schema"]) == ("ops", {"enum": OPTIONS, "type": "string"})
        assert asked["question"] == (
            "Refund it?\n\nNo rule matched; model Asked chose approve with confidence 0.79, and 0.8 is needed."
        )
        record = record_of(run)
        assert (run["output"], record["answer"], record["by"], record["person"]) == (
            "refuse",
            "refuse",
            "person",
            "ada",
        )
        assert (record["confidence"], record["approval"], len(model.calls)) == (0.79, asked["id"], 1)
        assert '"Refund it?" was decided by ada: refuse (no rule matched; model Asked chose approve' in told

    async def test_without_ask_it_is_an_error_that_says_so(self, app: App):
        declare(app, rules=[SMALL])
        async with working(app) as runtime:
            run = await go(runtime, {"amount": 50})
        assert run["state"] == "dead"
        assert "run.decide('Refund it?'): no rule matched; with ask= a person decides" in run["error"]["message"]

    async def test_who_does_not_answer_in_time(self, app: App):
        declare(app, ask="ops", timeout="1h")
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "2h")
            run = await runtime.reader.run(run["id"])
        assert run["state"] == "dead"
        assert run["error"]["type"] == "TimedOut"

    async def test_the_answer_is_the_same_on_resume(self, new_app: NewApp):
        answers: list[str] = []

        def build(model: Any) -> App:
            app = new_app()

            @app.agent(on("go"), name="agent", version="1")
            async def agent(run: Run) -> None:
                answers.append(
                    await run.decide("Refund it?", OPTIONS, rules=[("data == 1", "refuse")], model=model, ask="ops")
                )
                await run.sleep("1d")
                await run.sleep("2d")

            return app

        model = Asked(Choice("approve", 0.5))
        async with working(build(model)) as runtime:
            run = await go(runtime)
            await answer(runtime, "refuse")
        async with working(build(Asked())) as runtime:
            await pass_time(runtime, "1d")
            await pass_time(runtime, "2d")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], answers) == ("done", ["refuse"] * 3)


async def looks_up(_: DecideFacts) -> str | None:
    return "approve"


class TestRefused:
    @pytest.mark.parametrize(
        ("question", "options", "more", "words"),
        [
            ("", OPTIONS, {}, "the question is a text"),
            (7, OPTIONS, {}, "the question is a text"),
            ("q", ["approve"], {}, "give two or more different texts"),
            ("q", ["a", "a"], {}, "give two or more different texts"),
            ("q", ["a", 1], {}, "give two or more different texts"),
            ("q", "ab", {}, "give a list of texts"),
            ("q", OPTIONS, {"at_least": 2}, "at_least=2: give a number from 0 to 1"),
            ("q", OPTIONS, {"model": "gpt"}, "give a function that returns Choice"),
            ("q", OPTIONS, {"ask": 7}, "name the group or channel"),
            ("q", OPTIONS, {"rules": ["data.x"]}, 'a rule is ("CEL condition", "option") or a function'),
            (
                "q",
                OPTIONS,
                {"rules": [("data.x", "aprove")]},
                'which is not one of the options. Did you mean "approve"?',
            ),
            ("q", OPTIONS, {"rules": [("data.x ==", "approve")]}, "is not a CEL expression"),
            (
                "q",
                OPTIONS,
                {"rules": [("arguments.x", "approve")]},
                'names "arguments", which a rule at: decide does not have',
            ),
            ("q", OPTIONS, {"rules": [looks_up]}, "rule looks_up is async: a rule is a plain function of facts"),
            (
                "q",
                OPTIONS,
                {"rules": [lambda _: "maybe"]},
                "rule <lambda> chose 'maybe', which is not one of the options",
            ),
        ],
    )
    async def test_what_cannot_work(self, app: App, question: Any, options: Any, more: dict[str, Any], words: str):
        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> str:
            return await run.decide(question, options, **more)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert words in run["error"]["message"]

    async def test_a_decision_inside_a_step(self, app: App):
        @app.agent(on("go"), name="agent", attempts=1)
        async def agent(run: Run) -> str:
            return await run.step(step(name="inner")(lambda: run.decide("q", OPTIONS)))

        async with working(app) as runtime:
            run = await go(runtime)
        assert "run.decide inside step inner" in run["error"]["message"]
