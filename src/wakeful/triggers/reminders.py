"""Reminders: a message to a channel at a given time, unless an expected event has come by then.

A reminder is a schedule with one occurrence: its id is the schedule's name, its content the data of its only event. So any worker
fires it once, late if none was running; and moving it competes with firing it for one row, so exactly one of them wins.

    made ──► live ──┬── its time comes ──► done: a run sends it, or finds that it is not needed
                    ├── move   ──► live, at another time
                    └── cancel ──► removed
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from wakeful.cel import Condition, compile_condition
from wakeful.clock import SECOND, Microseconds, from_datetime, readable, to_datetime
from wakeful.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidTime,
    NotFound,
    StoreUnavailable,
    TooLate,
    did_you_mean,
)
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.stores.request import Actor
from wakeful.stores.timing import OccurrenceRecord, Span, StoredSchedule, reached
from wakeful.stores.verbs.reminders import what_came
from wakeful.stores.verbs.schedules import ChangeSchedule, asked_by, find_schedule, next_schedule
from wakeful.triggers.at import At
from wakeful.triggers.calendar_words import in_words
from wakeful.triggers.schedule import Schedule, Timing
from wakeful.triggers.spoken import read_time
from wakeful.triggers.zones import moment_of, zone_named

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

R = TypeVar("R")

AGENT = "wakeful.remind"
CHANNEL = "reminders"  # the default channel if the app has one of that name
ANY_CHANNEL = "log"
LONGEST_TEXT = 2_000
# A reminder is better late than never.
NEVER_TOO_LATE = Timing(grace=100 * 366 * 86400 * SECOND)
MOST_TRIES = 20
# Without letters and digits that are easily confused.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")


class Memo(BaseModel):
    """The content of a reminder, as stored and as its event carries it. `mark` is the position in the event log at which it was
    made. `anywhere`: it was made without naming a channel, by a caller that does not know the app's channels.
    """

    text: str
    to: str
    by: str
    anywhere: bool = False
    unless: str | None = None
    where: str | None = None
    mark: str | None = None

    def says_the_same(self, other: Memo) -> bool:
        return self._said == other._said

    @property
    def _said(self) -> tuple[str | None, ...]:
        return self.text, self.to, self.unless, self.where


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder that exists in the store."""

    id: str
    app: str
    text: str
    to: str
    due_at: datetime  # in its own zone
    unless: str | None = None
    where: str | None = None

    @property
    def zone(self) -> str:
        return str(getattr(self.due_at.tzinfo, "key", self.due_at.tzinfo))

    def describe(self, now: Microseconds) -> str:
        """For people: reminder r-ab12cd: call the bank, on Mon 16 Nov 2026 09:00 Europe/London (in 12 h 5 m)."""
        when = in_words(from_datetime(self.due_at), zone_named(self.zone, where=f"reminder {self.id}"), now)
        unless = "" if self.unless is None else f", unless {self.unless} has come by then"
        return f"reminder {self.id}: {self.text}, {when}{unless}"


class Reminders:
    """Makes, moves and cancels the reminders of one app."""

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        *,
        channels: Collection[str] | None = None,
        events_kept: Microseconds | None = None,
        data_kept: Microseconds | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._store = store
        self._channels = channels  # None: the app's channels are not known here
        self._events_kept = events_kept
        self._data_kept = data_kept
        self.changed = changed

    # making

    async def make(
        self,
        when: str | datetime,
        text: str,
        *,
        to: str | None = None,
        unless: str | None = None,
        where: str | None = None,
        tz: str | None = None,
        id: str | None = None,  # noqa: A002 the field's own name
        by: Actor,
    ) -> Reminder:
        """Create a reminder. With the caller's own `id`, repeating the same request returns the existing reminder."""
        given = None if id is None else _identifier(id)
        wish = await self.wish(given or "", when, text, to=to, unless=unless, where=where, tz=tz, operator=by.name)
        for _ in range(MOST_TRIES):
            wish.name = given or new_id()
            made = await self._store.do(asked_by(by, wish))
            if made is None:
                made = await self._there_already(wish, given)
            if made is not None:
                self.changed()
                return reminder_of(made)
        message = f"app {self._app}: found no free id for a reminder; try again"
        raise StoreUnavailable(message)

    async def wish(
        self,
        name: str,
        when: str | datetime,
        text: str,
        *,
        to: str | None,
        unless: str | None,
        where: str | None,
        tz: str | None,
        operator: str,
    ) -> ChangeSchedule:
        """The request that creates a reminder, validated, with its time parsed."""
        text = _text(text)
        channel = self._channel(to)
        refuse_condition(unless, where)
        zone = zone_named(tz, where="reminder")
        now, _ = await next_schedule(self._store.database, self._app)
        moment = read_when(when, now=now, zone=zone)
        mark = None
        if unless is not None:
            self._refuse_forgotten(moment - now, where)
            mark = await what_came(self._store.database)
        anywhere = to is None and self._channels is None
        memo = Memo(text=text, to=channel, by=operator, anywhere=anywhere, unless=unless, where=where, mark=mark)
        return ChangeSchedule(
            self._app,
            name,
            "add",
            operator,
            None,
            AGENT,
            "reminder",
            "live",
            _definition(moment, zone),
            now,
            memo.model_dump_json(),
            next_at=moment,
            due_at=moment,
        )

    async def _there_already(self, wish: ChangeSchedule, given: str | None) -> StoredSchedule | None:
        """The schedule that has this id. It is ours if an earlier COMMIT succeeded and only its answer was lost."""
        found = await find_schedule(self._store.database, self._app, wish.name)
        if found is None or given is None:
            return (
                found if found is not None and (found.data, found.definition) == (wish.data, wish.definition) else None
            )
        if found.origin == "reminder" and memo_of(found).says_the_same(Memo.model_validate_json(wish.data or "{}")):
            return found
        message = (
            f"app {self._app}: {given} is the name of another reminder or schedule: use a new id for a new reminder"
        )
        raise IdempotencyConflict(message)

    # changing

    async def move(
        self, name: str, when: str | datetime, *, tz: str | None = None, by: Actor, note: str | None = None
    ) -> Reminder:
        """Change its time. Raises TooLate once it was sent or cancelled."""
        known = self._open(await find_schedule(self._store.database, self._app, name), name, "moved")
        zone = zone_of(known) if tz is None else zone_named(tz, where=f"reminder {name}")
        now, _ = await next_schedule(self._store.database, self._app)
        moment = read_when(when, now=now, zone=zone)
        wanted = _definition(moment, zone)

        def change(before: StoredSchedule) -> ChangeSchedule | None:
            if (before.definition, before.changed_by) == (wanted, by.name) and before.state == "live":
                return None
            passed = _due(before, now)
            records = [] if passed is None else [OccurrenceRecord("superseded", passed, f"moved by {by.name}")]
            return _changed(before, "move", by.name, note, before.state, wanted, moment, records)

        return reminder_of(await self._change(name, "moved", change, by))

    async def cancel(self, name: str, *, by: Actor, note: str | None = None) -> Reminder:
        """Cancel it, so that it is not sent. Raises TooLate if it was."""
        now, _ = await next_schedule(self._store.database, self._app)

        def change(before: StoredSchedule) -> ChangeSchedule:
            passed = _due(before, now)
            records = [] if passed is None else [OccurrenceRecord("skipped", passed, f"cancelled by {by.name}")]
            return _changed(before, "remove", by.name, note, "removed", before.definition, None, records)

        return reminder_of(await self._change(name, "cancelled", change, by))

    async def _change(
        self, name: str, verb: str, change: Callable[[StoredSchedule], ChangeSchedule | None], by: Actor
    ) -> StoredSchedule:
        asked: ChangeSchedule | None = None
        for _ in range(MOST_TRIES):
            before = await find_schedule(self._store.database, self._app, name)
            if before is not None and asked is not None and _is_ours(before, asked):
                self.changed()
                return before  # an earlier COMMIT succeeded, and only its answer was lost
            before = self._open(before, name, verb)
            asked = change(before)
            if asked is None:
                return before
            after = await self._store.do(asked_by(by, asked))
            if after is not None:
                self.changed()
                return after
        message = f"reminder {name} keeps being changed by other processes; try again"
        raise StoreUnavailable(message)

    def _open(self, known: StoredSchedule | None, name: str, verb: str) -> StoredSchedule:
        if known is None or known.origin != "reminder":
            message = f'app {self._app} has no reminder "{name}": `wakeful reminders` lists them'
            raise NotFound(message)
        if known.state == "removed":
            message = f"reminder {name} cannot be {verb}: {known.changed_by} cancelled it"
            raise TooLate(message)
        if known.state == "done":
            message = (
                f"reminder {name} cannot be {verb}: its time came, {in_words(due_of(known), zone_of(known))}. "
                f"`wakeful why {name}` shows what happened; create a new one with `wakeful remind`"
            )
            raise TooLate(message)
        return known

    # checking

    def _channel(self, to: str | None) -> str:
        known = self._channels
        if to is None:
            return CHANNEL if known is None else usual_channel(known)
        if not isinstance(to, str) or (known is not None and to not in known):
            message = f'reminder: app {self._app} has no channel "{to}".{did_you_mean(str(to), known or ())}'
            raise ConfigError(message)
        return str.__str__(to)

    def _refuse_forgotten(self, away: Microseconds, where: str | None) -> None:
        """Raise ConfigError if the events it depends on would be deleted before the reminder is due."""
        kept = self._events_kept if where is None else self._data_kept
        if kept is not None and away > kept:
            message = (
                f"reminder: it is due in {readable(away)}, but {'events are' if where is None else 'event data is'} kept for only "
                f"{readable(kept)}: then it cannot be known whether the event came. Choose an earlier time, or keep events longer "
                f"({'deduplication=' if where is None else 'retention='} of the app)"
            )
            raise ConfigError(message)


def usual_channel(known: Collection[str]) -> str:
    """The channel of reminders that name none."""
    return CHANNEL if CHANNEL in known else ANY_CHANNEL


def read_when(when: str | datetime, *, now: Microseconds, zone: ZoneInfo) -> Microseconds:
    """A time in words, or a datetime; a datetime without a zone is in `zone`."""
    if not isinstance(when, datetime):
        return read_time(when, now=now, zone=zone).moment
    moment = moment_of(when, zone) if when.tzinfo is None else from_datetime(when)
    if moment <= now:
        message = f"{when.isoformat()} is past: that was {readable(now - moment)} ago, {in_words(moment, zone)}"
        raise InvalidTime(message)
    return moment


def refuse_condition(unless: Any, where: Any) -> Condition | None:
    """The compiled condition. Raises ConfigError for one that no event could match."""
    if unless is None:
        if where is not None:
            message = "reminder: where= is about the event that makes it unnecessary: name its type with unless="
            raise ConfigError(message)
        return None
    if not isinstance(unless, str) or not unless.strip() or "*" in unless or len(unless) > TEXT_LIMIT:
        message = f"reminder: unless={unless!r}: give one event type, without *; further conditions go into where="
        raise ConfigError(message)
    return None if where is None else compile_condition(where, where="reminder")


def new_id() -> str:
    """A new id, short because people type it."""
    return "r-" + "".join(secrets.choice(LETTERS) for _ in range(6))


def reminder_of(stored: StoredSchedule) -> Reminder:
    memo = memo_of(stored)
    due = to_datetime(due_of(stored)).astimezone(zone_of(stored))
    return Reminder(stored.name, stored.app, memo.text, memo.to, due, memo.unless, memo.where)


def memo_of(stored: StoredSchedule) -> Memo:
    return Memo.model_validate_json(stored.data or "{}")


def due_of(stored: StoredSchedule) -> Microseconds:
    """Its occurrence, also after it has passed."""
    return int(rule_of(stored.definition)["moment"])


def zone_of(stored: StoredSchedule) -> ZoneInfo:
    return zone_named(str(rule_of(stored.definition)["zone"]), where=f"reminder {stored.name}")


def rule_of(definition: str) -> Mapping[str, Any]:
    rule: Mapping[str, Any] = from_json(definition)["rule"]
    return rule


def _definition(moment: Microseconds, zone: ZoneInfo) -> str:
    return to_json(Schedule(At(moment, zone.key), NEVER_TOO_LATE).definition()).decode()


def _due(stored: StoredSchedule, now: Microseconds) -> Span | None:
    """Its occurrence, if it is due and has not been fired yet."""
    if stored.next_at is not None and stored.next_at <= now:
        return Span(stored.next_at, stored.next_at, 1)
    return stored.queued


def _changed(
    before: StoredSchedule,
    verb: Any,
    operator: str,
    note: str | None,
    state: Any,
    definition: str,
    next_at: Microseconds | None,
    records: list[OccurrenceRecord],
) -> ChangeSchedule:
    return ChangeSchedule(
        before.app,
        before.name,
        verb,
        operator,
        before,
        before.agent,
        before.origin,
        state,
        definition,
        reached(before.done_until, records, None),
        before.data,
        before.owner,
        note,
        next_at,
        next_at,
        records,
    )


def _is_ours(found: StoredSchedule, asked: ChangeSchedule) -> bool:
    revision = 0 if asked.before is None else asked.before.revision
    mine = (asked.state, asked.definition, asked.operator, revision + 1)
    return (found.state, found.definition, found.changed_by, found.revision) == mine


def _identifier(given: Any) -> str:
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        message = f"reminder: an id is letters, digits, _ . and -, at most 100 of them, not {given!r}"
        raise ConfigError(message)
    return given


def _text(text: Any) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_TEXT or "\0" in text:
        message = f"reminder: its text must have 1 to {LONGEST_TEXT:,} characters"
        raise ConfigError(message)
    return text.strip()
