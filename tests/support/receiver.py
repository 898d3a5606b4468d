"""The other side of a webhook: a small HTTP server on loopback that keeps what it was sent and answers as it is told."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer. `silent`: nothing at all. `endless`: the body does not end until the connection does."""

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    endless: bool = False


class Receiver:
    """`async with Receiver() as receiver:`, then `receiver.port`. Replies are used one by one; after the last, 204."""

    def __init__(self, *replies: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.connections = 0
        self.received = asyncio.Event()  # a request is there
        self._tls = tls
        self._open: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
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
        return f"http://127.0.0.1:{self.port}/hook"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    self.requests.append(await read_request(reader))
                    self.received.set()
                    await answer(writer, self.replies.pop(0) if self.replies else Reply())
        finally:
            self._open.discard(task)
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def answer(writer: asyncio.StreamWriter, reply: Reply) -> None:
    if reply.silent:
        await asyncio.Event().wait()
    length = {} if reply.endless or reply.status == 204 else {"content-length": str(len(reply.body))}
    lines = [f"HTTP/1.1 {reply.status} Whatever", *(f"{k}: {v}" for k, v in (reply.headers | length).items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + reply.body)
    await writer.drain()
    while reply.endless:
        writer.write(b"x" * 1024)
        await writer.drain()
