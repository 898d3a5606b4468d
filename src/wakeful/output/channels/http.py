"""`http("https://example.com/hook", secret=env("HOOK_SECRET"))`: each message is one signed POST.

    2xx                         delivered
    429, 408, 5xx, no answer    retried with the same webhook-id, after Retry-After if the answer has it
    3xx, other 4xx              a dead letter: the same request would get the same answer

`client.py` makes the requests, `addresses.py` says where they may go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.clock import Duration
from wakeful.errors import ConfigError
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, check_url, resolve, shown_url
from wakeful.output.channels.base import Channel, Message, Surroundings
from wakeful.output.channels.client import Client, check_header_value, missing_secrets, read_secrets, read_trying
from wakeful.output.channels.record import to_record
from wakeful.secrets import Env, Secret, reveal
from wakeful.signing import read_key, sign

OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch


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
        trying, limit = read_trying(self._where, timeout, attempts, backoff)
        self.timeout, self.attempts, self.backoff = timeout, trying.attempts, trying.backoff
        self._secrets = () if secret is None else read_secrets(secret, "secret", self._where)
        self._headers = _read_headers(headers or {}, self._where)
        self._client = Client(self._where, limit, allow_private=allow_private, resolve=resolve)
        for one in self._secrets:
            if not isinstance(one, Env):
                read_key(one, needed_by=self._where)

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report missing environment variables now, not with the first message."""
        self._keys()
        self._revealed_headers()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._post(message)

    async def _post(self, message: Message) -> None:
        body = to_record(message)
        headers = {
            **self._revealed_headers(),
            "content-type": "application/json",
            # Real time, which the other side compares it with, and not a test's clock.
            **sign(self._keys(), message.id, int(time.time()), body),
        }
        await self._client.send("POST", self._parts.geturl(), headers, body)

    def _keys(self) -> list[bytes]:
        return [read_key(reveal(one, needed_by=self._where), needed_by=self._where) for one in self._secrets]

    def _revealed_headers(self) -> dict[str, str]:
        revealed = {}
        for name, value in self._headers.items():
            revealed[name] = reveal(value, needed_by=f"{self._where}, header {name}")
            check_header_value(name, revealed[name], self._where)
        return revealed

    def missing(self) -> list[str]:
        needed = [(one, "secret") for one in self._secrets]
        needed += [(one, f"header {name}") for name, one in self._headers.items()]
        return missing_secrets(needed, self._where)

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
            check_header_value(name, value, where)
    return dict(given)
