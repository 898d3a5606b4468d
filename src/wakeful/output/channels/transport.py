"""A transport for httpx2 that connects only to allowed addresses.

    client ─► GuardedTransport ─► pool ─► GuardedBackend ─► addresses_of(host) ─► connect to one of these
                                    └───► TLS, with the name that the URL has

The check is where sockets are opened, so nothing bypasses it: no other spelling, no redirect, no name that resolves
differently the second time. Host header, SNI and the certificate's name are still those of the URL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import httpcore2
import httpx2

from wakeful.output.channels.addresses import Resolve, addresses_of, resolve

MOST_CONNECTIONS = 10
KEPT_OPEN_FOR = 30.0

_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections after checking where they lead. It opens no Unix sockets."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        resolve: Resolve = resolve,
        inner: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._resolve = resolve
        self._inner = inner or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                try:
                    addresses = await addresses_of(host, port, allow_private=self._allow_private, resolve=self._resolve)
                except (OSError, UnicodeError) as error:
                    message = f"{host} cannot be resolved: {error}"
                    raise httpcore2.ConnectError(message) from error
                return await self._first(host, addresses, port, scope, local_address, socket_options)
        except TimeoutError as error:
            message = f"no connection to {host} within {timeout:g} s"
            raise httpcore2.ConnectTimeout(message) from error

    async def _first(
        self,
        host: str,
        addresses: list[str],
        port: int,
        scope: asyncio.Timeout,
        local_address: str | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers. Each gets its share of the time left, so that a silent one leaves
        some for the rest.
        """
        reasons = []
        for place, address in enumerate(addresses):
            until = scope.when()
            left = None if until is None else until - asyncio.get_running_loop().time()
            share = None if left is None else left / (len(addresses) - place)
            try:
                return await self._inner.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                reasons.append(f"{address}: {str(error) or 'no answer'}")
        message = f"{host} cannot be reached ({'; '.join(reasons) or 'it has no address'})"
        raise httpcore2.ConnectError(message)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """A transport for a client: `httpx2.AsyncClient(transport=GuardedTransport(), trust_env=False)`.

    It supports no proxy: the connection would go to the proxy's address, and the check would see nothing.
    """

    def __init__(self, backend: GuardedBackend | None = None) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=KEPT_OPEN_FOR,
            network_backend=backend or GuardedBackend(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        with _as_httpx():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=cast("httpx2.AsyncByteStream", request.stream),
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Stream(cast("httpx2.AsyncByteStream", answer.stream)),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Stream(httpx2.AsyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._inner:
                yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Raise the pool's errors as the client's, which have the same names."""
    try:
        yield
    except _FAILURES as error:
        kind = getattr(httpx2, type(error).__name__)
        raise kind(str(error)) from error
