"""Killed at every boundary while it is cancelled: each thing that was done is undone, and none of it twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
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
        await worlds[-1].runtime.store.do(CancelRun(run, by=Actor("ada", "code"), note="no more"))

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


@pytest.mark.timeout(300)
async def test_a_run_that_failed_undoes_everything_once_and_is_a_dead_letter(store_url: str):
    shop = Shop()
    report = await crash_everywhere(
        build_failing(shop), "go", store=store_url, observe=shop.holdings, reset=shop.done.clear
    )
    report.check()
    assert not report.held
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"OpenEffect", "SaveEffect", "FinishRun"} <= kinds
    assert all(set(one.states.values()) == {"dead"} for one in report.crashes)
    assert shop.holdings() == Counter(
        ["reserve book", "charge book", "undo charge book after charge book", "undo reserve book"]
    )


def build_failing(shop: Shop) -> App:
    app = App("app")

    async def release(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    async def refund(op: Operation, what: str, *, result: str) -> str:
        return shop.ask(op, f"{what} after {result}")

    @action(safety="idempotent", undo=release)
    async def reserve(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    @action(safety="idempotent", undo=refund)
    async def charge(op: Operation, what: str) -> str:
        return shop.ask(op, what)

    @app.agent(on("go"), name="order", on_failure="undo")
    async def order(run: Run) -> None:
        await run.act(reserve, "book")
        await run.act(charge, "book")
        raise Persistent("out of stock")

    return app


PROGRAM = """
from pathlib import Path

from wakeful import App, Operation, Persistent, Run, action, on

app = App("sagas", store="sqlite:////nowhere/to/be/found.db")
BOOK = Path(__file__).parent / "book"


def write(op, what):
    lines = BOOK.read_text().splitlines() if BOOK.exists() else []
    if f"{op.id} {what}" not in lines:
        with BOOK.open("a") as file:
            file.write(f"{op.id} {what}\\n")


def release(op: Operation) -> None:
    write(op, "release")


@action(safety="idempotent", undo=release)
async def reserve(op: Operation) -> None:
    write(op, "reserve")


@app.agent(on("go"), on_failure="undo")
async def order(run: Run) -> None:
    await run.act(reserve)
    raise Persistent("out of stock")
"""


@pytest.mark.timeout(300)
async def test_the_same_with_processes_that_are_killed(tmp_path: Path):
    file, book = tmp_path / "sagas.py", tmp_path / "book"
    file.write_text(PROGRAM)

    def observe() -> Counter[str]:
        return Counter(line.split()[1] for line in book.read_text().splitlines()) if book.exists() else Counter()

    report = await crash_everywhere(
        str(file), "go", observe=observe, reset=lambda: book.unlink(missing_ok=True), processes=True
    )
    report.check()
    assert all(set(one.states.values()) == {"dead"} for one in report.crashes)
    assert observe() == Counter(["reserve", "release"])
