"""Parses what Debezium and AWS DMS send about rows, over any transport. Pure: bytes in, changes out.

    {"op": "u", "before": {…}, "after": {…}, "source": {…}}            Debezium; or the same under "payload", beside its "schema"
    {"specversion": "1.0", "iodebeziumop": "u", …, "data": {…}}        Debezium as CloudEvents
    {"data": {…}, "metadata": {"operation": "update", …}}              DMS; with "before-image" if enabled
    {"kinesisSchemaVersion": "1.0", "data": "eyJkYXRh…"}               either of them, through a Kinesis stream and a pipe
    [ … ]                                                              several of any

Empty messages (tombstones), heartbeats, begin and end of transactions, schema changes and truncations are not changes of rows. The
identity of a change is its position in the database's own log, with its table, operation and row: so it stays the same if Debezium,
or a relay, sends it again.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from wakeful.clock import Microseconds, from_datetime
from wakeful.connect.rows.change import Operation, RowChange, event_of
from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.model import Event, digest

_OF_DEBEZIUM: dict[str, Operation] = {"c": "insert", "r": "insert", "u": "update", "d": "delete"}
_OF_DMS: dict[str, Operation] = {"insert": "insert", "load": "insert", "update": "update", "delete": "delete"}
_NO_ROW = frozenset({"t", "m"})  # a truncation, and a message written into the log
_NAMES = {"postgresql": "postgres"}
_USUAL_SCHEMAS = frozenset({"public", "dbo"})
# Fields with the position of a change, for the various connectors, without underscores and in lower case.
_POSITION = (
    "lsn",
    "changelsn",
    "commitlsn",
    "eventserialno",
    "scn",
    "commitscn",
    "rsid",
    "ssn",
    "gtid",
    "file",
    "pos",
    "row",
    "vgtid",
    "ord",
    "txid",
    "transactionid",
)
_NOT_SENT = frozenset({"__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="})
_LONGEST_POSITION = 400
_LAST_MOMENT = 253_402_300_799_000_000  # the end of the calendar
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*").fullmatch
_UNKNOWN = (
    "it is neither a Debezium change (op, source, before, after) nor a DMS record (metadata, data): send whole envelopes, "
    "not only the new row"
)


@dataclass(frozen=True, slots=True)
class Told:
    """A change, with its database."""

    database: str  # the kind: "postgres", "mysql", "mongodb"; "dms", which does not name it
    name: str | None  # of the database itself
    change: RowChange  # its position is the whole identity
    snapshot: bool  # the row existed before; it is sent because a snapshot was taken

    def event(self, source: str) -> Event:
        event = event_of(self.change, database=self.database, source=source)
        if self.name is not None:
            event.extensions = {"database": self.name}
        return event


def read_changes(raw: bytes, key: bytes | None = None, *, columns: Sequence[str] = ()) -> tuple[list[Told], list[str]]:
    """The changes in a message, and errors of single ones. Raises InvalidEvent if all of it is unreadable.

    `key` is the message key, if there is one (Kafka); `columns` identify a row, for messages that do not say.
    """
    if not raw.strip():
        return [], []
    found: list[Told] = []
    wrong: list[str] = []
    documents = _documents(_json(raw))
    named = None if key is None or not key.strip() else _row(_json(key), "the key")
    for number, document in enumerate(documents):
        try:
            told = told_of(document, named, columns=columns)
        except InvalidEvent as error:
            wrong.append(str(error) if len(documents) == 1 else f"change {number}: {error}")
        else:
            found += [] if told is None else [told]
    if wrong and len(documents) == 1:
        raise InvalidEvent(wrong[0])
    return found, wrong


def told_of(document: Any, named: Mapping[str, Any] | None = None, *, columns: Sequence[str] = ()) -> Told | None:
    """The change in one document; None if it is about something else. `named` is the key that came with it."""
    if isinstance(document, dict) and "payload" in document and "schema" in document:
        document = document["payload"]
    if document is None:
        return None
    if not isinstance(document, dict):
        raise InvalidEvent(_UNKNOWN)
    if isinstance(document.get("metadata"), dict) and "record-type" in document["metadata"]:
        return _of_dms(document, columns)
    if "specversion" in document and "iodebeziumop" in document:
        document = _of_cloudevent(document)
    if isinstance(document.get("op"), str) and isinstance(document.get("source"), dict):
        return _of_debezium(document, named, columns)
    heartbeat = bool(document) and all(name.startswith("ts_") for name in document)
    transaction = document.get("status") in ("BEGIN", "END") and "id" in document
    schema = "ddl" in document or "tableChanges" in document
    if heartbeat or transaction or schema:
        return None
    raise InvalidEvent(_UNKNOWN)


# Debezium


def _of_debezium(envelope: dict[str, Any], named: Mapping[str, Any] | None, columns: Sequence[str]) -> Told | None:
    if envelope["op"] in _NO_ROW:
        return None
    operation = _operation(_OF_DEBEZIUM, envelope["op"], "op")
    source = {name.replace("_", "").lower(): value for name, value in envelope["source"].items()}
    connector = _text(source, "connector", "source.connector")
    table = _text(source, "collection" if "collection" in source else "table", "source.table")
    new, old = _row(envelope.get("after"), "after"), _row(envelope.get("before"), "before")
    changed = _changed(old, new) if operation == "update" else None
    if operation == "update" and new is None:
        changed = _fields_of_update(envelope)
    row = new or old or {}
    if columns or named is None:
        named = _named(row or _row(envelope.get("filter"), "filter") or {}, columns)
    place = {name: source[name] for name in _POSITION if source.get(name) is not None}
    if connector == "mongodb" or not place:
        place["tsms"] = source.get("tsms")
    database = _optional(source, "db")
    if not any(place.values()):
        raise InvalidEvent("source does not contain the position of the change: lsn, pos, scn and ts_ms are missing")
    change = RowChange(
        _table(_optional(source, "schema"), table),
        operation,
        "",
        {name: _bare(value) for name, value in named.items()},
        _sent(new),
        _sent(old),
        changed,
        _committed_at(source),
    )
    change.position = _position(
        [_optional(source, "name") or connector, database or "", change.table], operation, place, change
    )
    snapshot = envelope["op"] == "r" or source.get("snapshot") not in (None, False, "false")
    return Told(_word(_NAMES.get(connector, connector)), database, change, snapshot)


def _of_cloudevent(event: dict[str, Any]) -> dict[str, Any]:
    """The usual envelope of a CloudEvent, whose attributes are the fields of `source`."""
    rows = event.get("data")
    if isinstance(rows, dict) and "payload" in rows:
        rows = rows["payload"]
    told = {name.removeprefix("iodebezium"): value for name, value in event.items() if name.startswith("iodebezium")}
    return {"op": told.pop("op"), "source": told, **(rows if isinstance(rows, dict) else {})}


def _fields_of_update(envelope: dict[str, Any]) -> list[str] | None:
    """The changed fields in MongoDB, which may send only the fields that were set or removed."""
    described = envelope.get("updateDescription")
    if isinstance(described, dict):
        updated = _row(described.get("updatedFields"), "updateDescription.updatedFields") or {}
        removed = described.get("removedFields") or []
        return [*updated, *(name for name in removed if isinstance(name, str))]
    patch = _row(envelope.get("patch"), "patch")
    if patch is None:
        return None
    fields = [name for part in ("$set", "$unset") for name in (patch.get(part) or {}) if isinstance(patch[part], dict)]
    return fields or [name for name in patch if not name.startswith(("$", "_id"))]


def _changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str] | None:
    if old is None or new is None:
        return None
    return [name for name, value in new.items() if not _is_missing(value) and (name not in old or old[name] != value)]


def _sent(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row without columns that the database did not send because they are large and unchanged."""
    return None if row is None else {name: value for name, value in row.items() if not _is_missing(value)}


def _is_missing(value: Any) -> bool:
    return isinstance(value, str) and value in _NOT_SENT


def _committed_at(source: Mapping[str, Any]) -> Microseconds | None:
    for name, factor in (("tsus", 1), ("tsms", 1_000)):
        value = source.get(name)
        if isinstance(value, int) and 0 < value * factor <= _LAST_MOMENT:
            return value * factor
    return None


# DMS


def _of_dms(record: dict[str, Any], columns: Sequence[str]) -> Told | None:
    about = record["metadata"]
    if about["record-type"] != "data":
        return None
    operation = _operation(_OF_DMS, about.get("operation"), "metadata.operation")
    data, before = _row(record.get("data"), "data"), _row(record.get("before-image"), "before-image")
    new, old = (None, before or data) if operation == "delete" else (data, before)
    change = RowChange(
        _table(_optional(about, "schema-name"), _text(about, "table-name", "metadata.table-name")),
        operation,
        "",
        _named(data or before or {}, columns),
        new,
        old,
        # The image may contain only some columns, and leaves out empty ones.
        [name for name, value in (new or {}).items() if old.get(name) != value]
        if old and operation == "update"
        else None,
        _moment(about.get("commit-timestamp") or about.get("timestamp")),
    )
    # With transaction details, a record has a number; without them, only its time and content.
    place = {name: about[name] for name in ("transaction-id", "transaction-record-id") if about.get(name) is not None}
    if len(place) < 2:
        rows = to_json([data, before]).decode()
        place |= {"timestamp": about.get("timestamp"), "rows": digest(rows, size=8)}
    change.position = _position(["dms", change.table], operation, place, change)
    return Told("dms", None, change, about.get("operation") == "load")


def _moment(value: Any) -> Microseconds | None:
    try:
        return from_datetime(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


# both


def _documents(value: Any) -> list[Any]:
    """The documents in a message, out of the wrapping of relays."""
    if isinstance(value, list):
        return [one for part in value for one in _documents(part)]
    if isinstance(value, dict):
        if isinstance(value.get("Records"), list):
            return _documents(value["Records"])
        nested = value.get("kinesis")
        inner = nested if isinstance(nested, dict) else value
        if "kinesisSchemaVersion" in inner and isinstance(inner.get("data"), str):
            return _documents(_json(_decoded(inner["data"])))
    return [value]


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InvalidEvent("data of a Kinesis record is not base64") from None


def _json(raw: bytes) -> Any:
    return read_json(raw, depth=DEPTH_LIMIT, inside=("message",))


def _row(value: Any, name: str) -> dict[str, Any] | None:
    """An object, or the text of one; for a key with its schema, the payload."""
    if isinstance(value, str) and value:
        value = read_json(value.encode(), depth=DEPTH_LIMIT, inside=(name,))
    if isinstance(value, dict) and set(value) == {"schema", "payload"}:
        value = value["payload"]
    if value is None or value == "":
        return None
    if not isinstance(value, dict):
        message = f"{name} is not an object"
        raise InvalidEvent(message)
    return value


def _named(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """The identity of a row: the named columns, else the column that is usually the key."""
    if not columns:
        columns = [name for name in ("id", "_id") if name in row][:1]
    return {name: _bare(row[name]) for name in columns if name in row}


def _bare(value: Any) -> Any:
    """MongoDB writes {"$oid": "…"} for a value."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$"):
        return next(iter(value.values()))
    return value


def _operation(known: Mapping[str, Operation], value: Any, name: str) -> Operation:
    operation = known.get(value) if isinstance(value, str) else None
    if operation is None:
        message = f"{name} is {value!r}, which is not an operation on a row"
        raise InvalidEvent(message)
    return operation


def _table(schema: str | None, table: str) -> str:
    return table if schema is None or schema in _USUAL_SCHEMAS else f"{schema}.{table}"


def _position(where: Sequence[str], operation: str, place: Mapping[str, Any], change: RowChange) -> str:
    """The identity of a change. Rows of one statement may share a log position, so the row itself is included."""
    row = to_json([change.key or [change.new, change.old]], inf_nan_mode="strings").decode()
    at = "-".join(str(value) for value in place.values())
    written = "/".join([*where, operation, at, digest(row, size=6)])
    return written if len(written) <= _LONGEST_POSITION else digest(written)


def _text(told: Mapping[str, Any], name: str, shown: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not value or len(value) > 200 or not value.isprintable():
        message = f"{shown} is missing, or is not a name"
        raise InvalidEvent(message)
    return value


def _word(value: str) -> str:
    if _WORD(value) is None:
        message = f"source.connector is {value!r}, but should be a word"
        raise InvalidEvent(message)
    return value.lower()


def _optional(told: Mapping[str, Any], name: str) -> str | None:
    value = told.get(name)
    return value if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() else None
