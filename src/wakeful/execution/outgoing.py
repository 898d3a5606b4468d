"""What a run wants to let out when it commits: messages it sent, effects it staged. Nothing of it leaves before.

Collected in memory, and anew by every attempt: an attempt that fails has let out nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wakeful.execution.actions import Action
from wakeful.model import Delivery, Effect
from wakeful.stores.alarm import Alarm


@dataclass(slots=True)
class Outgoing:
    """In the order of the calls. `objections` says why a person must look at it first."""

    deliveries: list[Delivery] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    objections: list[str] = field(default_factory=list)
    actions: dict[str, Action[..., Any]] = field(default_factory=dict)  # of the effects, by operation
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that is over with this

    def __bool__(self) -> bool:
        return bool(self.deliveries or self.effects or self.objections or self.alarm or self.resolves)
