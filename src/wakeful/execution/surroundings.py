"""What an attempt gets from its worker: the store, intake, the clock, and the other parts it uses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from wakeful.clock import Clock
from wakeful.execution.circuits import CircuitOpen
from wakeful.execution.lock_news import LockNews
from wakeful.functions.emits import Emits
from wakeful.intake.policies import Policies
from wakeful.intake.reserved import By
from wakeful.model import Claim, Decision, Event, Receipt, Step
from wakeful.stores.payloads import Codec
from wakeful.stores.verbs.locks import HeldLock
from wakeful.stores.verbs.misfits import Matches
from wakeful.triggers.reminders import Reminders
from wakeful.triggers.schedules import Schedules

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore


class RunDoor(Protocol):
    """Intake, through which a run's own events come in."""

    async def accept(
        self,
        events: list[Event],
        *,
        agent: str | None = None,
        claim: Claim | None = None,
        step: Step | None = None,
        adopts: Mapping[str, Any] | None = None,
        locks: tuple[HeldLock, ...] = (),
        by: By,
    ) -> list[Receipt]: ...


class Dependencies(Protocol):
    """Knows which dependencies are down."""

    async def ask(self, name: str, run: int) -> CircuitOpen | None: ...

    async def report(self, name: str, run: int, error: BaseException | None) -> CircuitOpen | None: ...


class Cancellable(Protocol):
    """A callback that will run unless it is cancelled."""

    def cancel(self) -> None: ...


def after_seconds(delay: float, callback: Callable[[], None]) -> Cancellable:
    """Call back after real time has passed."""
    return asyncio.get_running_loop().call_later(delay, callback)


@dataclass(slots=True)
class RunSurroundings:
    """What an attempt gets from its worker."""

    app: str
    store: DatabaseStore
    door: RunDoor
    clock: Clock
    chance: Random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    later: Callable[[float, Callable[[], None]], Cancellable] = after_seconds
    time_for_calls: Callable[[], float] = lambda: math.inf
    policies: Policies = field(default_factory=lambda: Policies(""))
    on_broken_rule: Callable[[Decision], None] = lambda _: None
    owners: Mapping[str, str | None] = field(default_factory=dict)
    agents: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # the app's agents and their functions
    matches: Matches | None = None
    channels: Collection[str] = ()
    event_channels: Mapping[str, str] = field(default_factory=dict)  # channels that make events, and their type
    emits: Mapping[str, Emits] = field(default_factory=dict)  # of agents that may emit only certain types
    sent: Callable[[Collection[str]], None] = lambda _: None  # deliveries of these lanes were committed
    # Replaces the function of a step, an action or its find. For tests; identities stay the same.
    stand_in: Callable[[Any, Callable[..., Any]], Callable[..., Any]] | None = None
    lock_news: LockNews = field(default_factory=LockNews)
    once_news: LockNews = field(default_factory=LockNews)  # an effect with a business key is over
    circuits: Dependencies | None = None
    schedules: Schedules | None = None
    reminders: Reminders | None = None
    codec: Codec | None = None  # if payloads are encrypted: one may have been tampered with
    declared: set[str] = field(default_factory=set)  # actions whose results this process has described to the store
