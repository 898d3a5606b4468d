"""All open connections of an HTTP server: their number, their origin, and which of them exceeded a time limit.

Time is a counter of this module, advanced by one look a second over all connections. A request thus needs no timer, and
seconds in which a handler blocked the event loop count as one look: the server could not read its clients meanwhile.
"""

from __future__ import annotations

import math
import socket
from collections import Counter
from typing import TYPE_CHECKING, cast

from uvicorn.server import ServerState

from wakeful.cli.http_refusals import TOO_MANY, TOO_MANY_OF_ADDRESS, Refusal
from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    from wakeful.cli.http_connection import Connection
    from wakeful.cli.http_limits import HttpLimits

TELL_EVERY = 60.0


class Connections(ServerState):
    """uvicorn's state of its connections, with counts of admitted and refused ones."""

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__()
        self.limits = limits
        self.now = 0.0
        self.admitted = 0
        self.of_network: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._told_at = -math.inf
        self._log = logger_of(part="http")

    def admit(self, descriptor: int, network: str) -> Refusal | None:
        """Count one more connection, or return the reason to refuse it.

        A new descriptor gets the lowest free number, so the number tells how many the whole process uses.
        """
        if descriptor >= self.limits.descriptors or self.admitted >= self.limits.connections:
            return TOO_MANY
        if self.of_network[network] >= self.limits.per_address:
            return TOO_MANY_OF_ADDRESS
        self.admitted += 1
        self.of_network[network] += 1
        return None

    def release(self, network: str) -> None:
        self.admitted -= 1
        self.of_network[network] -= 1
        if not self.of_network[network]:
            del self.of_network[network]

    def count(self, refusal: Refusal) -> None:
        self.refused[refusal.name] += 1

    def look(self, elapsed: float) -> None:
        """Advance the time, and close the connections that exceeded a limit."""
        self.now += elapsed
        for connection in cast("list[Connection]", list(self.connections)):
            try:
                connection.look(elapsed)
            except Exception as error:  # a bug with one connection must not disable the limits of all others
                self._log.error("checking an HTTP connection failed; the connection is closed", error=repr(error))
                connection.transport.abort()
        if self.now - self._told_at >= TELL_EVERY and self.refused != self._told:
            new = self.refused - self._told
            self._log.warning("HTTP connections were refused or cut off", open=self.admitted, **new)
            self._told, self._told_at = self.refused.copy(), self.now


def network_of(host: str) -> str:
    """The address that connections are counted under: the whole IPv4 address, or the first 64 bits of an IPv6 address,
    because one customer owns all of those.

    >>> network_of("192.0.2.7"), network_of("2001:db8:0:1:2:3:4:5"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:0:1::', '192.0.2.7')
    """
    if ":" not in host:
        return host
    if host.startswith("::ffff:") and "." in host:
        return host[7:]
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))
