"""The parts of an agent that the executor reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pydantic import TypeAdapter

from wakeful.errors import InvalidKey
from wakeful.functions.options import AgentOptions
from wakeful.intake.flow import FlowPlan
from wakeful.model import Claim, Event


class Handler(Protocol):
    """One agent."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def options(self) -> AgentOptions: ...
    @property
    def takes_data(self) -> bool: ...
    @property
    def data_model(self) -> TypeAdapter[Any] | None: ...
    @property
    def returns(self) -> TypeAdapter[Any] | None: ...
    @property
    def flow(self) -> FlowPlan: ...


def refuse_without_key(claim: Claim, event: Event, agent: Handler) -> None:
    """Refuse an event without a usable key or priority. Intake accepts it, and it is refused here so that a person sees
    it. A run that a person repaired with other data goes on, outside the order, unless its agent keeps a state for each
    key.
    """
    agent.flow.priority_of(event)
    agent.flow.refuse_exhausted(event)
    if agent.flow.key is None or claim.key is not None:
        return
    key = agent.flow.key_of(event)
    if agent.options.state is not None:
        message = (
            f"agent {agent.name} keeps a state for each key, but run {claim.id} was accepted without a key. "
            f"Its key would now be {key!r}: send the event again under a new id, and discard this run"
        )
        raise InvalidKey(message)
