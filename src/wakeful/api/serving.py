"""The HTTP side of a runtime, and of an app that another program serves or mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wakeful.api.app import create_api
from wakeful.api.security import ApiSettings
from wakeful.errors import StoreUnavailable
from wakeful.operations.declared import Declared
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
    return create_api(
        runtime.door,
        runtime.reader,
        runtime.store,
        Declared(runtime.app),
        schedules=runtime.schedules,
        reminders=runtime.reminders,
        settings=settings,
        silent=runtime.silent_parts,
        sources=runtime.states_of_sources,
        releasing=lambda: runtime.releasing,
    )


class Late:
    """A part of the runtime of an app that may not run yet: asks for it at each call."""

    def __init__(self, app: App, part: str) -> None:
        self._app = app
        self._part = part

    @property
    def _runtime(self) -> Runtime:
        if self._app.runtime is None:
            message = f"app {self._app.name} is not running: serve its asgi() with lifespan on, or use `async with app.running()`"
            raise StoreUnavailable(message)
        return self._app.runtime

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        async def ask(*arguments: Any, **keywords: Any) -> Any:
            return await getattr(getattr(self._runtime, self._part), name)(*arguments, **keywords)

        return ask


def serve_app(
    app: App, *, host: str = "127.0.0.1", token: str | None = None, allowed_hosts: tuple[str, ...] = (), **options: Any
) -> Starlette:
    """The HTTP side of an app. Served by itself it runs the app too; mounted, it uses the one that runs around it."""
    door: Any
    reader: Any
    store: Any
    schedules: Any
    reminders: Any
    door, reader, store, schedules, reminders = (
        Late(app, part) for part in ("door", "reader", "store", "schedules", "reminders")
    )
    settings = ApiSettings(host=host, token=token or token_of_environment(), allowed_hosts=allowed_hosts)
    http = create_api(
        door,
        reader,
        store,
        Declared(app),
        schedules=schedules,
        reminders=reminders,
        settings=settings,
        silent=lambda: {} if app.runtime is None else app.runtime.silent_parts(),
        sources=lambda: {} if app.runtime is None else app.runtime.states_of_sources(),
        releasing=lambda: None if app.runtime is None else app.runtime.releasing,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if app.runtime is not None:
            yield
            return
        async with app.running(**options):
            yield

    http.router.lifespan_context = lifespan
    return http
