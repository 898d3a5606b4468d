"""The HTTP API of a runtime, and of an app that another program serves or mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wakeful.api.app import create_api
from wakeful.errors import ConfigError, StoreUnavailable
from wakeful.http.security import ApiSettings
from wakeful.operations.declared import Declared
from wakeful.operations.guarding import guard
from wakeful.resources.desk import Reads
from wakeful.runtime import Runtime, running, runtime_of
from wakeful.settings import next_token as next_token_of_environment
from wakeful.settings import public_url
from wakeful.settings import token as token_of_environment
from wakeful.triggers.endpoint import Endpoint, read_endpoints

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.declarations import Declarations
    from wakeful.model import Receipt
    from wakeful.triggers.verifier import Answer


def create(
    runtime: Runtime,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    next_token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> Starlette:
    """The HTTP app over a runtime; the caller starts and stops the runtime."""
    runtime.webhooks.open()
    settings = ApiSettings(
        host=host,
        token=token,
        next_token=next_token,
        allowed_hosts=(*allowed_hosts, *own_name()),
        open_paths=runtime.webhooks.endpoints.keys(),
        guarded=runtime.reader,
        people=runtime.people_files,
        app=runtime.app.name,
    )
    return create_api(
        runtime.door,
        runtime.reader,
        runtime.store,
        Declared(runtime.app),
        schedules=runtime.schedules,
        reminders=runtime.reminders,
        results=runtime.results,
        settings=settings,
        silent=runtime.silent_parts,
        webhooks=runtime.webhooks,
        sources=runtime.states_of_sources,
        releasing=lambda: runtime.releasing,
        arrival=runtime.scheduler.arrival,
        redacted=runtime.policies.redacted,
    )


def own_name() -> list[str]:
    """The name in WAKEFUL_URL: links to approvals lead there, so this server answers to it."""
    url = public_url()
    return [] if url is None else [urlsplit(url).netloc]


class Late:
    """A part of the runtime of an app that may not be running yet; looked up at each call."""

    def __init__(self, app: Declarations, *names: str) -> None:
        """`names`: the attribute path of the part, outermost first."""
        self._app = app
        self._names = names

    @property
    def running(self) -> Runtime:
        runtime = runtime_of(self._app)
        if runtime is None:
            message = f"app {self._app.name} is not running: serve its asgi() with lifespan on, or use `async with app.running()`"
            raise StoreUnavailable(message)
        return runtime

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Late(self._app, *self._names, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the part: returns an awaitable or an iterator, as the part does."""
        return attrgetter(".".join(self._names))(self.running)(*arguments, **keywords)


class LateReads(Reads):
    """Reads the database of an app that may not run yet."""

    def __init__(self, app: Declarations) -> None:
        self._late = Late(app)

    @property
    def database(self) -> Any:  # type: ignore[override]  # an attribute of one that runs
        return self._late.running.database


class LatePeople:
    """The people of an app that may not be running yet: until then no token is that of a person."""

    def __init__(self, app: Declarations) -> None:
        self._app = app

    def person_of(self, given: bytes) -> str | None:
        runtime = runtime_of(self._app)
        return None if runtime is None else runtime.people_files.person_of(given)


class LateWebhooks:
    """The webhooks of an app that may not be running yet: the paths are known; requests fail with StoreUnavailable
    until it runs.
    """

    def __init__(self, app: Declarations) -> None:
        self._app = app
        self._late = Late(app, "webhooks")

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        runtime = runtime_of(self._app)
        return read_endpoints(self._app.everything.values()) if runtime is None else runtime.webhooks.endpoints

    def __contains__(self, path: object) -> bool:
        return path in self.endpoints

    def __len__(self) -> int:
        return len(self.endpoints)

    def refuse_flood(self, endpoint: Endpoint) -> None:
        self._late.running.webhooks.refuse_flood(endpoint)

    def refuse(self, endpoint: Endpoint) -> None:
        self._late.running.webhooks.refuse(endpoint)

    async def take(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, query: str
    ) -> list[Receipt] | Answer:
        return await self._late.running.webhooks.take(endpoint, headers, body, query)


def serve_app(
    app: Declarations,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    next_token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
    open_to: str | None = None,
    **options: Any,
) -> Starlette:
    """The HTTP API of an app. Served on its own it also runs the app; mounted, it uses the running app around it.

    Raises `ConfigError` without a token, unless `open_to="loopback"` admits programs of this machine: another server
    decides where this one listens, so its binding cannot be relied on.
    """
    if not token:
        token, next_token = token_of_environment(), next_token or next_token_of_environment()
    refuse_open(token, open_to)
    door: Any
    store: Any
    schedules: Any
    reminders: Any
    results: Any
    door, store, schedules, reminders, results = (
        Late(app, part) for part in ("door", "store", "schedules", "reminders", "results")
    )
    reads = LateReads(app)
    webhooks = LateWebhooks(app)
    settings = ApiSettings(
        host=host,
        token=token,
        next_token=next_token,
        allowed_hosts=(*allowed_hosts, *own_name()),
        open_paths=webhooks,
        guarded=reads,
        people=LatePeople(app),
        app=app.name,
    )
    http = create_api(
        door,
        reads,
        store,
        Declared(app),
        schedules=schedules,
        reminders=reminders,
        results=results,
        settings=settings,
        silent=lambda: {} if (working := runtime_of(app)) is None else working.silent_parts(),
        webhooks=webhooks,
        sources=lambda: {} if (working := runtime_of(app)) is None else working.states_of_sources(),
        releasing=lambda: None if (working := runtime_of(app)) is None else working.releasing,
        arrival=Late(app, "scheduler", "arrival"),
        redacted=Late(app, "policies", "redacted"),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if app.runtime is not None:
            yield
            return
        async with running(app, has_token=bool(token), **options) as runtime:
            runtime.webhooks.open()
            await runtime.webhooks.start()
            process = runtime.membership.process
            await guard(runtime.store, runtime.reader, app, (token, next_token), serves=True, process=process)
            yield

    http.router.lifespan_context = lifespan
    return http


def refuse_open(token: str | None, open_to: str | None) -> None:
    if open_to not in {None, "loopback"}:
        message = f'asgi(open_to={open_to!r}): use open_to="loopback", or omit it and set a token'
        raise ConfigError(message)
    if not token and open_to is None:
        message = (
            "asgi() has no token, and any server could expose it to everyone: set WAKEFUL_TOKEN (`wakeful token` prints one), pass "
            'asgi(token=…), or use asgi(open_to="loopback") to admit only programs of this machine, and nothing through a proxy'
        )
        raise ConfigError(message)
