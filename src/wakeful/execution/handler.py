"""What the executor knows of an agent."""

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
    """The door takes in what it cannot tell the key or the priority of; here it is refused, so that a person sees it. One that
    a person has mended by other data goes, out of the order, unless what its agent keeps for the key would be needed.
    """
    agent.flow.priority_of(event)
    agent.flow.refuse_exhausted(event)
    if agent.flow.key is None or claim.key is not None:
        return
    key = agent.flow.key_of(event)
    if agent.options.state is not None:
        message = (
            f"agent {agent.name} keeps a state for each key, and run {claim.id} was accepted without one. "
            f"Its key would be {key!r} now: send the event again under a new id, and discard this run"
        )
        raise InvalidKey(message)
