"""A run that fails and is to undo what it did: one fenced transition, and the same answer when it is asked for again."""

from __future__ import annotations

import pytest

from contract.test_cancel import cancel, claimed, did
from support.stores import Member, OpenStore, join, query, state_of
from wakeful.errors import CancelAsked, ClaimLost
from wakeful.model import ON_FAILURE, Claim, RunOutcome
from wakeful.stores.verbs.cancel import failed_with
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.progress import FinishRun

ERROR = '{"type":"Persistent","message":"broken"}'


def failing(claim: Claim) -> FinishRun:
    asked = CancelAsked(claim.id, ON_FAILURE, "Persistent: broken")
    return FinishRun(claim, "dead", error=ERROR, reason="no use", outcome=RunOutcome("failed"), failed=True, undo=asked)


async def test_one_that_did_something_goes_on_by_undoing_it(member: Member, store_url: str):
    claim = await claimed(member)
    await did(member, claim)
    for _ in range(2):  # the answer of the first COMMIT may be lost
        with pytest.raises(CancelAsked) as caught:
            await member.store.do(failing(claim))
        assert (caught.value.by, caught.value.note) == (ON_FAILURE, "Persistent: broken")
    rows = await query(store_url, "select state, attempts, cancel_by, failed_with from wakeful_run")
    assert [tuple(row[:3]) for row in rows] == [("running", 1, ON_FAILURE)]
    assert "broken" in rows[0][3]
    claim.cancelled = (ON_FAILURE, "Persistent: broken")
    assert "no use" in str(await failed_with(member.store.database, claim))
    request = FinishRun(
        claim, "dead", error=ERROR, reason="no use; undone: charge", outcome=RunOutcome("failed"), undone=True
    )
    for _ in range(2):
        await member.store.do(request)
    assert await query(store_url, "select state, attempts, cancel_by from wakeful_run") == [("dead", 1, None)]
    assert [row[0] for row in await query(store_url, "select outcome from wakeful_attempt")] == ["dead"]


async def test_one_that_did_nothing_is_a_dead_letter_at_once(member: Member, store_url: str):
    claim = await claimed(member)
    await member.store.do(failing(claim))
    assert (await state_of(member.store, claim.id))["state"] == "dead"
    assert await query(store_url, "select failed_with from wakeful_run") == [(None,)]


async def test_a_person_who_was_first_is_heard(member: Member, store_url: str):
    claim = await claimed(member)
    await did(member, claim)
    await cancel(member, claim.id)
    with pytest.raises(CancelAsked, match="cancelled by ada"):
        await member.store.do(failing(claim))
    assert await query(store_url, "select failed_with from wakeful_run") == [(None,)]


async def test_one_that_has_another_owner_writes_nothing(member: Member, stores: OpenStore, store_url: str):
    claim = await claimed(member)
    await did(member, claim)
    other = await join(await stores(store_url), "second")
    await other.store.do(BuryProcess(claim.process, certain=True))
    again = await other.claim_one()
    with pytest.raises(ClaimLost):
        await member.store.do(failing(claim))
    assert await query(store_url, "select cancel_by, failed_with from wakeful_run") == [(None, None)]
    assert again.cancelled is None


async def test_whoever_takes_it_over_goes_on_with_undoing(member: Member, stores: OpenStore, store_url: str):
    claim = await claimed(member)
    await did(member, claim)
    with pytest.raises(CancelAsked):
        await member.store.do(failing(claim))
    other = await join(await stores(store_url), "second")
    await other.store.do(BuryProcess(claim.process, certain=True))
    again = await other.claim_one()
    assert again.cancelled == (ON_FAILURE, "Persistent: broken")
    assert "no use" in str(await failed_with(other.store.database, again))
