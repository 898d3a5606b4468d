"""`outbox(url, table="outbox")`: rows that an application inserts into its outbox table become events, with its own types.

    id               the event's id: the same row again is a duplicate
    aggregatetype    the kind of thing it is about: event.aggregatetype
    aggregateid      the id of that thing: event.subject
    type             the event's type
    payload          its data, as JSON: a json or text column, or bytes
    timestamp        its time, if there is such a column (a moment, or milliseconds); else when the row was inserted
    tracingspancontext   if there is such a column: its traceparent is continued

These are the default names of Debezium's outbox router, so an application with such a table needs no change. It may delete the row in
the same transaction: the insert is recorded anyway.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

from wakeful.cel import Condition, Match, compile_condition
from wakeful.clock import Duration, to_datetime
from wakeful.connect.postgres.pgoutput import PUBLIC
from wakeful.connect.postgres.trigger import WAYS, PostgresChanges, place_of
from wakeful.connect.rows.causes import stamp
from wakeful.connect.rows.change import Operation, RowChange
from wakeful.connect.sqlite.trigger import SqliteChanges, on_file, read_path
from wakeful.errors import ConfigError, InvalidEvent, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.intake.route import type_matcher
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.model import Event, digest
from wakeful.secrets import Env, Secret
from wakeful.triggers.mapping import Mapping, apply_mapping, name_of_mapping, read_mapping
from wakeful.triggers.options import refuse_unknown_options

COLUMNS = ("aggregateid", "aggregatetype", "id", "payload", "type")
_TRACEPARENT = re.compile(r"^traceparent=(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})\s*$", re.MULTILINE).search
_MILLISECONDS_FROM = 100_000_000_000  # as seconds this would be the year 5138
_MICROSECONDS_FROM = 100_000_000_000_000


@dataclass(frozen=True, slots=True)
class OutboxRows:
    """The rows of an outbox table that a trigger wants."""

    table: str
    type: str
    where: str | None
    data: Mapping | None
    place: str
    delete: bool
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)
    _mapping: Callable[[Event], Any] | None = field(init=False, repr=False, compare=False)

    operations: ClassVar[tuple[Operation, ...]] = ("insert",)
    columns: ClassVar[tuple[str, ...] | None] = COLUMNS

    def __post_init__(self) -> None:
        shown = f"outbox(table={self.table!r})"
        for name, value in (("table", self.table), ("type", self.type)):
            if not isinstance(cast("object", value), str) or not value.strip():
                message = f"outbox: {name} must be non-empty text, not {value!r}"
                raise ConfigError(message)
        condition = None if self.where is None else compile_condition(self.where, where=shown)
        object.__setattr__(self, "_fits", type_matcher(self.type))
        object.__setattr__(self, "_condition", condition)
        object.__setattr__(self, "_mapping", read_mapping(self.data, where=shown))

    @property
    def source(self) -> str:
        """The source of its events. Triggers that want the same form share events."""
        source = f"/outbox/{self.place}/{self.table}"
        return source if self.data is None else f"{source}#{digest(name_of_mapping(self.data), size=4)}"

    def takes(self, change: RowChange) -> bool:
        """Whether an event is to be made of the row. A row of another type is not taken; a row without a type is taken by all."""
        if change.operation != "insert" or change.new is None:
            return False
        kind = change.new.get("type")
        return self._fits(kind) if isinstance(kind, str) and kind else True

    def event(self, change: RowChange) -> Event:
        row = change.new or {}
        moment = _moment(row.get("timestamp"))
        if moment is None and change.committed_at is not None:
            moment = to_datetime(change.committed_at)
        extensions = {} if (context := _traceparent(row)) is None else {"traceparent": context}
        event = new_event(
            _text(row, "type"),
            _payload(change),
            source=self.source,
            id=_text(row, "id"),
            subject=_text(row, "aggregateid"),
            time=moment,
            aggregatetype=_text(row, "aggregatetype"),
            **extensions,
        )
        apply_mapping(self._mapping, event)
        stamp(event, change.cause)
        return event

    def matches(self, event: Event) -> Match:
        if not self._fits(event.type):
            return Match(matched=False, reason=f'type "{event.type}" is not "{self.type}"')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)

    def describe(self) -> str:
        parts = [f'table="{self.table}"']
        parts += [f'type="{self.type}"'] if self.type != "*" else []
        parts += [f'where="{self.where}"'] if self.where is not None else []
        return f"outbox({', '.join(parts)})"


@refuse_unknown_options
def outbox(
    url: Secret,
    *,
    table: str = "outbox",
    type: str = "*",  # noqa: A002 the word of CloudEvents
    where: str | None = None,
    data: Mapping | None = None,
    delete: bool = False,
    via: str = "triggers",
    poll: Duration = "50ms",
) -> SqliteChanges | PostgresChanges:
    """Wake for the rows that an application inserts into its outbox table.

    `url` is postgresql://… (or an env("…") of it), or the path of a SQLite file. `type` is a type or a pattern with `*`; `where` is
    a CEL condition on the event; `data` replaces the payload for the agent. `delete=True` deletes a row once its event is stored.
    `via` is how rows of PostgreSQL are read: see postgres_changes. `poll` is how often a SQLite file is checked.
    """
    shown = f"outbox(table={table!r})"
    if via not in WAYS:
        message = f'{shown}: via: unknown value "{via}".{did_you_mean(str(via), WAYS)}'
        raise ConfigError(message)
    if isinstance(url, Env) or str(url).startswith(("postgresql:", "postgres:")):
        if delete and via != "triggers":
            message = f'{shown}: delete=True needs via="triggers": the log can be read, but not written'
            raise ConfigError(message)
        named = table.removeprefix(f"{PUBLIC}.") if isinstance(table, str) else table
        part = OutboxRows(named, type, where, data, place_of(url, where=shown), delete)
        return PostgresChanges(part, url, via, None, None)
    if via != "triggers":
        message = f'{shown}: via="{via}" is for PostgreSQL: SQLite has triggers only'
        raise ConfigError(message)
    file, place = read_path(url, where=shown)
    return on_file(OutboxRows(table, type, where, data, place, delete), file, poll, where=shown)


def _text(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        message = f"column {column} of the outbox row is {value!r}: it must be non-empty text or a number"
        raise InvalidEvent(message, field=column)
    return str(value)


def _payload(change: RowChange) -> Any:
    """The data: the value of a JSON column, else the JSON in the text or bytes of the column."""
    value = (change.new or {}).get("payload")
    form = change.forms.get("payload")
    if not isinstance(value, str) or form == "json":
        return value
    written = b64decode(value) if form == "bytes" else value.encode()
    return read_json(written, depth=DEPTH_LIMIT, inside=("payload",))


def _moment(value: Any) -> datetime | None:
    """The value of `timestamp`: a moment in ISO 8601, or a number of seconds, milliseconds or microseconds, by its size."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    unit = 1 if value >= _MICROSECONDS_FROM else 1_000 if value >= _MILLISECONDS_FROM else 1_000_000
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value * unit)
    except OverflowError:
        return None


def _traceparent(row: dict[str, Any]) -> str | None:
    value = row.get("tracingspancontext")
    found = _TRACEPARENT(value) if isinstance(value, str) else None
    return None if found is None else found[1]
