"""A service on loopback that answers by its own rules, and has the troubles that a test gives it.

before   answered instead of doing anything, one by one
after    done, and then answered by this instead of the truth; LOST: the connection ends without an answer
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from support.receiver import Reply, Request, answer, read_request

LOST = Reply(0)


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    """A JSON answer. Headers are written with underscores."""
    content = b"" if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, content, {"content-type": "application/json; charset=utf-8", **named})


class Refused(Exception):
    """The service refuses a request."""

    def __init__(self, status: int, body: Any, **headers: str) -> None:
        super().__init__(status, body)
        self.reply = reply(status, body, **headers)


class Service:
    """`async with Service() as service:`, then `service.url`."""

    writes = frozenset({"POST", "PUT", "PATCH"})

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.before: list[Reply] = []
        self.after: list[Reply] = []  # for requests that write
        self._open: set[asyncio.Task[Any]] = set()

    def handle(self, request: Request) -> Reply:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked(self, method: str) -> list[Request]:
        return [one for one in self.requests if one.method == method]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    request = await read_request(reader)
                    self.requests.append(request)
                    told = self._judge(request)
                    if told is LOST:
                        return
                    await answer(writer, told)
        finally:
            self._open.discard(task)
            writer.close()

    def _judge(self, request: Request) -> Reply:
        if self.before:
            return self.before.pop(0)
        try:
            told = self.handle(request)
        except Refused as refused:
            return refused.reply
        return self.after.pop(0) if self.after and request.method in self.writes else told


@contextmanager
def served(service: Service) -> Iterator[None]:
    """The service in a thread of its own, so that it answers while this one waits for processes."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with service:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def query_of(request: Request) -> tuple[str, dict[str, str]]:
    parts = urlsplit(request.path)
    return parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))


def object_of(request: Request) -> dict[str, Any]:
    """The body of a request that writes."""
    if request.headers.get("content-type") != "application/json":
        raise Refused(415, {"message": "Unsupported Media Type"})
    try:
        body = request.json
    except ValueError:
        raise Refused(400, {"message": "Problems parsing JSON"}) from None
    if not isinstance(body, dict):
        raise Refused(400, {"message": "Body should be a JSON object"})
    return body
