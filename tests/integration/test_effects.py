"""Effects: the table of what happens when a call did not return, every cell; the ledger; and what a person says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from support.apps import NewApp, go, pass_time, the_run, working
from support.stores import join
from wakeful import App, Denied, NotSent, Operation, Persistent, RateLimited, Run, action, on
from wakeful.errors import ConfigError
from wakeful.execution.attempt import current_attempt
from wakeful.model import Decision, Effect
from wakeful.policy.decide import ALLOWED, DEFAULT_RULES, EffectFacts
from wakeful.policy.judgement import Judgement
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.effects import OpenEffect
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.settling import SettleEffect


class Answered(Exception):
    """As an HTTP client would raise it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers


class Note(BaseModel):
    text: str


LIMIT = {"most": 10}


def within_limit(what: int) -> int:
    if what > LIMIT["most"]:
        raise ValueError(f"more than {LIMIT['most']}")
    return what


Limited = Annotated[int, AfterValidator(within_limit)]


class Service:
    """The outside world: what it was asked to do, and under which operation ids."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, Any]] = []
        self.done: dict[str, Any] = {}
        self.looked = 0

    def asked(self, operation: Operation, what: Any) -> str:
        self.calls.append((operation.id, what))
        answer = self.answers.pop(0) if self.answers else "done"
        if isinstance(answer, BaseException):
            raise answer
        self.done[operation.id] = what
        return f"{answer} {what}"

    @property
    def ids(self) -> set[str]:
        return {identifier for identifier, _ in self.calls}


AMBIGUOUS = [TimeoutError("too late"), ConnectionError("lost"), Answered(503), ValueError("who knows")]


def declare(app: App, service: Service, **options: Any) -> Any:
    """An agent that does one thing to the service."""

    @action(**{"backoff": "10ms", **options})
    async def post(op: Operation, what: int) -> str:
        return service.asked(op, what)

    @app.agent(on("go"), name="agent", attempts=1)
    async def agent(run: Run) -> str:
        return await run.act(post, 7)

    return post


async def settle(runtime: Runtime, run: dict[str, Any], state: Any, **more: Any) -> Any:
    (effect,) = run["effects"]
    answer = await runtime.store.do(SettleEffect(effect["id"], state, by=Actor("ada", "code"), **more))
    await runtime.drain()
    return answer


def names(errors: Sequence[BaseException]) -> list[str]:
    return [type(error).__name__ for error in errors]


class TestWhenNobodyKnows:
    @pytest.mark.parametrize("error", AMBIGUOUS, ids=names(AMBIGUOUS))
    async def test_an_idempotent_one_is_repeated_under_the_same_id(self, app: App, error: Exception):
        service = Service(error, error)
        declare(app, service, safety="idempotent")
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "done 7")
        assert len(service.calls) == 3
        assert len(service.ids) == 1
        (effect,) = run["effects"]
        assert (effect["state"], effect["tries"], effect["result"], effect["arguments"]) == (
            "confirmed",
            3,
            "done 7",
            [7],
        )

    async def test_an_idempotent_one_that_is_too_old_is_held(self, app: App):
        service = Service(Answered(503, **{"Retry-After": "1800"}))
        declare(app, service, safety="idempotent", idempotent_for="1h")
        async with working(app) as runtime:
            app_run = await go(runtime)
            assert app_run["state"] == "waiting"
            await pass_time(runtime, "3h")
            receipt_run = await runtime.reader.run(app_run["id"])
        assert receipt_run is not None
        assert receipt_run["state"] == "held"
        assert "recognises its id for 1 h 0 m only" in receipt_run["reason"]
        assert len(service.calls) == 1

    @pytest.mark.parametrize("error", AMBIGUOUS, ids=names(AMBIGUOUS))
    async def test_one_that_may_be_done_once_is_held(self, app: App, error: Exception):
        service = Service(error)
        declare(app, service)
        async with working(app) as runtime:
            run = await go(runtime)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], len(service.calls)) == ("held", 1)
        assert run["effects"][0]["state"] == "held"
        assert [alarm["key"].split("/")[0] for alarm in alarms] == ["held"]
        assert run["id"] in alarms[0]["text"]

    @pytest.mark.parametrize("error", AMBIGUOUS, ids=names(AMBIGUOUS))
    async def test_one_that_can_be_found_is_looked_for_first(self, app: App, error: Exception):
        service = Service(error)

        async def find(op: Operation, what: int) -> str | None:
            service.looked += 1
            return f"found {what}"

        declare(app, service, safety="reconcile", find=find, settle="10ms")
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"]) == ("done", "found 7")
        assert (len(service.calls), service.looked) == (1, 1)
        assert run["effects"][0]["state"] == "confirmed"

    async def test_one_that_is_not_found_is_called_again(self, app: App):
        service = Service(ConnectionError("lost"))

        async def find(op: Operation, what: int) -> str | None:
            service.looked += 1
            return None

        declare(app, service, safety="reconcile", find=find, settle="0s")
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "done 7")
        assert (len(service.calls), len(service.ids), service.looked) == (2, 1, 1)

    async def test_one_whose_search_fails_for_good_is_held(self, app: App):
        service = Service(ConnectionError("lost"))

        async def find(op: Operation, what: int) -> str | None:
            raise Persistent("cannot look either")

        declare(app, service, safety="reconcile", find=find, settle="0s")
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls)) == ("held", 1)
        assert "cannot look either" in run["reason"]

    async def test_one_whose_search_fails_for_now_is_looked_for_again(self, app: App):
        service = Service(ConnectionError("lost"))

        async def find(op: Operation, what: int) -> str | None:
            service.looked += 1
            if service.looked < 12:
                raise ConnectionError("cannot look either")
            return "found"

        declare(app, service, safety="reconcile", find=find, settle="0s")
        async with working(app) as runtime:
            run = await go(runtime)
            for _ in range(12):
                await pass_time(runtime, "5m")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"], service.looked, len(service.calls)) == ("done", "found", 12, 1)

    @pytest.mark.parametrize(
        ("attempts", "error", "looks"),
        [(None, KeyError("typo"), 3), (5, KeyError("typo"), 5), (5, ConnectionError("down"), 5)],
    )
    async def test_a_search_is_tried_as_often_as_a_read(
        self, app: App, attempts: int | None, error: Exception, looks: int
    ):
        service = Service(ConnectionError("lost"))

        async def find(op: Operation, what: int) -> str | None:
            service.looked += 1
            raise error

        declare(app, service, safety="reconcile", find=find, settle="0s", attempts=attempts)
        async with working(app) as runtime:
            run = await go(runtime)
            for _ in range(looks):
                await pass_time(runtime, "5m")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], service.looked, len(service.calls)) == ("held", looks, 1)
        assert run["reason"].count("find could not tell") == 1

    async def test_it_waits_before_it_looks(self, app: App):
        service = Service(ConnectionError("lost"))

        async def find(op: Operation, what: int) -> str | None:
            service.looked += 1
            return "found"

        declare(app, service, safety="reconcile", find=find, settle="30s")
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], service.looked) == ("waiting", 0)
            await pass_time(runtime, "31s")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"], service.looked) == ("done", "found", 1)


@pytest.mark.parametrize("safety", ["idempotent", "reconcile", "at_most_once"])
class TestWhenItIsCertain:
    def options(self, safety: str) -> dict[str, Any]:
        async def find(op: Operation, what: int) -> str | None:
            raise AssertionError("nobody should look")

        return {"safety": safety, **({"find": find} if safety == "reconcile" else {})}

    async def test_not_sent_is_tried_again(self, app: App, safety: str):
        service = Service(NotSent("no route"), NotSent("no route"))
        declare(app, service, **self.options(safety))
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls), len(service.ids)) == ("done", 3, 1)

    async def test_not_sent_for_ever_is_a_dead_letter_and_nothing_is_held(self, app: App, safety: str):
        service = Service(*[NotSent("no route")] * 10)
        declare(app, service, attempts=3, **self.options(safety))
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls), run["effects"][0]["state"]) == ("dead", 3, "failed")

    async def test_too_many_requests_waits_as_told(self, app: App, safety: str):
        service = Service(RateLimited(retry_after="1h"))
        declare(app, service, attempts=1, **self.options(safety))
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["effects"][0]["state"]) == ("waiting", "retrying")
            await pass_time(runtime, "61m")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], len(service.calls), run["effects"][0]["tries"]) == ("done", 2, 1)

    async def test_a_429_without_a_time_is_tried_again(self, app: App, safety: str):
        service = Service(Answered(429))
        declare(app, service, **self.options(safety))
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls)) == ("done", 2)

    @pytest.mark.parametrize("status", [400, 403, 404, 422])
    async def test_another_4xx_is_a_dead_letter(self, app: App, safety: str, status: int):
        service = Service(Answered(status))
        declare(app, service, **self.options(safety))
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls), run["effects"][0]["state"]) == ("dead", 1, "failed")


class TestAProcessThatWentAwayInTheMiddle:
    async def leave_in_the_middle(self, app: App, other: App, service: Service, **options: Any) -> dict[str, Any]:
        """The call is under way when the process goes; another one takes over. What became of the run there?"""
        begun, never = asyncio.Event(), asyncio.Event()

        @action(**{"backoff": "10ms", **options})
        async def post(op: Operation, what: int) -> str:
            answer = service.asked(op, what)
            if not begun.is_set():
                begun.set()
                await never.wait()
            return answer

        for one in (app, other):

            @one.agent(on("go"), name="agent")
            async def agent(run: Run) -> str:
                return await run.act(post, 7)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await begun.wait()
            await runtime.stop(grace=0)
        async with working(other) as runtime:
            await runtime.drain()
            await pass_time(runtime)
            return await the_run(runtime, receipt)

    async def test_idempotent(self, new_app: NewApp):
        service = Service()
        run = await self.leave_in_the_middle(new_app(), new_app(), service, safety="idempotent")
        assert (run["state"], run["output"], len(service.calls), len(service.ids)) == ("done", "done 7", 2, 1)

    async def test_at_most_once(self, new_app: NewApp):
        service = Service()
        run = await self.leave_in_the_middle(new_app(), new_app(), service)
        assert (run["state"], len(service.calls)) == ("held", 1)

    async def test_reconcile(self, new_app: NewApp):
        service = Service()

        async def find(op: Operation, what: int) -> Any:
            return service.done.get(op.id) and f"found {what}"

        run = await self.leave_in_the_middle(new_app(), new_app(), service, safety="reconcile", find=find)
        assert (run["state"], run["output"], len(service.calls)) == ("done", "found 7", 1)

    async def test_arguments_that_newer_code_cannot_read_are_a_persons_matter(
        self, new_app: NewApp, monkeypatch: pytest.MonkeyPatch
    ):
        """The call may have been made, so it is neither failed nor repeated. The effect stays held, where a person finds it."""
        service, begun, never = Service(), asyncio.Event(), asyncio.Event()

        @action(safety="idempotent")
        async def post(op: Operation, what: Limited) -> str:
            answer = service.asked(op, what)
            if not begun.is_set():
                begun.set()
                await never.wait()
            return answer

        older, newer = new_app(), new_app()
        for one in (older, newer):

            @one.agent(on("go"), name="agent", attempts=1)
            async def agent(run: Run) -> str:
                return await run.act(post, 7)

        async with working(older) as runtime:
            receipt = await older.emit("go")
            await begun.wait()
            await runtime.stop(grace=0)
        monkeypatch.setitem(LIMIT, "most", 5)
        async with working(newer) as runtime:
            await runtime.drain()
            run = await the_run(runtime, receipt)
            (effect,) = run["effects"]
            assert (run["state"], effect["state"], len(service.calls)) == ("held", "held", 1)
            assert "its stored arguments can no longer be read" in effect["reason"]
            await settle(runtime, run, "abandoned")
            assert (await the_run(runtime, receipt))["state"] == "dead"


class TestTheLedger:
    async def test_a_confirmed_one_is_not_done_again_on_resume(self, app: App):
        service = Service()

        @action
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"), attempts=3)
        async def agent(run: Run) -> list[str]:
            both = [await run.act(post, 1), await run.act(post, 1)]
            if run.attempt == 1:
                raise ConnectionError("after both")
            return both

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"]) == ("done", ["done 1", "done 1"])
        assert (len(service.calls), len(service.ids)) == (2, 2)

    async def test_other_arguments_after_a_resume_are_held(self, app: App):
        service = Service()
        attempts: list[int] = []

        @action(safety="idempotent")
        async def charge(op: Operation, amount: int) -> str:
            return service.asked(op, amount)

        @app.agent(on("go"), attempts=3)
        async def agent(run: Run) -> None:
            attempts.append(run.attempt)
            await run.act(charge, 10 * run.attempt)
            raise ConnectionError("again")

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"])
        assert (run["state"], service.calls[0][1], len(service.calls)) == ("held", 10, 1)
        assert "arguments changed: was (10), now (20)" in run["reason"]

    async def test_branches_that_swap_are_not_taken_for_changed_arguments(self, app: App):
        service = Service()

        @action(safety="idempotent")
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"), attempts=3)
        async def agent(run: Run) -> list[str]:
            if run.attempt == 1:
                await run.act(post, 2)
                raise ConnectionError("only one of them was done")
            return list(await asyncio.gather(run.act(post, 1), run.act(post, 2)))

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"]) == ("done", ["done 1", "done 2"])
        assert [what for _, what in service.calls] == [2, 1]

    async def test_models_come_back_as_models(self, app: App):
        seen: list[object] = []

        @action(safety="idempotent", backoff="10ms")
        async def post(op: Operation, note: Note, *, loud: bool = False) -> Note:
            seen.append((note, loud))
            if len(seen) == 1:
                raise ConnectionError("lost")
            return note

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return (await run.act(post, Note(text="hi"), loud=True)).text

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "hi")
        assert seen == [(Note(text="hi"), True)] * 2

    async def test_a_result_that_cannot_be_stored_was_done_all_the_same(self, app: App):
        service = Service()

        @action
        async def post(op: Operation) -> object:
            service.asked(op, 1)
            return object()

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.act(post)

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["effects"][0]["state"], len(service.calls)) == ("held", "held", 1)
            assert "it was done, but the result of action post cannot be stored" in run["reason"]
            await settle(runtime, run, "confirmed", result="null")
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], len(service.calls)) == ("done", 1)

    async def test_a_call_that_takes_too_long_is_given_up(self, app: App):
        never = asyncio.Event()

        @action(timeout="10ms")
        async def post(op: Operation) -> None:
            await never.wait()

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.act(post)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "held"
        assert "time limit of 10 ms" in run["reason"]

    async def test_a_sync_function_works_too(self, app: App):
        service = Service()

        @action
        def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return await run.act(post, 3)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "done 3")


class TestPolicy:
    async def test_a_rule_can_deny_it_and_it_does_not_happen(self, new_app: NewApp):
        def no_posts(facts: Any) -> Decision | None:
            if isinstance(facts, EffectFacts) and facts.action == "post" and facts.risk == "low":
                return Decision("deny", rule="no_posts", reason="not today")
            return None

        app, service = new_app(rules=(no_posts, *DEFAULT_RULES)), Service()
        declare(app, service)
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], service.calls, run["effects"]) == ("denied", [], [])
        assert "not today" in run["reason"]
        assert any(one["rule"] == "no_posts" for one in run["decisions"])

    async def test_a_rule_can_hold_it_and_a_person_lets_it_go(self, new_app: NewApp):
        def ask_first(facts: Any) -> Decision | None:
            return Decision("hold", rule="ask_first", reason="large") if isinstance(facts, EffectFacts) else None

        app, service = new_app(rules=(ask_first, *DEFAULT_RULES)), Service()
        declare(app, service)
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], service.calls) == ("held", [])
            await settle(runtime, run, "retrying")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"], len(service.calls)) == ("done", "done 7", 1)

    async def test_a_check_of_the_arguments_holds_it(self, app: App):
        service = Service()
        declare(app, service, checks=[lambda what: "too large" if what > 5 else None])
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], service.calls) == ("held", [])
        assert "too large" in run["reason"]


class TestAPersonsWord:
    async def held(self, runtime: Runtime) -> dict[str, Any]:
        run = await go(runtime)
        assert run["state"] == "held"
        return run

    async def test_confirm(self, app: App):
        service = Service(ConnectionError("lost"))
        declare(app, service)
        async with working(app) as runtime:
            run = await self.held(runtime)
            await settle(runtime, run, "confirmed", note="seen in the ledger", result='"by hand"')
            run = await runtime.reader.run(run["id"])
        assert (run["state"], run["output"], len(service.calls)) == ("done", "by hand", 1)
        (effect,) = run["effects"]
        assert (effect["settled_by"], effect["note"]) == ("ada", "seen in the ledger")

    async def test_repeat(self, app: App):
        service = Service(ConnectionError("lost"))
        declare(app, service)
        async with working(app) as runtime:
            run = await self.held(runtime)
            await settle(runtime, run, "retrying")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], len(service.calls), len(service.ids)) == ("done", 2, 1)

    async def test_abandon(self, app: App):
        service = Service(ConnectionError("lost"))
        declare(app, service)
        async with working(app) as runtime:
            run = await self.held(runtime)
            await settle(runtime, run, "abandoned", note="too late now")
            run = await runtime.reader.run(run["id"])
        assert (run["state"], len(service.calls)) == ("dead", 1)
        assert "abandoned by ada: too late now" in run["error"]["message"]

    async def test_the_first_answer_stands(self, app: App):
        service = Service(ConnectionError("lost"))
        declare(app, service)
        async with working(app) as runtime:
            run = await self.held(runtime)
            assert (await settle(runtime, run, "confirmed")).first
            second = await settle(runtime, run, "abandoned")
        assert (second.first, second.effect.state, second.effect.settled_by) == (False, "confirmed", "ada")

    async def test_an_effect_that_does_not_exist(self, app: App):
        async with working(app) as runtime:
            assert await runtime.store.do(SettleEffect("nothing", "confirmed", by=Actor("ada", "code"))) is None


class TestBadInput:
    async def test_a_plain_function_is_no_action(self, app: App):
        async def plain(number: int) -> None: ...

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.act(plain, 7)  # type: ignore[arg-type]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "plain is not one" in run["error"]["message"]
        assert "@action" in run["error"]["message"]

    async def test_arguments_that_are_not_json(self, app: App):
        service = Service()
        post = declare(app, service)

        @app.agent(on("odd"))
        async def odd(run: Run) -> None:
            await run.act(post, object())

        async with working(app) as runtime:
            receipt = await app.emit("odd")
            await runtime.drain()
            run = await the_run(runtime, receipt)
        assert (run["state"], service.calls) == ("dead", [])
        assert "cannot be stored as JSON" in run["error"]["message"]

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: action(_without), "first parameter is its Operation"),  # type: ignore[arg-type]
            (lambda: action(safety="reconcile")(_typed), "needs find="),
            (lambda: action(find=_typed)(_typed), 'find= is for safety="reconcile"'),
            (lambda: action(safety="idempotant")(_typed), 'Did you mean "idempotent"?'),
            (lambda: action(saftey="idempotent")(_typed), 'Did you mean "safety"?'),
            (lambda: action(timeout="soon")(_typed), "timeout"),
            (lambda: action(attempts=0)(_typed), "attempts must be a whole number"),
        ],
    )
    def test_a_wrong_declaration_is_refused_at_once(self, make: Callable[[], object], words: str):
        with pytest.raises(ConfigError, match="@action on") as caught:
            make()
        assert words in str(caught.value)

    async def test_an_action_that_raises_persistent_is_dead_at_once(self, app: App):
        service = Service(Persistent("never"))
        declare(app, service)
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls)) == ("dead", 1)

    async def test_an_action_that_is_denied_there_is_denied_here(self, app: App):
        service = Service(Denied("not for you"))
        declare(app, service)
        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "denied"


async def _typed(op: Operation) -> None: ...


async def _without() -> None: ...


async def test_a_word_that_comes_before_the_run_is_put_away_is_heard(new_app: NewApp):
    """A process has stored an effect as held, and a person answers before it has left the run."""
    app = new_app()
    declare(app, Service())
    async with working(app, worker=False) as runtime:
        receipt = await app.emit("go")
        member = await join(runtime.store, lease="36500d")
        claim = await member.claim_one("agent")
        effect = Effect("operation", "post", "nowhere:post", "at_most_once", "held", "[7]", "who knows")
        await runtime.store.do(OpenEffect(claim, "app", effect, Judgement(ALLOWED)))
        settled = await runtime.store.do(SettleEffect("operation", "confirmed", by=Actor("ada", "code")))
        assert settled is not None
        assert settled.first
        await runtime.store.do(LeaveRun(claim, "held", "held", reason="who knows"))
        assert (await the_run(runtime, receipt))["state"] == "ready"


class TestWhatAReviewFound:
    @pytest.mark.parametrize("kind", ["act", "stage"])
    async def test_an_async_check_is_awaited(self, app: App, kind: str):
        service = Service()

        async def never(what: int) -> str:
            return "never\0allowed"

        @action(checks=[never])
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            if kind == "act":
                await run.act(post, 7)
            else:
                run.stage(post, 7)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], service.calls) == ("held", [])
        assert "check never: never" in run["reason"]

    async def test_an_error_after_the_work_was_done_is_no_refusal(self, app: App):
        service = Service()

        @action
        async def post(op: Operation, what: int) -> str:
            service.asked(op, what)
            return Note.model_validate({"txt": "what the service answered"}).text

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return await run.act(post, 7)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["effects"][0]["state"]) == ("held", "held")

    async def test_the_time_to_settle_counts_from_the_last_call(self, app: App):
        service = Service(TimeoutError(), TimeoutError(), "done")
        moments: list[int] = []

        async def find(op: Operation, what: int) -> None:
            service.looked += 1

        @action(safety="reconcile", find=find, settle="30s", backoff="0s")
        async def post(op: Operation, what: int) -> str:
            moments.append(app.clock.now() // 1_000_000)  # type: ignore[union-attr]
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return await run.act(post, 7)

        async with working(app) as runtime:
            await go(runtime)
            for _ in range(3):
                await pass_time(runtime, "30s")
        assert [moment - moments[0] for moment in moments] == [0, 30, 60]

    @pytest.mark.parametrize("safety", ["at_most_once", "idempotent"])
    async def test_a_handler_that_stops_waiting_does_not_do_it_twice(self, app: App, safety: Any):
        service = Service()
        hang, begun = asyncio.Event(), asyncio.Event()

        @action(safety=safety, backoff="0s")
        async def post(op: Operation, what: int) -> str:
            answer = service.asked(op, what)
            begun.set()
            if len(service.calls) == 1:
                await hang.wait()
            return answer

        @app.agent(on("go"))
        async def agent(run: Run) -> str | None:
            for _ in range(3):
                task = asyncio.create_task(run.act(post, 7))
                await begun.wait()
                await asyncio.sleep(0)
                if len(service.calls) == 1:
                    task.cancel()
                try:
                    return await task
                except asyncio.CancelledError:
                    if current_attempt().interrupted is not None:
                        raise
            return None

        async with working(app) as runtime:
            run = await go(runtime)
        assert len(service.ids) == 1, "one operation, however often it is asked for"
        assert len(run["effects"]) == 1
        if safety == "idempotent":
            assert (run["state"], run["effects"][0]["state"]) == ("done", "confirmed")
        else:
            assert (run["state"], run["effects"][0]["state"], len(service.calls)) == ("held", "held", 1)
            assert "the handler stopped waiting for it" in run["reason"]

    async def test_what_a_handler_gave_up_is_settled_before_its_run_ends(self, app: App):
        service = Service()
        hang = asyncio.Event()

        @action(safety="idempotent", backoff="0s")
        async def post(op: Operation, what: int) -> str:
            answer = service.asked(op, what)
            if len(service.calls) == 1:
                await hang.wait()
            return answer

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            task = asyncio.create_task(run.act(post, 7))
            while not service.calls:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return "gave up"

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"], run["effects"][0]["state"]) == ("done", "gave up", "confirmed")

    async def test_told_to_wait_it_waits_whatever_else_its_run_does(self, app: App):
        busy = Service(RateLimited(retry_after=3600), "done")
        other = Service(RateLimited(retry_after=5), RateLimited(retry_after=5), "done")

        @action(safety="idempotent")
        async def one(op: Operation) -> str:
            return busy.asked(op, 1)

        @action(safety="idempotent")
        async def two(op: Operation) -> str:
            return other.asked(op, 2)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await asyncio.gather(run.act(one), run.act(two))

        async with working(app) as runtime:
            run = await go(runtime)
            for _ in range(4):
                await pass_time(runtime, "6s")
            assert (len(busy.calls), len(other.calls)) == (1, 3)
            assert (await runtime.reader.run(run["id"]) or {})["reason"] == (
                "effect one is rate limited since 2026-01-01T00:00:00Z (RateLimited: rate limited); "
                "it goes on when the other side lets it"
            )
            await pass_time(runtime, "1h")
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], len(busy.calls)) == ("done", 2)

    async def test_a_doubt_is_not_forgotten_by_a_later_certainty(self, app: App):
        service = Service(TimeoutError(), RateLimited(retry_after=7200), "done")
        declare(app, service, safety="idempotent", idempotent_for="1h")
        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], len(service.calls)) == ("held", 2)
        assert "recognises its id for 1 h 0 m only" in run["reason"]

    async def test_a_confirmation_whose_result_does_not_fit_is_asked_for_again(self, app: App):
        service = Service(TimeoutError())

        @action
        async def post(op: Operation, what: int) -> Note:
            service.asked(op, what)
            return Note(text="hi")

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return (await run.act(post, 7)).text

        async with working(app) as runtime:
            run = await go(runtime)
            await settle(runtime, run, "confirmed")
            run = await runtime.reader.run(run["id"]) or {}
            assert (run["state"], run["effects"][0]["state"]) == ("held", "held")
            assert "ada confirmed it, but" in run["reason"]
            assert "--result" in run["reason"]
            await settle(runtime, run, "confirmed", result='{"text": "from the statement"}')
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], run["output"], len(service.calls)) == ("done", "from the statement", 1)

    async def test_a_find_that_brings_something_unfit_is_held(self, app: App):
        service = Service(TimeoutError())

        async def find(op: Operation, what: int) -> bool:
            return True

        @action(safety="reconcile", find=find, settle="0s")
        async def post(op: Operation, what: int) -> Note:
            service.asked(op, what)
            return Note(text="hi")

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return (await run.act(post, 7)).text

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["effects"][0]["state"], len(service.calls)) == ("held", "held", 1)

    async def test_a_hold_lets_calls_under_way_come_to_their_end(self, app: App):
        service, going, go_on = Service(), asyncio.Event(), asyncio.Event()

        @action
        async def slow(op: Operation) -> str:
            going.set()
            await go_on.wait()
            return service.asked(op, 1)

        async def no(what: int) -> str:
            await going.wait()
            go_on.set()
            return "no"

        @action(checks=[no])
        async def refused(op: Operation, what: int) -> None: ...

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await asyncio.gather(run.act(slow), run.act(refused, 1))

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "held"
        assert {effect["action"]: effect["state"] for effect in run["effects"]} == {
            "slow": "confirmed",
            "refused": "held",
        }

    async def test_the_time_for_which_it_was_held_does_not_count(self, app: App):
        service = Service(TimeoutError(), "done")

        @action
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"), deadline="1h")
        async def agent(run: Run) -> str:
            return await run.act(post, 7)

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "2h")
            await settle(runtime, run, "retrying")
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], run["output"]) == ("done", "done 7")

    @pytest.mark.parametrize("way", ["missing", "unknown"])
    async def test_a_call_that_cannot_be_made_is_refused_before_anything(self, app: App, way: str):
        service = Service()

        @action
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await (run.act(post) if way == "missing" else run.act(post, 7, colour="red"))  # type: ignore[call-arg]

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["effects"], service.calls) == ("dead", [], [])
        assert "run.act(post, …):" in run["error"]["message"]

    async def test_a_dictionary_that_looks_like_keywords_is_an_argument(self, app: App):
        seen: list[Any] = []

        @action
        async def post(op: Operation, what: dict[str, Any]) -> None:
            seen.append(what)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.act(post, {"**": {"a": 1}})

        async with working(app) as runtime:
            await go(runtime)
        assert seen == [{"**": {"a": 1}}]

    async def test_two_apps_of_one_factory_have_their_own_actions(self, new_app: NewApp):
        done: list[str] = []

        def build(name: str) -> App:
            app = new_app(name)

            @action(safety="idempotent")
            async def post(op: Operation) -> None:
                done.append(name)

            @app.agent(on("go"))
            async def agent(run: Run) -> None:
                run.stage(post)

            return app

        first, _second = build("one"), build("two")
        async with working(first) as runtime:
            await go(runtime)
        assert done == ["one"]

    async def test_what_a_person_abandoned_is_not_done_by_another_run_of_the_family(self, app: App):
        from wakeful.stores.verbs.redo import RedoRun

        service = Service(TimeoutError())

        @action
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            run.stage(post, 7)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            await settle(runtime, run, "abandoned", note="no")
            run = await runtime.reader.run(run["id"]) or {}
            assert run["state"] == "done"
            redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("me", "code")))
            assert redone is not None
            await runtime.drain()
            again = await runtime.reader.run(redone.run) or {}
        assert len(service.calls) == 1
        assert "abandoned by ada: no" in again["error"]["message"]

    async def test_one_run_of_a_family_at_a_time(self, app: App):
        from wakeful.stores.verbs.redo import RedoRun

        service = Service("done", TimeoutError())
        numbers = iter([1, 2])

        @action
        async def post(op: Operation, what: int) -> str:
            return service.asked(op, what)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.act(post, next(numbers))

        async with working(app) as runtime:
            run = await go(runtime)
            both = await asyncio.gather(
                *(runtime.store.do(RedoRun(run["id"], again=True, by=Actor("me", "code"))) for _ in range(2))
            )
            assert [one is not None and one.refused for one in both] == [None, "is already being done again"]
            await runtime.drain()
            late = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("me", "code")))
        assert late is not None
        assert late.refused is not None
        assert "which has not ended" in late.refused

    async def test_what_was_refused_leaves_no_doubt_behind(self, app: App):
        """After a replay it is as if it had never been called: a 429 is waited for, also by what may be done once."""
        from wakeful.stores.verbs.redo import RedoRun

        service = Service(Answered(422), RateLimited(retry_after=1), "done")
        declare(app, service, safety="at_most_once")
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["effects"][0]["state"]) == ("dead", "failed")
            await runtime.store.do(RedoRun(run["id"], by=Actor("me", "code")))
            await runtime.drain()
            await pass_time(runtime, "10s")
            run = await runtime.reader.run(run["id"]) or {}
        assert (run["state"], len(service.calls)) == ("done", 3)
