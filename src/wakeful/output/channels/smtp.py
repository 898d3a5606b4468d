"""The exchange with a mail server, during which it is always known whether the server may have taken the message.

    connect, greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, the text    not taken
    the final dot                                                          from here on it may be taken
    its answer                                                             2yz: taken, 4yz and 5yz: not taken

A server keeps nothing of a message without its final dot, so the dot is sent by itself, once all else has left this process.

    not taken, 5yz                    Persistent: the same message would get the same answer
    not taken, all else               NotSent
    no answer to the final dot        Transient: in doubt
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from wakeful.clock import Microseconds, readable, seconds
from wakeful.errors import NotSent, Persistent, Transient
from wakeful.output.channels.client import for_people

if TYPE_CHECKING:
    import httpcore2

Security = Literal["none", "starttls", "tls"]
LONGEST_ANSWER = 64_000  # bytes, all lines of it
LINGER = 1.0  # seconds for a goodbye; the message is taken by then
END = b".\r\n"
_LINE = re.compile(r"([2-5]\d\d)([ -]?)(.*)", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server, and how connections to it are encrypted."""

    host: str
    port: int
    security: Security


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message for a server. `content` has lines that end with CRLF, with doubled dots, and without the final dot."""

    sender: str
    recipients: Sequence[str]
    content: bytes
    name: str  # of this client, for EHLO


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    lines: tuple[str, ...]

    @property
    def words(self) -> str:
        """For people: the code, and the foreign text on one line."""
        return for_people(f"{self.code} {' '.join(self.lines)}")


class Garbled(Exception):
    """The server said something else than SMTP, or closed the connection."""


class Carrier:
    """Hands messages to one server, with a connection for each."""

    def __init__(
        self,
        server: Server,
        backend: httpcore2.AsyncNetworkBackend,
        context: ssl.SSLContext,
        *,
        where: str,
        limit: Microseconds,
    ) -> None:
        self._server = server
        self._backend = backend
        self._context = context
        self._where = where
        self._limit = limit

    async def carry(self, parcel: Parcel, login: Login | None) -> Answer:
        """The answer by which the server took the message. `limit` is for all before the final dot, and again for its answer."""
        import httpcore2

        lost = (OSError, Garbled, httpcore2.NetworkError, httpcore2.TimeoutException)
        session = _Session(self._where)
        try:
            try:
                async with asyncio.timeout(seconds(self._limit)):
                    coming = await self._approach(session, parcel, login)
            except TimeoutError as error:
                message = f"{self._where}: {session.at}: no answer within {readable(self._limit)}; nothing was sent"
                raise NotSent(message) from error
            except lost as error:
                message = (
                    f"{self._where}: {session.at}: {for_people(str(error)) or type(error).__name__}; nothing was sent"
                )
                raise NotSent(message) from error
            try:
                async with asyncio.timeout(seconds(self._limit)):
                    answer = await session.end(coming)
            except TimeoutError as error:
                words = f"no answer within {readable(self._limit)}"
                raise Transient(f"{self._where}: {session.at}: {words}; the message may have been taken") from error
            except lost as error:
                words = for_people(str(error)) or type(error).__name__
                raise Transient(f"{self._where}: {session.at}: {words}; the message may have been taken") from error
            await session.part()
            return answer
        finally:
            await session.close()

    async def _approach(self, session: _Session, parcel: Parcel, login: Login | None) -> asyncio.Task[Answer]:
        """Everything before the final dot. Returns the answer to come."""
        server = self._server
        stream = await self._backend.connect_tcp(server.host, server.port)
        session.on(stream)
        if server.security == "tls":
            session.at = "TLS"
            session.on(await stream.start_tls(self._context, server.host))
        await session.expect("the greeting", 220)
        offers = await session.hello(parcel.name)
        if server.security == "starttls":
            if "STARTTLS" not in offers:
                message = f"{self._where}: the server offers no STARTTLS, so nothing was sent; a server with TLS from the start has smtps://"
                raise Persistent(message)
            await session.expect("STARTTLS", 220, "STARTTLS")
            await session.encrypt(self._context, server.host)
            offers = await session.hello(parcel.name)  # what was offered before may have been forged
        if login is not None:
            await session.authenticate(login, offers.get("AUTH", "").upper().split())
        size = f" SIZE={len(parcel.content)}" if "SIZE" in offers else ""
        await session.expect("MAIL", 250, f"MAIL FROM:<{parcel.sender}>{size}")
        await session.recipients(parcel.recipients)
        await session.expect("DATA", 354, "DATA")
        return await session.text(parcel.content)


class _Session:
    """One connection. `at` is the place in the exchange."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._stream: httpcore2.AsyncNetworkStream | None = None
        self._unread = bytearray()
        self._tasks: tuple[asyncio.Task[Any], ...] = ()
        self.at = "connecting"

    def on(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def expect(self, at: str, code: int, command: str | None = None) -> Answer:
        """Send a command and return its answer. Raises if that has another code."""
        answer = await self._ask(at, command)
        if answer.code != code:
            self._refuse(answer)
        return answer

    async def hello(self, name: str) -> dict[str, str]:
        """What the server offers: its extensions, with their parameters."""
        answer = await self.expect("EHLO", 250, f"EHLO {name}")
        # Old servers write "AUTH=LOGIN".
        found = (line.replace("=", " ", 1).partition(" ") for line in answer.lines[1:])
        return {keyword.upper(): parameters for keyword, _, parameters in found}

    async def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        if self._unread:  # it came unencrypted, perhaps from someone else, and would be read as an answer of the server
            message = "text before the encryption began"
            raise Garbled(message)
        self.at = "TLS"
        self._stream = await self._there.start_tls(context, host)

    async def authenticate(self, login: Login, offered: Sequence[str]) -> None:
        if "PLAIN" in offered:
            await self.expect("AUTH", 235, "AUTH PLAIN " + _base64(f"\0{login.user}\0{login.password}"))
        elif "LOGIN" in offered:
            await self.expect("AUTH", 334, "AUTH LOGIN")
            await self.expect("AUTH", 334, _base64(login.user))
            await self.expect("AUTH", 235, _base64(login.password))
        else:
            ways = for_people(", ".join(offered)) or "none"
            message = f"{self._where}: the server offers no way to log in that is known here (PLAIN, LOGIN); it offers: {ways}"
            raise Persistent(message)

    async def recipients(self, addresses: Sequence[str]) -> None:
        """Announce all recipients. If one is refused, no one gets the message: who got it is never a question."""
        refusals = {}
        for address in addresses:
            answer = await self._ask(f"RCPT {address}", f"RCPT TO:<{address}>")
            if not 250 <= answer.code < 260:
                refusals[address] = answer
        for address, answer in sorted(
            refusals.items(), key=lambda one: -one[1].code
        ):  # one for good goes before one for now
            self.at = f"RCPT {address}"
            self._refuse(answer)

    async def text(self, content: bytes) -> asyncio.Task[Answer]:
        """Send everything but the final dot. Returns the answer to come: one before the dot is a refusal, and a connection that ends before
        the dot took nothing.
        """
        self.at = "the text"
        coming = asyncio.ensure_future(self._read())
        writing = asyncio.ensure_future(self._there.write(content))
        self._tasks = (coming, writing)
        await asyncio.wait({coming, writing}, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            self._refuse(coming.result())
        writing.result()
        return coming

    async def end(self, coming: asyncio.Task[Answer]) -> Answer:
        """Send the final dot and return its answer. Raises NotSent or Persistent if the server refused the message."""
        self.at = "after the final dot"
        await self._there.write(END)
        answer = await coming
        if answer.code >= 400:
            self._refuse(answer)
        if not 200 <= answer.code < 300:
            raise Garbled(f"the server answered {answer.words}")
        return answer

    async def part(self) -> None:
        """Say goodbye. The message is taken, whether or not that works."""
        with suppress(Exception):
            async with asyncio.timeout(LINGER):
                await self._ask("QUIT", "QUIT")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stream is not None:
            with suppress(Exception):
                await self._stream.aclose()

    async def _ask(self, at: str, command: str | None) -> Answer:
        self.at = at
        if command is not None:
            await self._there.write(command.encode("ascii") + b"\r\n")
        return await self._read()

    async def _read(self) -> Answer:
        lines = []
        read = 0
        while True:
            line = await self._line()
            read += len(line)
            parts = _LINE(line.decode("utf-8", "replace"))
            if parts is None or read > LONGEST_ANSWER:
                raise Garbled(f"the server said something else than SMTP: {line[:200].decode('utf-8', 'replace')}")
            lines.append(parts[3])
            if parts[2] != "-":
                return Answer(int(parts[1]), tuple(lines))

    async def _line(self) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            received = b"" if len(self._unread) > LONGEST_ANSWER else await self._there.read(4096)
            if not received:
                raise Garbled("the server closed the connection")
            self._unread += received
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line.rstrip(b"\r")

    @property
    def _there(self) -> httpcore2.AsyncNetworkStream:
        if self._stream is None:
            message = "there is no connection"
            raise Garbled(message)
        return self._stream

    def _refuse(self, answer: Answer) -> NoReturn:
        message = f"{self._where}: {self.at}: the server answered {answer.words}; nothing was sent"
        raise Persistent(message) if answer.code >= 500 else NotSent(message)


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
