"""What a store can be asked about alarms: to tell them, to resolve them, and what people do to them; and the names of those
that are resolved by their name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wakeful.clock import Microseconds, readable
from wakeful.model import AlarmState, Arrival
from wakeful.stores.request import Audit, ByPerson, Others, Ready, Request
from wakeful.stores.verbs.misfits import Matches

AlarmVerb = Literal["acknowledge", "mute", "resolve"]


@dataclass(frozen=True, slots=True)
class StoredAlarm:
    """An alarm as whoever tells it finds it."""

    key: str
    state: AlarmState
    text: str
    count: int
    opened_at: Microseconds
    last_at: Microseconds
    resolved_at: Microseconds | None
    agent: str | None
    owner: str | None
    incident: int
    loud: bool
    told: int  # how often it was told before
    acknowledged_by: str | None
    addressee: str | None = None  # the channel that it goes to, before the owner's
    remind_at: Microseconds | None = None  # it is told once more then, and not again and again
    ending: str | None = None  # how it ended, where that is known


@dataclass(slots=True)
class TellAlarms(Request[list[StoredAlarm]]):
    """Tell what is to be told of an app's alarms. `arrive` makes the event of each; None: it is not told by an event, only
    handed back. The events are accepted and the alarms marked in one transition, so that each is told once, by whichever
    process. Comes back with those that were told.
    """

    app: str
    agent: str  # to which the events are addressed
    most: int
    repeat: Microseconds | None
    arrive: Callable[[StoredAlarm], Arrival | None]
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)

    may_wake = True

    def readies(self) -> Ready | None:
        return Ready(self.app, frozenset({self.agent}))

    def tell(self, result: list[StoredAlarm], others: Others) -> None:
        if result:
            others.hear(self.app, self.agent)


@dataclass(slots=True)
class ResolveAlarms(Request[None]):
    """What these were raised for is over. One that is not open stays as it is."""

    keys: Sequence[str]

    def alarming(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AlarmChanged:
    """What it was, and what it is now. `refused` says why nothing was changed."""

    app: str
    was: AlarmState
    state: AlarmState
    refused: str | None = None


@dataclass(slots=True)
class ChangeAlarm(ByPerson[AlarmChanged | None]):
    """A person acknowledges an alarm, mutes it for some time, or says that it is over."""

    key: str
    verb: AlarmVerb
    span: Microseconds = 0  # how long it is muted

    def audit(self, result: AlarmChanged | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        words = [f"for {readable(self.span)}"] if self.verb == "mute" else []
        words += [self.note] if self.note else []
        return Audit(f"alarm {self.verb}", result.app, self.key, ": ".join(words) if words else None)
