"""A connection pooler in session mode, as a client sees one: the session that it is told of at the start is none of the server's."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Self

KEY_DATA = b"K\x00\x00\x00\x0c"  # BackendKeyData: the session, and the secret to cancel it


class SessionPooler:
    """Passes everything on, but for the number of the session."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(*self._target)
        with contextlib.suppress(OSError):
            await asyncio.gather(self._pass(reader, ours, renames=False), self._pass(theirs, writer, renames=True))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, renames: bool) -> None:
        while chunk := await source.read(65536):
            if renames and (place := chunk.find(KEY_DATA)) >= 0:
                at = place + len(KEY_DATA)
                chunk = chunk[:at] + struct.pack(">I", 1) + chunk[at + 4 :]
                renames = False
            target.write(chunk)
            await target.drain()
        target.close()
