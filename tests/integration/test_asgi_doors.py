"""`app.asgi()` in another server: who may come in is decided by the connection, not by what a request says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import httpx2
import pytest
import uvicorn

from support.raw_http import send
from support.tokens import NEXT_TOKEN, TOKEN
from wakeful import App, Run, on
from wakeful.errors import ConfigError

EVENT = {"source": "/stranger", "id": "1", "type": "go"}


@pytest.fixture
def app(sqlite_url: str) -> App:
    app = App("app", store=sqlite_url)

    @app.agent(on("go"))
    async def go(run: Run) -> None: ...

    return app


def test_it_needs_a_token_or_a_word_that_it_does_not(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WAKEFUL_TOKEN", raising=False)
    for options in ({}, {"token": ""}, {"token": None}):
        with pytest.raises(ConfigError, match=r'or use asgi.open_to="loopback"'):
            app.asgi(**options)
    with pytest.raises(ConfigError, match='use open_to="loopback"'):
        app.asgi(open_to="everybody")
    with pytest.raises(ConfigError, match="is too weak"):
        app.asgi(token="secret")
    app.asgi(token=TOKEN, next_token=NEXT_TOKEN)
    app.asgi(open_to="loopback")
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    app.asgi()


@pytest.mark.parametrize(
    ("client", "status"),
    [
        (("127.0.0.1", 1), 202),
        (("127.8.9.1", 1), 202),
        (("::1", 1), 202),
        (("::ffff:127.0.0.1", 1), 202),
        (("203.0.113.5", 1), 403),
        (("10.0.0.5", 1), 403),
        (("::ffff:203.0.113.5", 1), 403),
        (("2001:db8::1", 1), 403),
        (("0.0.0.0", 1), 403),
        (("localhost", 1), 403),
        (("", 0), 403),
        (None, 403),
    ],
)
async def test_without_a_token_only_an_address_of_this_machine_comes_in(app: App, client, status: int):
    async with app.running(worker=False):
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"), client=client)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answer = await http.post("/v1/events", json=EVENT)
            assert answer.status_code == status
            assert (await http.get("/v1/events")).status_code == (200 if status == 202 else 403)
            assert ("parts" in (await http.get("/readyz")).json()) == (status == 202)
        with_token = httpx2.ASGITransport(app.asgi(token=TOKEN), client=client)
        async with httpx2.AsyncClient(transport=with_token, base_url="http://127.0.0.1") as http:
            allowed = await http.get("/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
            assert (allowed.status_code, len(allowed.json()["events"])) == (200, status == 202)


@contextlib.asynccontextmanager
async def under_uvicorn(app: App, listener: socket.socket) -> AsyncIterator[None]:
    """As a user would serve it: with uvicorn's own defaults, which believe what proxies of this machine say."""

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self):
            yield

    server = Server(uvicorn.Config(app.asgi(open_to="loopback"), log_config=None))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


async def test_a_proxy_that_says_it_forwards_for_loopback_is_not_believed(app: App):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = "http://{}:{}".format(*listener.getsockname())
        async with under_uvicorn(app, listener):
            for header in ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: 203.0.113.5", "Forwarded: for=127.0.0.1"):
                assert (await asyncio.to_thread(send, url, "GET", "/v1/events", header)).status == 403
            assert (await asyncio.to_thread(send, url, "GET", "/v1/events")).status == 200


async def test_a_unix_socket_is_where_a_proxy_comes_from(app: App, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        async with under_uvicorn(app, listener):
            transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / "s"))
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                assert (await http.get("/v1/events")).status_code == 403
                assert (await http.get("/healthz")).status_code == 200
