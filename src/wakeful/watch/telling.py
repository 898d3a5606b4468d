"""Sends alarms: an open alarm is sent, and repeated at an interval until a person acknowledges it, and once more when
it is over.

    an alarm is raised ──► tell_at ──► one transaction: marked as sent, and an event `wakeful.alarm`
                                                                              │
                        the owner's channel, or the app's ◄── outbox ◄── run of `wakeful.tell`

So it goes out like any other message, from any process, with retries and under one id. Alarms that cannot go that way
are logged: those about `wakeful.tell` itself, and those about the channel they would go through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from wakeful.alarm_words import Told, words_of_alarm
from wakeful.clock import Microseconds, seconds, to_text
from wakeful.execution.run import Run
from wakeful.execution.sending import LONGEST_THREAD
from wakeful.intake.cloudevents import TEXT_LIMIT, new_event
from wakeful.intake.matching import fits
from wakeful.model import Arrival, Event, digest
from wakeful.service import Service
from wakeful.stores.verbs.alarms import StoredAlarm, TellAlarms, first_to_tell

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

TELLER = "wakeful.tell"
TYPE = "wakeful.alarm"
APPROVAL = "wakeful.approval"  # the alarm of an approval
BATCH = 100
# Another process may die between raising an alarm and sending it, and people change alarms from elsewhere: the lookout
# sees that within seconds. This is a further safety net.
LOOK_ANYWAY_EVERY = 300.0
# Alarms about a channel: in their key its name follows that of the app.
ABOUT_CHANNELS = frozenset({"delivery", "channel"})


class Teller(Service):
    """Sends the alarms of one app."""

    name = "teller"

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        arrive: Callable[[Event, str], Arrival],
        *,
        channels: Collection[str],
        default: str | None,
        repeat: Microseconds | None,
        now: Callable[[], Microseconds],
        time_passes: bool = True,
    ) -> None:
        super().__init__()
        self._app = app
        self._store = store
        self._now = now
        self._arrive = arrive
        self._channels = channels
        self._default = default
        self._repeat = repeat
        self._time_passes = time_passes
        self._one_at_a_time = asyncio.Lock()
        self.told = 0

    async def run_once(self) -> float | None:
        """Send all alarms that are due, and rest until the next is."""
        while await self.tick():
            pass
        if not self._time_passes:
            return None
        wait = await first_to_tell(self._store.database, self._app)
        return LOOK_ANYWAY_EVERY if wait is None else min(LOOK_ANYWAY_EVERY, max(0.05, seconds(wait)))

    async def tick(self) -> int:
        """Send the alarms that are due now, once. Returns how many were sent."""
        async with self._one_at_a_time:
            return await self._tell()

    async def _tell(self) -> int:
        wait = await first_to_tell(self._store.database, self._app)
        if wait is None or wait > 0:
            return 0
        request = TellAlarms(self._app, TELLER, BATCH, self._repeat, self._event_of, fits)
        told = await self._store.do(request)
        for alarm in told:
            if self.channel_of(alarm) is None:
                say = self.log.info if alarm.state == "resolved" else self.log.error
                told_as = told_of(alarm, self._app, self._now())
                say("alarm", what=told_as["what"], key=alarm.key, text=told_as["text"], owner=alarm.owner)
        self.told += len(told)
        return len(told)

    def channels_of(self, alarm: StoredAlarm) -> list[str]:
        """The alarm's channels: those that it names, else its owner's, else the app's. Empty: the log."""
        named = [one for one in (alarm.addressee or "").split(", ") if one in self._channels]
        if len(named) > 1:
            broken = channel_in_trouble(alarm.key)
            return [one for one in named if one != broken]
        channel = self.channel_of(alarm)
        return [] if channel is None else [channel]

    def channel_of(self, alarm: StoredAlarm) -> str | None:
        """The alarm's first channel. None: the log."""
        if alarm.agent == TELLER and alarm.key.partition("/")[0] not in ABOUT_CHANNELS:
            return None
        broken = channel_in_trouble(alarm.key)
        for channel in (*(alarm.addressee or "").split(", "), alarm.owner, self._default):
            if channel and channel in self._channels and channel != broken:
                return channel
        return None

    def _event_of(self, alarm: StoredAlarm) -> Arrival | None:
        channels = self.channels_of(alarm)
        if not channels:
            return None
        several = {"channels": channels} if len(channels) > 1 else {}
        event = new_event(
            APPROVAL if alarm.key.startswith("ask/") else TYPE,
            {"channel": channels[0], **several, **told_of(alarm, self._app, self._now())},
            source=f"/{self._app}/alarms/{digest(alarm.key)}",
            id=f"{alarm.incident}.{alarm.told + 1}",
            subject=alarm.key if len(alarm.key) <= TEXT_LIMIT else digest(alarm.key),
        )
        return self._arrive(event, TELLER)


def channel_in_trouble(key: str) -> str | None:
    """The channel that an alarm is about, or None."""
    kind, *rest = key.split("/")
    return rest[1] if kind in ABOUT_CHANNELS and len(rest) > 1 else None


def what_is_told(alarm: StoredAlarm) -> Told:
    if alarm.state == "resolved":
        return "resolved"
    return "still open" if alarm.told else "opened"


def told_of(alarm: StoredAlarm, app: str, now: Microseconds) -> dict[str, Any]:
    """The content of the message, for people and programs: `subject` and `text` are sentences, the rest are facts."""
    what = what_is_told(alarm)
    words = words_of_alarm(
        alarm.key,
        alarm.text,
        told=what,
        agent=alarm.agent,
        count=alarm.count,
        opened_at=alarm.opened_at,
        now=alarm.resolved_at if alarm.resolved_at is not None else now,
        ending=alarm.ending,
    )
    return {
        "what": what,
        "key": alarm.key,
        "subject": words.subject,
        "text": words.text,
        "do": words.do,
        "reason": alarm.text,
        "app": app,
        "agent": alarm.agent,
        "owner": alarm.owner,
        "incident": alarm.incident,
        "number": alarm.told + 1,
        "count": alarm.count,
        "opened_at": to_text(alarm.opened_at),
        "last_at": to_text(alarm.last_at),
        "resolved_at": to_text(alarm.resolved_at),
        "loud": alarm.loud,
        "ending": alarm.ending,
    }


async def tell(run: Run) -> None:
    """One alarm, to the channels that were chosen when it was told."""
    told = dict(run.event.data)
    # An event that a process of an older version stored has no subject.
    first = told.pop("channel")
    subject = told.get("subject") or f"{told['what']}: {told['key']}"
    for channel in told.pop("channels", [first]):
        run.send(channel, told, subject=subject, thread=thread_of(told), urgent=bool(told.get("loud")))


def thread_of(told: Mapping[str, Any]) -> str:
    """The messages about one incident of an alarm belong together: its resolve comes after its opening."""
    thread = f"{told['key']}/{told.get('incident', 1)}"
    return thread if len(thread) <= LONGEST_THREAD else digest(thread)
