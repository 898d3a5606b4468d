"""A TCP proxy on loopback that makes the network fail the way a test asks for.

    async with FaultProxy("127.0.0.1", server.port) as proxy:
        cut = proxy.cut(b"COMMIT", after=True)        # the commit happens, its answer is lost
        await work_through(proxy.port)
        await cut.done.wait()

Faults are set and taken back while connections are open:

    latency = 0.05      every chunk is that late, in both directions
    blackhole()         connections stay, and new ones are taken, but nothing passes until pass_through()
    reset()             live connections end with a reset; new ones are welcome
    refuse()            new connections are refused until pass_through(); live ones stay
    cut(pattern)        the connection is reset when the client sends the pattern, before or after the server got it
    hold(pattern)       the connection stays, but nothing passes from the pattern on until pass_through(); others work
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from wakeful.testing.ports import free_port

_CHUNK = 65536
_LINGER_NOT = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class Cut:
    """A cut that is armed. `done` is set when it has happened; `seen` says how often the pattern came by."""

    pattern: bytes
    after: bool
    occurrence: int
    answer: bytes
    hold: bool = False
    seen: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class _Search:
    """Finds a pattern in a stream, also where it lies across two chunks."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._end = b""

    def count(self, chunk: bytes) -> int:
        text = self._end + chunk
        found = text.count(self._pattern)
        self._end = text[max(0, len(text) - len(self._pattern) + 1) :]
        return found


class _Link:
    """One client's connection and its counterpart to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.searches: dict[Cut, _Search] = {}
        self.awaiting_answer: tuple[Cut, _Search] | None = None
        self.open = asyncio.Event()
        self.open.set()

    def reset(self) -> None:
        _reset(self.client)
        _reset(self.server)


class FaultProxy:
    def __init__(self, host: str, port: int) -> None:
        self.latency = 0.0
        self.accepted = 0
        self._target = (host, port)
        self._port = free_port()
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: Cut | None = None
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self) -> Self:
        await self.pass_through()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        return self._port

    @property
    def connections(self) -> int:
        return len(self._links)

    async def pass_through(self) -> None:
        """Takes all faults back. What a black hole had swallowed goes on its way."""
        self.latency = 0.0
        self._cut = None
        self._open.set()
        for link in self._links:
            link.open.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._take, "127.0.0.1", self._port, limit=_CHUNK)

    def blackhole(self) -> None:
        self._open.clear()

    def reset(self) -> None:
        for link in list(self._links):
            link.reset()

    def refuse(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None

    def cut(self, pattern: bytes, *, after: bool = False, occurrence: int = 1, answer: bytes = b"") -> Cut:
        """Resets the connection on which a client sends `pattern` for the n-th time, counted over all connections.

        Before: the server never gets the chunk that completes the pattern.
        After: the server gets it and answers, with bytes that contain `answer`; the client never gets the answer.
        It happens once.
        """
        self._cut = Cut(pattern, after, occurrence, answer)
        return self._cut

    def hold(self, pattern: bytes) -> Cut:
        """Keeps back what comes on a connection from `pattern` on: it arrives late, at pass_through(). Happens once."""
        self._cut = Cut(pattern, after=False, occurrence=1, answer=b"", hold=True)
        return self._cut

    async def stop(self) -> None:
        self.refuse()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # by stop(); asyncio's own callback on this task would make an error of it
        finally:
            _reset(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target, limit=_CHUNK)
        except OSError:
            return
        link = _Link(writer, server_writer)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._upwards(link, reader))
                directions.create_task(self._downwards(link, server_reader))
            await _close(writer)
            await _close(server_writer)
        except* OSError:
            pass  # one side was reset: so is the other
        finally:
            _reset(server_writer)
            self._links.discard(link)

    async def _upwards(self, link: _Link, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            await self._weather(link)
            cut = self._cut
            if cut and self._hits(cut, link, chunk):
                self._cut = None
                if cut.hold:
                    link.open.clear()
                    cut.done.set()
                    await link.open.wait()
                elif not cut.after:
                    link.reset()
                    cut.done.set()
                    return
                else:
                    # The client must not get even the first byte of the answer, so this comes before the write.
                    link.awaiting_answer = (cut, _Search(cut.answer))
            link.server.write(chunk)
            await link.server.drain()
        _end(link.server)

    async def _downwards(self, link: _Link, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            if link.awaiting_answer:
                cut, search = link.awaiting_answer
                if search.count(chunk):
                    link.reset()
                    cut.done.set()
                    return
            await self._weather(link)
            link.client.write(chunk)
            await link.client.drain()
        _end(link.client)

    async def _weather(self, link: _Link) -> None:
        if self.latency:
            await asyncio.sleep(self.latency)
        await self._open.wait()
        await link.open.wait()

    @staticmethod
    def _hits(cut: Cut, link: _Link, chunk: bytes) -> bool:
        search = link.searches.setdefault(cut, _Search(cut.pattern))
        cut.seen += search.count(chunk)
        return cut.seen >= cut.occurrence


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST instead of FIN. Does nothing to one that is closed already."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


def _end(writer: asyncio.StreamWriter) -> None:
    """Passes on that one side has nothing more to send."""
    if not writer.is_closing():
        writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()
