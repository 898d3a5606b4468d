"""Limits on what a client may take of the HTTP server: time, bytes, connections, file descriptors.

Times and numbers of connections are settings from the environment. Sizes are fixed: no sender known to Wakeful comes
near them.

    descriptors of the process   |  the store, runs, files (at least a quarter) |  HTTP (at most half)  |
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from wakeful.clock import duration, seconds
from wakeful.errors import ConfigError
from wakeful.settings import http_setting
from wakeful.size import read_size

HEAD_LIMIT = 32 * 1024
"""Bytes of a request line with its headers, and of trailers and chunk overhead in excess of the body."""
HEADERS_LIMIT = 256
PIPELINE_LIMIT = 16
"""Requests that may wait on one connection for the answer to an earlier one."""
DISCARDED_LIMIT = 1024 * 1024
"""Bytes of a body that are read and discarded after the request was answered."""

MOST_CONNECTIONS = 1_000
FEWEST_CONNECTIONS = 8


@dataclass(frozen=True)
class HttpLimits:
    """Seconds, bytes a second, and numbers of connections."""

    headers_within: float = 10.0
    """From the first byte of a request, or from the connection, to the end of the headers."""
    body_within: float = 30.0
    """For a body; each received byte extends the time at the least speed."""
    least_speed: float = 1024.0
    """Bytes a second, on average, for a body beyond `body_within` and for an answer that waits to be read."""
    answer_within: float = 30.0
    """Time in which a client must read as much of an answer as the least speed demands."""
    idle_for: float = 5.0
    """Between two requests on one connection."""
    connections: int = MOST_CONNECTIONS
    per_address: int = MOST_CONNECTIONS // 2
    descriptors: float = math.inf
    """The number of the first descriptor that is reserved for the rest of the process."""

    @property
    def look_every(self) -> float:
        """Seconds between two looks at the connections: 1, or less if a limit is so short that 1 would be too coarse."""
        shortest = min(self.headers_within, self.body_within, self.answer_within, self.idle_for)
        return min(1.0, max(0.01, shortest / 4))


def http_limits(environment: Mapping[str, str] | None = None, *, allowed: float | None = None) -> HttpLimits:
    """The limits set by the environment. `allowed` is the number of descriptors of this process; None asks the system.

    Raises ConfigError if a variable is invalid or demands more than the descriptors allow.
    """
    most = descriptors_allowed() if allowed is None else allowed
    default = MOST_CONNECTIONS if most == math.inf else max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, int(most) // 2))
    connections = _number("WAKEFUL_HTTP_CONNECTIONS", environment, default)
    if connections > default and connections > most // 2:
        message = (
            f"WAKEFUL_HTTP_CONNECTIONS={connections} needs {2 * connections} file descriptors, because HTTP may use half of them, "
            f"and this process may open {most:g}: raise the limit (ulimit -n, LimitNOFILE=), or allow fewer connections"
        )
        raise ConfigError(message)
    return HttpLimits(
        headers_within=_time("WAKEFUL_HTTP_HEADERS_WITHIN", environment, HttpLimits.headers_within),
        body_within=_time("WAKEFUL_HTTP_BODY_WITHIN", environment, HttpLimits.body_within),
        least_speed=_speed("WAKEFUL_HTTP_LEAST_SPEED", environment, HttpLimits.least_speed),
        answer_within=_time("WAKEFUL_HTTP_ANSWER_WITHIN", environment, HttpLimits.answer_within),
        idle_for=_time("WAKEFUL_HTTP_IDLE_FOR", environment, HttpLimits.idle_for),
        connections=connections,
        per_address=_number("WAKEFUL_HTTP_CONNECTIONS_PER_ADDRESS", environment, max(1, connections // 2)),
        descriptors=most if most == math.inf else most - most // 4,
    )


def descriptors_allowed() -> float:
    """The number of descriptors this process may open; infinity if the system has no limit."""
    with contextlib.suppress(ImportError):  # Windows has no such module
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return soft
    return math.inf


# one variable


def _time(name: str, environment: Mapping[str, str] | None, default: float) -> float:
    given = http_setting(name, environment)
    if given is None:
        return default
    try:
        span = seconds(duration(given))
    except ValueError as error:
        message = f"{name}: {error}"
        raise ConfigError(message) from None
    if span <= 0:
        message = f"{name} must be longer than 0, like 10s, not {given!r}"
        raise ConfigError(message)
    return span


def _speed(name: str, environment: Mapping[str, str] | None, default: float) -> float:
    given = http_setting(name, environment)
    if given is None:
        return default
    try:
        return float(read_size(given))
    except ValueError:
        message = f"{name} must be bytes per second, like 1KiB or 500B, not {given!r}"
        raise ConfigError(message) from None


def _number(name: str, environment: Mapping[str, str] | None, default: int) -> int:
    given = http_setting(name, environment)
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal()) or int(given) < 1:
        message = f"{name} must be a whole number from 1, like 200, not {given!r}"
        raise ConfigError(message)
    return int(given)
