"""A dead man's ping: a URL that is called as long as the watcher looks, so that a service outside notices when it
stops.

    URL/start   when the watching begins        URL        after each successful look
    URL/fail    with a few words, when looks fail or no process of an app is alive

This is the protocol of Healthchecks, which others understand too. A ping never delays or ends a look: a ping that
cannot be sent is logged, and the next look sends its own.
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
    """Check a declared URL. ConfigError for one that cannot be sent to. A URL in the environment is read when it is
    used.
    """
    if given is not None and not isinstance(given, Env):
        address_of(given, where=where)
    return given


def address_of(url: str, *, where: str) -> SplitResult:
    """The URL, split. The operator gives it, so it may lead to this machine or its network."""
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
        # The last part of the path is the secret of such a URL, so only the host is logged.
        self.log = logger_of(part=self.name, host=self._parts.netloc)

    def signal(self, kind: Signal, words: str = "") -> None:
        """Send this signal instead of one that was not sent yet: only the latest counts."""
        self._next = (kind, words)
        self.wake()

    async def run_once(self) -> float | None:
        """Send the pending signal, with a few retries."""
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
                    self.log.info("the ping works again")
                self._trouble = False
                break
            if not self._trouble or number == TRIES - 1:
                self.log.warning("the ping failed", problem=problem)
            self._trouble = True
            if self._is_outdated():
                break
        return 0.0 if self._is_outdated() else None

    def _is_outdated(self) -> bool:
        """Whether there is a newer signal to send."""
        return self._next is not None

    async def stop(self) -> None:
        await super().stop()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _sent(self, kind: Signal, words: str) -> str | None:
        """Send a signal. Returns the problem, or None."""
        import httpx2

        try:
            async with asyncio.timeout(TAKES_AT_MOST):
                answer = await self._ready().post(self.address(kind), content=redact(words)[:BODY_LIMIT].encode())
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            return str(error) or type(error).__name__
        return None if answer.is_success else f"answered {answer.status_code}"

    def address(self, kind: Signal) -> str:
        """The URL of a signal. A query stays after the path."""
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
