"""`on("ticket.*", where="data.severity >= 3")`: wakes an agent for events of a type, from any sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wakeful.cel import Condition, Match, compile_condition
from wakeful.errors import ConfigError
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.intake.route import type_matcher
from wakeful.model import Event
from wakeful.triggers.options import refuse_unknown_options


@dataclass(frozen=True, slots=True)
class On:
    """An event type or a pattern of types, with a condition."""

    type: str
    where: str | None = None
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True
    source: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        _check_type(self.type)
        condition = None
        if self.where is not None:
            condition = compile_condition(self.where, where=f'on("{self.type}")')
        object.__setattr__(self, "_fits", type_matcher(self.type))
        object.__setattr__(self, "_condition", condition)

    def describe(self) -> str:
        return f'on("{self.type}")' if self.where is None else f'on("{self.type}", where="{self.where}")'

    def matches(self, event: Event) -> Match:
        if not self._fits(event.type):
            return Match(matched=False, reason=f'type "{event.type}" is not "{self.type}"')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)


@refuse_unknown_options
def on(type: str, *, where: str | None = None) -> On:  # noqa: A002 the word of CloudEvents
    """Wake for events of this type.

    `type` is exact, or a pattern: `*` stands for any run of characters, so `ticket.*` takes `ticket.created` and
    `ticket.comment.added`, and `*` takes everything. `where` is a CEL expression over `data` and `event.*`.
    """
    return On(type, where)


def _check_type(kind: Any) -> None:
    if not isinstance(kind, str):
        raise ConfigError(f'on({kind!r}): the type is text, like on("ticket.created")')
    if not kind.strip():
        raise ConfigError('on(""): the type is empty; write on("*") for every event')
    if kind != kind.strip() or not kind.isprintable():
        raise ConfigError(f"on({kind!r}): the type has spaces around it or characters that cannot be printed")
    if len(kind) > TEXT_LIMIT:
        raise ConfigError(
            f'on("{kind[:40]}…"): the type has {len(kind):,} characters; event types have at most {TEXT_LIMIT:,}'
        )
