"""Runs of one key go one at a time, in the order in which their events were accepted."""

from __future__ import annotations

import asyncio
from typing import Any

from support.apps import working
from wakeful import App, Run, on


class Diary:
    """Who ran when, and with whom."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.now: list[str | None] = []
        self.most: dict[str | None, int] = {}

    async def enter(self, run: Run) -> None:
        self.begun.append(run.event.data["n"])
        self.now.append(run.key)
        self.most[run.key] = max(self.most.get(run.key, 0), self.now.count(run.key))
        for _ in range(5):  # time for others to come between, if they could
            await asyncio.sleep(0)
        self.now.remove(run.key)


def diary_of(app: App, **options: Any) -> Diary:
    diary = Diary()
    options.setdefault("key", "data.k")

    @app.agent(on("go"), name="keeper", **options)
    async def keeper(run: Run) -> None:
        await diary.enter(run)

    return diary


async def send(app: App, *pairs: tuple[str, int]) -> list[str]:
    receipts = [await app.emit("go", {"k": key, "n": number}, id=f"{key}{number}") for key, number in pairs]
    return [run for receipt in receipts for run in receipt.runs]


async def test_one_of_a_key_at_a_time_and_in_order(app: App):
    diary = diary_of(app)
    async with working(app) as runtime:
        await send(app, *[(key, number) for number in range(20) for key in "abc"])
        await runtime.drain()
    assert diary.most == {"a": 1, "b": 1, "c": 1}
    assert len(diary.begun) == 60
    assert [number for number in diary.begun if diary.begun.count(number) == 3]
