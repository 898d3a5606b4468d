"""Effects that a rule asks about, many in one transaction: it asks the store each kind of question once, for all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from contract.test_approval_races import ADA, ALLOWED, ASKED, BOB, EVE, HOUR, Waiting, a_question, an_effect
from support.stores import APP, Member, accept, an_arrival, do_all, query
from wakeful.model import Claim
from wakeful.policy.approvers import Person
from wakeful.policy.asking import Ask
from wakeful.policy.people import Entry
from wakeful.stores.transaction import Count
from wakeful.stores.verbs.consent import AbandonEffect, AwaitsApproval
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.persons import ApplyPeople
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.table import VERBS

MANY = 4
Asked = Callable[[], Counter[str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The names of the queries of the verbs of effects since the last call, and how often each was asked."""
    names: Counter[str] = Counter()

    def noted(verb: Any) -> Any:
        def driven(now: int | None, requests: Sequence[Any]) -> Iterator[Any]:
            generator = verb(now, requests)
            operation = next(generator)
            while True:
                names[operation.name if isinstance(operation, Count) else operation[0]] += 1
                reply = yield operation
                try:
                    operation = generator.send(reply)
                except StopIteration as end:
                    return end.value

        return driven

    for kind in (OpenEffect, SaveEffect, AbandonEffect):
        monkeypatch.setitem(VERBS, kind, noted(VERBS[kind]))

    def since() -> Counter[str]:
        found = Counter(names)
        names.clear()
        return found

    return since


async def all_waiting(member: Member, *, of: int = 1) -> list[Waiting]:
    """One effect of each of several runs, opened in one transaction."""
    await accept(member.store, *(an_arrival(str(number)) for number in range(MANY)))
    claims = sorted(await member.claim(), key=lambda claim: claim.seq)
    ones = [Waiting(member, claim, question_of(claim, of)) for claim in claims]
    opened = await do_all(
        member.store, [OpenEffect(one.claim, APP, effect_of(one.claim), ASKED, {"large": one.question}) for one in ones]
    )
    assert [getattr(each, "state", each) for each in opened] == ["waiting"] * MANY
    await do_all(
        member.store, [LeaveRun(one.claim, "waiting", "waited", delay=HOUR, steps=[one.question.step]) for one in ones]
    )
    return ones


def effect_of(claim: Claim) -> Any:
    return replace(an_effect(), id=f"pay {claim.seq}")


def question_of(claim: Claim, of: int = 1, by: tuple[str, ...] = ()) -> Any:
    return a_question(claim, effect_of(claim), Ask("large", "above 100", within=HOUR, of=of, by=by))


async def claimed(member: Member, ones: list[Waiting]) -> None:
    claims = {claim.id: claim for claim in await member.claim()}
    for one in ones:
        one.claim = claims[one.claim.id]


async def states(url: str, table: str) -> dict[str, int]:
    return {row[0]: row[1] for row in await query(url, f"select state, count(*) from {table} group by state")}


def many_times(asked: Counter[str]) -> dict[str, int]:
    return {name: times for name, times in asked.items() if times > 1}


async def test_they_are_opened(member: Member, asked: Asked, store_url: str):
    await all_waiting(member)
    found = asked()
    assert found["open_effect_approval"] == 1
    assert many_times(found) == {}
    assert await states(store_url, "wakeful_approval") == {"open": MANY}
    assert await query(store_url, "select count(*) from wakeful_step where state = 'waiting'") == [(MANY,)]


async def test_they_are_judged_anew_and_wait_on(member: Member, asked: Asked, store_url: str):
    ones = await all_waiting(member)
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
    await claimed(member, ones)
    asked()
    again = await do_all(member.store, [one.begins(effect=effect_of(one.claim)) for one in ones])
    assert [each.approval for each in again if isinstance(each, AwaitsApproval)] == [one.id for one in ones]
    found = asked()
    assert (found["open_approval_of_effect"], found["lock_answers_about_effect"]) == (1, 1)
    assert many_times(found) == {}


async def test_they_are_asked_on_other_terms(member: Member, asked: Asked, store_url: str):
    ones = await all_waiting(member)
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
    await claimed(member, ones)
    asked()
    stricter = [(one, a_question(one.claim, effect_of(one.claim), Ask("large", "more", of=2), 7)) for one in ones]
    requests = [
        replace(one.begins(effect=effect_of(one.claim)), questions={"large": question}) for one, question in stricter
    ]
    again = await do_all(member.store, requests)
    assert [each.approval for each in again if isinstance(each, AwaitsApproval)] == [each.id for _, each in stricter]
    found = asked()
    assert found["withdraw_approvals_of_effect"] == 1
    assert many_times(found) == {}
    assert await states(store_url, "wakeful_approval") == {"open": MANY, "withdrawn": MANY}
    assert await states(store_url, "wakeful_step") == {"failed": MANY, "waiting": MANY}


@pytest.mark.parametrize("of", [1, 2])
async def test_people_said_yes(member: Member, asked: Asked, store_url: str, of: int):
    await member.store.do(ApplyPeople(APP, "1", [Entry(Person("ada")), Entry(Person("bob"))], by=EVE))
    ones = await all_waiting(member, of=of)
    await do_all(member.store, [one.votes(by) for one in ones for by in (ADA, BOB)[:of]])
    await claimed(member, ones)
    asked()
    requests = [replace(one.begins(effect=effect_of(one.claim)), questions={"large": one.question}) for one in ones]
    assert await do_all(member.store, requests) == [None] * MANY
    found = asked()
    assert found["withdraw_approvals_of_effect"] == 1
    assert many_times(found) == {}
    assert await states(store_url, "wakeful_effect") == {"intent": MANY}


async def test_no_rule_asks_any_more(member: Member, asked: Asked, store_url: str):
    ones = await all_waiting(member)
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
    await claimed(member, ones)
    asked()
    done = await do_all(member.store, [one.begins(ALLOWED, effect_of(one.claim)) for one in ones])
    assert done == [None] * MANY
    found = asked()
    assert (found["withdraw_approvals_of_effect"], found["resolve_alarm"]) == (1, 1)
    assert many_times(found) == {}
    assert await states(store_url, "wakeful_approval") == {"withdrawn": MANY}


async def test_a_no_among_them(member: Member, asked: Asked, store_url: str):
    ones = await all_waiting(member)
    await do_all(member.store, [ones[0].votes(ADA), ones[1].votes(ADA, "false"), *(one.votes(ADA) for one in ones[2:])])
    await claimed(member, ones)
    asked()
    requests = [replace(one.begins(effect=effect_of(one.claim)), questions={"large": one.question}) for one in ones]
    done = await do_all(member.store, requests)
    assert [isinstance(each, AwaitsApproval) for each in done] == [False, True, False, False]
    assert many_times(asked()) == {}
    assert await states(store_url, "wakeful_effect") == {"intent": MANY - 1, "waiting": 1}


async def test_they_are_abandoned(member: Member, asked: Asked, store_url: str):
    ones = await all_waiting(member)
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
    await claimed(member, ones)
    asked()
    requests = [AbandonEffect(one.claim, effect_of(one.claim), "not asked for again", "the handler") for one in ones]
    assert await do_all(member.store, requests) == [None] * MANY
    assert many_times(asked()) == {}
    assert await do_all(member.store, requests) == [None] * MANY  # a repeated request changes nothing
    assert await states(store_url, "wakeful_effect") == {"abandoned": MANY}
    assert await states(store_url, "wakeful_approval") == {"withdrawn": MANY}
