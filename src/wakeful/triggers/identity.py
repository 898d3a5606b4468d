"""`id=`: the identity by which a repeated delivery is recognised.

None                   the sender's own id, else a digest of the content
"content"              a digest of the body, for senders without ids
"header:X-Request-Id"  the value of that header
"data.id"              a CEL expression over the data
function               of the WebhookRequest
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

from wakeful.cel import compile_expression
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.model import Event
from wakeful.stored_errors import words_of
from wakeful.triggers.mapping import is_async
from wakeful.triggers.verifier import WebhookRequest

Identity = str | Callable[[WebhookRequest], Any]
Identify = Callable[[WebhookRequest, Event], str]

CONTENT = "content"
HEADER = "header:"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch


def content_of(request: WebhookRequest, _: Event | None = None) -> str:
    """A digest of the body: equal bytes have equal ids."""
    return blake2b(request.body, digest_size=16).hexdigest()


def read_identity(given: Identity | None, *, where: str) -> Identify | None:
    """An `id=` as a function that returns the id of a request; None: the sender's id, else the content."""
    if given is None:
        return None
    if given == CONTENT:
        return content_of
    if isinstance(given, str):
        return _of_header(given, where) if given.startswith(HEADER) else _of_expression(given, where)
    if not callable(cast("object", given)):
        message = (
            f'{where}: id must be "content", "header:X-Request-Id", a CEL expression like "data.id", or a function of the '
            f"request, not {given!r}"
        )
        raise ConfigError(message)
    if is_async(given):
        message = f"{where}: id is an async function, but intake does not wait: give a plain function"
        raise ConfigError(message)
    return _of_function(given)


def header_of(given: Identity | None) -> str | None:
    """The header that an `id=` names; None if it names none."""
    return given.removeprefix(HEADER).strip() if isinstance(given, str) and given.startswith(HEADER) else None


def _of_header(given: str, where: str) -> Identify:
    name = header_of(given) or ""
    if not _HEADER(name):
        message = f'{where}: id="{given}" names no header: write id="header:X-Request-Id"'
        raise ConfigError(message)

    def identify(request: WebhookRequest, _: Event) -> str:
        value = request.headers.get(name.lower())
        if not value:
            message = f'id="{given}": the request has no header {name}'
            raise InvalidEvent(message, field="id")
        return value

    return identify


def _of_expression(given: str, where: str) -> Identify:
    expression = compile_expression(given, where=f"{where}: id")

    def identify(_: WebhookRequest, event: Event) -> str:
        try:
            return _as_text(expression.value(event))
        except ValueError as error:
            message = f'id="{given}" failed: {error}'
            raise InvalidEvent(message, field="id") from None

    return identify


def _of_function(function: Callable[[WebhookRequest], Any]) -> Identify:
    def identify(request: WebhookRequest, _: Event) -> str:
        try:
            return _as_text(function(request))
        except Exception as error:  # the user's function may raise anything
            message = f"id= failed: {type(error).__name__}: {words_of(error)}"
            raise InvalidEvent(message, field="id") from error

    return identify


def _as_text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    message = f"it returned {value!r:.100}, which is neither text nor a whole number"
    raise ValueError(message)
