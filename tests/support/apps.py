"""Apps at work in a test: started on its store, drained instead of waited for, and looked at through the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from wakeful import App
from wakeful.clock import Clock, Duration, VirtualClock, duration
from wakeful.errors import StoreUnavailable
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.request import Request

# A lease that does not end when a test moves the clock.
FOREVER = duration("36500d")

NewApp = Callable[..., App]


@pytest.fixture
def new_app(store_url: str, clock: VirtualClock) -> NewApp:
    """Makes apps on the test's store. Two of one name are two processes of that app."""

    def make(name: str = "app", *, clock: Clock | None = clock, **options: Any) -> App:
        return App(name, store=store_url, clock=clock, **options)

    return make


@pytest.fixture
def app(new_app: NewApp) -> App:
    return new_app()


@pytest.fixture
def durably(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for another one's effect is put away at once, and not after two seconds in place."""
    monkeypatch.setattr("wakeful.execution.once.WAITS_IN_PLACE", 0)


def working(app: App, **options: Any) -> AbstractAsyncContextManager[Runtime]:
    """The app at work. Only what the test does moves it: no lease runs out, and nothing looks in by itself."""
    options.setdefault("lease", FOREVER)
    return app.running(**options)


async def ended(runtime: Runtime, receipt: Receipt) -> dict[str, Any]:
    """Everything about an event's only run, once all that is due was done."""
    await runtime.drain()
    return await the_run(runtime, receipt)


async def the_run(runtime: Runtime, receipt: Receipt) -> dict[str, Any]:
    (identifier,) = receipt.runs
    run = await runtime.reader.run(identifier)
    assert run is not None
    return run


async def go(runtime: Runtime, data: Any = None, **attributes: Any) -> dict[str, Any]:
    """Send one event of type "go" and do what is due; the run it made."""
    return await ended(runtime, await runtime.app.emit("go", data, **attributes))


async def pass_time(runtime: Runtime, by: Duration = "1h") -> None:
    """Move the clock, and do what is due then."""
    clock = runtime.clock
    assert isinstance(clock, VirtualClock)
    clock.move(by)
    await runtime.drain()


class Outage:
    """A probe: once it has begun, the store is gone for the next request of a kind, before or after the commit. Then it is back."""

    def __init__(self, kind: type[Request[Any]], point: str) -> None:
        self._kind = kind
        self._point = point
        self._left = 0

    def begin(self) -> None:
        self._left = 1

    def __call__(self, point: str, requests: Sequence[Any]) -> None:
        if self._left and point == self._point and any(isinstance(one, self._kind) for one in requests):
            self._left -= 1
            message = "the connection was lost"
            raise StoreUnavailable(message)
