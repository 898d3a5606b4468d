"""A dead man's ping: a URL that hears from us as long as we look, so that somebody outside notices when we do not.

    URL/start   when the watching begins        URL        after each look that went well
    URL/fail    with a few words, when looks fail, or nobody works for an app any more

As Healthchecks has it, and others understand it too. A ping never holds up a look and never ends one: what cannot be sent is
said in the log, and the next look sends its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult

from wakeful.output.channels.addresses import check_url
from wakeful.redaction import redact
from wakeful.secrets import Env, Secret, reveal
from wakeful.service import Service
from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    import httpx2

Signal = Literal["start", "success", "fail"]

TAKES_AT_MOST = 10.0
TRIES = 3
BETWEEN_TRIES = 1.0
BODY_LIMIT = 1_000


def read_ping(given: Secret | None, *, where: str) -> Secret | None:
    """A URL as it is declared. ConfigError for one that cannot be sent to; one of the environment is read when it is used."""
    if given is not None and not isinstance(given, Env):
        address_of(given, where=where)
    return given


def address_of(url: str, *, where: str) -> SplitResult:
    """The URL, taken apart. It is whoever runs Wakeful who gives it, so it may lead to this machine or its network."""
    return check_url(url, where=where, allow_private=True)


class Ping(Service):
    """Sends the latest signal, in the background."""

    name = "ping"

    def __init__(self, url: Secret, *, where: str = "ping", between: float = BETWEEN_TRIES) -> None:
        super().__init__()
        self._parts = address_of(reveal(url, needed_by=where), where=where)
        self._between = between
        self._next: tuple[Signal, str] | None = None
        self._client: httpx2.AsyncClient | None = None
        self._trouble = False
        # The last part of the path is the secret of such a URL.
        self.log = logger_of(part=self.name, host=self._parts.netloc)

    def signal(self, kind: Signal, words: str = "") -> None:
        """Send this, instead of what was not sent yet: only the latest counts."""
        self._next = (kind, words)
        self.wake()

    async def run_once(self) -> float | None:
        """Send what is to be sent; a few times, if it does not get through."""
        waiting, self._next = self._next, None
        if waiting is None:
            return None
        kind, words = waiting
        for number in range(TRIES):
            if number:
                await asyncio.sleep(self._between)
            problem = await self._sent(kind, words)
            if problem is None:
                if self._trouble:
                    self.log.info("the ping gets through again")
                self._trouble = False
                break
            if not self._trouble or number == TRIES - 1:
                self.log.warning("the ping did not get through", problem=problem)
            self._trouble = True
            if self._is_outdated():
                break
        return 0.0 if self._is_outdated() else None

    def _is_outdated(self) -> bool:
        """Is there something newer to send?"""
        return self._next is not None

    async def stop(self) -> None:
        await super().stop()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _sent(self, kind: Signal, words: str) -> str | None:
        """What kept it from getting through, if anything did."""
        import httpx2

        try:
            async with asyncio.timeout(TAKES_AT_MOST):
                answer = await self._ready().post(self.address(kind), content=redact(words)[:BODY_LIMIT].encode())
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            return str(error) or type(error).__name__
        return None if answer.is_success else f"answered {answer.status_code}"

    def address(self, kind: Signal) -> str:
        """Where a signal goes. The query, where there is one, stays behind the path."""
        ending = "" if kind == "success" else f"/{kind}"
        return self._parts._replace(path=self._parts.path.rstrip("/") + ending).geturl()

    def _ready(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            from wakeful.version import __version__

            self._client = httpx2.AsyncClient(
                timeout=TAKES_AT_MOST,
                headers={"user-agent": f"wakeful/{__version__}"},
                follow_redirects=False,
                trust_env=False,
            )
        return self._client
