"""A pooler that shares a few sessions of a PostgreSQL server among many clients, by transaction, as PgBouncer does.

    async with Pooler(server, sessions=2) as pooler:
        App("app", store=pooler.dsn("database"), listen_store=server.dsn("database"))

It is as unkind as a pooler may be: it refuses settings at the start of a session, forgets nothing that a client leaves in one, and
gives the sessions out in turn, so that two transactions of one client are never in the same. `PgBouncer` is the real program, where
there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from wakeful.testing.ports import free_port
from wakeful.testing.postgres_server import PostgresServer

PROTOCOL, SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 196608, 80877103, 80877104, 80877102
TAKEN_AT_START = {"user", "database", "application_name", "client_encoding", "datestyle", "timezone"}
ASKS_FOR_AN_ANSWER = b"QSF"  # after each of these comes one "ready for query"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


class Session:
    """One session of the server."""

    def __init__(self) -> None:
        self.parameters: list[bytes] = []
        self.served = 0

    async def open(self, port: int, password: str, database: str) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        start = b"user\0postgres\0database\0" + database.encode() + b"\0\0"
        self.writer.write(struct.pack("!II", len(start) + 8, PROTOCOL) + start)
        while True:
            kind, whole = await read_message(self.reader)
            if kind == b"R" and whole[5:9] == struct.pack("!I", 3):
                self.writer.write(message(b"p", password.encode() + b"\0"))
            elif kind == b"S":
                self.parameters.append(whole)
            elif kind == b"E":
                raise ConnectionError(whole.decode(errors="replace"))
            elif kind == b"Z":
                return self


class Pooler:
    """See above. `transactions` counts what went through, `clients` who came."""

    def __init__(self, server: PostgresServer, *, sessions: int = 2) -> None:
        self._server = server
        self._sessions = sessions
        self._free: dict[str, asyncio.Queue[Session | None]] = {}
        self._numbers = itertools.count(1_000_000)
        self._tasks: set[asyncio.Task[None]] = set()
        self.transactions = 0
        self.clients = 0

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for free in self._free.values():
            while not free.empty():
                session = free.get_nowait()
                if session is not None:
                    session.writer.close()

    def dsn(self, database: str) -> str:
        return self._server.dsn(database, port=self.port)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                database = await self._greet(reader, writer)
                if database is not None:
                    await self._serve(reader, writer, self._free[database], database)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
        while True:
            length, code = struct.unpack("!II", await reader.readexactly(8))
            body = await reader.readexactly(length - 8)
            if code in {SSL_REQUEST, GSS_REQUEST}:
                writer.write(b"N")
                continue
            if code == CANCEL_REQUEST:
                return None
            break
        words = body.rstrip(b"\0").split(b"\0")
        given = {name.decode().lower(): value.decode() for name, value in zip(words[::2], words[1::2], strict=True)}
        unknown = sorted(set(given) - TAKEN_AT_START)
        if unknown:
            text = f"unsupported startup parameter: {unknown[0]}"
            writer.write(message(b"E", f"SFATAL\0C08P01\0M{text}\0\0".encode()))
            return None
        self.clients += 1
        database = given.get("database", given["user"])
        session = await self._take(database)
        self._free[database].put_nowait(session)
        writer.write(message(b"R", struct.pack("!I", 0)) + b"".join(session.parameters))
        writer.write(message(b"K", struct.pack("!II", next(self._numbers), 1)) + message(b"Z", b"I"))
        return database

    async def _take(self, database: str) -> Session:
        if database not in self._free:
            free = self._free[database] = asyncio.Queue()
            for _ in range(self._sessions):
                free.put_nowait(None)
        session = await self._free[database].get()
        if session is None:
            password = self._server.dsn().partition("postgres:")[2].partition("@")[0]
            session = await Session().open(self._server.port, password, database)
        return session

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        free: asyncio.Queue[Session | None],
        database: str,
    ) -> None:
        """One transaction after the other, each in the session that is free for longest."""
        while True:
            kind, whole = await read_message(reader)
            if kind == b"X":
                return
            session, whole_one = await self._take(database), False
            try:
                await self._transaction(reader, writer, session, kind, whole)
                whole_one = True
                self.transactions += 1
            finally:
                if whole_one:
                    free.put_nowait(session)
                else:  # a client that left in the middle, or a server that went
                    session.writer.close()
                    free.put_nowait(None)

    async def _transaction(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Session, kind: bytes, whole: bytes
    ) -> None:
        asked = int(kind in ASKS_FOR_AN_ANSWER)
        session.writer.write(whole)
        heard: asyncio.Task[tuple[bytes, bytes]] | None = None
        told = asyncio.create_task(read_message(session.reader))
        try:
            while True:
                heard = heard or asyncio.create_task(read_message(reader))
                await asyncio.wait([heard, told], return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    kind, whole = told.result()
                    writer.write(whole)
                    if kind == b"Z":
                        asked -= 1
                        if asked == 0 and whole[5:6] == b"I" and not heard.done():
                            await self._put_back(heard, reader)
                            heard = None
                            return
                    told = asyncio.create_task(read_message(session.reader))
                if heard.done():
                    kind, whole = heard.result()
                    heard = None
                    if kind == b"X":
                        raise ConnectionError("the client left in the middle of a transaction")
                    asked += int(kind in ASKS_FOR_AN_ANSWER)
                    session.writer.write(whole)
        finally:
            for task in (heard, told):
                if task is not None and not task.done():
                    task.cancel()

    @staticmethod
    async def _put_back(heard: asyncio.Task[tuple[bytes, bytes]], reader: asyncio.StreamReader) -> None:
        """Stop waiting for the client's next word. Nothing of it has been taken: a read that waits takes all or nothing."""
        heard.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heard


class PgBouncer:
    """The real one, where it is found."""

    def __init__(self, server: PostgresServer, folder: Path, *, sessions: int = 2) -> None:
        self._server = server
        self._folder = folder
        self._sessions = sessions
        self.port = free_port()

    async def __aenter__(self) -> Self:
        password = self._server.dsn().partition("postgres:")[2].partition("@")[0]
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(
            "[databases]\n"
            f"* = host=127.0.0.1 port={self._server.port} user=postgres password={password}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\nserver_round_robin = 1\n"
            f"default_pool_size = {self._sessions}\n"
        )
        settings.chmod(0o644)
        command = ["pgbouncer", str(settings)]
        if os.getuid() == 0:  # it refuses that too
            for folder in (self._folder, *self._folder.parents[:2]):
                folder.chmod(0o755)
            command[1:1] = ["--user", pwd.getpwnam("nobody").pw_name]
        self._process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert self._process.stderr is not None
        while True:
            line = await self._process.stderr.readline()
            if b"process up" in line:
                break
            if not line:
                raise RuntimeError("pgbouncer did not start")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        await self._process.communicate()

    def dsn(self, database: str) -> str:
        return self._server.dsn(database, port=self.port)


def has_pgbouncer() -> bool:
    return shutil.which("pgbouncer") is not None
