"""What becomes of an approval while its run waits: halts, new code, forks, deadlines, people who are away, old rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, pass_time, the_run, working
from support.paying import (
    ADA,
    EVE,
    PEOPLE,
    approvals,
    begin,
    declare,
    effects,
    halt,
    policy_of,
    put_in_force,
    say,
    write,
)
from support.stores import query
from wakeful import App, Denied, Operation, Run, action, on
from wakeful.channels import Channel, Message
from wakeful.execution.attempt import current_attempt
from wakeful.execution.deadline import stands_still
from wakeful.operations.forking import plan_fork
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.redo import RedoRun

ALLOW_ALL = "policy: 1\nrules:\n  - {id: fine, action: pay, answer: allow}\n"
SAME_TERMS = policy_of("{by: [ops], within: 4h}", "  - {id: other, action: pay, when: 'false', answer: deny}")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_of())
    return path


@pytest.fixture
def new_app(new_app: NewApp, tmp_path: Path) -> NewApp:
    """Apps with people."""
    people = tmp_path / "people.yaml"
    people.write_text(PEOPLE)
    return lambda **options: new_app(people=people, **options)


class Billing:
    """An agent that pays and then sleeps for 10 hours; its deadline is 2 hours."""

    def __init__(self, app: App, **options: Any) -> None:
        self.app = app
        self.paid: list[int] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            self.paid.append(amount)
            return amount

        async def look() -> int:
            return 150

        @app.agent(on("go"), name="billing", attempts=1, **{"deadline": "2h", **options})
        async def billing(run: Run) -> None:
            await run.act(pay, await run.step(look))
            await run.sleep("10h")


async def story(runtime: Runtime, receipt: Any) -> str:
    told = await runtime.reader.why((await the_run(runtime, receipt))["id"])
    assert told is not None
    return " ".join(told["story"])


class TestDeadline:
    @pytest.mark.parametrize("how", ["yes", "allowed", "asked anew"])
    async def test_counts_again_once_nothing_is_asked(self, new_app: NewApp, policy: Path, how: str):
        app = new_app(policy=policy)
        billing = Billing(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await pass_time(runtime, "3h")
            assert "has asked ops" in await story(runtime, receipt)
            if how == "yes":
                await say(runtime, (await approvals(runtime))[0])
            elif how == "allowed":
                await put_in_force(runtime, ALLOW_ALL)
                await runtime.drain()
            else:
                await put_in_force(runtime, policy_of("{by: [leads], within: 4h}"))
                await runtime.drain()
                await say(runtime, (await approvals(runtime))[0])
            assert billing.paid == [150]
            assert "has asked ops" not in await story(runtime, receipt)
            await pass_time(runtime, "1h 59m")
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime, "2m")
            run = await the_run(runtime, receipt)
            assert (run["state"], run["reason"]) == ("dead", "deadline passed")

    async def test_counts_again_in_the_attempt_that_finds_no_answer(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        still: list[bool] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> None: ...

        @app.agent(on("go"), name="billing", attempts=1, deadline="2h")
        async def billing(run: Run) -> None:
            try:
                await run.act(pay, 150)
            except Denied:
                still.append(stands_still(current_attempt().claim))

        async with working(app) as runtime:
            await begin(app, runtime)
            await pass_time(runtime, "4h 1m")
        assert still == [False]

    async def test_a_fork_has_only_its_own_time(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        billing = Billing(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await pass_time(runtime, "3h")
            await say(runtime, (await approvals(runtime))[0])
            await pass_time(runtime, "2h 1m")
            run = await the_run(runtime, receipt)
            assert run["state"] == "dead"
            sleeps = next(one["name"] for one in run["steps"] if one["name"].startswith("sleep"))
            forked = await runtime.store.do(plan_fork(run, sleeps).request(None, by=EVE, note=None))
            assert forked is not None
            await runtime.drain()
            await pass_time(runtime, "1h 59m")
            assert (await state_of(runtime, forked.run)) == "waiting"
            await pass_time(runtime, "2m")
            assert (await state_of(runtime, forked.run)) == "dead"
        assert billing.paid == [150]


class TestAnotherRun:
    @pytest.mark.parametrize("how", ["again", "fork"])
    async def test_asks_anew_after_a_no(self, new_app: NewApp, policy: Path, how: str):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], "false")
            run = await the_run(runtime, receipt)
            assert (run["state"], till.paid) == ("done", [])
            if how == "again":
                other = await runtime.store.do(RedoRun(run["id"], again=True, by=EVE))
            else:
                other = await runtime.store.do(
                    plan_fork(run, run["steps"][-1]["name"]).request(None, by=EVE, note=None)
                )
            assert other is not None
            await runtime.drain()
            assert (await state_of(runtime, other.run), till.paid) == ("waiting", [])
            await say(runtime, (await approvals(runtime))[0])
            assert (await state_of(runtime, other.run), len(till.paid)) == ("done", 1)


class TestNewCode:
    @pytest.mark.parametrize("on_change", ["restart", "continue"])
    @pytest.mark.parametrize("first", ["the answer", "the new code"])
    async def test_the_approval_stays_open(self, new_app: NewApp, policy: Path, on_change: str, first: str):
        billing = Billing(new_app(policy=policy), version="1", on_change=on_change)
        async with working(billing.app) as runtime:
            receipt = await begin(billing.app, runtime)
            (asked,) = await approvals(runtime)
        newer = Billing(new_app(policy=policy), version="2", on_change=on_change)
        async with working(newer.app) as runtime:
            if first == "the new code":
                await put_in_force(runtime, SAME_TERMS)  # wakes the run
                await runtime.drain()
                assert [one["id"] for one in await approvals(runtime)] == [asked["id"]]
            await say(runtime, asked)
            assert (billing.paid, newer.paid) == ([], [150])
            assert len(await approvals(runtime, None)) == 1
            await pass_time(runtime, "11h")
            assert (await the_run(runtime, receipt))["state"] == "dead"  # past its deadline
            alarms = (await runtime.reader.alarms(state="open"))["alarms"]
            assert [one["text"] for one in alarms if "without using" in one["text"]] == []

    @pytest.mark.parametrize("first", ["the answer", "the replay"])
    async def test_of_a_run_that_is_held_for_it_is_asked_anew_by_a_replay(
        self, new_app: NewApp, policy: Path, first: str
    ):
        billing = Billing(new_app(policy=policy), version="1", on_change="hold", deadline=None)
        async with working(billing.app) as runtime:
            receipt = await begin(billing.app, runtime)
            (asked,) = await approvals(runtime)
        newer = Billing(new_app(policy=policy), version="2", on_change="hold", deadline=None)
        async with working(newer.app) as runtime:
            await put_in_force(runtime, SAME_TERMS)  # wakes the run
            await runtime.drain()
            run = await the_run(runtime, receipt)
            assert run["state"] == "held"
            if first == "the answer":
                await say(runtime, asked)
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            assert newer.paid == []
            (anew,) = await approvals(runtime)
            assert anew["id"] != asked["id"]
            await say(runtime, anew)
            assert newer.paid == [150]


class TestHalted:
    async def test_between_the_yes_and_the_call(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await halt(runtime)
            await say(runtime, (await approvals(runtime))[0])
            assert ((await the_run(runtime, receipt))["state"], till.paid) == ("parked", [])
            await halt(runtime, halted=False)
            assert ((await the_run(runtime, receipt))["state"], len(till.paid)) == ("done", 1)
            assert [one["tries"] for one in await effects(runtime)] == [1]

    async def test_a_yes_that_ends_meanwhile_is_asked_for_again(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops], within: 4h, valid: 1h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await halt(runtime)
            await say(runtime, (await approvals(runtime))[0])
            await pass_time(runtime, "2h")
            await halt(runtime, halted=False)
            assert ((await the_run(runtime, receipt))["state"], till.paid) == ("waiting", [])
            await say(runtime, (await approvals(runtime))[0])
        assert len(till.paid) == 1


class TestAway:
    async def test_the_person_who_answers_instead_does(self, new_app: NewApp, policy: Path, tmp_path: Path):
        app = new_app(policy=policy)
        away = "ada: {groups: [ops], away: {until: 2026-02-01, instead: tom}}"
        write(tmp_path / "people.yaml", f"people:\n  {away}\n  tom: {{groups: [night]}}\n")
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            refused = (await say(runtime, asked, by=ADA)).refused
            assert refused is not None
            assert refused.words == "ada is away, and tom answers instead"
            assert (await say(runtime, asked, by=Actor("tom", "http", proved=True))).state == "answered"
        assert len(till.paid) == 1

    async def test_until_the_day_that_is_given(self, new_app: NewApp, policy: Path, tmp_path: Path):
        write(policy, policy_of("{by: [ops], within: 90d}"))
        app = new_app(policy=policy)
        away = "ada: {groups: [ops], away: {until: 2026-02-01, instead: tom}}"
        write(tmp_path / "people.yaml", f"people:\n  {away}\n  tom: {{groups: [night]}}\n")
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            await pass_time(runtime, "40d")
            (asked,) = await approvals(runtime)
            stranger = await say(runtime, asked, by=Actor("tom", "http", proved=True))
            assert stranger.refused is not None
            assert (await say(runtime, asked, by=ADA)).state == "answered"


class TestEdited:
    async def test_what_was_executed_is_looked_for(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{edit: true, within: 4h}"))
        app = new_app(policy=policy)
        looked: list[int] = []

        async def find(_: Operation, amount: int, card: str = "4111") -> str | None:
            looked.append(amount)
            return "found" if len(looked) > 1 else None

        @action(safety="reconcile", find=find)
        async def pay(_: Operation, amount: int, card: str = "4111") -> str:
            paid.append(amount)
            raise TimeoutError("lost")

        paid: list[int] = []

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> str:
            return await run.act(pay, 150)

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], arguments='{"amount": 120}')
            for _ in range(2):
                await pass_time(runtime, "1h")
            assert (await the_run(runtime, receipt))["output"] == "found"
        assert (paid, looked) == ([120, 120], [120, 120])


class Post(Channel):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Message] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got.extend(messages)


async def test_an_escalation_tells_those_who_may_answer_now(new_app: NewApp, policy: Path):
    write(policy, policy_of("{by: [ops], within: 4h, escalate: [{after: 1h, to: [leads]}]}"))
    posts = {"ops": Post(), "leads": Post()}
    app = new_app(policy=policy, channels=dict(posts))
    declare(app)

    async def told(runtime: Runtime) -> list[int]:
        await runtime.teller.tick()
        await runtime.drain()
        return [len(one.got) for one in posts.values()]

    async with working(app) as runtime:
        await begin(app, runtime)
        assert await told(runtime) == [1, 0]
        await pass_time(runtime, "61m")
        await runtime.watcher.once()
        assert await told(runtime) == [2, 1]
        assert "leads may answer too" in posts["leads"].got[0].body["text"]
        await pass_time(runtime, "2h")
        assert await told(runtime) == [3, 2]


async def test_old_votes_go_with_their_run(new_app: NewApp, policy: Path, store_url: str):
    app = new_app(policy=policy, retention="30d")
    declare(app)
    async with working(app) as runtime:
        await begin(app, runtime)
        await say(runtime, (await approvals(runtime))[0], note="it is for Mrs Smith")
        await pass_time(runtime, "31d")
        await begin(app, runtime, amount=1)
        await runtime.housekeeper.run_once()
        assert await query(store_url, "select voter, note from wakeful_vote") == []


async def state_of(runtime: Runtime, identifier: str) -> str:
    run = await runtime.reader.run(identifier)
    assert run is not None
    return str(run["state"])
