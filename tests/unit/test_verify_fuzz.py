"""Whatever comes, a verifier refuses, or says that it cannot read; nothing else ever leaves it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from support.fuzzing import inputs
from support.senders import FORM, NOW, SENDERS, Sender, examine_genuine
from wakeful import verify
from wakeful.clock import SECOND
from wakeful.errors import InvalidEvent
from wakeful.verify import Refused, WebhookRequest

JSON_SENDERS = [one for one in SENDERS if not isinstance(one.body, bytes)]
thoroughly = inputs(400)
pytestmark = pytest.mark.timeout(7200)  # as many inputs as FUZZ_INPUTS says

TEXTS = some.one_of(
    some.text(max_size=40),
    some.text(some.characters(max_codepoint=255), max_size=40),
    some.sampled_from(
        ["", " ", ",", "=", "t=1,v1=00", "v1,AAAA", "v0=00", "sha256=00", "Bearer x", "Basic eDp5", str(NOW)]
    ),
)
VALUES = some.recursive(
    some.one_of(some.none(), some.booleans(), some.integers(), some.floats(), some.text(max_size=20)),
    lambda inner: some.one_of(
        some.lists(inner, max_size=4), some.dictionaries(some.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=10,
)
BODIES = some.one_of(some.binary(max_size=200), VALUES.map(lambda value: json.dumps(value).encode()))
CONTENT_TYPES = some.sampled_from(
    [
        "",
        "application/json",
        FORM["content-type"],
        "text/plain",
        "text/plain; charset=x",
        "application/cloudevents+json",
        "a",
    ]
)


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in items for found in paths_of(inner, (*path, key)))]


def changed(value: Any, path: tuple[str | int, ...], into: Any) -> Any:
    if not path:
        return into
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], into)
    return copy


@thoroughly
@given(sender=some.sampled_from(SENDERS), names=some.lists(TEXTS, max_size=6), values=some.data(), body=BODIES)
def test_headers_of_any_kind(sender: Sender, names: list[str], values: some.DataObject, body: bytes):
    """The sender's own headers, with anything in them, and others."""
    own = list(sender.request().headers)
    chosen = values.draw(some.lists(some.sampled_from(own), unique=True))
    headers = {name: values.draw(TEXTS) for name in (*chosen, *names)}
    request = replace(sender.request(), headers=headers, body=body)
    with pytest.raises(Refused):
        sender.verifier().verify(request)
    examine_genuine(sender, request)


@thoroughly
@given(sender=some.sampled_from(SENDERS), body=BODIES, content_type=CONTENT_TYPES)
def test_bodies_of_any_kind_that_are_genuine(sender: Sender, body: bytes, content_type: str):
    genuine = sender.sending(body, content_type=content_type)
    genuine.verifier().verify(genuine.request())
    examine_genuine(genuine, genuine.request())


@thoroughly
@given(sender=some.sampled_from(JSON_SENDERS), data=some.data(), into=VALUES)
def test_one_part_of_a_real_body_is_something_else(sender: Sender, data: some.DataObject, into: Any):
    path = data.draw(some.sampled_from(paths_of(sender.body)))
    genuine = sender.sending(changed(sender.body, path, into))
    genuine.verifier().verify(genuine.request())
    examine_genuine(genuine, genuine.request())


@given(body=BODIES, content_type=CONTENT_TYPES, path=some.text(max_size=20), method=some.text(max_size=8))
def test_anybody_and_any_path(body: bytes, content_type: str, path: str, method: str):
    request = WebhookRequest(path, {"content-type": content_type, "x-s": "00"}, body, NOW * SECOND, method=method)
    verify.none().verify(request)
    try:
        verify.none().read(request)
    except InvalidEvent:
        pass
    with pytest.raises(Refused):
        verify.hmac("secret", header="X-S", signed="{method} {path} {body}").verify(request)


@given(
    secret=some.text(some.characters(codec="utf-8"), min_size=1).filter(lambda text: text == text.strip()),
    body=some.binary(),
)
def test_secrets_of_any_kind_fit_themselves(secret: str, body: bytes):
    token = "Bearer " + secret.encode().decode("latin-1")
    password = "Basic " + base64.b64encode(b"me:" + secret.encode()).decode()
    verify.basic("me", secret).verify(WebhookRequest("/", {"authorization": password}, body, 0))
    if " " not in secret:
        verify.bearer(secret).verify(WebhookRequest("/", {"authorization": token}, body, 0))
