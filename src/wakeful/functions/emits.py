"""The types of events that an agent's runs may emit, limited by `emits=["ticket.*"]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wakeful.errors import ConfigError, Persistent, did_you_mean
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.intake.reserved import OWN_TYPES
from wakeful.intake.route import type_matcher

# Attributes in which Wakeful records the origin of an event. A run that could set them would escape its chain of causes.
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
    """The types that an agent may emit: exact ones, or patterns with `*`. Empty: it emits nothing."""

    patterns: tuple[str, ...]
    _fit: tuple[Callable[[str], bool], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fit", tuple(type_matcher(pattern) for pattern in self.patterns))

    def allows(self, type_: str) -> bool:
        return any(fits(type_) for fits in self._fit)

    def refusal(self, type_: str) -> str:
        """Why a type is not allowed."""
        if not self.patterns:
            return f'type "{type_}" is not allowed: emits=[] means that the agent emits nothing'
        known = ", ".join(f'"{pattern}"' for pattern in self.patterns)
        near = did_you_mean(type_, self.patterns)
        hint = near if "Did you mean" in near else ""
        return f'type "{type_}" is not allowed: the agent may emit only emits=[{known}].{hint} Add the type there if it is intended'


def read_emits(given: Any, *, where: str) -> Emits | None:
    """Read `emits=`; raises ConfigError for an invalid pattern. None: anything may be emitted."""
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
                f'{where}: emits: {pattern!r:.60} is not a type: write text without spaces around it, like "ticket.*"'
            )
            raise ConfigError(message)
        if pattern.startswith(OWN_TYPES):
            message = f'{where}: emits: "{pattern}": types that begin with "{OWN_TYPES}" are reserved for Wakeful; agents cannot emit them'
            raise ConfigError(message)
    return Emits(tuple(str.__str__(pattern) for pattern in patterns))


def refuse_attributes(agent: str, type_: str, given: dict[str, Any]) -> None:
    """Raise Persistent for an attribute that Wakeful sets itself, or a type reserved for Wakeful."""
    for name in given:
        if name in SET_BY_WAKEFUL:
            chain = name in OF_THE_CHAIN
            why = "it records the chain of causes that the event belongs to, which stops endless loops" if chain else ""
            message = f"agent {agent}: run.emit({type_!r}): {name} is set by Wakeful, leave it out" + (
                f": {why}. Start work that should go on forever with a schedule or a reminder" if why else ""
            )
            raise Persistent(message)
    if isinstance(type_, str) and type_.startswith(OWN_TYPES):
        message = f'agent {agent}: run.emit({type_!r}): types that begin with "{OWN_TYPES}" are reserved for Wakeful: use another one'
        raise Persistent(message)


def refuse_type(emits: Mapping[str, Emits], agent: str, type_: str, call: str) -> None:
    """Raise Persistent for a type that an agent with `emits=` did not declare."""
    allowed = emits.get(agent)
    if allowed is not None and not allowed.allows(type_):
        message = f"agent {agent}: {call}: {allowed.refusal(type_)}"
        raise Persistent(message)
