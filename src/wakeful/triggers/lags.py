"""How far a source may lag before an alarm is raised: one limit for all sources of an app, or one for each by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wakeful.clock import Duration, Microseconds, duration
from wakeful.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Lags:
    """The limits that an app declares. A limit of 0 means no alarm, however far behind the source is."""

    usual: Microseconds | None = None  # None: the watcher's own default
    named: Mapping[str, Microseconds] = field(default_factory=dict)

    def within(self, source: str) -> Microseconds | None:
        return self.named.get(source, self.usual)


def read_lags(given: Duration | Mapping[str, Duration | None] | None, *, where: str) -> Lags:
    """Read `lag_within="15m"`, or `lag_within={"orders": "1h", "archive": None}`. Raises ConfigError for anything else."""
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str) or not name:
                message = f"{where}: lag_within: the name of a source is a non-empty text, not {name!r}"
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
