"""Asked, answered, called: killed at every commit boundary, an approved effect is called once, and a denied one never."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from support.stores import Onlooker
from wakeful import App, Denied, Operation, Run, action, on
from wakeful.clock import SystemClock
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, EffectFacts, Facts
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.testing import World, crash_everywhere

EVE = Actor("eve", "cli")


def ask_first(facts: Facts) -> Decision | None:
    return Decision("ask", "ask_first", "look first") if isinstance(facts, EffectFacts) else None


def paying(paid: list[tuple[str, int]], **options: Any) -> App:
    app = App("shop", rules=(*DEFAULT_RULES, ask_first))

    @action(**options)
    async def pay(op: Operation, amount: int) -> str:
        if (op.id, amount) not in paid:  # the other side knows the id
            paid.append((op.id, amount))
        return "paid"

    @app.agent(on("go"), name="billing")
    async def billing(run: Run) -> str:
        try:
            return await run.act(pay, 150)
        except Denied:
            return "refused"

    return app


@pytest.mark.parametrize(("answer", "output", "count"), [(True, "paid", 1), (False, "refused", 0)])
async def test_an_approved_effect_happens_once_and_a_denied_one_never(
    store_url: str, answer: bool, output: str, count: int
):
    paid: list[tuple[str, int]] = []

    def arrange(world: World) -> None:
        world.when_asked("May agent billing", answer)

    report = await crash_everywhere(
        paying(paid, safety="idempotent"),
        "go",
        store=store_url,
        observe=lambda: [amount for _, amount in paid],
        reset=paid.clear,
        arrange=arrange,
    )
    report.check()
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"OpenEffect", "AnswerApproval", "SaveEffect" if answer else "AbandonEffect"} <= kinds
    assert all(set(one.states.values()) == {"done"} for one in report.crashes)
    assert len(paid) == count


EDITABLE = """
policy: 1
rules:
  - {id: large, action: pay, answer: ask, reason: look first, approve: {edit: true, within: 4h}}
"""


async def test_edited_arguments_are_called_once_and_the_others_never(store_url: str, tmp_path: Path):
    (tmp_path / "policy.yaml").write_text(EDITABLE)
    paid: set[tuple[str, int]] = set()
    worlds: list[World] = []
    app = App("shop", policy=tmp_path / "policy.yaml")

    @action(safety="idempotent")
    async def pay(op: Operation, amount: int) -> int:
        paid.add((op.id, amount))
        return amount

    @app.agent(on("go"), name="billing")
    async def billing(run: Run) -> int:
        await run.emit("asked")
        return await run.act(pay, 150)

    @app.agent(on("asked"), name="looker")
    async def looker(run: Run) -> None:
        async def edit() -> None:
            for one in await worlds[-1].approvals():
                await worlds[-1].runtime.store.do(
                    AnswerApproval(one["id"], "true", by=EVE, arguments='{"amount": 120}')
                )

        await run.sleep("1h")  # it is asked by then
        await run.step(edit)

    report = await crash_everywhere(
        app,
        "go",
        store=store_url,
        observe=lambda: sorted(amount for _, amount in paid),
        reset=paid.clear,
        arrange=worlds.append,
    )
    report.check()
    assert report.baseline.outside == [120]
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"OpenEffect", "AnswerApproval", "SettleEdit", "SaveEffect"} <= kinds
    assert all(set(one.states.values()) == {"done"} for one in report.crashes)


APP = """
import os, sys
from wakeful import App, Denied, Operation, Run, action, on
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, EffectFacts

def die_once(name):
    if not os.path.exists(os.environ["PAID"] + name):
        open(os.environ["PAID"] + name, "w").close()
        os.kill(os.getpid(), 9)

def ask_first(facts):
    return Decision("ask", "ask_first", "look first") if isinstance(facts, EffectFacts) else None

app = App("shop", rules=(*DEFAULT_RULES, ask_first))

@action(safety="idempotent", backoff="10ms")
async def pay(op: Operation, amount: int) -> str:
    with open(os.environ["PAID"], "a") as book:
        book.write(op.id + "\\n")
    die_once(".called")  # right after the call, before its result is stored
    return "paid"

@app.agent(on("go"))
async def billing(run: Run) -> str:
    try:
        return await run.act(pay, 150)
    except Denied:
        die_once(".denied")  # before the end of the run is stored
        return "refused"
"""


@pytest.mark.parametrize(("answer", "output", "times"), [("true", "paid", 2), ("false", "refused", 0)])
async def test_workers_that_are_killed_before_the_answer_and_after_it(
    store_url: str, tmp_path: Path, answer: str, output: str, times: int
):
    """SIGKILL while the approval is open, and again right after the call, or the denial: asked about once, and one operation or none."""
    (tmp_path / "shop.py").write_text(APP)
    database = open_database(store_url, SystemClock())
    store = DatabaseStore(database)
    await store.open(migrate=True)
    onlooker = Onlooker(store_url)
    environment = {**os.environ, "WAKEFUL_STORE": store_url, "PAID": str(tmp_path / "paid")}

    async def worker() -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "wakeful", "worker", "shop.py")
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=environment, stdout=quiet, stderr=quiet)

    emit = (sys.executable, "-m", "wakeful", "emit", "shop.py", "go")
    sent = await asyncio.create_subprocess_exec(*emit, cwd=tmp_path, env=environment)
    assert await sent.wait() == 0
    first = await worker()
    asked = await until(lambda: database.fetch("open_approvals", "shop"))
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await store.do(AnswerApproval(asked[0][0], answer, by=EVE))
    second = await worker()
    assert await second.wait() == -signal.SIGKILL
    third = await worker()
    try:
        await until(lambda: onlooker.query("select 1 from wakeful_run where agent = 'billing' and state = 'done'"))
    finally:
        third.terminate()
        await third.wait()
    ((stored,),) = await onlooker.query("select output from wakeful_run where agent = 'billing'")
    assert from_json(stored) == output
    book = tmp_path / "paid"
    calls = book.read_text().split() if book.exists() else []
    assert (len(calls), len(set(calls))) == (times, min(times, 1)), "the same again, because its result was not stored"
    assert await onlooker.query("select count(*) from wakeful_approval") == [(1,)]
    if calls:
        assert len(await database.fetch("yeses_for_effect", database.read_clock(), calls[0])) == 0, "the yes is used up"
    await onlooker.close()
    await store.close()


async def until(look: Any) -> list[Any]:
    """Wait until a query of the store has rows."""
    async with asyncio.timeout(60):
        while not (found := await look()):
            await asyncio.sleep(0.05)
    return list(found)
