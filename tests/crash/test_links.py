"""A link is used up by the transaction of its answer: a process that dies leaves both or neither."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from support.stores import APP, OpenStore, a_step, accept, an_arrival, join, query
from wakeful.clock import VirtualClock, duration
from wakeful.errors import LinkRefused
from wakeful.model import digest
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.approvals import AnswerApproval, Approval, AskPerson
from wakeful.stores.verbs.links import MakeLink

ADA = Actor("ada", "link", proved=True)


@dataclass
class Dies:
    point: str

    def __call__(self, point: str, requests: Sequence[Any]) -> None:
        if point == self.point and any(isinstance(request, AnswerApproval) for request in requests):
            raise Died


async def asked(store: DatabaseStore, clock: VirtualClock) -> str:
    """An approval that waits, and a link "ff" to it."""
    member = await join(store, lease="1h")
    await accept(store, an_arrival("1"))
    claim = await member.claim_one()
    approval = Approval(digest(claim.id, "ask"), "may I?", schema='{"type": "boolean"}')
    await store.do(AskPerson(claim, APP, a_step("ask", state="waiting"), approval))
    until = clock.now() + duration("1h")
    await store.do(MakeLink("ff", APP, approval.id, "ada", until, by=Actor("eve", "http")))
    return approval.id


async def both(store_url: str) -> tuple[str, bool]:
    ((state,),) = await query(store_url, "select state from wakeful_approval")
    ((used,),) = await query(store_url, "select used_at from wakeful_link")
    return state, used is not None


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_death_leaves_the_answer_and_the_used_link_or_neither(
    stores: OpenStore, store_url: str, clock: VirtualClock, point: str
):
    store = await stores(store_url)
    approval = await asked(store, clock)
    dying = await stores(store_url, probe=Dies(point))
    asking = asyncio.create_task(dying.do(AnswerApproval(approval, "true", link="ff", by=ADA)))
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
        assert not asking.done(), asking
    asking.cancel()
    assert await both(store_url) == (("answered", True) if point == "after" else ("open", False))
    again = AnswerApproval(approval, "false", link="ff", by=ADA)
    if point == "after":
        with pytest.raises(LinkRefused, match="used before"):
            await store.do(again)
    else:
        answered = await store.do(again)
        assert answered is not None
        assert answered.first
    assert await both(store_url) == ("answered", True)
    audits = await query(store_url, "select operator, way, proved from wakeful_operation where verb = 'answer'")
    assert audits == [("ada", "link", 1)]


async def test_an_answer_that_comes_too_late_does_not_use_the_link(
    stores: OpenStore, store_url: str, clock: VirtualClock
):
    store = await stores(store_url)
    approval = await asked(store, clock)
    await store.do(AnswerApproval(approval, "true", by=Actor("bob", "cli")))
    late = await store.do(AnswerApproval(approval, "false", link="ff", by=ADA))
    assert late is not None
    assert not late.first
    assert await both(store_url) == ("answered", False)


async def test_two_processes_answer_with_one_link_once(stores: OpenStore, store_url: str, clock: VirtualClock):
    first, second = await stores(store_url), await stores(store_url)
    approval = await asked(first, clock)
    results = await asyncio.gather(
        *(one.do(AnswerApproval(approval, "true", link="ff", by=ADA)) for one in (first, second) * 3),
        return_exceptions=True,
    )
    assert sum(not isinstance(one, BaseException) and one is not None and one.first for one in results) == 1
    assert all(isinstance(one, LinkRefused) for one in results if isinstance(one, BaseException))
