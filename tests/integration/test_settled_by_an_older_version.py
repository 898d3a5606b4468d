"""A version before migration 0019 settles an effect of a strict store: it stores no decision, so the decision is made again."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, Literal

import pytest

from support.apps import NewApp, ended, the_run, working
from support.stores import query
from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.settling import Settled, SettleEffect

pytest.importorskip("cryptography")

KEY = urlsafe_b64encode(bytes([7]) * 32).decode()
Word = Literal["confirmed", "retrying", "abandoned"]
VERBS = "`wakeful effects confirm {0}`, `wakeful effects repeat {0}` or `wakeful effects abandon {0}`"


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", KEY)
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")


def paying(app: App, *, holds: bool = True) -> list[Any]:
    """An agent whose payment is held: before it is called, or because its outcome is unknown."""
    paid: list[Any] = []

    def is_fine(amount: int) -> bool:
        return not holds

    @action(safety="at_most_once", checks=[is_fine])
    async def pay(operation: Operation, amount: int) -> int | None:
        paid.append(operation.id)
        if not holds:
            raise ConnectionError
        return amount

    @app.agent(on("go"))
    async def settle(run: Run) -> None:
        result = await run.act(pay, 7)
        paid.append(f"went on with {result}")

    return paid


async def settled(runtime, effect: str, word: Word, result: str | None = None) -> Settled:
    found = await runtime.store.do(SettleEffect(effect, word, result=result, by=Actor("ada", "code")))
    assert found is not None
    return found


async def settle_by_older(app: App, url: str, word: Word, result: str | None = None) -> str:
    """As an older version does it: the same row, but nothing in `settlement`."""
    ((effect, before),) = await query(url, "select id, settlement from wakeful_effect where state = 'held'")
    async with working(app, worker=False) as runtime:
        found = await settled(runtime, effect, word, result)
        assert found.first
    await query(url, "update wakeful_effect set settlement = $1 where id = $2", before, effect)
    return str(effect)


async def held(app: App) -> Any:
    receipt = await app.emit("go")
    async with working(app) as runtime:
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "held"
    return receipt


async def test_a_result_that_an_older_version_stored_proves_that_a_person_settled_it(new_app: NewApp, store_url: str):
    """A result exists only after a person's decision, and needs the key to be stored."""
    app = new_app()
    paid = paying(app)
    receipt = await held(app)
    await settle_by_older(app, store_url, "confirmed", "8")
    async with working(app) as runtime:
        assert (await ended(runtime, receipt))["state"] == "done"
    assert paid == ["went on with 8"]


async def test_an_effect_that_an_older_version_repeated_counts_once_it_was_called(new_app: NewApp, store_url: str):
    """As a worker of the older version leaves it: called, with a result, before this version sees it."""
    app = new_app()
    paid = paying(app)
    receipt = await held(app)
    ((effect,),) = await query(store_url, "select id from wakeful_effect")
    async with working(app) as runtime:
        await settled(runtime, effect, "retrying")
        assert (await ended(runtime, receipt))["state"] == "done"
    await query(store_url, "update wakeful_effect set settlement = null")
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0, finished_at = null")
    async with working(app) as runtime:
        assert (await ended(runtime, receipt))["state"] == "done"
    assert paid == [effect, "went on with 7", "went on with 7"]


@pytest.mark.parametrize(
    ("older", "holds", "word", "state", "did"),
    [
        ("retrying", True, "retrying", "done", ["{effect}", "went on with 7"]),
        ("retrying", True, "confirmed", "done", ["went on with None"]),
        ("retrying", True, "abandoned", "dead", []),
        ("confirmed", True, "confirmed", "done", ["went on with None"]),
        ("confirmed", True, "retrying", "done", ["{effect}", "went on with 7"]),
        ("confirmed", False, "confirmed", "done", ["{effect}", "went on with None"]),
        ("confirmed", False, "abandoned", "dead", ["{effect}"]),
    ],
)
async def test_the_run_is_held_until_a_person_settles_the_effect_with_this_version(
    new_app: NewApp, store_url: str, older: Word, *, holds: bool, word: Word, state: str, did: list[str]
):
    app = new_app()
    paid = paying(app, holds=holds)
    receipt = await held(app)
    effect = await settle_by_older(app, store_url, older)
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        assert run["state"] == "held"
        assert f"wakeful_effect.state of id {effect}" in run["reason"]
        story = await runtime.reader.why(run["id"])
        assert story is not None
        told = "\n".join(story["story"])
        assert VERBS.format(effect) in told
        assert "an older version" in told
        again = await settled(runtime, effect, word)
        assert (again.first, again.anew) == (True, True)
        run = await ended(runtime, receipt)
        assert run["state"] == state
        assert "tampered" not in (run["reason"] or "")
        alarms = {one["key"]: one["state"] for one in (await runtime.reader.alarms())["alarms"]}
        assert alarms["held/app/settle/tampering"] == "resolved"
    assert paid == [one.format(effect=effect) for one in did]
    acts = await query(store_url, "select operator, verb from wakeful_operation where target = $1", effect)
    assert [tuple(one) for one in acts] == [("ada", "effects")] * 2


async def test_a_decision_that_contradicts_an_earlier_one_can_be_made_again(new_app: NewApp, store_url: str):
    """This version stored that it was confirmed, the result did not fit, and the older version abandoned it."""
    app = new_app()
    paying(app)
    receipt = await held(app)
    ((effect,),) = await query(store_url, "select id from wakeful_effect")
    async with working(app, worker=False) as runtime:
        await settled(runtime, effect, "confirmed")
    await query(store_url, "update wakeful_effect set state = 'held'")
    await settle_by_older(app, store_url, "abandoned")
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        assert "it is abandoned, but a person settled it as confirmed" in run["reason"]
        again = await settled(runtime, effect, "abandoned")
        assert again.first
        assert (await ended(runtime, receipt))["state"] == "dead"


async def test_only_the_first_of_two_people_settles_it_again(new_app: NewApp, store_url: str):
    app = new_app()
    paid = paying(app)
    receipt = await held(app)
    effect = await settle_by_older(app, store_url, "confirmed")
    async with working(app) as runtime:
        assert (await ended(runtime, receipt))["state"] == "held"
    async with working(app, worker=False) as runtime:
        assert (await settled(runtime, effect, "abandoned")).first
        assert not (await settled(runtime, effect, "retrying")).first
    async with working(app) as runtime:
        assert (await ended(runtime, receipt))["state"] == "dead"
    assert paid == []


async def test_nothing_is_settled_again_while_no_run_is_held_for_it(new_app: NewApp, store_url: str):
    app = new_app()
    paying(app)
    await held(app)
    effect = await settle_by_older(app, store_url, "confirmed")
    async with working(app, worker=False) as runtime:
        again = await settled(runtime, effect, "abandoned")
        assert not again.first
        assert again.effect.state == "confirmed"


async def test_an_undo_that_is_settled_again_as_not_to_be_done_leaves_its_effect(new_app: NewApp, store_url: str):
    app, booked = new_app(), []

    async def unbook(op: Operation, room: str) -> None:
        raise Persistent("no refunds")

    @action(safety="idempotent", undo=unbook)
    async def book(op: Operation, room: str) -> None:
        booked.append(room)

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.act(book, "blue")
        await run.sleep("1h")

    receipt = await app.emit("go")
    async with working(app) as runtime:
        await runtime.drain()
        await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
        await runtime.drain()
    effect = await settle_by_older(app, store_url, "confirmed")
    async with working(app) as runtime:
        assert (await ended(runtime, receipt))["state"] == "held"
        assert await settled(runtime, effect, "abandoned")
        assert (await ended(runtime, receipt))["state"] == "cancelled"
    assert [*await query(store_url, "select state from wakeful_effect where undoes is null")] == [("confirmed",)]


@pytest.mark.parametrize("holds", [True, False])
async def test_an_empty_result_proves_nothing(new_app: NewApp, store_url: str, *, holds: bool):
    app = new_app()
    paid = paying(app, holds=holds)
    receipt = await held(app)
    await query(store_url, "update wakeful_effect set state = 'confirmed', result = '', settled_by = 'ada'")
    await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
    async with working(app) as runtime:
        await runtime.drain()
        (alarm,) = [one for one in (await runtime.reader.alarms())["alarms"] if one["key"].endswith("/tampering")]
        assert "wakeful_effect.state" in alarm["text"]
    assert await query(store_url, "select state from wakeful_run where id = $1", receipt.runs[0]) == [("held",)]
    assert "went on with None" not in paid
