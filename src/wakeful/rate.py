"""A rate: a count per time span. Used by agents, and for runs that come back after a pause."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import SECOND, Microseconds, duration, readable


@dataclass(frozen=True, slots=True)
class Rate:
    """At most this many starts within a time span: "100/m".

    >>> Rate.read("100/m")
    Rate(most=100, within=60000000)
    """

    most: int
    within: Microseconds

    @classmethod
    def read(cls, text: str) -> Rate:
        """Read "100/m", "5/10s" or "1/h". ValueError says how to write one."""
        most, slash, unit = text.partition("/") if isinstance(text, str) else ("", "", "")
        try:
            span = duration(unit.strip() if unit.strip()[:1].isdigit() else f"1{unit.strip()}")
            if not slash or int(most) < 1 or span < SECOND // 1000:
                raise ValueError
        except ValueError:
            message = f'{text!r} is not a rate: write a count and a time span, like "100/m", "5/10s" or "1/h"'
            raise ValueError(message) from None
        return cls(int(most), span)

    def __str__(self) -> str:
        return f"{self.most} in {readable(self.within)}"
