"""The trigger contract: a trigger says whether an event wakes an agent.

A trigger decides when. It knows nothing about the work: neither agents nor runs appear here.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from wakeful.cel import Match
from wakeful.model import Event


@runtime_checkable
class Trigger(Protocol):
    """What an agent declares, one or more. Triggers are values: frozen, comparable, created at import without side effects."""

    @property
    def type(self) -> str:
        """The event type it waits for, or a pattern with `*`."""
        ...

    @property
    def source(self) -> str | None:
        """The only source whose events it takes; None: any source."""
        ...

    @property
    def where(self) -> str | None:
        """Its condition; None if the type alone decides."""
        ...

    @property
    def carries_data(self) -> bool:
        """Whether its events carry data; a handler with a typed parameter needs a trigger that does."""
        ...

    def describe(self) -> str:
        """The trigger as a person would write it, for listings and reasons."""
        ...

    def matches(self, event: Event) -> Match:
        """Whether this event wakes the agent, and why or why not."""
        ...
