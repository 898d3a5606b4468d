"""The facts that policy reads: values only, and a rule reads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from wakeful.clock import Duration, Microseconds, duration, from_datetime, to_second, written
from wakeful.model import Decision, Event
from wakeful.policy.loops import Chain

Place = Literal["effect", "admission", "schedule"]


@dataclass(frozen=True, slots=True)
class FactValue:
    """A value that a run knows, and how long it may be trusted. Made by `fact`."""

    value: Any
    as_of: Microseconds | None = None
    max_age: Microseconds | None = None  # None: it never gets too old

    def is_stale(self, now: Microseconds) -> bool:
        return self.as_of is not None and self.max_age is not None and now - self.as_of > self.max_age

    def age_in_words(self) -> str:
        """When it was true, and for how long it may be trusted."""
        return f"as of {to_second(self.as_of)}, at most {written(self.max_age or 0)} old"


def fact(
    value: Any, *, as_of: datetime | str | Microseconds | None = None, max_age: Duration | None = None
) -> FactValue:
    """A fact with an age limit: `fact("ada", as_of=row.updated_at, max_age="1h")`. Policy treats it as missing once it
    is older than that. `as_of` is a datetime, RFC 3339 text, or microseconds since 1970. ValueError or TypeError for
    arguments that make no sense.
    """
    if max_age is not None and as_of is None:
        raise ValueError("fact(max_age=…) needs as_of=…: the time at which the value was true")
    limit = None if max_age is None else duration(max_age)
    if limit is not None and limit <= 0:
        raise ValueError(f"fact(max_age={max_age!r}): the age limit must be longer than nothing")
    return FactValue(value, None if as_of is None else _moment(as_of), limit)


def _moment(as_of: object) -> Microseconds:
    if isinstance(as_of, datetime):
        return from_datetime(as_of)
    if isinstance(as_of, str):
        try:
            return from_datetime(datetime.fromisoformat(as_of.strip()))
        except ValueError:
            raise ValueError(f'fact(as_of={as_of!r}): write a time like "2026-03-01T08:00Z"') from None
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        return as_of
    raise TypeError(f"fact(as_of={as_of!r}): give a datetime, text like 2026-03-01T08:00Z, or microseconds since 1970")


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """The facts when an event is about to become a run."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    chain: Chain | None = None  # the event's place in its chain; None: no run of ours caused it


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """The facts when an effect is about to happen: who, because of which event, and what exactly."""

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    action: str
    risk: str
    arguments: str  # as they are stored
    by_name: Mapping[str, Any] = field(default_factory=dict)  # the same arguments, by parameter
    facts: Mapping[str, Any] = field(default_factory=dict)  # FactValue, or a plain value, which has no age
    run: Mapping[str, Any] = field(default_factory=dict)  # its id, its attempt, …


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """The facts when an agent is about to make, change or remove a schedule: who, because of which event, and which
    schedule.
    """

    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    schedule: str
    target: str  # the agent that it wakes
    was: str | None  # the agent that it woke until now; None for a new one
    rule: str  # the schedule, as code would write it
    verb: Literal["add", "edit", "remove"]
    facts: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)


Facts = AdmissionFacts | EffectFacts | ScheduleFacts
Rule = Callable[[Any], Decision | None]
# What a rule at: schedule reads as `arguments`.
SCHEDULE_ARGUMENTS = ("schedule", "target", "was", "rule", "verb")


def place_of(facts: Facts) -> Place:
    """Where policy is asked: `at:` of a rule."""
    if isinstance(facts, EffectFacts):
        return "effect"
    return "schedule" if isinstance(facts, ScheduleFacts) else "admission"
