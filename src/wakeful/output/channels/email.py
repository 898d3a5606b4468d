"""`email("smtp+starttls://mail.example.com", sender="wakeful@example.com", to="ops@example.com")`: each message is one email.

`letter.py` writes it, `smtp.py` hands it to the server and says whether the server may have taken it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeful.clock import Duration, seconds
from wakeful.errors import ConfigError, Persistent
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, check_url, literal, resolve, shown_url
from wakeful.output.channels.base import Channel, Message, OnDoubt, Sent, Surroundings
from wakeful.output.channels.client import missing_secrets, read_secret, read_trying
from wakeful.output.channels.letter import message_id, read_mailbox, read_mailboxes, with_doubled_dots, write
from wakeful.output.channels.smtp import Login, Parcel, Security, Server
from wakeful.secrets import Env, Secret, reveal

if TYPE_CHECKING:
    from wakeful.output.channels.smtp import Carrier

SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
    "smtp": ("none", 25),
}
AFTERWARDS = 5.0  # seconds for the goodbye and for closing, beyond the time limits of the exchange
# Words of common servers: Postfix and others, Exim.
_QUEUE_ID = re.compile(r"\bqueued as ([\w.-]+)|\bid=([\w.-]+)", re.IGNORECASE).search


class Email(Channel):
    """Hands messages to a mail server."""

    repeats = "doubt"

    def __init__(
        self,
        url: str,
        *,
        sender: str,
        to: str | Sequence[str],
        user: Secret | None = None,
        password: Secret | None = None,
        ca_file: str | Path | None = None,
        allow_plain: bool = False,
        allow_private: bool = False,
        on_doubt: OnDoubt = "repeat",
        timeout: Duration = "30s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        self._server, self.shown = _read_server(url, allow_plain=allow_plain, allow_private=allow_private)
        self._where = where = f"email({self.shown})"
        self._sender = read_mailbox(sender, "sender", where)
        self._to = read_mailboxes(to, "to", where)
        self._user, self._password = _read_login(user, password, where)
        self._ca_file = None if ca_file is None else Path(ca_file)
        self._allow_private = allow_private
        if on_doubt not in {"repeat", "hold"}:
            message = f'{where}: on_doubt is "repeat" or "hold", not {on_doubt!r}'
            raise ConfigError(message)
        self.on_doubt = on_doubt
        trying, self._limit = read_trying(where, timeout, attempts, backoff)
        self.attempts, self.backoff = trying.attempts, trying.backoff
        # The limits of the exchange end first: they know whether the message may have been taken.
        self.timeout = 2 * seconds(self._limit) + AFTERWARDS
        self._resolve = resolve
        self._carrier: Carrier | None = None

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report missing environment variables and an unreadable `ca_file` now, not with the first message."""
        self._login()
        self._ready()

    async def close(self) -> None:
        self._carrier = None  # no connection stays open between messages

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._send(message) for message in messages]

    async def _send(self, message: Message) -> Sent:
        try:
            content = with_doubled_dots(write(message, self._sender, self._to))
        except Exception as error:  # nothing was sent, so there is no doubt; the same message would fail again
            raise Persistent(
                f"{self._where}: the message cannot be written as an email: {error}; nothing was sent"
            ) from error
        recipients = [one.address for one in self._to]
        parcel = Parcel(self._sender.address, recipients, content, self._sender.domain)
        answer = await self._ready().carry(parcel, self._login())
        queued = _QUEUE_ID(answer.words)
        identifier = message_id(message, self._sender)
        return Sent(identifier if queued is None else f"{identifier} queued as {queued[1] or queued[2]}")

    def _ready(self) -> Carrier:
        if self._carrier is None:
            from wakeful.output.channels.smtp import Carrier
            from wakeful.output.channels.transport import GuardedBackend

            backend = GuardedBackend(allow_private=self._allow_private, resolve=self._resolve)
            self._carrier = Carrier(self._server, backend, self._context(), where=self._where, limit=self._limit)
        return self._carrier

    def _context(self) -> ssl.SSLContext:
        """Which certificates are trusted. The name in a certificate is always checked."""
        if self._ca_file is None:
            import httpx2

            return httpx2.create_ssl_context()
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # an SSLError too
            message = f"{self._where}: ca_file: {self._ca_file} cannot be read as certificates: {error}"
            raise ConfigError(message) from error

    def _login(self) -> Login | None:
        if self._user is None or self._password is None:
            return None
        user = reveal(self._user, needed_by=f"{self._where}, user")
        password = reveal(self._password, needed_by=f"{self._where}, password")
        if "\0" in user + password:
            message = f"{self._where}: the user or the password has a NUL character: check their values"
            raise ConfigError(message)
        return Login(user, password)

    def missing(self) -> list[str]:
        needed = [(one, what) for one, what in ((self._user, "user"), (self._password, "password")) if one is not None]
        found = missing_secrets(needed, self._where)
        try:
            if self._ca_file is not None:
                self._context()
        except ConfigError as error:
            found.append(str(error))
        return found

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "email",
            "url": self.shown,
            "sender": str(self._sender),
            "to": [str(one) for one in self._to],
            "login": self._password is not None,
            "on_doubt": self.on_doubt,
            "allow_private": self._allow_private,
        }

    def __repr__(self) -> str:
        return f'email("{self.shown}")'


def email(
    url: str,
    *,
    sender: str,
    to: str | Sequence[str],
    user: Secret | None = None,
    password: Secret | None = None,
    ca_file: str | Path | None = None,
    allow_plain: bool = False,
    allow_private: bool = False,
    on_doubt: OnDoubt = "repeat",
    timeout: Duration = "30s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> Email:
    """One email for each message, by `smtp+starttls://host:587` or `smtps://host:465`; `smtp://`, without encryption, only to this machine
    or with `allow_plain`.

    `password`, and `user` if you like, is best `env("NAME")`. `ca_file` has certificates to trust instead of the system's.
    """
    return Email(
        url,
        sender=sender,
        to=to,
        user=user,
        password=password,
        ca_file=ca_file,
        allow_plain=allow_plain,
        allow_private=allow_private,
        on_doubt=on_doubt,
        timeout=timeout,
        attempts=attempts,
        backoff=backoff,
    )


def _read_server(url: str, *, allow_plain: bool, allow_private: bool) -> tuple[Server, str]:
    like = "smtp+starttls://mail.example.com:587"
    parts = check_url(
        url,
        where="email(…)",
        allow_private=allow_private,
        schemes=tuple(SCHEMES),
        like=like,
        credentials="write user= and password=env(…)",
    )
    security, port = SCHEMES[parts.scheme]
    host = parts.hostname or ""
    if parts.path.strip("/") or parts.query or parts.fragment or not host.isascii():
        message = f'email(…): the address of a server has no path and no query, and its host is ASCII, like "{like}"'
        raise ConfigError(message)
    shown = shown_url(parts).rstrip("/")
    if security == "none" and not allow_plain and not _is_this_machine(host):
        message = (
            f"email({shown}): smtp:// is not encrypted: others on the way can read and change messages. Write smtp+starttls:// or smtps://, "
            "or declare it with allow_plain=True"
        )
        raise ConfigError(message)
    return Server(host, parts.port or port, security), shown


def _is_this_machine(host: str) -> bool:
    address = literal(host)
    return host == "localhost" if address is None else address.is_loopback


def _read_login(user: Any, password: Any, where: str) -> tuple[Secret | None, Secret | None]:
    if (user is None) != (password is None):
        message = f"{where}: user and password belong together: give both, or none"
        raise ConfigError(message)
    if user is None:
        return None, None
    for one, what in ((user, "user"), (password, "password")):
        if not isinstance(one, str | Env) or not one:
            message = f'{where}: {what} must be a text or env("NAME")'
            raise ConfigError(message)
    return user, read_secret(password, "password", where)
