"""What a trigger is to the rest: something that says of an event whether it wakes an agent.

A trigger decides when. It knows nothing of the work: neither the agent nor the run ever appears here.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from wakeful.cel import Match
from wakeful.model import Event


@runtime_checkable
class Trigger(Protocol):
    """What an agent takes, one or more of them. Triggers are values: frozen, comparable, made at import without effect."""

    @property
    def type(self) -> str:
        """The event type it waits for, or a pattern with `*`."""
        ...

    @property
    def source(self) -> str | None:
        """The only source whose events it takes; None: whoever sent them."""
        ...

    @property
    def where(self) -> str | None:
        """Its condition, None if the type alone decides."""
        ...

    @property
    def carries_data(self) -> bool:
        """Whether its events bring data; a handler with a typed parameter needs one that does."""
        ...

    def describe(self) -> str:
        """How a person would write it: shown in listings and reasons."""
        ...

    def matches(self, event: Event) -> Match:
        """Whether this event wakes the agent, and why or why not."""
        ...
