"""The HTTP client that channels share: guarded, made once and kept open, with errors that say where and what.

    2xx                       an answer
    3xx                       Persistent: redirects are not followed
    other statuses            HTTPStatusError with the beginning of the answer; `failures.py` sorts it by its status
    no connection, no answer  Transient; its cause tells whether the request may have arrived

`addresses.py` says where requests may go. Proxies from the environment are not used: behind a proxy this process could
not see which address is connected to.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.clock import Duration, Microseconds, readable, seconds
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.functions.options import Backoff, read_options
from wakeful.output.channels.addresses import Resolve, check_url, resolve
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal
from wakeful.stored_errors import storable

if TYPE_CHECKING:
    import httpx2

ANSWER_LIMIT = 2_000  # bytes of an answer that are read, and characters of it that are shown
JSON_LIMIT = 16_000_000  # bytes of an answer that is to be understood
LINGER = (
    1.0  # seconds for the rest of an answer that is only shown or thrown away; after that its connection is dropped
)
LINK_LIMIT = 2_000
_LINK = re.compile(r"https?://[\x21-\x7e]+").fullmatch
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?").fullmatch


@dataclass(frozen=True, slots=True)
class Trying:
    """How long one request may take, and how often it is retried."""

    timeout: Microseconds | None
    attempts: int | None
    backoff: Backoff


@dataclass(frozen=True, slots=True)
class Answer:
    """A success. `json` is None if the answer was not JSON or did not arrive whole: what was asked for is done even so."""

    status: int
    headers: Mapping[str, str]
    json: Any = None


def read_trying(
    where: str, timeout: Duration, attempts: int | None, backoff: Backoff | Duration
) -> tuple[Trying, Microseconds]:
    """The declared options of a channel's requests, checked, and the time limit of one."""
    trying = read_options(Trying, {"timeout": timeout, "attempts": attempts, "backoff": backoff}, where=where)
    if trying.timeout is None:
        message = f'{where}: timeout: a request needs a time limit, like "30s"'
        raise ConfigError(message)
    return trying, trying.timeout


class Client:
    """Requests of one channel."""

    def __init__(self, where: str, limit: Microseconds, *, allow_private: bool, resolve: Resolve = resolve) -> None:
        self._where = where
        self._limit = limit
        self._allow_private = allow_private
        self._resolve = resolve
        self._made: httpx2.AsyncClient | None = None

    def ready(self) -> httpx2.AsyncClient:
        """The client itself, kept open between messages."""
        if self._made is None:
            import httpx2

            from wakeful.output.channels.transport import GuardedBackend, GuardedTransport
            from wakeful.version import __version__

            self._made = httpx2.AsyncClient(
                transport=GuardedTransport(GuardedBackend(allow_private=self._allow_private, resolve=self._resolve)),
                timeout=seconds(self._limit),
                headers={"user-agent": f"wakeful/{__version__}", "accept-encoding": "identity"},
                follow_redirects=False,
                trust_env=False,
            )
        return self._made

    async def close(self) -> None:
        client, self._made = self._made, None
        if client is not None:
            await client.aclose()

    async def send(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> None:
        """Make a request whose answer is only judged."""
        import httpx2

        async with self._asked(method, url, headers, content) as response:
            # Reading it to the end lets the connection be reused. The message is delivered whether or not that works.
            with suppress(httpx2.TransportError, TimeoutError):
                async with asyncio.timeout(LINGER):
                    await _beginning(response, ANSWER_LIMIT)

    async def ask(self, method: str, url: str, headers: Mapping[str, str], body: Any = None) -> Answer:
        """Make a request whose answer is JSON."""
        import httpx2

        content = b"" if body is None else to_json(body)
        kind = {} if body is None else {"content-type": "application/json"}
        async with self._asked(method, url, {**headers, **kind}, content) as response:
            found = None
            # A success is a success, whatever becomes of the rest of its answer.
            with suppress(httpx2.TransportError, ValueError):
                found = from_json(await _beginning(response, JSON_LIMIT))
            return Answer(response.status_code, response.headers, found)

    @asynccontextmanager
    async def _asked(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes
    ) -> AsyncIterator[httpx2.Response]:
        import httpx2

        try:
            async with self.ready().stream(method, url, content=content, headers=headers) as response:
                if not response.is_success:
                    await self._refuse(response)
                yield response
        except httpx2.TimeoutException as error:
            words = str(error) or f"no answer within {readable(self._limit)}"
            raise Transient(f"{self._where}: {words}") from error
        except httpx2.TransportError as error:
            raise Transient(f"{self._where}: {error or type(error).__name__}") from error
        except httpx2.InvalidURL as error:
            raise ConfigError(f"{self._where}: {error}") from error

    async def _refuse(self, response: httpx2.Response) -> None:
        """Raise the error of an answer. Its body is foreign text: a little of it is read, only to be shown."""
        import httpx2

        status = response.status_code
        if 300 <= status < 400:
            leads = for_people(response.headers.get("location", "nowhere"))
            message = (
                f"{self._where} answered {status}, a redirect to {leads}: redirects are not followed, "
                "declare the channel with the final address"
            )
            raise Persistent(message)
        words = ""
        with suppress(httpx2.TransportError, TimeoutError):
            async with asyncio.timeout(LINGER):
                words = for_people((await _beginning(response, ANSWER_LIMIT)).decode("utf-8", "replace"))
        message = f"{self._where} answered {status}" + (f": {words}" if words else "")
        raise httpx2.HTTPStatusError(message, request=response.request, response=response)


def read_secret(given: Any, what: str, where: str) -> Secret:
    """A declared secret: a text, or env(…)."""
    return read_secrets(given, what, where, several=False)[0]


def read_secrets(given: Any, what: str, where: str, *, several: bool = True) -> tuple[Secret, ...]:
    """Declared secrets: one, or a list of them."""
    secrets = tuple(given) if several and isinstance(given, list | tuple) else (given,)
    if not secrets or not all(isinstance(one, str | Env) for one in secrets):
        form = ', env("NAME"), or a list of these' if several else ' or env("NAME")'
        message = f"{where}: {what} must be a text{form}"
        raise ConfigError(message)
    KNOWN.learn("secret", *(one for one in secrets if isinstance(one, str)))
    return secrets


def missing_secrets(needed: Sequence[tuple[Secret, str]], where: str) -> list[str]:
    """What is missing here, by its use. Each secret is checked separately, so that all missing ones are named at once."""
    found = []
    for one, what in needed:
        try:
            reveal(one, needed_by=f"{where}, {what}")
        except ConfigError as error:
            found.append(str(error))
    return found


def check_header_value(name: str, value: str, where: str) -> None:
    """Refuse a value that would end its header. The value may be a secret, so it is not shown."""
    if not _HEADER_VALUE(value):
        message = f"{where}: the header {name} is empty, or has a line break, a space at an end, or non-ASCII characters: check its value"
        raise ConfigError(message)


def for_people(text: str) -> str:
    """Foreign text on one line, without control characters that could affect a terminal."""
    line = " ".join(storable(text[:ANSWER_LIMIT]).split())
    return "".join(character if character.isprintable() else "�" for character in line)


async def _beginning(response: httpx2.Response, limit: int) -> bytes:
    """The first bytes of an answer, without unpacking them: a small compressed answer must not become a large one."""
    beginning = bytearray()
    async for part in response.aiter_raw():
        beginning += part
        if len(beginning) > limit:
            break
    return bytes(beginning[:limit])


def check_service(url: str, where: str, *, allow_private: bool) -> str:
    """The declared address of a service, without a slash at its end. A token goes there, so it is https, except inside a private network."""
    parts = check_url(url, where=where, allow_private=allow_private)
    if parts.query or parts.fragment:
        message = f"{where}: the address of the service has a query or a fragment: leave it out"
        raise ConfigError(message)
    if parts.scheme != "https" and not allow_private:
        message = f"{where}: the token would be sent without encryption: write https://, or declare it with allow_private=True"
        raise ConfigError(message)
    return parts.geturl().rstrip("/")


def link_of(value: Any) -> str | None:
    """A link that a service answered, if it is one."""
    if not isinstance(value, str) or len(value) > LINK_LIMIT or not _LINK(value):
        return None
    return value
