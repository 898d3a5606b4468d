"""Many runs shown whole: each as it is shown by itself, and in as few queries as one."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from support.apps import NewApp, working
from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.operations.archive import plan_archive, shown
from wakeful.resources.desk import looking
from wakeful.resources.run_reading import whole_runs
from wakeful.runtime import Runtime
from wakeful.stores.keeping import Keeper


def double(number: int) -> int:
    if number == 3:
        raise Persistent("three is too many")
    return 2 * number


@action(safety="idempotent")
async def book(op: Operation, number: int) -> int:
    return number


def busy(app: App) -> App:
    """Runs with steps, failures, effects, messages, children, waits and keys."""

    @app.agent()
    async def child(run: Run, number: int) -> int:
        return number

    @app.agent(on("go"), key="data.key")
    async def agent(run: Run) -> int:
        number = run.event.data["number"]
        await run.step(double, number)
        await run.act(book, number)
        run.send("log", {"number": number})
        await run.sleep("1s")
        return await run.call("child", number)

    return app


async def filled(runtime: Runtime, count: int) -> list[str]:
    for number in range(count):
        await runtime.app.emit("go", {"number": number, "key": str(number % 2)}, id=str(number))
    await runtime.drain()
    runtime.clock.move("2s")  # type: ignore[attr-defined]
    await runtime.drain()
    return [row["id"] for row in (await runtime.reader.runs(limit=500))["runs"]]


async def test_each_is_shown_as_by_itself(new_app: NewApp):
    async with working(busy(new_app())) as runtime:
        ids = await filled(runtime, 6)
        assert len({(await runtime.reader.run(one) or {})["state"] for one in ids}) > 1
        whole = await whole_runs(looking(runtime.reader), [*ids, "there is none"])
        assert whole == [*[await runtime.reader.run(one) for one in ids], None]
        assert any(one and one["children"] for one in whole)
        assert any(one and one["effects"] and one["deliveries"] and one["steps"] for one in whole)


@pytest.mark.parametrize("count", [4, 40])
async def test_an_archive_asks_as_much_for_many_as_for_few(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch, count: int
):
    app = new_app()

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.step(double, 1)

    async with working(app) as runtime:
        await filled(runtime, count)
        asked: list[str] = []
        COUNTED.set(True)
        database: Any = runtime.database
        for kind in ("fetch", "fetch_each"):
            monkeypatch.setattr(database, kind, noted(getattr(database, kind), asked))
        keeper = Keeper(runtime.store)
        plan = await plan_archive(keeper, agent=None, before=runtime.clock.now())
        assert plan.runs == count
        assert len(asked) == 2  # which there are, and which of them are over
        asked.clear()
        assert [len(one) for one in await shown(partial(whole_runs, looking(runtime.reader)), plan.families)] == [
            1
        ] * count
        assert len(asked) == len(set(asked))


# What the app asks meanwhile, for its schedules, does not count: its tasks began before this was set.
COUNTED: ContextVar[bool] = ContextVar("counted", default=False)


def noted(fetch: Any, asked: list[str]) -> Any:
    async def fetching(name: str, *parameters: Any) -> Any:
        if COUNTED.get() and (not asked or asked[-1] != name):  # one way leads through the other
            asked.append(name)
        return await fetch(name, *parameters)

    return fetching
