"""What a run sends out when it commits: its messages and its staged effects. Nothing of it leaves before.

It is collected in memory, and anew by every attempt: a failed attempt has sent out nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wakeful.execution.actions import Action
from wakeful.model import Delivery, Effect
from wakeful.stores.alarm import Alarm


@dataclass(slots=True)
class Outgoing:
    """In the order of the calls. `objections` are reasons why a person must look at it first."""

    deliveries: list[Delivery] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    objections: list[str] = field(default_factory=list)
    actions: dict[str, Action[..., Any]] = field(default_factory=dict)  # of the effects, by operation
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that this resolves
    threads: dict[tuple[str, str], bool] = field(
        default_factory=dict
    )  # by channel and thread: whether its first message is urgent

    def __bool__(self) -> bool:
        return bool(self.deliveries or self.effects or self.objections or self.alarm or self.resolves)
