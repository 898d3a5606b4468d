"""Killed at every boundary while it is cancelled: each thing that was done is undone, and none of it twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from wakeful import App, Operation, Run, action, on
from wakeful.stores.base import CancelRun
from wakeful.testing import World, crash_everywhere


class Shop:
    """A service that knows an operation again, and keeps what it was asked to do."""

    def __init__(self) -> None:
        self.done: dict[str, str] = {}

    def ask(self, op: Operation, what: str) -> str:
        return self.done.setdefault(op.id, f"{op.action} {what}")

    def holdings(self) -> Counter[str]:
        return Counter(self.done.values())


def build(shop: Shop, worlds: list[World], *, safety: Any = "idempotent") -> App:
    app = App("app")

    async def release(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    async def refund(op: Operation, what: str, *, result: str) -> str:
        return shop.ask(op, f"{what} after {result}")

    @action(safety="idempotent", undo=release)
    async def reserve(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    @action(safety=safety, undo=refund)
    async def charge(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    async def ask_to_stop(run: str) -> None:
        await worlds[-1].runtime.store.cancel(CancelRun(run, "ada", "no more"))

    async def never() -> None:
        shop.done["never"] = "the step after the cancel"

    @app.agent(on("go"), name="order")
    async def order(run: Run) -> None:
        await run.act(reserve, "book")
        await run.act(charge, "book")
        await run.step(ask_to_stop, run.id)
        await run.step(never)

    return app


@pytest.mark.timeout(300)
async def test_every_undo_is_done_once(store_url: str):
    shop = Shop()
    worlds: list[World] = []
    report = await crash_everywhere(
        build(shop, worlds), "go", store=store_url, observe=shop.holdings, reset=shop.done.clear, arrange=worlds.append
    )
    report.check()
    assert not report.held
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"CancelRun", "OpenEffect", "SaveEffect", "FinishCancelled"} <= kinds
    assert all(set(one.states.values()) == {"cancelled"} for one in report.crashes)
    assert shop.holdings() == Counter(
        ["reserve book", "charge book", "undo charge book after charge book", "undo reserve book"]
    )


@pytest.mark.timeout(300)
async def test_what_may_happen_at_most_once_is_held_and_never_repeated(store_url: str):
    shop = Shop()
    worlds: list[World] = []
    report = await crash_everywhere(
        build(shop, worlds, safety="at_most_once"),
        "go",
        store=store_url,
        observe=shop.holdings,
        reset=shop.done.clear,
        arrange=worlds.append,
    )
    report.check()
    assert any("undo charge" in held for held in map(str, report.held)), (
        "some crashes leave it open whether it was undone"
    )
