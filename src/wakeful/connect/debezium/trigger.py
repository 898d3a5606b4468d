"""`debezium("/hooks/debezium", verify=bearer(…), table="orders")`: changed rows of any database that Debezium or AWS DMS reads.

    /hooks/debezium         pushed: the HTTP sink of Debezium Server, a pipe of EventBridge; a webhook like any other
    sqs://eu-west-1/rows    read from a queue that any number of processes share

envelopes.py parses the messages; the events are the same as those of `postgres_changes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from wakeful.cel import Condition, Match, compile_condition
from wakeful.connect.debezium.envelopes import Told, read_changes
from wakeful.connect.rows.change import OPERATIONS, Operation
from wakeful.connect.rows.rows import read_operations
from wakeful.connect.s3.aws import Access
from wakeful.connect.s3.sqs import QueueAddress, QueueReader, problems_of_queue, read_queue_address
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.intake.route import type_matcher
from wakeful.model import Event, digest
from wakeful.rate import Rate
from wakeful.secrets import Secret
from wakeful.triggers.mapping import Mapping as DataMapping
from wakeful.triggers.mapping import apply_mapping, name_of_mapping, read_mapping
from wakeful.triggers.options import refuse_unknown_options
from wakeful.triggers.source import Context, Reader
from wakeful.triggers.verifier import Challenge, Delivered, Verifier, WebhookRequest
from wakeful.triggers.webhook import BODY_LIMIT, Webhook, refuse_verifier, webhook


@dataclass(frozen=True, slots=True)
class Wanted:
    """The changes that a trigger wants."""

    table: str | None = None
    operations: tuple[Operation, ...] = OPERATIONS
    snapshot: bool = False
    key: tuple[str, ...] = ()
    where: str | None = None

    @property
    def type(self) -> str:
        if self.table is None and self.operations == OPERATIONS:
            return "*"
        table = "*" if self.table is None else self.table.rpartition(".")[2]
        return f"*.{table}.{self.operations[0] if len(self.operations) == 1 else '*'}"

    @property
    def condition(self) -> str | None:
        """The selection as one CEL condition, evaluated on the event, so that `why` can show it. "sales.orders" is a schema and a
        table, or a database and a table.
        """
        parts = []
        if self.table is not None or self.operations != OPERATIONS:
            told = self._type_is(self.table)
            database, _, rest = (self.table or "").partition(".")
            parts.append(f'({told} || (event.database == "{database}" && {self._type_is(rest)}))' if rest else told)
        if self.where is not None:
            parts.append(f"({self.where})" if parts else self.where)
        return " && ".join(parts) or None

    def _type_is(self, table: str | None) -> str:
        named = ".+" if table is None else re.escape(table)
        pattern = rf"^[^.]+\.{named}\.({'|'.join(self.operations)})$"
        return f"event.type.matches({json.dumps(pattern, ensure_ascii=False)})"

    def takes(self, told: Told) -> bool:
        """Whether an event is to be made of the change. Conditions are evaluated later."""
        if (told.snapshot and not self.snapshot) or told.change.operation not in self.operations:
            return False
        return self.table in {None, told.change.table, f"{told.name}.{told.change.table}"}

    def describe(self) -> list[str]:
        parts = [] if self.table is None else [f'table="{self.table}"']
        if self.operations != OPERATIONS:
            parts.append(f"operations={list(self.operations)}")
        if self.snapshot:
            parts.append("snapshot=True")
        if self.where is not None:
            parts.append(f'where="{self.where}"')
        return parts


@dataclass(frozen=True, slots=True)
class Debezium:
    """Changes of rows from a queue."""

    url: str
    queue: QueueAddress
    wanted: Wanted
    data: DataMapping | None = None
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)
    _mapping: Callable[[Event], Any] | None = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shown = f'debezium("{self.url}")'
        written = self.wanted.condition
        object.__setattr__(self, "_fits", type_matcher(self.type))
        object.__setattr__(self, "_condition", None if written is None else compile_condition(written, where=shown))
        object.__setattr__(self, "_mapping", read_mapping(self.data, where=shown))

    @property
    def type(self) -> str:
        return self.wanted.type

    @property
    def where(self) -> str | None:
        return self.wanted.condition

    @property
    def source(self) -> str:
        """The source of its events. Triggers that want the same form share events; others have events of their own."""
        if self.data is None and not self.wanted.snapshot and not self.wanted.key:
            return self.url
        form = digest(name_of_mapping(self.data), repr(self.wanted.snapshot), repr(self.wanted.key), size=4)
        return f"{self.url}#{form}"

    def event(self, told: Told) -> Event:
        event = told.event(self.source)
        apply_mapping(self._mapping, event)
        return event

    def matches(self, event: Event) -> Match:
        if not self._fits(event.type):
            return Match(matched=False, reason=f'type "{event.type}" is not "{self.type}"')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)

    def describe(self) -> str:
        return _written(self.url, self.wanted.describe())

    @property
    def shared(self) -> tuple[object, ...]:
        return ("debezium", self.queue)

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return ChangesReader(self.queue, triggers, context)

    async def problems(self) -> list[str]:
        return await problems_of_queue(self.queue)


class ChangesReader(QueueReader):
    """Reads the queue for all triggers on it."""

    kind = "debezium"

    def __init__(self, address: QueueAddress, triggers: Sequence[Debezium], context: Context) -> None:
        super().__init__(address.shown, address, context.clock)
        # Triggers by the form in which they want changes.
        self._forms: dict[str, list[Debezium]] = {}
        for one in triggers:
            self._forms.setdefault(one.source, []).append(one)

    def events_of(self, raw: bytes, headers: Mapping[str, str]) -> tuple[list[Event], list[str]]:  # noqa: ARG002 only the body matters
        events: list[Event] = []
        wrong: list[str] = []
        for sharing in self._forms.values():
            changes, trouble = read_changes(raw, columns=sharing[0].wanted.key)
            wrong += [one for one in trouble if one not in wrong]
            for told in changes:
                if any(one.wanted.takes(told) for one in sharing):
                    try:
                        events.append(sharing[0].event(told))
                    except InvalidEvent as error:
                        wrong.append(str(error))
        return events, wrong


@dataclass(frozen=True, slots=True)
class RowChanges(Verifier):
    """Verifies with another verifier, and parses bodies with changed rows: each change in a request is an event."""

    name: ClassVar[str] = "debezium"
    by: Verifier
    snapshot: bool = False
    key: tuple[str, ...] = ()

    def open(self, where: str) -> None:
        self.by.open(where)

    def verify(self, request: WebhookRequest) -> None:
        self.by.verify(request)

    def challenge(self, request: WebhookRequest) -> Challenge | None:
        return self.by.challenge(request)

    def read(self, request: WebhookRequest) -> Delivered:
        """The event of a request with exactly one change."""
        found = self.read_all(request)
        if len(found) != 1:
            message = f"it contains {len(found)} changes, but one was expected"
            raise InvalidEvent(message)
        return found[0]

    def read_all(self, request: WebhookRequest) -> list[Delivered]:
        changes, wrong = read_changes(request.body, columns=self.key)
        if wrong:
            raise InvalidEvent("; ".join(wrong))
        events = [told.event("") for told in changes if self.snapshot or not told.snapshot]
        return [
            Delivered(one.data, one.type, one.id, one.subject, one.time, extensions=one.extensions) for one in events
        ]

    def reads(self) -> tuple[str, ...] | None:
        return self.by.reads()

    def describe(self) -> str:
        return self.by.describe()


@dataclass(frozen=True, slots=True)
class DebeziumWebhook(Webhook):
    """Changes of rows that are pushed to a webhook."""

    wanted: Wanted = field(default_factory=Wanted)

    def describe(self) -> str:
        return _written(self.path, [f"verify={self.verify.describe()}", *self.wanted.describe()])


@refuse_unknown_options
def debezium(
    url: str,
    *,
    table: str | None = None,
    operations: str | Sequence[str] | None = None,
    where: str | None = None,
    data: DataMapping | None = None,
    verify: Verifier | None = None,
    snapshot: bool = False,
    key: str | Sequence[str] | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: Secret | None = None,
    secret_key: Secret | None = None,
    body_limit: int | str = BODY_LIMIT,
    rate: Rate | str | None = None,
) -> Debezium | DebeziumWebhook:
    """Wake for changed rows that Debezium or AWS DMS reports: pushed to a path, or through a queue.

    A path ("/hooks/debezium") needs `verify`, and may have `body_limit` and `rate`, like a webhook. A queue ("sqs://eu-west-1/rows")
    may need `region`, `endpoint`, `access_key` and `secret_key`. `snapshot`: rows that existed before become events too. `key`
    names the columns that identify a row, if not "id".
    """
    shown = f"debezium({url!r})"
    if not isinstance(cast("object", url), str) or not url.startswith(("/", "sqs://", "http://", "https://")):
        message = (
            f'{shown}: give a path that is called ("/hooks/debezium"), or a queue that is read ("sqs://REGION/NAME"); other sources '
            "are not supported yet. Debezium Server can send to both"
        )
        raise ConfigError(message)
    if not isinstance(cast("object", snapshot), bool):
        message = f"{shown}: snapshot must be True or False, not {snapshot!r}"
        raise ConfigError(message)
    wanted = Wanted(
        read_table(table, where=shown),
        read_operations(operations, where=shown),
        snapshot,
        _read_key(key, where=shown),
        where,
    )
    if url.startswith("/"):
        return _called(url, wanted, verify, data, body_limit, rate)
    if verify is not None:
        message = f"{shown}: verify is for a path that is called; the queue itself controls who may write to it"
        raise ConfigError(message)
    access = Access(region, endpoint, access_key, secret_key)
    access.check(shown)
    return Debezium(url, read_queue_address(url, access, where=shown), wanted, data)


def _written(url: str, parts: Sequence[str]) -> str:
    shown = ", ".join([f'"{url}"', *parts])
    return f"debezium({shown})"


def _called(
    path: str,
    wanted: Wanted,
    verify: Verifier | None,
    data: DataMapping | None,
    body_limit: int | str,
    rate: Rate | str | None,
) -> DebeziumWebhook:
    refuse_verifier(verify, where=f'debezium("{path}")')
    reading = RowChanges(cast("Verifier", verify), wanted.snapshot, wanted.key)
    if wanted.where is not None:  # compiled by itself, so that an error quotes it as it was written
        compile_condition(wanted.where, where=f'debezium("{path}")')
    one = webhook(
        path, verify=reading, type=wanted.type, where=wanted.condition, data=data, body_limit=body_limit, rate=rate
    )
    return DebeziumWebhook(
        one.path, one.verify, one.type, one.source, one.where, one.id, one.data, one.body_limit, one.rate, wanted
    )


def read_table(table: Any, *, where: str) -> str | None:
    """Read `table=`, as events name it: without a default schema."""
    if table is None:
        return None
    if not isinstance(table, str) or not table.strip() or table != table.strip() or '"' in table or "*" in table:
        message = f'{where}: table must be the name of a table, like "orders" or "sales.orders", not {table!r}'
        raise ConfigError(message)
    schema, _, name = table.partition(".")
    return name if name and schema in {"public", "dbo"} else table


def _read_key(key: Any, *, where: str) -> tuple[str, ...]:
    named = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(one, str) and one for one in named):
        message = f'{where}: key must be names of columns, like "id" or ["country", "number"], not {key!r}'
        raise ConfigError(message)
    return named
