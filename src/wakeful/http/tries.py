"""Wrong tokens: counted for each address, logged without the token, and slowed.

Ten a minute get 401, further ones 429. The right token is never slowed: behind a proxy all callers have one address, and a stranger
must not be able to lock the owner out. The length of the token makes guessing hopeless, not this limit.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from wakeful.telemetry.logger import logger_of

MOST = 10
WITHIN = 60.0  # seconds
ADDRESSES = 4_096  # remembered; beyond that, the address with the oldest attempt is forgotten
LINES = 60  # log lines within that time, for all addresses together


@dataclass(slots=True)
class AttemptWindow:
    """The times of attempts within the last minute, at most `most`."""

    most: int
    times: list[float] = field(default_factory=list)
    told: bool = False  # a full window was logged

    def take(self, now: float) -> float:
        """Record an attempt. Returns 0, or the seconds until one is allowed."""
        while self.times and self.times[0] <= now - WITHIN:
            self.times.pop(0)
            self.told = False
        if len(self.times) >= self.most:
            return self.times[0] + WITHIN - now
        self.times.append(now)
        return 0.0


class WrongTries:
    """Recent wrong tokens by address. `wrong` counts all since the start, `slowed` those answered with 429."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, what: str = "token") -> None:
        self._what = what
        self.wrong = 0
        self.slowed = 0
        self._now = now
        self._windows: OrderedDict[str, AttemptWindow] = OrderedDict()
        self._lines = AttemptWindow(LINES)

    def add(self, address: str | None) -> float:
        """Count a wrong attempt. Returns the seconds its address has to wait: 0 for the first ten within a minute."""
        now = self._now()
        who = group_of(address)
        window = self._windows.setdefault(who, AttemptWindow(MOST))
        self._windows.move_to_end(who)
        if len(self._windows) > ADDRESSES:
            self._windows.popitem(last=False)
        self.wrong += 1
        wait = window.take(now)
        if not wait:
            self._say(f"a wrong {self._what} was refused", now, address=who, within_a_minute=len(window.times))
            return wait
        self.slowed += 1
        if not window.told:
            window.told = True
            self._say(f"wrong {self._what}s from this address now get 429", now, address=who, seconds=round(wait))
        return wait

    def _say(self, words: str, now: float, **fields: object) -> None:
        """Log a line, limited in number: a stranger with many addresses must not fill the log."""
        if not self._lines.take(now):
            logger_of(part="http").warning(words, **fields, **{f"wrong_{self._what}s": self.wrong})


def group_of(address: str | None) -> str:
    """The key under which attempts are counted: an IPv4 address, or a /64 of IPv6, which is the least that a customer has."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"
