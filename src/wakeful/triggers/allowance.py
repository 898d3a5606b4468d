"""A token bucket for a rate, kept in this process only."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.rate import Rate


class Allowance:
    """Starts full, is used up one by one and refills evenly: a full burst is allowed, and then the rate holds."""

    __slots__ = ("_at", "_left", "_most", "_per_one")

    def __init__(self, rate: Rate) -> None:
        self._most = float(rate.most)
        self._per_one = rate.within / rate.most
        self._left = self._most
        self._at: Microseconds | None = None

    def wait(self, now: Microseconds) -> Microseconds:
        """How long until the next one is allowed; 0: now."""
        if self._at is not None and now > self._at:
            self._left = min(self._most, self._left + (now - self._at) / self._per_one)
        self._at = now  # a clock that was set back neither adds nor removes allowance
        return 0 if self._left >= 1 else int((1 - self._left) * self._per_one) + 1

    def take(self, now: Microseconds) -> bool:
        """Use one up; False if none is left."""
        if self.wait(now):
            return False
        self._left -= 1
        return True
