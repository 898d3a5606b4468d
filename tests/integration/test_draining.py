"""What `drain`, and so `wakeful once`, waits for."""

from __future__ import annotations

from typing import TypeVar

from support.apps import working
from wakeful import App
from wakeful.runtime import Runtime
from wakeful.stores.request import Request

R = TypeVar("R")


class Slow:
    """A store that takes longer for each request than a drain that finds nothing to do."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def do(self, request: Request[R]) -> R:
        for _ in range(50):
            await self._runtime.reader.alarms()
        return await self._runtime.store.do(request)


async def test_an_alarm_that_is_still_being_stored_is_sent_too(app: App):
    async with working(app) as runtime:
        runtime.trouble._store = Slow(runtime)
        runtime.alarm("broken/app", "it broke")
        await runtime.drain()
        (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
        assert alarm["told"] == 1
