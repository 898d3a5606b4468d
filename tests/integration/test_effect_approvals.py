"""Effects that a rule asks about: they wait for people, bound to exactly what would happen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from wakeful import NotSent, Operation, Persistent, Run, action, on
from wakeful.channels import Channel, Message
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.redo import RedoRun


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


class TestAsking:
    async def test_an_effect_waits_and_happens_once_somebody_says_yes(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            run = await the_run(runtime, receipt)
            assert (run["state"], till.paid) == ("waiting", [])
            (asked,) = await approvals(runtime)
            assert (asked["kind"], asked["action"], asked["rule"]) == ("effect", "pay", "large")
            assert asked["arguments"] == {"amount": 150, "card": "[redacted]"}
            assert (asked["of"], asked["by"], asked["votes"]) == (1, ["ops"], [])
            assert [one["state"] for one in await effects(runtime)] == ["waiting"]
            said = await say(runtime, asked)
            assert (said.first, said.state) == (True, "answered")
            assert (await the_run(runtime, receipt))["state"] == "done"
        assert [amount for _, amount in till.paid] == [150]
        assert till.got == ["paid 150"]

    async def test_no_is_final_for_the_run(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, "false")
            run = await the_run(runtime, receipt)
            assert (run["state"], run["output"]) == ("done", "refused")
            assert [(one["state"], one["settled_by"]) for one in await effects(runtime)] == [("abandoned", "eve")]
        assert till.paid == []
        assert till.got == ["action pay: large: eve said no"]

    async def test_nobody_in_time_is_a_no_and_the_deadline_stands_still(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await pass_time(runtime, "3h 59m")
            assert (await the_run(runtime, receipt))["state"] == "waiting"  # its deadline of 2 hours stands still
            await pass_time(runtime, "2m")
            run = await the_run(runtime, receipt)
            assert (run["state"], run["output"]) == ("done", "refused")
            assert [one["state"] for one in await approvals(runtime, None)] == ["expired"]
        assert till.paid == []
        assert "no approval within 4 h" in till.got[0]

    async def test_other_branches_go_on(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        done: list[str] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        async def look(what: str) -> str:
            done.append(what)
            return what

        @app.agent(on("go"), name="billing")
        async def billing(run: Run) -> Any:
            return await asyncio.gather(run.act(pay, 150), run.act(pay, 50), run.step(look, "a"), run.act(pay, 250))

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            assert done == ["a"]
            first, second = await approvals(runtime)
            await say(runtime, first)
            await say(runtime, second)
            assert (await the_run(runtime, receipt))["output"] == [150, 50, "a", 250]

    async def test_a_staged_effect_waits_too(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        paid: list[int] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> None:
            paid.append(amount)

        @app.agent(on("go"), name="billing")
        async def billing(run: Run) -> str:
            run.stage(pay, run.event.data["amount"])
            return "out"

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            assert ((await the_run(runtime, receipt))["state"], paid) == ("waiting", [])
            await say(runtime, (await approvals(runtime))[0])
            assert ((await the_run(runtime, receipt))["state"], paid) == ("done", [150])

    async def test_a_run_asks_five_times_at_most(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> int:
            for amount in range(200, 206):
                await run.act(pay, amount)
            return 6

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            for _ in range(5):
                await say(runtime, (await approvals(runtime))[0])
            run = await the_run(runtime, receipt)
            assert (run["state"], await approvals(runtime)) == ("denied", [])
            assert "asked 5 times" in run["reason"]


class TestYes:
    async def test_serves_retries_and_is_used_up_when_the_effect_ends(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app, NotSent("busy"), Persistent("no such card"))
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0])
            await pass_time(runtime, "1m")
            run = await the_run(runtime, receipt)
            assert (run["state"], len(till.paid)) == ("dead", 2)  # one yes, two calls
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            assert len(till.paid) == 2
            (again,) = await approvals(runtime)
            await say(runtime, again)
            assert ((await the_run(runtime, receipt))["state"], len(till.paid)) == ("done", 3)

    async def test_is_not_valid_for_ever(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{within: 4h, valid: 1m}"))
        app = new_app(policy=policy)
        till = declare(app, busy("10m"))
        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0])
            await pass_time(runtime, "15m")
            assert len(till.paid) == 1
            assert len(await approvals(runtime)) == 1

    async def test_another_rule_wants_its_own(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops]}", "  - {id: zealous, action: pay, answer: ask, approve: {by: [leads]}}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (first,) = await approvals(runtime)
            await say(runtime, first)
            (second,) = await approvals(runtime)
            assert ((first["rule"], second["rule"]), till.paid) == (("large", "zealous"), [])
            await say(runtime, second)
        assert len(till.paid) == 1

    async def test_is_judged_once_more(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await runtime.store.do(AnswerApproval(asked["id"], "true", by=EVE))
            await put_in_force(
                runtime, "policy: 1\nrules:\n  - {id: stop, action: pay, answer: deny, reason: not today}\n"
            )
            await runtime.drain()
            assert (await the_run(runtime, receipt))["output"] == "refused"
        assert till.paid == []


class TestPolicyChanges:
    async def test_what_waits_is_judged_anew(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await put_in_force(runtime, "policy: 1\nrules:\n  - {id: fine, action: pay, answer: allow}\n")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "done"
            assert [one["state"] for one in await approvals(runtime, None)] == ["withdrawn"]
        assert len(till.paid) == 1

    async def test_the_same_question_stays_open(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await put_in_force(
                runtime,
                policy_of("{by: [ops], within: 4h}", "  - {id: other, action: pay, when: 'false', answer: deny}"),
            )
            await runtime.drain()
            (still,) = await approvals(runtime)
            assert (still["id"], (await the_run(runtime, receipt))["state"]) == (asked["id"], "waiting")

    @pytest.mark.parametrize(
        "terms",
        ["{by: [leads], within: 4h}", "{by: [ops, leads], within: 4h}", "{by: [ops], not_by: data.author, within: 4h}"],
    )
    async def test_other_terms_are_asked_anew(self, new_app: NewApp, policy: Path, terms: str):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, author="eve")
            (asked,) = await approvals(runtime)
            await put_in_force(runtime, policy_of(terms))
            await runtime.drain()
            (anew,) = await approvals(runtime)
            assert anew["id"] != asked["id"]
            late = await say(runtime, asked, by=ADA)
            assert (late.first, late.state, till.paid) == (False, "withdrawn", [])
            assert (await say(runtime, anew, by=ADA)).state == "answered"
        assert len(till.paid) == 1


class TestVotes:
    async def test_two_people_with_tokens_of_their_own_must_agree(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{of: 2, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            claimed = await say(runtime, asked)
            assert claimed.refused is not None
            assert claimed.refused.kind == "person"
            first = await say(runtime, asked, by=ADA)
            assert (first.state, first.votes, first.needed) == ("open", 1, 2)
            twice = await say(runtime, asked, by=ADA)
            assert twice.refused is not None
            assert twice.refused.kind == "twice"
            assert till.paid == []
            assert (await say(runtime, asked, by=BOB)).state == "answered"
            (ended,) = await approvals(runtime, None)
            assert [(one["by"], one["proved"], one["counts"]) for one in ended["votes"]] == [
                ("ada", True, True),
                ("bob", True, True),
            ]
        assert len(till.paid) == 1

    async def test_only_those_who_are_asked_count(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            stranger = await say(runtime, asked, by=Actor("mallory", "http", proved=True))
            assert stranger.refused is not None
            assert stranger.refused.words == "mallory is not one of those who may answer it: ops"
            assert (await say(runtime, asked, by=BOB)).state == "answered"

    async def test_somebody_who_has_left_counts_no_more(self, new_app: NewApp, policy: Path, tmp_path: Path):
        write(policy, policy_of("{by: [ops], of: 2, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=BOB)
            write(tmp_path / "people.yaml", PEOPLE.replace("bob:", "cid:"))
            await runtime.people_files.run_once()
            assert (await say(runtime, asked, by=ADA)).state == "open"
            assert till.paid == []

    async def test_the_first_no_ends_it(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{of: 2, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA)
            await say(runtime, asked, "false", by=BOB)
            late = await say(runtime, asked, by=ADA)
            assert (late.first, late.state) == (False, "answered")
        assert till.got == ["action pay: large: bob said no"]

    async def test_the_author_is_kept_out(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{not_by: data.author, within: 4h}"))
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, author="eve")
            (asked,) = await approvals(runtime)
            kept_out = await say(runtime, asked)
            assert kept_out.refused is not None
            assert "may not answer" in kept_out.refused.words
            assert (await say(runtime, asked, by=ADA)).state == "answered"

    async def test_an_unknown_author_denies(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{not_by: data.author, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            assert await approvals(runtime) == []
        assert "who may not approve is unknown" in till.got[0]

    async def test_is_for_what_was_seen(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            other = await say(runtime, asked, digest="another")
            assert other.refused is not None
            assert other.refused.kind == "digest"
            assert (await say(runtime, asked, digest=asked["digest"])).state == "answered"


class TestEdited:
    async def test_arguments_are_checked_and_called_instead(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{edit: true, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, arguments='{"amount": 120}')
            assert (await the_run(runtime, receipt))["output"] == "paid 120"
            (ended,) = await approvals(runtime, None)
            assert ended["arguments"]["amount"] == 120
            assert ended["digest"] != asked["digest"]
        assert [amount for _, amount in till.paid] == [120]

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [('{"amount": "much"}', "does not fit"), ('{"sum": 1}', "has no parameter sum"), ("7", "must be an object")],
    )
    async def test_arguments_that_do_not_fit_reopen_it(self, new_app: NewApp, policy: Path, arguments: str, why: str):
        write(policy, policy_of("{edit: true, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, arguments=arguments)
            (again,) = await approvals(runtime)
            assert why in (again["note"] or "")
            assert (again["digest"], till.paid) == (asked["digest"], [])
            await say(runtime, again)
            assert (await the_run(runtime, receipt))["output"] == "paid 150"

    async def test_an_edit_voids_earlier_votes(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{of: 2, edit: true, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA)
            await say(runtime, asked, by=BOB, arguments='{"amount": 130}')
            (again,) = await approvals(runtime)
            assert ([one["by"] for one in again["votes"]], till.paid) == (["bob"], [])
            (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
            assert "amount=130" in alarm["text"]
            stale = await say(runtime, again, by=ADA, digest=asked["digest"])
            assert stale.refused is not None
            assert stale.refused.kind == "digest"
            await say(runtime, again, by=ADA, digest=again["digest"])
        assert [amount for _, amount in till.paid] == [130]

    async def test_is_refused_unless_the_rule_says_so(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            refused = await say(runtime, asked, arguments='{"amount": 1}')
            assert refused.refused is not None
            assert refused.refused.kind == "arguments"


class TestEditedAuthor:
    async def test_an_edit_keeps_the_author_of_the_new_arguments_out(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{not_by: arguments.card, edit: true, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA, arguments='{"card": "ada"}')
            (again,) = await approvals(runtime)
            assert "may not approve that" in (again["note"] or "")
            assert till.paid == []


class TestEscalation:
    async def test_widens_who_may_answer(self, new_app: NewApp, policy: Path, store_url: str):
        write(
            policy, policy_of("{by: [ops], within: 4h, escalate: [{after: 1h, to: [leads]}, {after: 2h, to: [ada]}]}")
        )
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            await pass_time(runtime, "61m")
            await runtime.watcher.once()
            assert (await approvals(runtime))[0]["by"] == ["ops", "leads"]
            rows = await query(store_url, "select addressee, owner, remind_at is not null from wakeful_alarm")
            assert [(one[0], one[1], bool(one[2])) for one in rows] == [("ops, leads", "shop", True)]
            await pass_time(runtime, "1h")
            await runtime.watcher.once()
            assert (await approvals(runtime))[0]["by"] == ["ops", "leads", "ada"]


class TestAdmission:
    async def test_each_rule_wants_its_own_yes(self, new_app: NewApp, policy: Path):
        rules = [
            "  - {id: one, at: admission, agent: billing, answer: ask, approve: {by: [ops], within: 1h}}",
            "  - {id: two, at: admission, agent: billing, answer: ask, approve: {by: [leads], of: 2, within: 1h}}",
        ]
        write(policy, "\n".join(["policy: 1", "rules:", *rules]))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime, amount=1)
            second, first = await approvals(runtime)
            assert [(one["kind"], one["by"], one["of"]) for one in (first, second)] == [
                ("run", ["ops"], 1),
                ("run", ["leads"], 2),
            ]
            await say(runtime, first)
            assert (await the_run(runtime, receipt))["state"] == "held"
            await say(runtime, second, by=ADA)
            assert (await the_run(runtime, receipt))["state"] == "held"
            await say(runtime, second, by=BOB)
            assert (await the_run(runtime, receipt))["state"] == "done"
        assert len(till.paid) == 1

    async def test_nobody_in_time_denies_it(self, new_app: NewApp, policy: Path, store_url: str):
        write(policy, "policy: 1\nrules:\n  - {id: one, at: admission, answer: ask, approve: {within: 1h}}\n")
        app = new_app(policy=policy)
        declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime, amount=1)
            rows = await query(store_url, "select remind_at - opened_at from wakeful_alarm")
            assert [tuple(one) for one in rows] == [(45 * 60 * 1_000_000,)]
            await pass_time(runtime, "61m")
            await runtime.watcher.once()
            run = await the_run(runtime, receipt)
            assert (run["state"], run["reason"]) == ("denied", "one: not approved in time")
            assert [one["state"] for one in await approvals(runtime, None)] == ["expired"]


class TestWithdrawn:
    async def test_other_arguments_on_resume_withdraw_it(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        amounts = [150, 160]

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        @app.agent(on("go"), name="billing")
        async def billing(run: Run) -> int:
            return await run.act(pay, amounts[0])

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            amounts.pop(0)
            await say(runtime, asked)
            states = {one["id"]: one["state"] for one in await approvals(runtime, None)}
            assert sorted(states.values()) == ["answered", "open"]
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            assert sorted(one["state"] for one in await effects(runtime)) == ["abandoned", "waiting"]


class Post(Channel):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Message] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got.extend(messages)


class TestTold:
    async def test_the_channels_named_as_the_groups_hear_of_it_and_once_more(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops, leads], within: 4h}"))
        posts = {"ops": Post(), "leads": Post(), "other": Post()}
        app = new_app(policy=policy, channels=dict(posts), alarms="other")
        declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            await tell(runtime)
            assert [len(one.got) for one in posts.values()] == [1, 1, 0]
            (message,) = posts["ops"].got
            assert "May agent billing do pay(" in message.body["text"]
            assert "[redacted]" in message.body["text"]
            assert "4111" not in message.body["text"]
            await pass_time(runtime, "3h 1m")
            await tell(runtime)
            assert [one.body["what"] for one in posts["leads"].got] == ["opened", "still open"]
            types = {one["type"] for one in (await runtime.reader.events())["events"]}
            assert types == {"go", "wakeful.approval"}


async def tell(runtime: Runtime) -> None:
    await runtime.teller.tick()
    await runtime.drain()


class TestEditedAndUndone:
    async def test_what_was_executed_is_undone(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{edit: true, within: 4h}"))
        app = new_app(policy=policy)
        undone: list[int] = []

        async def give_back(_: Operation, amount: int, card: str = "4111") -> None:
            undone.append(amount)

        @action(safety="idempotent", undo=give_back)
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        @app.agent(on("go"), name="billing", attempts=1, on_failure="undo")
        async def billing(run: Run) -> None:
            await run.act(pay, 150)
            raise Persistent("and then it failed")

        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], arguments='{"amount": 120}')
        assert undone == [120]
