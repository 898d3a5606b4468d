"""What an attempt gets from its worker: the store, the door, the time, and who may be asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from wakeful.clock import Clock
from wakeful.execution.circuits import Shut
from wakeful.execution.lock_news import LockNews
from wakeful.functions.emits import Emits
from wakeful.intake.reserved import By
from wakeful.model import Claim, Decision, Effect, Event, Receipt, Step
from wakeful.policy.decide import Facts, decide
from wakeful.stores.payloads import Codec
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.verbs.approvals import AskPerson
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect
from wakeful.stores.verbs.locks import FreeLock, HeldLock, LockHolder, TakeLock
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.operation_keys import SaveOnce
from wakeful.stores.verbs.progress import SaveSteps
from wakeful.stores.verbs.reminders import CameSince, MakeReminder
from wakeful.stores.verbs.scheduling import ScheduleByRun
from wakeful.stores.verbs.waits import EndWait
from wakeful.triggers.reminders import Reminders
from wakeful.triggers.schedules import Schedules


class RunStore(Protocol):
    """What a run needs of the store."""

    async def save_steps(self, request: SaveSteps) -> None: ...

    async def open_effect(self, request: OpenEffect) -> Effect | Decision: ...

    async def save_effect(self, request: SaveEffect) -> None: ...

    async def save_once(self, request: SaveOnce) -> None: ...

    async def end_wait(self, request: EndWait) -> Step: ...

    async def ask(self, request: AskPerson) -> None: ...

    async def transact_step(
        self,
        claim: Claim,
        key: str,
        function: Callable[[Any], Any],
        to_step: Callable[[Any], Step],
        *,
        locks: tuple[HeldLock, ...] = (),
        cause: str | None = None,
    ) -> Step: ...

    async def take_lock(self, request: TakeLock) -> HeldLock | LockHolder: ...

    async def free_lock(self, request: FreeLock) -> None: ...

    async def schedule_by_run(self, request: ScheduleByRun) -> Step | None: ...

    async def make_reminder(self, request: MakeReminder) -> StoredSchedule: ...

    async def came_since(self, app: str, type_: str, mark: str, passed: str, /) -> list[CameSince]: ...

    @property
    def dialect(self) -> str: ...

    @property
    def encrypts(self) -> bool: ...

    @property
    def restored_before(self) -> int: ...

    async def was_restored(self, claim: Claim, /) -> bool: ...


class RunDoor(Protocol):
    """The one door, by which a run's own events come in again."""

    async def accept(
        self,
        events: list[Event],
        *,
        agent: str | None = None,
        claim: Claim | None = None,
        step: Step | None = None,
        written: Callable[[Receipt], str] | None = None,
        adopts: bool = False,
        locks: tuple[HeldLock, ...] = (),
        by: By,
    ) -> list[Receipt]: ...


class Dependencies(Protocol):
    """What is known to be down."""

    async def ask(self, name: str, run: int) -> Shut | None: ...

    async def report(self, name: str, run: int, error: BaseException | None) -> Shut | None: ...


class Cancellable(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None: ...


def after_seconds(delay: float, callback: Callable[[], None]) -> Cancellable:
    """By the time that really passes."""
    return asyncio.get_running_loop().call_later(delay, callback)


@dataclass(slots=True)
class Surroundings:
    """What an attempt gets from its worker."""

    app: str
    store: RunStore
    door: RunDoor
    clock: Clock
    chance: Random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    later: Callable[[float, Callable[[], None]], Cancellable] = after_seconds
    time_for_calls: Callable[[], float] = lambda: math.inf
    judge: Callable[[Facts], Decision] = decide
    owners: Mapping[str, str | None] = field(default_factory=dict)
    agents: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # those of the app, and their functions
    matches: Matches | None = None
    channels: Collection[str] = ()
    event_channels: Mapping[str, str] = field(default_factory=dict)  # those that make events, and of which type
    emits: Mapping[str, Emits] = field(default_factory=dict)  # of agents that may not emit everything
    sent: Callable[[Collection[str]], None] = lambda _: None  # deliveries to these channels were committed
    # What is called in the place of a step's function, an action or its find. For tests; identities stay the same.
    stand_in: Callable[[Any, Callable[..., Any]], Callable[..., Any]] | None = None
    lock_news: LockNews = field(default_factory=LockNews)
    once_news: LockNews = field(default_factory=LockNews)  # some effect that has a business key is over
    circuits: Dependencies | None = None
    schedules: Schedules | None = None
    reminders: Reminders | None = None
    codec: Codec | None = None  # where payloads are encrypted: one may have been tampered with
    declared: set[str] = field(default_factory=set)  # actions whose results the store knows from this process
