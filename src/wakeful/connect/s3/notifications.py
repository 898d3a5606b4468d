"""Reads the notifications of S3 as they come from a queue. Pure: bytes in, changes out.

    {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": …, "object": …}}]}    from S3 and compatible servers
    {"source": "aws.s3", "detail-type": "Object Created", "detail": {…}}                   through EventBridge
    {"Type": "Notification", "Message": "…"}                                               either of them, through SNS
    {"Event": "s3:TestEvent", …}                                                           sent once, at setup

A notification says that an object was written, not whether it existed before: both are `created` here. Other notifications (tags,
storage classes, restores) are not changes of an object. The sequencer distinguishes the changes of a key, and is the same on every
route of the notification; without it, time and content are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus

from wakeful.clock import Microseconds, from_datetime
from wakeful.connect.s3.objects import ObjectChange, ObjectOperation
from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.model import digest

_BY_NAME: dict[str, ObjectOperation] = {
    "ObjectCreated": "created",
    "ObjectRemoved": "deleted",
    "LifecycleExpiration": "deleted",
}
_BY_DETAIL: dict[str, ObjectOperation] = {"Object Created": "created", "Object Deleted": "deleted"}
_SENT_BY_SNS = "Notification"


def read_notification(raw: bytes) -> tuple[list[ObjectChange], list[str]]:
    """The changes in a message, and errors of single ones. Raises InvalidEvent if it is not a notification."""
    told = read_json(raw, depth=DEPTH_LIMIT, inside=("message",))
    if _is(told, "Type", _SENT_BY_SNS) and isinstance(told.get("Message"), str):
        told = read_json(told["Message"].encode(), depth=DEPTH_LIMIT, inside=("message",))
    if _is(told, "Event", "s3:TestEvent"):
        return [], []
    if _is(told, "source", "aws.s3") and isinstance(told.get("detail"), dict):
        return _all_of([told], _of_event_bridge)
    if isinstance(told, dict) and isinstance(told.get("Records"), list):
        return _all_of(told["Records"], _of_record)
    message = (
        "not an S3 notification: neither Records nor an EventBridge event. Make sure that the queue gets nothing else"
    )
    raise InvalidEvent(message)


def _all_of(told: list[Any], read: Any) -> tuple[list[ObjectChange], list[str]]:
    found, wrong = [], []
    for number, one in enumerate(told):
        try:
            change = read(one)
        except (InvalidEvent, KeyError, TypeError, ValueError, OverflowError) as error:
            words = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            wrong.append(f"record {number} cannot be read: {words}")
        else:
            found += [] if change is None else [change]
    return found, wrong


def _of_record(record: dict[str, Any]) -> ObjectChange | None:
    name = _text(record, "eventName").removeprefix("s3:")
    operation = _BY_NAME.get(name.partition(":")[0])
    if operation is None:
        return None
    told, bucket = record["s3"]["object"], record["s3"]["bucket"]
    key = unquote_plus(_text(told, "key"), errors="strict")
    return _change(operation, _text(bucket, "name"), key, told, ("eTag", "versionId"), record.get("eventTime"))


def _of_event_bridge(event: dict[str, Any]) -> ObjectChange | None:
    operation = _BY_DETAIL.get(_text(event, "detail-type"))
    if operation is None:
        return None
    told = event["detail"]["object"]
    bucket = _text(event["detail"]["bucket"], "name")
    return _change(operation, bucket, _text(told, "key"), told, ("etag", "version-id"), event.get("time"))


def _change(
    operation: ObjectOperation, bucket: str, key: str, told: Mapping[str, Any], names: tuple[str, str], moment: object
) -> ObjectChange:
    if "\0" in key:
        raise ValueError("its key contains NUL, which cannot be stored")
    etag, version_id = (_optional(told, name) for name in names)
    sequencer = _optional(told, "sequencer")
    size = told.get("size")
    at = None if moment is None else _moment(moment)
    order = sequencer or digest(str(at), etag or "", version_id or "")
    return ObjectChange(
        bucket,
        key,
        operation,
        "/".join(part for part in (operation, version_id, order) if part),
        version_id=version_id,
        size=size if isinstance(size, int) and operation != "deleted" else None,
        etag=None if operation == "deleted" else etag,
        modified=at if operation != "deleted" else None,
        sequencer=sequencer,
        told_at=at,
    )


def _is(told: Any, name: str, value: str) -> bool:
    return isinstance(told, dict) and told.get(name) == value


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told[name]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is {value!r} but should be text")
    return value


def _optional(told: Mapping[str, Any], name: str) -> str | None:
    value = told.get(name)
    return value.strip('"') or None if isinstance(value, str) else None


def _moment(value: object) -> Microseconds:
    if not isinstance(value, str):
        raise TypeError(f"its time is {value!r} but should be text")
    return from_datetime(datetime.fromisoformat(value))
