"""CloudEvents 1.0: reads events from a request, and converts between an event and its stored text.

    structured   application/cloudevents+json         the body is one envelope
    batch        application/cloudevents-batch+json   the body is an array of envelopes
    plain        application/json, no ce- headers     an object is one envelope, an array a batch; specversion may be missing
    binary       ce- headers, any Content-Type        attributes are headers, the body is the data

Anything wrong with an event raises InvalidEvent, which says what, where and what to do. A request is accepted in full
or not at all. This is the hot path of intake: attributes are popped out of the parsed envelope, and the rest are the
extensions.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from pydantic_core import PydanticSerializationError, from_json, to_json

from wakeful.errors import InvalidEvent, did_you_mean
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json, refuse_faults, shown
from wakeful.model import Event

BATCH_LIMIT = 10_000
TEXT_LIMIT = 1_024
EXTENSION_NAME_LIMIT = 20

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
PLAIN = "application/json"

ATTRIBUTES = (
    "id",
    "source",
    "type",
    "specversion",
    "subject",
    "time",
    "data",
    "data_base64",
    "datacontenttype",
    "dataschema",
    "expirytime",
    "traceparent",
    "correlationid",
    "causationid",
)
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
).fullmatch
_QUOTED_PAIR = re.compile(r"\\(.)")
_CHARSETS = {"": "utf-8", "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "latin-1"}


class UnsupportedContentType(InvalidEvent):
    """A request whose Content-Type carries no events."""


def parse_request(headers: Mapping[str, str], body: bytes, *, limit_depth: int = DEPTH_LIMIT) -> list[Event]:
    """The events of an HTTP request. `headers` has lower-case names."""
    media_type = headers.get("content-type", "")
    if media_type not in (STRUCTURED, PLAIN, BATCH):
        media_type = media_type_of(media_type)
    if media_type == STRUCTURED:
        return [_read_event(read_json(body, depth=limit_depth), None, limit_depth)]
    if media_type == BATCH:
        return _read_batch(read_json(body, depth=limit_depth), limit_depth)
    if media_type.startswith("application/cloudevents"):
        raise _unsupported(media_type)
    for name in headers:
        if name.startswith("ce-"):
            return [_read_binary(headers, body, limit_depth)]
    if media_type != PLAIN:
        raise _unsupported(media_type)
    document = read_json(body, depth=limit_depth)
    if type(document) is list:
        return _read_batch(document, limit_depth, specversion="1.0")
    return [_read_event(document, None, limit_depth, specversion="1.0")]


def new_event(
    type: str,  # noqa: A002 the word of CloudEvents
    data: Any = None,
    *,
    source: str,
    id: str | None = None,  # noqa: A002 the word of CloudEvents
    subject: str | None = None,
    time: datetime | str | None = None,
    expirytime: datetime | str | None = None,
    **extensions: Any,
) -> Event:
    """An event made in this program, under the same checks as one from outside. `data` may be anything JSON-able."""
    attributes: dict[str, Any] = {
        **extensions,
        "id": uuid4().hex if id is None else id,
        "source": source,
        "type": type,
        "subject": subject,
    }
    # Written and read back: the handler gets the same as from an event from outside, and the checks are the same. But
    # JSON would turn times and wrong types into text, so these are added afterwards, unchanged.
    written: dict[str, Any] = {name: value for name, value in attributes.items() if isinstance(value, str | int)}
    if data is not None:
        written["data"] = data
    try:
        body = to_json(written)
    except (PydanticSerializationError, UnicodeError, ValueError, TypeError, RecursionError) as error:
        raise _unwritable(written, error) from None
    envelope = read_json(body, depth=DEPTH_LIMIT)
    if len(written) <= len(attributes):
        envelope |= {name: value for name, value in attributes.items() if name not in written and value is not None}
    if time is not None:
        envelope["time"] = time
    if expirytime is not None:
        envelope["expirytime"] = expirytime
    return _read_event(envelope, None, DEPTH_LIMIT, specversion="1.0")


def _unwritable(written: dict[str, Any], error: Exception) -> InvalidEvent:
    """Why an event of this program cannot be written as JSON: an attribute is broken text, or the data is not
    JSON-able.
    """
    data = written.pop("data", None)
    refuse_faults(written, depth=DEPTH_LIMIT)
    try:
        read_json(to_json(data), depth=DEPTH_LIMIT, inside=("data",))
    except InvalidEvent as invalid:
        return invalid
    except (PydanticSerializationError, UnicodeError, ValueError, TypeError, RecursionError) as inside:
        error = inside
    message = (
        f"data cannot be written as JSON ({str(error).splitlines()[0][:200]}): "
        "pass plain values, a dataclass or a pydantic model"
    )
    return InvalidEvent(message, field="data")


def to_envelope(event: Event) -> str:
    """The structured JSON text under which an event is stored."""
    envelope: dict[str, Any] = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
    if event.subject is not None:
        envelope["subject"] = event.subject
    if event.time is not None:
        envelope["time"] = event.time.isoformat()
    if event.expirytime is not None:
        envelope["expirytime"] = event.expirytime.isoformat()
    if event.traceparent is not None:
        envelope["traceparent"] = event.traceparent
    if event.correlationid is not None:
        envelope["correlationid"] = event.correlationid
    if event.causationid is not None:
        envelope["causationid"] = event.causationid
    if event.datacontenttype is not None:
        envelope["datacontenttype"] = event.datacontenttype
    if event.dataschema is not None:
        envelope["dataschema"] = event.dataschema
    if event.extensions:
        envelope.update(event.extensions)
    if event.data is not None:
        envelope["data"] = event.data
    return to_json(envelope).decode()


def from_envelope(text: str) -> Event:
    """The event of a text that `to_envelope` made. The text is trusted: nothing is checked."""
    envelope = from_json(text)
    pop = envelope.pop
    pop("specversion", None)
    time = pop("time", None)
    expirytime = pop("expirytime", None)
    return Event(
        pop("source"),
        pop("id"),
        pop("type"),
        pop("data", None),
        pop("subject", None),
        None if time is None else datetime.fromisoformat(time),
        pop("traceparent", None),
        pop("correlationid", None),
        pop("causationid", None),
        None if expirytime is None else datetime.fromisoformat(expirytime),
        pop("datacontenttype", None),
        pop("dataschema", None),
        envelope,
    )


def content_digest(event: Event) -> str:
    """A digest of an event's content, to tell a repetition from a conflict.

    It leaves out when and how the event came: id, source, times, trace attributes and extensions may differ between two
    deliveries of the same fact. The order of keys does count here: if two digests differ, the store compares the
    contents.
    """
    content = [event.type, event.subject, event.datacontenttype, event.dataschema, event.data]
    return blake2b(to_json(content), digest_size=16).hexdigest()


def _read_batch(document: Any, depth: int, specversion: str | None = None) -> list[Event]:
    if type(document) is not list:
        raise InvalidEvent(
            "a batch is a JSON array of events: send one event as application/cloudevents+json", field="body"
        )
    if not document:
        raise InvalidEvent("the batch is empty: send at least one event", field="body")
    if len(document) > BATCH_LIMIT:
        message = f"the batch has {len(document):,} events, over the limit of {BATCH_LIMIT:,}: send it in parts"
        raise InvalidEvent(message, field="body")
    return [_read_event(envelope, index, depth, specversion) for index, envelope in enumerate(document)]


def _read_event(envelope: Any, index: int | None, depth: int, specversion: str | None = None) -> Event:
    """The event of a parsed envelope, which is consumed. `specversion` is the default for a missing one."""
    if type(envelope) is not dict:
        message = "an event is a JSON object" + (
            ": send several as application/cloudevents-batch+json" if index is None else ""
        )
        raise InvalidEvent(message, field="body", index=index)
    pop = envelope.pop
    given = pop("specversion", specversion)
    if given != "1.0":
        raise _wrong_specversion(given, index)
    identifier, source, kind = pop("id", None), pop("source", None), pop("type", None)
    if type(identifier) is not str or not 0 < len(identifier) <= TEXT_LIMIT:
        raise _wrong_text("id", identifier, index, envelope)
    if type(source) is not str or not 0 < len(source) <= TEXT_LIMIT:
        raise _wrong_text("source", source, index, envelope)
    if type(kind) is not str or not 0 < len(kind) <= TEXT_LIMIT:
        raise _wrong_text("type", kind, index, envelope)
    event = Event(source, identifier, kind)
    data = pop("data", None)
    if not envelope:
        event.data = data
        return event
    if (text := pop("subject", None)) is not None:
        event.subject = _text("subject", text, index)
    if (moment := pop("time", None)) is not None:
        event.time = _moment("time", moment, index)
    if (text := pop("datacontenttype", None)) is not None:
        event.datacontenttype = _text("datacontenttype", text, index)
    if envelope:
        if (encoded := pop("data_base64", None)) is not None:
            data = _decoded(encoded, data, event.datacontenttype, index, depth)
        if (text := pop("dataschema", None)) is not None:
            event.dataschema = _text("dataschema", text, index)
        if (moment := pop("expirytime", None)) is not None:
            event.expirytime = _moment("expirytime", moment, index)
        if (text := pop("traceparent", None)) is not None:
            event.traceparent = _text("traceparent", text, index)
        if (text := pop("correlationid", None)) is not None:
            event.correlationid = _text("correlationid", text, index)
        if (text := pop("causationid", None)) is not None:
            event.causationid = _text("causationid", text, index)
        if envelope:
            event.extensions = _extensions(envelope, index)
    event.data = data
    return event


def _read_binary(headers: Mapping[str, str], body: bytes, depth: int) -> Event:
    envelope: dict[str, Any] = {
        name[3:]: _header(name, value) for name, value in headers.items() if name.startswith("ce-")
    }
    for name in ("data", "data_base64", "datacontenttype"):
        if name in envelope:
            place = "the Content-Type header" if name == "datacontenttype" else "the body"
            raise InvalidEvent(f"the ce-{name} header is not allowed: in binary mode this is {place}", field=name)
    content_type = headers.get("content-type") or None
    envelope["datacontenttype"] = content_type
    refuse_faults(envelope, depth=depth)
    event = _read_event(envelope, None, depth)
    # Without a Content-Type the data is JSON, as in the JSON format.
    event.data = read_content(body, content_type or PLAIN, depth=depth) if body else None
    return event


def _header(name: str, value: str) -> str:
    """The text of an attribute from a header: unquoted, then percent-decoded once, as UTF-8."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _QUOTED_PAIR.sub(r"\1", value[1:-1])
    if value.isascii() and "%" not in value:
        return value
    try:
        return unquote_to_bytes(value if value.isascii() else value.encode("latin-1")).decode()
    except UnicodeError:
        message = f"the {name} header is not UTF-8 once percent-decoded: percent-encode it as UTF-8"
        raise InvalidEvent(message, field=name.removeprefix("ce-")) from None


def read_content(body: bytes, content_type: str, *, index: int | None = None, depth: int = DEPTH_LIMIT) -> Any:
    """Data that came as bytes: JSON is parsed, text is decoded, everything else becomes base64 text."""
    media_type = media_type_of(content_type)
    if media_type in (PLAIN, "text/json") or media_type.endswith("+json"):
        try:
            return read_json(body, depth=depth, inside=("data",))
        except InvalidEvent as error:
            error.index = index
            raise
    if not media_type.startswith("text/"):
        return base64.b64encode(body).decode()
    charset = _charset(content_type)
    try:
        text = body.decode(_CHARSETS[charset])
    except KeyError:
        message = f"the charset {shown(charset)} is not known: send text as UTF-8"
        raise InvalidEvent(message, field="datacontenttype", index=index) from None
    except UnicodeDecodeError as error:
        message = f"data is not {charset or 'utf-8'} (at byte {error.start}): name its charset, or send it as UTF-8"
        raise InvalidEvent(message, field="data", index=index) from None
    if "\x00" in text:
        raise InvalidEvent("data holds a NUL character: remove it", field="data", index=index)
    return text


def _decoded(encoded: Any, data: Any, content_type: str | None, index: int | None, depth: int) -> Any:
    """The data of `data_base64`: the same as if its bytes had come in binary mode. Without a type it stays base64 text."""
    if data is not None:
        raise InvalidEvent("data and data_base64 are both there: send one of them", field="data_base64", index=index)
    try:
        body = base64.b64decode(encoded, validate=True) if type(encoded) is str else None
    except (binascii.Error, ValueError):
        body = None
    if body is None:
        raise InvalidEvent(
            "data_base64 is not base64 text: encode the bytes as base64", field="data_base64", index=index
        )
    return read_content(body, content_type or "application/octet-stream", index=index, depth=depth)


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""


def _text(name: str, value: Any, index: int | None) -> str:
    if type(value) is not str or not 0 < len(value) <= TEXT_LIMIT:
        raise _wrong_text(name, value, index, {})
    return value


def _moment(name: str, value: Any, index: int | None) -> datetime:
    """A time: RFC 3339 with an offset. (`new_event` may also be given a datetime; one without a zone counts as UTC.)"""
    moment = None
    if type(value) is str and (match := _MOMENT(value)) is not None:
        try:
            if match[1] == "60":  # a leap second is legal, but Python has none: use the second after it
                moment = datetime.fromisoformat(value.upper().replace(":60", ":59", 1)) + timedelta(seconds=1)
            else:
                moment = datetime.fromisoformat(value if value.isupper() else value.upper())
        except (ValueError, OverflowError):
            moment = None
    elif isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if moment is not None and not 1 < moment.year < 9999:
        # Near the ends of the calendar an offset can lead out of it, and then no calculation with this time would work.
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:
            moment = None
    if moment is None:
        message = f"{name} is {shown(value)}: write it as RFC 3339 with an offset, like 2026-01-31T08:00:00Z"
        raise InvalidEvent(message, field=name, index=index)
    return moment


def _extensions(rest: dict[str, Any], index: int | None) -> dict[str, Any]:
    """The rest of an envelope: extension attributes. A null counts as an absent attribute."""
    for name, value in rest.items():
        if not (name.isascii() and name.isalnum() and name.lower() == name and len(name) <= EXTENSION_NAME_LIMIT):
            message = (
                f"{shown(name)} is not the name of an attribute: lower-case letters and digits, at most "
                f"{EXTENSION_NAME_LIMIT}; content goes into data.{_suggestion(name)}"
            )
            raise InvalidEvent(message, field=shown(name)[1:-1], index=index)
        if value is not None and type(value) not in (str, bool, int):
            message = f"{name} is not text, a boolean or an integer: put structured content into data"
            raise InvalidEvent(message, field=name, index=index)
    if None in rest.values():
        return {name: value for name, value in rest.items() if value is not None}
    return rest


def _suggestion(name: str) -> str:
    suggestion = did_you_mean(name.lower(), ATTRIBUTES)
    return suggestion if "Did you mean" in suggestion else ""


def _wrong_text(name: str, value: Any, index: int | None, rest: Mapping[str, Any]) -> InvalidEvent:
    if value is None:
        near = next((other for other in rest if other.lower() == name), None)
        message = f"{name} is missing: every event has an id, a source and a type"
        message += f" ({shown(near)} is there: write it {name})" if near is not None else ""
    elif type(value) is not str:
        message = f"{name} is {shown(value)}, not text: send it as a JSON string"
    elif not value:
        message = f"{name} is empty: send some text" + ("" if name in ("id", "source", "type") else ", or leave it out")
    else:
        message = f"{name} has {len(value):,} characters, over the limit of {TEXT_LIMIT:,}: send a shorter one"
    return InvalidEvent(message, field=name, index=index)


def _wrong_specversion(given: Any, index: int | None) -> InvalidEvent:
    what = "specversion is missing" if given is None else f"specversion is {shown(given)}"
    return InvalidEvent(f'{what}: this server takes CloudEvents "1.0"', field="specversion", index=index)


def _unsupported(media_type: str) -> UnsupportedContentType:
    what = f"Content-Type {shown(media_type)} carries no event" if media_type else "there is no Content-Type"
    message = (
        f"{what}: send {STRUCTURED}, {BATCH} or {PLAIN}, "
        "or any type with the attributes in ce- headers (ce-id, ce-source, ce-type, ce-specversion)"
    )
    return UnsupportedContentType(message, field="Content-Type")
