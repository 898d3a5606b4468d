"""Wrong tokens: counted for each address, logged without the token, and slowed.

Ten a minute are answered 401, further ones 429. The right token is never slowed: behind a proxy all callers have one address,
and a stranger must not be able to lock the owner out. A guess is hopeless by the length of the token, not by this limit.
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
ADDRESSES = 4_096  # that are remembered; beyond that the address that was quiet for longest is forgotten
LINES = 60  # of the log within that time, for all addresses together


@dataclass(slots=True)
class Window:
    """What happened within the last minute, at most `most` times."""

    most: int
    times: list[float] = field(default_factory=list)
    told: bool = False  # that it is full

    def take(self, now: float) -> float:
        """Take a place. Returns 0, or how many seconds it takes until one is free."""
        while self.times and self.times[0] <= now - WITHIN:
            self.times.pop(0)
            self.told = False
        if len(self.times) >= self.most:
            return self.times[0] + WITHIN - now
        self.times.append(now)
        return 0.0


class WrongTries:
    """Wrong tokens of late, by address. `wrong` counts all since the start, `slowed` those that were answered 429."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.wrong = 0
        self.slowed = 0
        self._now = now
        self._windows: OrderedDict[str, Window] = OrderedDict()
        self._lines = Window(LINES)

    def add(self, address: str | None) -> float:
        """Count a wrong try. Returns how many seconds its address has to wait: 0 while it had fewer than ten within a minute."""
        now = self._now()
        who = group_of(address)
        window = self._windows.setdefault(who, Window(MOST))
        self._windows.move_to_end(who)
        if len(self._windows) > ADDRESSES:
            self._windows.popitem(last=False)
        self.wrong += 1
        wait = window.take(now)
        if not wait:
            self._say("a wrong token was refused", now, address=who, within_a_minute=len(window.times))
            return wait
        self.slowed += 1
        if not window.told:
            window.told = True
            self._say("wrong tokens of this address are answered 429 now", now, address=who, seconds=round(wait))
        return wait

    def _say(self, words: str, now: float, **fields: object) -> None:
        """Lines are limited too: a stranger with many addresses must not fill the log."""
        if not self._lines.take(now):
            logger_of(part="http").warning(words, **fields, wrong_tokens=self.wrong)


def group_of(address: str | None) -> str:
    """Whose tries count together: those of one address, and of one /64 with IPv6, where a customer has at least that many."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"
