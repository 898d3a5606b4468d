"""Mail servers on loopback: aiosmtpd, which keeps what it takes and is strict about it, and a bare one that fails at a given point."""

from __future__ import annotations

import asyncio
import re
import ssl
import warnings
from contextlib import suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from types import TracebackType
from typing import Any, Self

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from wakeful.output.channels.base import MAY_BE_REPEATED

ONCE = ("From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "Auto-Submitted")
BARE = re.compile(rb"\r(?!\n)|(?<!\r)\n").search


def read(content: bytes) -> EmailMessage:
    """An email as strict servers and mail programs read it; AssertionError for one that some would refuse."""
    assert BARE(content) is None, "each line ends with CRLF"
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    email = message_from_bytes(content, policy=default)
    assert not email.defects
    assert [len(email.get_all(name, [])) for name in ONCE] == [1] * len(ONCE)
    return email


class MailServer:
    """aiosmtpd: `async with MailServer() as server:`, then `server.port` and `server.emails`."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, at_once: bool = False, login: tuple[str, str] | None = None
    ) -> None:
        self.emails: list[EmailMessage] = []
        self.envelopes: list[Envelope] = []
        self.sessions: list[Session] = []
        self.refuses: dict[str, str] = {}  # recipients, with the answer to them
        self.answer = "250 2.0.0 Ok: queued as 4XyZ12"
        self._tls = tls
        self._at_once = at_once
        self._login = login
        self._open: list[SMTP] = []

    async def __aenter__(self) -> Self:
        starttls = None if self._at_once else self._tls
        options: dict[str, Any] = {"tls_context": starttls, "require_starttls": starttls is not None}
        if self._login is not None:
            options |= {
                "authenticator": self._authenticate,
                "auth_required": True,
                "auth_require_tls": starttls is not None,
            }

        def serve() -> SMTP:
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # it does not see that smtps:// is TLS
                one = SMTP(self, hostname="mail.example.com", **options)
            self._open.append(one)
            return one

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(serve, "127.0.0.1", 0, ssl=self._tls if self._at_once else None)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for one in self._open:
            if one.transport is not None:
                one.transport.close()
        await self._server.wait_closed()

    @property
    def ids(self) -> list[str]:
        return [one["Message-ID"] for one in self.emails]

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, login: LoginPassword
    ) -> AuthResult:
        assert self._login is not None
        right = (login.login.decode(), login.password.decode()) == self._login
        return AuthResult(success=right, handled=False)

    async def handle_RCPT(  # noqa: N802 the name that aiosmtpd calls
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 the same
        assert isinstance(envelope.content, bytes)
        self.sessions.append(session)
        self.envelopes.append(envelope)
        self.emails.append(read(envelope.content))
        return self.answer


class Failing:
    """Speaks just enough SMTP to fail at one point of its first connection; all later connections go well.

    at    greeting, EHLO, MAIL, RCPT, DATA, text or dot
    how   drop (the connection ends instead of the answer), hang (no answer), or an answer, such as "451 later"
    """

    def __init__(self, at: str, how: str) -> None:
        self._at = at
        self._how = how
        self.connections = 0
        self.emails: list[EmailMessage] = []  # all that came to their final dot, whatever the answer
        self.commands: list[str] = []
        self.failed = asyncio.Event()
        self._open: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        exchange = _Exchange(self, reader, writer, fails=self.connections == 1)
        try:
            with suppress(ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
                await exchange.serve()
        finally:
            self._open.discard(task)
            writer.close()


class _Over(ConnectionError):
    """The connection is to end here."""


class _Exchange:
    def __init__(
        self, server: Failing, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, fails: bool
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._fails = fails

    async def serve(self) -> None:
        await self._answer("greeting", "220 mail.example.com")
        while line := (await self._reader.readline()).decode("ascii").strip():
            self._server.commands.append(line)
            verb = line.split(maxsplit=1)[0].upper()
            if verb == "DATA":
                await self._answer("DATA", "354 go on")
                await self._text()
            elif verb == "QUIT":
                await self._answer("QUIT", "221 bye")
                return
            else:
                await self._answer(verb, "250-mail.example.com\r\n250 SIZE 100000000" if verb == "EHLO" else "250 ok")

    async def _text(self) -> None:
        if self._fails and self._server._at == "text":
            await self._reader.readexactly(100)
            await self._fail()
        content = await self._reader.readuntil(b"\r\n.\r\n")
        self._server.emails.append(read(content[:-3].replace(b"\r\n..", b"\r\n.")))
        await self._answer("dot", "250 2.0.0 Ok: queued as 7Abc")

    async def _answer(self, at: str, usual: str) -> None:
        if self._fails and at == self._server._at:
            await self._fail()
        else:
            self._writer.write(f"{usual}\r\n".encode())

    async def _fail(self) -> None:
        self._server.failed.set()
        if self._server._how == "hang":
            await asyncio.Event().wait()
        if self._server._how == "drop":
            self._writer.transport.abort()
            raise _Over
        self._writer.write(f"{self._server._how}\r\n".encode())


def says_that_it_may_be_repeated(email: EmailMessage) -> bool:
    return email.get_content().startswith(MAY_BE_REPEATED)
