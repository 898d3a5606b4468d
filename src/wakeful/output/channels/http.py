"""`http("https://example.com/hook", secret=env("HOOK_SECRET"))`: each message is one signed POST.

    2xx                         delivered
    429, 408, 5xx, no answer    retried with the same webhook-id, after Retry-After if the answer has it
    3xx, other 4xx              a dead letter: the same request would get the same answer

`addresses.py` says where requests may go. Proxies from the environment are not used: behind a proxy this process could
not see which address is connected to.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wakeful.clock import Duration, Microseconds, readable, seconds
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.functions.options import Backoff, read_options
from wakeful.output.channels.addresses import Resolve, check_url, resolve, shown_url
from wakeful.output.channels.base import Channel, Message, Surroundings
from wakeful.output.channels.record import to_record
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal
from wakeful.signing import read_key, sign
from wakeful.stored_errors import storable

if TYPE_CHECKING:
    import httpx2

ANSWER_LIMIT = 2_000  # bytes of an answer that are read, and characters of it that are shown
LINGER = 1.0  # seconds for the rest of a successful answer; after that its connection is dropped
OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?").fullmatch


@dataclass(frozen=True, slots=True)
class Trying:
    """How long one request may take, and how often it is retried."""

    timeout: Microseconds | None
    attempts: int | None
    backoff: Backoff


class Http(Channel):
    """Posts messages to a URL."""

    repeats = "known"

    def __init__(
        self,
        url: str,
        secret: Secret | Sequence[Secret] | None = None,
        headers: Mapping[str, Secret] | None = None,
        *,
        allow_private: bool = False,
        timeout: Duration = "30s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        self._parts = check_url(url, where="http(…)", allow_private=allow_private)
        self.shown = shown_url(self._parts)
        self.allow_private = allow_private
        self._where = f"http({self.shown})"
        trying = read_options(Trying, {"timeout": timeout, "attempts": attempts, "backoff": backoff}, where=self._where)
        if trying.timeout is None:
            message = f'{self._where}: timeout: a request needs a time limit, like "30s"'
            raise ConfigError(message)
        self.timeout, self.attempts, self.backoff = timeout, trying.attempts, trying.backoff
        self._limit = trying.timeout
        self._secrets = _read_secrets(secret, self._where)
        self._headers = _read_headers(headers or {}, self._where)
        self._resolve = resolve
        self._client: httpx2.AsyncClient | None = None
        for one in self._secrets:
            if not isinstance(one, Env):
                read_key(one, needed_by=self._where)

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report missing environment variables now, not with the first message."""
        self._keys()
        self._revealed_headers()
        self._ready()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._post(message)

    async def _post(self, message: Message) -> None:
        import httpx2

        body = to_record(message)
        headers = {
            **self._revealed_headers(),
            "content-type": "application/json",
            # Real time, which the other side compares it with, and not a test's clock.
            **sign(self._keys(), message.id, int(time.time()), body),
        }
        try:
            async with self._ready().stream("POST", self._parts.geturl(), content=body, headers=headers) as response:
                await self._judge(response)
        except httpx2.TimeoutException as error:
            words = str(error) or f"no answer within {readable(self._limit)}"
            raise Transient(f"{self._where}: {words}") from error
        except httpx2.TransportError as error:
            raise Transient(f"{self._where}: {error or type(error).__name__}") from error
        except httpx2.InvalidURL as error:
            raise ConfigError(f"{self._where}: {error}") from error

    async def _judge(self, response: httpx2.Response) -> None:
        """Raise unless the answer is a success. Its body is foreign text: a little of it is read, only to be shown."""
        import httpx2

        status = response.status_code
        if response.is_success:
            # Reading it to the end lets the connection be reused. The message is delivered whether or not that works.
            with suppress(httpx2.TransportError, TimeoutError):
                async with asyncio.timeout(LINGER):
                    await _beginning(response)
            return
        if 300 <= status < 400:
            leads = _for_people(response.headers.get("location", "nowhere"))
            message = (
                f"{self._where} answered {status}, a redirect to {leads}: redirects are not followed, "
                "declare the channel with the final address"
            )
            raise Persistent(message)
        words = ""
        with suppress(httpx2.TransportError, TimeoutError):
            async with asyncio.timeout(LINGER):
                words = _for_people((await _beginning(response)).decode("utf-8", "replace"))
        message = f"{self._where} answered {status}" + (f": {words}" if words else "")
        raise httpx2.HTTPStatusError(message, request=response.request, response=response)

    def _ready(self) -> httpx2.AsyncClient:
        """The client, kept open between messages."""
        if self._client is None:
            import httpx2

            from wakeful.output.channels.transport import GuardedBackend, GuardedTransport
            from wakeful.version import __version__

            self._client = httpx2.AsyncClient(
                transport=GuardedTransport(GuardedBackend(allow_private=self.allow_private, resolve=self._resolve)),
                timeout=seconds(self._limit),
                headers={"user-agent": f"wakeful/{__version__}", "accept-encoding": "identity"},
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def _keys(self) -> list[bytes]:
        return [read_key(reveal(one, needed_by=self._where), needed_by=self._where) for one in self._secrets]

    def _revealed_headers(self) -> dict[str, str]:
        revealed = {}
        for name, value in self._headers.items():
            revealed[name] = reveal(value, needed_by=f"{self._where}, header {name}")
            _check_value(name, revealed[name], self._where)
        return revealed

    def missing(self) -> list[str]:
        """Check each secret separately, so that all missing ones are named at once."""
        needed = [(one, "secret") for one in self._secrets]
        needed += [(one, f"header {name}") for name, one in self._headers.items()]
        found = []
        for one, what in needed:
            try:
                reveal(one, needed_by=f"{self._where}, {what}")
            except ConfigError as error:
                found.append(str(error))
        return found

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "http",
            "url": self.shown,
            "signed": bool(self._secrets),
            "headers": sorted(self._headers),
            "allow_private": self.allow_private,
        }

    def __repr__(self) -> str:
        return f'http("{self.shown}")'


def http(
    url: str,
    secret: Secret | Sequence[Secret] | None = None,
    headers: Mapping[str, Secret] | None = None,
    *,
    allow_private: bool = False,
    timeout: Duration = "30s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> Http:
    """One POST for each message, signed by Standard Webhooks if there is a secret: one, or a list during a change of
    secrets.

    Secrets and header values are texts, or better `env("NAME")`. `allow_private` allows loopback and private networks.
    """
    return Http(url, secret, headers, allow_private=allow_private, timeout=timeout, attempts=attempts, backoff=backoff)


def _read_secrets(given: Any, where: str) -> tuple[Secret, ...]:
    if given is None:
        return ()
    secrets = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not secrets or not all(isinstance(one, str | Env) for one in secrets):
        message = f'{where}: secret must be a text, env("NAME"), or a list of these'
        raise ConfigError(message)
    KNOWN.learn("secret", *(one for one in secrets if isinstance(one, str)))
    return secrets


def _read_headers(given: Mapping[Any, Any], where: str) -> dict[str, Secret]:
    for name, value in given.items():
        if not isinstance(name, str) or not _HEADER_NAME(name):
            message = f"{where}: {name!r} is not the name of a header"
            raise ConfigError(message)
        if name.lower() in OURS or name.lower().startswith("webhook-"):
            message = f"{where}: the header {name} is set by the channel itself: leave it out"
            raise ConfigError(message)
        if not isinstance(value, str | Env):
            message = f'{where}: the header {name} must be a text or env("NAME")'
            raise ConfigError(message)
        if isinstance(value, str):
            _check_value(name, value, where)
    return dict(given)


def _check_value(name: str, value: str, where: str) -> None:
    if not _HEADER_VALUE(value):
        message = f"{where}: the header {name} is empty, or has a line break, a space at an end, or non-ASCII characters: check its value"
        raise ConfigError(message)


async def _beginning(response: httpx2.Response) -> bytes:
    """The first bytes of an answer, without unpacking them: a small compressed answer must not become a large one."""
    beginning = b""
    async for part in response.aiter_raw():
        beginning += part
        if len(beginning) > ANSWER_LIMIT:
            break
    return beginning[:ANSWER_LIMIT]


def _for_people(text: str) -> str:
    """Foreign text on one line, without control characters that could affect a terminal."""
    line = " ".join(storable(text[:ANSWER_LIMIT]).split())
    return "".join(character if character.isprintable() else "�" for character in line)
