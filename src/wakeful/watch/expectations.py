"""`app.expect(…)`: what should happen by when, as declared, and as stored for watchers that do not have the code.

    expect("nightly backup", by="03:00", days="mon-fri")     by      a deadline on each of these days
    expect(source="stripe", at_least_every="1d")             every   never longer than this without one
    expect(agent="digest", output_within="2h")               output  each run brings an output in time

A check-in of its name meets it, or an event, anything from a source, or a run of an agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from wakeful.clock import Duration, Microseconds, duration, readable
from wakeful.errors import ConfigError, did_you_mean
from wakeful.triggers.cron import Cron, cron
from wakeful.triggers.zones import zone_named

CHECKIN = "wakeful.checkin"
ExpectationKind = Literal["by", "every", "output"]
NAME_LIMIT = 200
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)").fullmatch


@dataclass(frozen=True, slots=True)
class Expectation:
    """What should happen by when. Spans are microseconds."""

    name: str
    by: str | None = None
    zone: str | None = None
    days: str | None = None
    every: Microseconds | None = None
    output_within: Microseconds | None = None
    event: str | None = None  # the type of an event
    subject: str | None = None  # the name, for a check-in
    source: str | None = None
    agent: str | None = None
    owner: str | None = None

    @property
    def kind(self) -> ExpectationKind:
        return "by" if self.by is not None else "output" if self.output_within is not None else "every"

    @property
    def deadlines(self) -> Cron:
        """The deadlines, as the occurrences of a rule."""
        if self.by is None:
            message = f"expectation {self.name} has no time of the day"
            raise ValueError(message)
        hour, minute = self.by.split(":")
        return Cron(f"{int(minute)} {int(hour)} * * {self.days or '*'}", self.zone or "UTC")

    def definition(self) -> dict[str, Any]:
        """The expectation as JSON, without the fields that have columns of their own."""
        return {name: value for name in DEFINED if (value := getattr(self, name)) is not None}

    @property
    def what(self) -> str:
        """What meets it, for use after "no": "event from stripe"."""
        if self.agent is not None:
            return f"{'output' if self.output_within is not None else 'finished run'} of agent {self.agent}"
        if self.source is not None:
            return f"event from {self.source}"
        if self.event == CHECKIN and self.subject == self.name:
            return f'check-in "{self.name}"'
        return f"event of type {self.event}"

    def describe(self) -> str:
        if self.by is not None:
            days = "" if self.days is None else f" on {self.days}"
            return f"{self.what} by {self.by} {self.zone}{days}"
        within = "" if self.output_within is None else f"within {readable(self.output_within)}"
        every = "" if self.every is None else f"at least every {readable(self.every)}"
        return " ".join(part for part in (self.what, within, every) if part)


DEFINED = tuple(one.name for one in fields(Expectation) if one.name not in {"name", "agent", "owner"})
OPTIONS = ("by", "tz", "days", "at_least_every", "output_within", "event", "source", "agent", "owner")


def read_definition(name: str, definition: Mapping[str, Any], agent: str | None, owner: str | None) -> Expectation:
    """A stored expectation. Fields that a newer version of Wakeful added are ignored."""
    known = {field: definition[field] for field in DEFINED if field in definition}
    return Expectation(name, **known, agent=agent, owner=owner)


def read_expectation(name: str | None, options: Mapping[str, Any], *, app: str) -> Expectation:
    """Read a declaration. ConfigError for options that make no sense."""
    where = f"app {app}: expect({name!r})" if name is not None else f"app {app}: expect(…)"
    for option in options:
        if option not in OPTIONS:
            raise ConfigError(f'{where}: unknown option "{option}".{did_you_mean(option, OPTIONS)}')
    texts = {option: _text(option, options.get(option), where) for option in ("event", "source", "agent")}
    met_by = [option for option in ("event", "source", "agent") if texts[option] is not None]
    if len(met_by) > 1:
        raise ConfigError(f"{where}: {' and '.join(met_by)} together: only one of them can meet it, so give one")
    by, every, within = (options.get(option) for option in ("by", "at_least_every", "output_within"))
    if by is None and every is None and within is None:
        raise ConfigError(f'{where}: no deadline: give by="03:00", at_least_every="1d" or output_within="2h"')
    if by is not None and (every is not None or within is not None):
        raise ConfigError(
            f"{where}: by is a time of the day and cannot be combined with at_least_every or output_within"
        )
    if within is not None and texts["agent"] is None:
        raise ConfigError(f"{where}: output_within is about the runs of an agent: give agent= too")
    if by is None and (options.get("days") is not None or options.get("tz") is not None):
        raise ConfigError(f"{where}: days and tz go with by=")
    chosen = _name(name, texts, where)
    if not met_by:
        texts |= {"event": CHECKIN, "subject": chosen}
    return Expectation(
        chosen,
        **(_deadline(by, options.get("tz"), options.get("days"), where) if by is not None else {}),
        every=None if every is None else _span("at_least_every", every, where),
        output_within=None if within is None else _span("output_within", within, where),
        owner=_text("owner", options.get("owner"), where),
        **texts,
    )


def _name(name: str | None, texts: Mapping[str, str | None], where: str) -> str:
    """Its own name, else the name of what meets it."""
    if name is None:
        named = next((f"{option} {text}" for option in ("agent", "source", "event") if (text := texts[option])), None)
        if named is None:
            raise ConfigError(f"{where}: nothing to expect: give it a name, or source=, event= or agent=")
        return named[:NAME_LIMIT]
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise ConfigError(f"{where}: a name is a text of at most {NAME_LIMIT} characters on one line")
    return str.__str__(name)


def _deadline(by: Any, tz: str | None, days: str | None, where: str) -> dict[str, str | None]:
    found = _TIME(by) if isinstance(by, str) else None
    if found is None:
        raise ConfigError(f'{where}: by is a time of the day, like "03:00", not {by!r}')
    zone = zone_named(tz, where=where)
    if days is not None:
        try:
            cron(f"0 0 * * {''.join(days.split())}", tz=zone.key)
        except (ConfigError, AttributeError):
            raise ConfigError(f'{where}: days are like "mon-fri" or "mon,thu", not {days!r}') from None
    return {"by": f"{int(found[1]):02}:{found[2]}", "zone": zone.key, "days": days and "".join(days.split())}


def _text(option: str, value: Any, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {option} must be a text, not {value!r}")
    return str.__str__(value)


def _span(option: str, value: Duration, where: str) -> Microseconds:
    try:
        span = duration(value)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {option}: {error}") from None
    if span <= 0:
        raise ConfigError(f"{where}: {option} must be longer than zero")
    return span
