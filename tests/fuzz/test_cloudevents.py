"""Requests with events: all of them as JSON says they are, or InvalidEvent; and what is stored of one is the whole of it."""

from __future__ import annotations

import json

from support.fuzzing import bounded, fuzzed, headers_and_body, replayed
from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import content_digest, from_envelope, media_type_of, parse_request, to_envelope

TARGET = "cloudevents"
NAMES = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "data",
    "data_base64",
    "datacontenttype",
    "dataschema",
]
NAMES += ["expirytime", "traceparent", "correlationid", "causationid"]
TOKENS = [f'"{name}":'.encode() for name in NAMES] + [f"\nce-{name}: ".encode() for name in NAMES]
TOKENS += [
    b"application/json",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json",
    b"; charset=utf-8",
]
TOKENS += [b"text/plain; charset=", b'"2016-12-31T23:59:60Z"', b"[{}]", b'"1.0"']


def examine(content: bytes) -> None:
    headers, body = headers_and_body(content)
    with bounded(content, TARGET):
        try:
            events = parse_request(headers, body)
        except InvalidEvent as error:
            str(error).encode()
            return
        said = as_json_says(headers, body, len(events))
        for event, data in zip(events, said, strict=True):
            stored = from_envelope(to_envelope(event))
            assert stored == event
            assert content_digest(stored) == content_digest(event)
            assert data is ... or stored.data == data


def as_json_says(headers: dict[str, str], body: bytes, count: int) -> list[object]:
    """The data of the events by Python's own parser; ... where it is not there as JSON."""
    if media_type_of(headers.get("content-type", "")) not in ("application/json", "application/cloudevents+json"):
        return [...] * count
    if any(name.startswith("ce-") for name in headers):
        return [...] * count
    document = json.loads(body)
    every = document if isinstance(document, list) else [document]
    return [... if one.get("data_base64") is not None else one.get("data") for one in every]


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)
