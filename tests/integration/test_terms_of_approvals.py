"""What a yes is worth when the terms are others: a person who repeats an effect, and a policy that changes after the yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.apps import NewApp, pass_time, working
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
    lost,
    policy_of,
    put_in_force,
    say,
    write,
)
from wakeful import Transient
from wakeful.operations.held import settle
from wakeful.stores.request import Actor

ALLOW_ALL = "policy: 1\nrules:\n  - {id: fine, action: pay, answer: allow}\n"
OTHERS = ["{by: [guests], within: 4h}", "{by: [ops], not_by: data.author, within: 4h}", "{of: 2, within: 4h}"]


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


class TestRepeat:
    async def test_one_person_does_not_repeat_what_two_must_agree_to(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{of: 2, within: 4h, valid: 1m}"))
        app = new_app(policy=policy)
        till = declare(app, Transient("lost"), safety="at_most_once")
        async with working(app) as runtime:
            await begin(app, runtime)
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=ADA)
            await say(runtime, asked, by=BOB)
            assert [one["state"] for one in await effects(runtime)] == ["held"]
            await pass_time(runtime, "2m")  # the yes of two is over
            (effect,) = await effects(runtime)
            await settle(runtime.store, effect["id"], "repeat", by=EVE)
            await runtime.drain()
            assert len(till.paid) == 1

    async def test_a_person_who_may_not_approve_does_not_by_repeating(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops], within: 4h, valid: 1m}"))
        app = new_app(policy=policy)
        till = declare(app, Transient("lost"), safety="at_most_once")
        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], by=ADA)
            await pass_time(runtime, "2m")
            (effect,) = await effects(runtime)
            await settle(runtime.store, effect["id"], "repeat", by=Actor("mallory", "http", proved=True))
            await runtime.drain()
            assert len(till.paid) == 1
            await say(runtime, (await approvals(runtime))[0], by=BOB)
            assert len(till.paid) == 2

    async def test_a_person_who_may_approve_does(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops], within: 4h, valid: 1m}"))
        app = new_app(policy=policy)
        till = declare(app, Transient("lost"), safety="at_most_once")
        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], by=ADA)
            await pass_time(runtime, "2m")
            (effect,) = await effects(runtime)
            await settle(runtime.store, effect["id"], "repeat", by=BOB)
            await runtime.drain()
            assert len(till.paid) == 2

    @pytest.mark.parametrize(
        ("terms", "by"),
        [
            ("{of: 2, within: 4h}", BOB),
            ("{by: [ops], not_by: data.author, within: 4h}", ADA),
            ("{by: [ops], not_by: data.author, within: 4h}", Actor("ada", "cli")),
            ("{by: [ops], within: 4h}", Actor("mallory", "http", proved=True)),
        ],
    )
    async def test_of_an_effect_that_was_never_asked_about(self, new_app: NewApp, policy: Path, terms: str, by: Actor):
        """A later policy asks about it. Its earlier call may have been done, so it is held."""
        write(policy, ALLOW_ALL)
        app = new_app(policy=policy)
        till = declare(app, lost("10m"))
        async with working(app) as runtime:
            await begin(app, runtime, author="ada")
            await put_in_force(runtime, policy_of(terms))
            await pass_time(runtime, "15m")
            (effect,) = await effects(runtime)
            assert (effect["state"], effect["rule"]) == ("held", "large")
            await settle(runtime.store, effect["id"], "repeat", by=by)
            await runtime.drain()
            assert len(till.paid) == 1
            (asked,) = await approvals(runtime)
            await say(runtime, asked, by=BOB)
            if asked["of"] == 2:
                await say(runtime, asked, by=ADA)
            assert len(till.paid) == 2

    @pytest.mark.parametrize("by", [BOB, EVE])
    async def test_of_an_effect_that_was_never_asked_about_by_a_person_who_may(
        self, new_app: NewApp, policy: Path, by: Actor
    ):
        write(policy, ALLOW_ALL)
        app = new_app(policy=policy)
        till = declare(app, lost("10m"))
        async with working(app) as runtime:
            await begin(app, runtime, author="ada")
            await put_in_force(runtime, policy_of("{by: [ops], not_by: data.author, within: 4h}"))
            await pass_time(runtime, "15m")
            (effect,) = await effects(runtime)
            await settle(runtime.store, effect["id"], "repeat", by=by)
            await runtime.drain()
            assert (len(till.paid), await approvals(runtime)) == (2, [])


class TestLaterPolicy:
    @pytest.mark.parametrize("terms", OTHERS)
    async def test_a_yes_on_other_terms_serves_no_longer(self, new_app: NewApp, policy: Path, terms: str):
        app = new_app(policy=policy)
        till = declare(app, busy("10m"))
        async with working(app) as runtime:
            await begin(app, runtime, author="ada")
            await say(runtime, (await approvals(runtime))[0], by=ADA)
            assert len(till.paid) == 1
            await put_in_force(runtime, policy_of(terms))
            await pass_time(runtime, "15m")
            assert (len(till.paid), len(await approvals(runtime))) == (1, 1)

    @pytest.mark.parametrize("terms", OTHERS)
    async def test_nor_for_a_call_that_may_have_been_done(self, new_app: NewApp, policy: Path, terms: str):
        app = new_app(policy=policy)
        till = declare(app, lost("10m"))
        async with working(app) as runtime:
            await begin(app, runtime, author="ada")
            await say(runtime, (await approvals(runtime))[0], by=ADA)
            await put_in_force(runtime, policy_of(terms))
            await pass_time(runtime, "15m")
            assert [one["state"] for one in await effects(runtime)] == ["held"]
        assert len(till.paid) == 1

    async def test_a_yes_on_the_same_terms_does(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app, lost("10m"))
        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0], by=ADA)
            other = "  - {id: other, action: pay, when: 'false', answer: deny}"
            await put_in_force(runtime, policy_of("{by: [ops], within: 4h}", other))
            await pass_time(runtime, "15m")
        assert len(till.paid) == 2

    async def test_wants_two_where_one_had_said_yes(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app, busy("10m"))
        async with working(app) as runtime:
            await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0])
            assert len(till.paid) == 1
            await put_in_force(runtime, policy_of("{by: [ops], of: 2, within: 4h}"))
            await pass_time(runtime, "15m")
            assert len(till.paid) == 1
            (asked,) = await approvals(runtime)
            assert asked["of"] == 2

    async def test_wants_two_where_one_was_asked(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime)
            await put_in_force(runtime, policy_of("{by: [ops], of: 2, within: 4h}"))
            await runtime.drain()
            (asked,) = await approvals(runtime)
            assert asked["of"] == 2
            await say(runtime, asked, by=ADA)
            assert till.paid == []
            await say(runtime, asked, by=BOB)
        assert len(till.paid) == 1
