"""All open connections of an HTTP server: how many there are, from where, and which of them have used up their time.

Time is a number of this file's own, moved on by one look a second over all connections. So a request costs no timer, and seconds in
which the event loop was blocked by a handler count only as one look: what the clients sent meanwhile could not be read.
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
    """What uvicorn keeps of its connections, and what is counted of them."""

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
        """Count one more connection, unless it is one too many: then say why. The lowest free number is what a new descriptor gets, so
        the number tells how many are in use in the whole process.
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
        """Move the time on, and close the connections that have used up theirs."""
        self.now += elapsed
        for connection in cast("list[Connection]", list(self.connections)):
            try:
                connection.look(elapsed)
            except Exception as error:  # a mistake about one connection must not leave all others without an end
                self._log.error("an HTTP connection could not be looked at; it is closed", error=repr(error))
                connection.transport.abort()
        if self.now - self._told_at >= TELL_EVERY and self.refused != self._told:
            new = self.refused - self._told
            self._log.warning("HTTP connections were refused or cut off", open=self.admitted, **new)
            self._told, self._told_at = self.refused.copy(), self.now


def network_of(host: str) -> str:
    """The address that connections are counted under: a whole IPv4 address; of IPv6 the first 64 bits, because one customer has
    them all.

    >>> network_of("192.0.2.7"), network_of("2001:db8:0:1:2:3:4:5"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:0:1::', '192.0.2.7')
    """
    if ":" not in host:
        return host
    if host.startswith("::ffff:") and "." in host:
        return host[7:]
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))
