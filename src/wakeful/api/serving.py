"""The HTTP side of a runtime, and of an app that another program serves or mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wakeful.api.app import create_api
from wakeful.api.security import ApiSettings
from wakeful.errors import StoreUnavailable
from wakeful.model import Event, Receipt
from wakeful.settings import token as token_of_environment

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.app import App
    from wakeful.runtime import Runtime


def create(
    runtime: Runtime, *, host: str = "127.0.0.1", token: str | None = None, allowed_hosts: tuple[str, ...] = ()
) -> Starlette:
    """The HTTP app over a runtime that is started and stopped by its caller."""
    settings = ApiSettings(host=host, token=token, allowed_hosts=allowed_hosts)
    return create_api(runtime.door, runtime.reader, settings=settings)


class LateRuntime:
    """Door and reader of an app that may not run yet: asks for its runtime at each call."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def _runtime(self) -> Runtime:
        if self._app.runtime is None:
            message = f"app {self._app.name} is not running: serve its asgi() with lifespan on, or use `async with app.running()`"
            raise StoreUnavailable(message)
        return self._app.runtime

    async def accept(self, events: list[Event], *, idempotency: tuple[str, str] | None = None) -> list[Receipt]:
        return await self._runtime.door.accept(events, idempotency=idempotency)

    def __getattr__(self, name: str) -> Any:
        """Everything else is a question for the reader."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def ask(*arguments: Any, **keywords: Any) -> Any:
            return await getattr(self._runtime.reader, name)(*arguments, **keywords)

        return ask


def serve_app(
    app: App, *, host: str = "127.0.0.1", token: str | None = None, allowed_hosts: tuple[str, ...] = (), **options: Any
) -> Starlette:
    """The HTTP side of an app. Served by itself it runs the app too; mounted, it uses the one that runs around it."""
    late: Any = LateRuntime(app)
    token = token or token_of_environment()
    http = create_api(late, late, settings=ApiSettings(host=host, token=token, allowed_hosts=allowed_hosts))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if app.runtime is not None:
            yield
            return
        async with app.running(**options):
            yield

    http.router.lifespan_context = lifespan
    return http
