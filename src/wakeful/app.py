"""An app: what a user declares, and the ways to run it. The parts that do that are loaded when they are first needed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from wakeful.declarations import Declarations

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.runtime import Runtime


class App(Declarations):
    """Agents that belong together, under one name and on one store.

    >>> app = App("ops")
    >>> app.name
    'ops'
    """

    runtime: Runtime | None

    def running(self, *, worker: bool = True, **options: Any) -> AbstractAsyncContextManager[Runtime]:
        """Run the app inside this program: `async with app.running():`."""
        from wakeful.runtime import running

        return running(self, worker=worker, **options)

    def reached(self) -> AbstractAsyncContextManager[Runtime]:
        """The runtime of this app if it runs here, else its store alone, for as long as the block lasts."""
        from wakeful.runtime import reached

        return reached(self)

    def asgi(self, **options: Any) -> Starlette:
        """The app's HTTP side, to be served or mounted. Served by itself it also runs the app. Raises `ConfigError` without a
        token (WAKEFUL_TOKEN, or `token=`), unless `open_to="loopback"` lets in programs of this machine.
        """
        from wakeful.api.serving import serve_app

        return serve_app(self, **options)
