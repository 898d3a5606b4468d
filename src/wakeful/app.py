"""An app: what a user declares, and the ways to run it. The runtime and the HTTP side are imported on first use."""

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
        """Run the app inside this program: `async with app.running():`. `worker=False`: accept events and read, run
        nothing.
        """
        from wakeful.runtime import running

        return running(self, worker=worker, **options)

    def reached(self) -> AbstractAsyncContextManager[Runtime]:
        """The runtime of this app if it runs in this process; otherwise only its store, opened for the length of the
        block.
        """
        from wakeful.runtime import reached

        return reached(self)

    def asgi(self, **options: Any) -> Starlette:
        """The app's HTTP side, to serve or to mount. Served on its own it also runs the app.

        Raises `ConfigError` without a token (WAKEFUL_TOKEN or `token=`), unless `open_to="loopback"` admits programs on
        this machine.
        """
        from wakeful.api.serving import serve_app

        return serve_app(self, **options)
