"""What an agent may say: the types of the events that come out of its runs, bounded by `emits=["ticket.*"]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wakeful.errors import ConfigError, Persistent, did_you_mean
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.intake.reserved import OWN_TYPES
from wakeful.intake.route import type_matcher

# What Wakeful says of where an event comes from. A run that could write these itself would be in no chain, or in another one.
OF_THE_CHAIN = (
    "causationid",
    "correlationid",
    "traceparent",
    "chaindepth",
    "chainpath",
    "chainid",
    "causedby",
    "callpath",
)
SET_BY_WAKEFUL = (*OF_THE_CHAIN, "source", "time", "specversion")


@dataclass(frozen=True, slots=True)
class Emits:
    """The types that an agent may emit: exact ones, or patterns with `*`. None at all: it emits nothing."""

    patterns: tuple[str, ...]
    _fit: tuple[Callable[[str], bool], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fit", tuple(type_matcher(pattern) for pattern in self.patterns))

    def allows(self, type_: str) -> bool:
        return any(fits(type_) for fits in self._fit)

    def refusal(self, type_: str) -> str:
        """Why a type is not allowed, in words."""
        if not self.patterns:
            return f'type "{type_}" is not allowed: it is declared with emits=[], and emits nothing'
        known = ", ".join(f'"{pattern}"' for pattern in self.patterns)
        near = did_you_mean(type_, self.patterns)
        hint = near if "Did you mean" in near else ""
        return f'type "{type_}" is not allowed: emits=[{known}] is all that it may emit.{hint} Add the type there if it is meant'


def read_emits(given: Any, *, where: str) -> Emits | None:
    """`emits=`; ConfigError says what is wrong with a pattern. None: anything may be emitted."""
    if given is None or isinstance(given, Emits):
        return given
    if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
        message = f'{where}: emits must be a list of types or patterns, like ["ticket.*"], not {given!r}'
        raise ConfigError(message)
    patterns = tuple(sorted(given, key=str) if isinstance(given, set | frozenset) else given)
    for pattern in patterns:
        if (
            not isinstance(pattern, str)
            or not pattern
            or pattern != pattern.strip()
            or not pattern.isprintable()
            or len(pattern) > TEXT_LIMIT
        ):
            message = (
                f'{where}: emits: {pattern!r:.60} is no type: write text without spaces around it, like "ticket.*"'
            )
            raise ConfigError(message)
        if pattern.startswith(OWN_TYPES):
            message = f'{where}: emits: "{pattern}": types that begin with "{OWN_TYPES}" are Wakeful\'s own, and no agent emits them'
            raise ConfigError(message)
    return Emits(tuple(str.__str__(pattern) for pattern in patterns))


def refuse_attributes(agent: str, type_: str, given: dict[str, Any]) -> None:
    """Persistent for an attribute that Wakeful sets itself, or a type of Wakeful's own."""
    for name in given:
        if name in SET_BY_WAKEFUL:
            chain = name in OF_THE_CHAIN
            why = "it says which chain the event is a part of, and keeps loops from going on for ever" if chain else ""
            message = f"agent {agent}: run.emit({type_!r}): {name} is set by Wakeful, leave it out" + (
                f": {why}. Start work that shall go on without end by a schedule or a reminder" if why else ""
            )
            raise Persistent(message)
    if isinstance(type_, str) and type_.startswith(OWN_TYPES):
        message = f'agent {agent}: run.emit({type_!r}): types that begin with "{OWN_TYPES}" are Wakeful\'s own: use another one'
        raise Persistent(message)


def refuse_type(emits: Mapping[str, Emits], agent: str, type_: str, call: str) -> None:
    """Persistent for a type that an agent with `emits=` did not declare."""
    allowed = emits.get(agent)
    if allowed is not None and not allowed.allows(type_):
        message = f"agent {agent}: {call}: {allowed.refusal(type_)}"
        raise Persistent(message)
