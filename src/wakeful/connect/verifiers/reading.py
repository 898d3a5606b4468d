"""Parses verified requests, still with distrust: senders have bugs and pass on what their users type."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT, media_type_of, read_content
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json, refuse_faults
from wakeful.triggers.verifier import WebhookRequest

FORM = "application/x-www-form-urlencoded"
FORM_FIELDS = 1_000
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}").fullmatch


def read_body(request: WebhookRequest) -> Any:
    """The body as JSON, form, text, or base64 text for anything else. JSON that is labelled a form, as by `curl -d`, is read as
    JSON.
    """
    content_type = request.headers.get("content-type", "") or PLAIN
    if not request.body:
        return None
    if media_type_of(content_type) == FORM:
        if request.body.lstrip()[:1] in {b"{", b"["}:
            return read_json(request.body, depth=DEPTH_LIMIT, inside=("data",))
        return read_form(request.body)
    return read_content(request.body, content_type)


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    value = read_json(body, depth=DEPTH_LIMIT, inside=("data",))
    if type(value) is not dict:
        raise InvalidEvent("data is not a JSON object, which this sender always sends", field="data")
    return value


def read_form(body: bytes) -> dict[str, Any]:
    """The fields of a form; a field that occurs several times is a list."""
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS)
    except UnicodeDecodeError:
        raise InvalidEvent("data is a form that is not UTF-8: send it as UTF-8", field="data") from None
    except ValueError:
        message = f"data is a form of more than {FORM_FIELDS:,} fields: send JSON"
        raise InvalidEvent(message, field="data") from None
    found: dict[str, Any] = {}
    for name, value in fields:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    refuse_faults(found, depth=DEPTH_LIMIT, inside=("data",))
    return found


def is_form(request: WebhookRequest) -> bool:
    return media_type_of(request.headers.get("content-type", "")) == FORM


def within(value: Any, *path: str) -> Any:
    """The value at a path of nested objects; None if it is missing or a parent is not an object."""
    for name in path:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def word(value: Any) -> str | None:
    """Text that may be part of a type; None for anything else."""
    return value if type(value) is str and _WORD(value) else None


def required_word(value: Any, field: str) -> str:
    """Text that the type is made of; raises InvalidEvent if it is missing."""
    found = word(value)
    if found is None:
        message = f"{field} does not say what happened: it must be a word, like issue_created"
        raise InvalidEvent(message, field=field)
    return found


def label(value: Any) -> str | None:
    """Text or a whole number as an id or subject; None for anything else, or if it is not usable as one."""
    if type(value) is int:
        return str(value)
    return value if type(value) is str and 0 < len(value) <= TEXT_LIMIT and value.isprintable() else None


def moment(value: Any) -> datetime | None:
    """A time as senders write it: RFC 3339, or seconds since 1970; None for anything else."""
    try:
        if type(value) is int or type(value) is float:
            return datetime.fromtimestamp(value, UTC)
        if type(value) is str:
            found = datetime.fromisoformat(value)
            # Near the ends of the calendar the conversion to UTC overflows.
            return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        pass
    return None
