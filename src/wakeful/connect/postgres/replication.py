"""Reads a replication slot over a connection of its own: PostgreSQL's streaming protocol, on the libpq layer of psycopg. asyncpg does
not support it.

    server ──► w: a piece of the log, one pgoutput message            k: keepalive: its position, and whether it wants an answer
    we     ──► r: stored up to here; the server may forget it

Nothing here blocks the event loop: data that has come is returned piece by piece; a caller that has taken all of it waits for
the socket.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.connect.postgres.pgoutput import EPOCH, shown_lsn
from wakeful.connect.postgres.values import SETTINGS
from wakeful.errors import ConfigError

if TYPE_CHECKING:
    import psycopg

CONNECT_WITHIN = 10
# If the other end disappears silently, the connection fails after half a minute.
ALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}

_PIECE, _SIGN_OF_LIFE = b"wk"
_HEAD = 25
_LIFE = struct.Struct("!xQqB")
_ANSWER = struct.Struct("!cQQQqB")


class SlotError(Exception):
    """The error that the server sent instead of streaming. `state` is its SQLSTATE."""

    def __init__(self, words: str, state: str | None = None) -> None:
        super().__init__(words)
        self.state = state


class Life(NamedTuple):
    """A keepalive: everything before `lsn` has been sent."""

    lsn: int
    wants_answer: bool


def driver() -> Any:
    """psycopg, loaded when it is first needed."""
    try:
        import psycopg as module
    except ImportError as error:
        message = 'postgres_changes needs psycopg: pip install "wakeful[changes]"'
        raise ConfigError(message) from error
    return module


async def connect(dsn: str, *, name: str, replication: bool = False) -> psycopg.AsyncConnection[Any]:
    """A connection that commits each statement by itself."""
    more = {"replication": "database"} if replication else {}
    connection: psycopg.AsyncConnection[Any] = await driver().AsyncConnection.connect(
        dsn, autocommit=True, connect_timeout=CONNECT_WITHIN, application_name=name[:63], **ALIVE, **more
    )
    return connection


class Stream:
    """One slot that is being read."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._link = connection.pgconn
        self._pq = driver().pq
        self.system = ""  # identifier of the server's data: positions of different systems are not comparable
        self.timeline = ""  # increases whenever the log continues from an earlier position

    @classmethod
    async def open(cls, dsn: str, *, name: str) -> Stream:
        stream = cls(await connect(dsn, name=name, replication=True))
        try:
            settings = "; ".join(f"set {setting} to '{value}'" for setting, value in SETTINGS.items())
            await stream._ask(settings)
            stream.system, stream.timeline, *_ = await stream._ask("IDENTIFY_SYSTEM")
        except BaseException:
            await stream.close()
            raise
        return stream

    async def start(self, slot: str, publications: Sequence[str], lsn: int) -> None:
        """Stream from that position; 0: from the slot's own. Raises SlotError."""
        names = ",".join(f'"{one}"' for one in publications).replace("'", "''")
        self._link.send_query(
            f"START_REPLICATION SLOT {slot} LOGICAL {shown_lsn(lsn)} "
            f"(proto_version '1', messages 'true', publication_names '{names}')".encode()
        )
        result = await self._result()
        if result is None or result.status != self._pq.ExecStatus.COPY_BOTH:
            while result is not None and await self._result() is not None:
                pass  # read all results, or the next statement would be refused
            raise self._refusal(result)

    def next(self) -> bytes | Life | None:
        """The next pgoutput message or keepalive that has come; None if there is nothing more for now."""
        length, piece = self._link.get_copy_data(1)
        if length == 0:
            return None
        if length < 0:
            raise self._refusal(self._link.get_result() if length == -1 else None)
        data = bytes(piece)
        if data[0] == _PIECE:
            return data[_HEAD:]
        if data[0] == _SIGN_OF_LIFE:
            lsn, _, wants = _LIFE.unpack(data)
            return Life(lsn, bool(wants))
        raise SlotError(f"the server sent data that is not replication: {data[:40]!r}")

    async def more(self, within: float) -> bool:
        """Wait until more data has come, at most that many seconds."""
        if not await self._readable(within):
            return False
        try:
            self._link.consume_input()
        except driver().OperationalError as error:
            raise SlotError(first_line(error)) from error
        return True

    def confirm(self, lsn: int, *, ask: bool = False) -> None:
        """Report that everything before is stored. With `ask`, the server is asked to report its position at once."""
        now = time.time_ns() // 1000 - EPOCH
        try:
            self._link.put_copy_data(_ANSWER.pack(b"r", lsn, lsn, lsn, now, ask))
            self._link.flush()  # data that does not fit into the socket is sent with the next call
        except driver().OperationalError as error:
            raise SlotError(first_line(error)) from error

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(self, statement: str) -> tuple[str, ...]:
        """The first row of a statement's answer."""
        self._link.send_query(statement.encode())
        row: tuple[str, ...] = ()
        while (result := await self._result()) is not None:
            status = self._pq.ExecStatus
            if result.status not in {status.COMMAND_OK, status.TUPLES_OK}:
                raise self._refusal(result)
            if result.ntuples:
                row = tuple((result.get_value(0, column) or b"").decode() for column in range(result.nfields))
        return row

    async def _result(self) -> Any:
        self._link.flush()  # a statement fits into any socket buffer
        while self._link.is_busy():
            await self._readable(CONNECT_WITHIN)
            self._link.consume_input()
        return self._link.get_result()

    async def _readable(self, within: float) -> bool:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[None] = loop.create_future()
        socket = self._link.socket

        def note() -> None:
            if not came.done():
                came.set_result(None)

        loop.add_reader(socket, note)
        try:
            async with asyncio.timeout(within):
                await came
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(socket)
        return True

    def _refusal(self, result: Any) -> SlotError:
        if result is None or result.status != self._pq.ExecStatus.FATAL_ERROR:
            return SlotError(self._link.get_error_message() or "the server ended the stream")
        field = self._pq.DiagnosticField
        state = result.error_field(field.SQLSTATE)
        words = result.error_field(field.MESSAGE_PRIMARY)
        detail = result.error_field(field.MESSAGE_DETAIL)
        told = (words or b"the server ended the stream").decode(errors="replace")
        if detail:
            told = f"{told}: {detail.decode(errors='replace')}"
        return SlotError(" ".join(told.split()), None if state is None else state.decode())


def first_line(error: BaseException) -> str:
    """The first line of a psycopg error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
