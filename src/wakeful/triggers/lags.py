"""How far behind a source may be before that is an alarm: one bound for all of an app's sources, or one for each by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wakeful.clock import Duration, Microseconds, duration
from wakeful.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Lags:
    """What an app declares. A bound of 0 is none: however far behind it is, nobody hears of it."""

    usual: Microseconds | None = None  # None: the watcher's own default
    named: Mapping[str, Microseconds] = field(default_factory=dict)

    def within(self, source: str) -> Microseconds | None:
        return self.named.get(source, self.usual)


def read_lags(given: Duration | Mapping[str, Duration | None] | None, *, where: str) -> Lags:
    """Out of `lag_within="15m"`, or `lag_within={"orders": "1h", "archive": None}`. ConfigError for anything else."""
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str) or not name:
                message = f"{where}: lag_within: the name of a source is a text that is not empty, not {name!r}"
                raise ConfigError(message)
        return Lags(named={name: _bound(value, f"{where}: lag_within of {name}") for name, value in given.items()})
    return Lags(_bound(given, f"{where}: lag_within"))


def _bound(value: Duration | None, where: str) -> Microseconds:
    if value is None:
        return 0
    try:
        return duration(value)
    except (TypeError, ValueError) as error:
        message = f"{where}: {error}"
        raise ConfigError(message) from None
