"""Approvals between other parts: names that look like theirs, people and policies that change, hidden arguments, older processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, pass_time, the_run, working
from support.paying import (
    ADA,
    BOB,
    EVE,
    PEOPLE,
    approvals,
    begin,
    busy,
    declare,
    effects,
    policy_of,
    put_in_force,
    say,
    write,
)
from support.stores import query
from wakeful import Operation, Run, action, on, step
from wakeful.resources.run_steps import step_of
from wakeful.stores.request import Actor
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.tending import TendApprovals

CARD = "4111222233334444"


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


class TestSteps:
    """A user's step may have a name that begins like the step that waits for an approval."""

    async def test_a_replay_does_not_repeat_them(self, new_app: NewApp):
        app = new_app()
        done: list[str] = []
        broken = [True]

        @step(name="approve order")
        async def approve_order() -> str:
            done.append("approved")
            return "approved"

        @app.agent(on("go"), attempts=1)
        async def shop(run: Run) -> str:
            said = await run.step(approve_order)
            if broken:
                raise RuntimeError("broken")
            return said

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            run = await the_run(runtime, receipt)
            assert run["state"] == "dead"
            broken.clear()
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            assert (await the_run(runtime, receipt))["output"] == "approved"
        assert done == ["approved"]


class TestLaterTerms:
    @pytest.mark.parametrize("terms", ["{by: [ops], within: 4h}"])
    async def test_a_group_that_may_not_answer_any_more(self, new_app: NewApp, policy: Path, terms: str):
        """No escalation has added it, so the open approval is not the one that is needed."""
        write(policy, policy_of("{by: [ops, guests], within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            await put_in_force(runtime, policy_of(terms))
            await runtime.drain()
            (anew,) = await approvals(runtime)
            assert anew["by"] == ["ops"]
            said = await say(runtime, anew, by=Actor("mallory", "http", proved=True))
            assert said.refused is not None
            assert till.paid == []

    async def test_a_yes_of_people_who_may_not_give_it_any_more(self, new_app: NewApp, policy: Path):
        """It was given under the terms before, and its call has not begun."""
        write(policy, policy_of("{by: [guests], within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app, busy("1h"))
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=Actor("mallory", "http", proved=True))
            assert len(till.paid) == 1
            await put_in_force(runtime, policy_of("{by: [leads], within: 4h}"))
            await pass_time(runtime, "90m")
            assert len(till.paid) == 1
            (anew,) = await approvals(runtime)
            assert anew["by"] == ["leads"]


class TestVoters:
    async def test_one_who_has_left_the_group_counts_no_more(self, new_app: NewApp, policy: Path, tmp_path: Path):
        write(policy, policy_of("{by: [ops], of: 2, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=BOB)
            write(
                tmp_path / "people.yaml",
                PEOPLE.replace("bob: {groups: [ops, ", "bob: {groups: [") + "  cid: {groups: [ops]}\n",
            )
            await runtime.people_files.run_once()
            assert (await say(runtime, asked, by=ADA)).state == "open"
            assert till.paid == []
            assert (await say(runtime, asked, by=Actor("cid", "http", proved=True))).state == "answered"

    async def test_one_who_is_away_by_now_still_counts(self, new_app: NewApp, policy: Path, tmp_path: Path):
        write(policy, policy_of("{by: [ops], of: 2, within: 4h}"))
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=BOB)
            away = "bob: {away: {until: 2999-01-01}, groups: [ops, "
            write(tmp_path / "people.yaml", PEOPLE.replace("bob: {groups: [ops, ", away))
            await runtime.people_files.run_once()
            assert (await say(runtime, asked, by=ADA)).state == "answered"

    async def test_an_author_is_known_by_any_case(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{not_by: data.author, within: 4h}"))
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, author=" Ada")
            (asked,) = await approvals(runtime)
            said = await say(runtime, asked, by=ADA)
            assert said.refused is not None
            assert said.refused.kind == "person"

    @pytest.mark.parametrize("author", ["", "  "])
    async def test_an_author_without_a_name_cannot_be_told(self, new_app: NewApp, policy: Path, author: str):
        write(policy, policy_of("{not_by: data.author, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, author=author)
            assert await approvals(runtime) == []
        assert till.paid == []
        assert "who may not approve is unknown" in till.got[0]


class TestOlderProcess:
    async def test_answers_for_nobody_where_two_must_agree(self, new_app: NewApp, policy: Path, store_url: str):
        """A command of a version that knows no votes stores the answer alone, as for a question."""
        write(policy, policy_of("{of: 2, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await query(
                store_url,
                "update wakeful_approval set state = 'answered', answer = 'true', answered_by = 'mallory', answered_at = asked_at"
                f" where id = '{asked['id']}'",
            )
            await query(
                store_url,
                "update wakeful_step set state = 'done', result = 'true' where key like 'approve %' and state = 'waiting'",
            )
            await query(store_url, "update wakeful_run set state = 'ready', due_at = 0 where state = 'waiting'")
            await runtime.drain()
            assert till.paid == []
            (anew,) = await approvals(runtime)
            assert anew["id"] != asked["id"]
            await say(runtime, anew, by=ADA)
            await say(runtime, anew, by=BOB)
            assert (await the_run(runtime, receipt))["state"] == "done"
        assert len(till.paid) == 1


class TestHidden:
    """Arguments that the policy redacts are shown nowhere, whatever is done with them."""

    async def test_an_edit_of_a_hidden_argument(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops], edit: true, of: 2, within: 4h}"))
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            said = await say(runtime, asked, by=ADA, arguments=f'{{"card": "{CARD}"}}')
            run = await the_run(runtime, receipt)
            seen = [said, run, await approvals(runtime, None), await runtime.reader.alarms()]
            seen.append(await runtime.reader.decisions())
            for one in seen:
                text = str({**one, "effects": ()}) if isinstance(one, dict) else str(one)
                assert CARD not in text

    @pytest.mark.parametrize(
        ("key", "shown"),
        [
            (f"approve {'0' * 26}:large:1.0", True),
            ("approve order:5f1c", {"edit": {"arguments": {"card": CARD}}}),  # a step of the user
        ],
    )
    def test_before_a_worker_has_looked_at_an_edit(self, key: str, shown: object):
        edit = f'{{"edit":{{"arguments":{{"card":"{CARD}"}}}}}}'
        assert step_of(("approve pay", "done", 0, 1, None, edit, None, 0, 0, key))["result"] == shown

    async def test_the_placeholder_is_no_value(self, new_app: NewApp, policy: Path):
        """A person who copies what is shown would send it out."""
        write(policy, policy_of("{by: [ops], edit: true, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA, arguments='{"amount": 120, "card": "[redacted]"}')
            (again,) = await approvals(runtime)
            assert "arguments.card" in again["note"]
        assert till.paid == []


class TestEscalation:
    async def test_does_not_narrow_who_may_answer(self, new_app: NewApp, policy: Path):
        """Without `by` and without an owner, anybody may answer."""
        write(policy, policy_of("{within: 4h, escalate: [{after: 1h, to: [leads]}]}"))
        app = new_app(policy=policy)
        paid: list[int] = []

        @action
        async def pay(_: Operation, amount: int, card: str = "4111") -> None:
            paid.append(amount)

        @app.agent(on("go"))
        async def billing(run: Run) -> None:
            await run.act(pay, 150)

        async with working(app) as runtime:
            await begin(app, runtime)
            await pass_time(runtime, "61m")
            await runtime.store.do(TendApprovals("app"))
            (asked,) = await approvals(runtime)
            assert asked["by"] is None
            assert (await say(runtime, asked, by=Actor("mallory", "http", proved=True))).state == "answered"
        assert paid == [150]


class TestCounts:
    async def test_of_a_subject_that_a_database_cannot_store(self, new_app: NewApp, policy: Path):
        write(
            policy,
            "policy: 1\nrules:\n  - {id: many, action: greet, over: 1/h, per: arguments.name, answer: deny, reason: too many}\n",
        )
        app = new_app(policy=policy)
        greeted: list[str] = []

        @action
        async def greet(_: Operation, name: str, turn: int) -> None:
            greeted.append(name)

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> None:
            for turn in range(2):
                await run.act(greet, "a\0b", turn)

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            assert (await the_run(runtime, receipt))["state"] == "denied"
        assert greeted == ["a\0b"]


class TestFamily:
    @pytest.mark.parametrize("how", ["fork", "again"])
    async def test_another_run_of_the_family_asks_anew(self, new_app: NewApp, policy: Path, how: str):
        """The yes was given to a run that ended before its effect did."""
        app = new_app(policy=policy)
        till = declare(app, busy("5h"))
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0])
            assert len(till.paid) == 1
            await pass_time(runtime, "6h")  # past the deadline of the run
            run = await the_run(runtime, receipt)
            assert run["state"] == "dead"
            if how == "fork":
                key = run["steps"][0]["key"]
                await runtime.store.do(ForkRun(run["id"], key, "approve pay", by=EVE))
            else:
                await runtime.store.do(RedoRun(run["id"], again=True, by=EVE))
            await runtime.drain()
            await pass_time(runtime, "1h")
            assert len(till.paid) == 1
            assert len(await approvals(runtime)) == 1


class TestTypes:
    """Policy judges what the action gets, not how it was written."""

    @pytest.mark.parametrize("amount", ["666", 666.0])
    async def test_a_denied_value_in_another_form(self, new_app: NewApp, policy: Path, amount: Any):
        write(policy, "policy: 1\nrules:\n  - {id: never, action: pay, when: arguments.amount == 666, answer: deny}\n")
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, amount)
        assert till.paid == []
        assert till.got[0].startswith("action pay: never: ")

    async def test_an_edit_to_a_denied_value_in_another_form(self, new_app: NewApp, policy: Path):
        never = "  - {id: never, action: pay, when: arguments.amount == 666, answer: deny}"
        write(policy, policy_of("{by: [ops], edit: true, within: 4h}", never))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA, arguments='{"amount": "666"}')
            (again,) = await approvals(runtime)
            assert "policy denies it: never" in again["note"]
            await say(runtime, again, by=ADA, arguments='{"amount": "120"}')
            (effect,) = await effects(runtime)
            assert '"amount":120' in str(effect["executed"]).replace("'", '"').replace(" ", "")
        assert [amount for _, amount in till.paid] == [120]
