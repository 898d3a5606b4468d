"""An allowance: how many more may come now, where a rate says how many in which time. Kept in this process alone."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.rate import Rate


class Allowance:
    """Whole at first, used up one by one, and filled again evenly: a burst of all of it is allowed, and then the rate holds."""

    __slots__ = ("_at", "_left", "_most", "_per_one")

    def __init__(self, rate: Rate) -> None:
        self._most = float(rate.most)
        self._per_one = rate.within / rate.most
        self._left = self._most
        self._at: Microseconds | None = None

    def wait(self, now: Microseconds) -> Microseconds:
        """How long until one may come; 0: now."""
        if self._at is not None and now > self._at:
            self._left = min(self._most, self._left + (now - self._at) / self._per_one)
        self._at = now  # a clock that was set back gives nothing, and takes nothing
        return 0 if self._left >= 1 else int((1 - self._left) * self._per_one) + 1

    def take(self, now: Microseconds) -> bool:
        """Use one up, if there is one."""
        if self.wait(now):
            return False
        self._left -= 1
        return True
