"""CloudEvents in and out: what is taken, what is refused and how the refusal names its place."""

from __future__ import annotations

import base64
import enum
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import (
    BATCH_LIMIT,
    UnsupportedContentType,
    content_digest,
    from_envelope,
    new_event,
    parse_request,
    to_envelope,
)
from wakeful.intake.untrusted import DEPTH_LIMIT, find_fault, may_hold_a_fault
from wakeful.model import Event
from wakeful.stores.verbs.duplicates import canonical

STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
PLAIN = {"content-type": "application/json"}
MINIMAL = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}


def parse(envelope, headers=STRUCTURED):
    return parse_request(headers, json.dumps(envelope).encode())


def refused(headers, body):
    with pytest.raises(InvalidEvent) as caught:
        parse_request(headers, body)
    return caught.value


def nested(levels):
    return b"[" * levels + b"]" * levels


def test_a_structured_event_keeps_everything():
    [event] = parse(
        MINIMAL
        | {
            "subject": "order-7",
            "time": "2026-01-02T03:04:05.25+02:00",
            "expirytime": "2026-01-03T00:00:00Z",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "correlationid": "c",
            "causationid": "d",
            "datacontenttype": "application/json",
            "dataschema": "https://example.com/order",
            "partitionkey": "p",
            "sampled": True,
            "sequence": 4,
            "data": {"total": 9.5, "items": [1, None, "ü"]},
        }
    )
    assert event == Event(
        source="/shop",
        id="1",
        type="order.created",
        subject="order-7",
        time=datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=timezone(timedelta(hours=2))),
        expirytime=datetime(2026, 1, 3, tzinfo=UTC),
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        correlationid="c",
        causationid="d",
        datacontenttype="application/json",
        dataschema="https://example.com/order",
        extensions={"partitionkey": "p", "sampled": True, "sequence": 4},
        data={"total": 9.5, "items": [1, None, "ü"]},
    )


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents+json",
        "application/cloudevents+json; charset=utf-8",
        "Application/CloudEvents+JSON ;charset=UTF-8",
    ],
)
def test_the_content_type_may_have_parameters_and_any_case(content_type):
    [event] = parse_request({"content-type": content_type}, json.dumps(MINIMAL).encode())
    assert event.id == "1"


def test_nulls_are_attributes_that_are_not_there():
    [event] = parse(MINIMAL | {"subject": None, "time": None, "extra": None, "data": None})
    assert event == Event("/shop", "1", "order.created")


def test_a_batch_keeps_its_order():
    events = parse([MINIMAL | {"id": str(number)} for number in range(300)], BATCH)
    assert [event.id for event in events] == [str(number) for number in range(300)]


def test_plain_json_is_an_event_or_a_batch_and_needs_no_specversion():
    by_hand = {"id": "1", "source": "me", "type": "t"}
    assert parse(by_hand, PLAIN) == [Event("me", "1", "t")]
    assert parse([by_hand, MINIMAL], PLAIN) == [Event("me", "1", "t"), Event("/shop", "1", "order.created")]


BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "t"}


class TestBinaryMode:
    def test_json_is_parsed_and_extensions_are_text(self):
        headers = BINARY | {"content-type": "application/json", "ce-time": "2026-01-02T03:04:05Z", "ce-sequence": "4"}
        [event] = parse_request(headers, b'{"a": [1, 2]}')
        assert event.data == {"a": [1, 2]}
        assert event.datacontenttype == "application/json"
        assert event.time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert event.extensions == {"sequence": "4"}

    @pytest.mark.parametrize(
        ("content_type", "body", "data"),
        [
            ("application/vnd.api+json", b"[1]", [1]),
            ("text/json", b"1", 1),
            ("text/plain", "grün".encode(), "grün"),
            ("text/plain; charset=ISO-8859-1", "grün".encode("latin-1"), "grün"),
            ('text/plain; charset="utf-8"', b"x", "x"),
            ("image/png", b"\x89PNG", base64.b64encode(b"\x89PNG").decode()),
            (None, b'{"a": 1}', {"a": 1}),
            ("application/json", b"", None),
            (None, b"", None),
        ],
    )
    def test_data_goes_by_its_content_type(self, content_type, body, data):
        headers = BINARY | ({} if content_type is None else {"content-type": content_type})
        [event] = parse_request(headers, body)
        assert event.data == data
        assert event.datacontenttype == content_type

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            ("%e2%82%ac", "€"),
            ("100%25", "100%"),
            ("%2541", "%41"),  # one round of decoding only
            ('"a \\"b\\" c"', 'a "b" c'),
            ('"%20"', " "),
            ("50%", "50%"),
            ("€".encode().decode("latin-1"), "€"),
        ],
    )
    def test_header_values_are_unquoted_and_percent_decoded(self, value, text):
        [event] = parse_request(BINARY | {"ce-subject": value}, b"")
        assert event.subject == text

    @pytest.mark.parametrize(
        ("headers", "body", "field"),
        [
            ({"ce-subject": "%C0%A0"}, b"", "subject"),
            ({"ce-subject": "\xff"}, b"", "subject"),
            ({"ce-subject": "%00"}, b"", "subject"),
            ({"ce-id": ""}, b"", "id"),
            ({"ce-id": "x" * 1025}, b"", "id"),
            ({"ce-specversion": "0.3"}, b"", "specversion"),
            ({"ce-time": "noon"}, b"", "time"),
            ({"ce-my_thing": "x"}, b"", "my_thing"),
            ({"ce-datacontenttype": "text/plain"}, b"", "datacontenttype"),
            ({"ce-data": "1"}, b"", "data"),
            ({"content-type": "application/json"}, b"{", "data"),
            ({"content-type": "application/json"}, b'{"a": {"b": 9223372036854775808}}', "data.a.b"),
            ({"content-type": "application/json"}, nested(101), "data"),
            ({"content-type": "text/plain"}, b"\xff", "data"),
            ({"content-type": "text/plain"}, b"a\x00", "data"),
            ({"content-type": "text/plain; charset=klingon"}, b"a", "datacontenttype"),
        ],
    )
    def test_bad_input_names_the_field(self, headers, body, field):
        error = refused(BINARY | headers, body)
        assert error.field == field
        assert error.index is None

    @pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
    def test_every_required_header_is_missed(self, missing):
        headers = {name: value for name, value in BINARY.items() if name != f"ce-{missing}"}
        assert refused(headers, b"").field == missing


class TestBase64:
    @pytest.mark.parametrize(
        ("content_type", "content", "data"),
        [
            ("application/json", b'{"a": 1}', {"a": 1}),
            ("text/plain", b"hello", "hello"),
            ("image/png", b"\x00\xff", "AP8="),
            (None, b"hello", "aGVsbG8="),
        ],
    )
    def test_it_is_what_binary_mode_would_give(self, content_type, content, data):
        [event] = parse(MINIMAL | {"datacontenttype": content_type, "data_base64": base64.b64encode(content).decode()})
        assert event.data == data

    @pytest.mark.parametrize("encoded", ["not base64!", 7, "abc", "gr\u00fcn"])
    def test_what_is_not_base64_is_refused(self, encoded):
        assert refused(BATCH, json.dumps([MINIMAL, MINIMAL | {"data_base64": encoded}]).encode()).index == 1

    def test_both_are_too_many(self):
        assert (
            refused(STRUCTURED, json.dumps(MINIMAL | {"data": 1, "data_base64": "AA=="}).encode()).field
            == "data_base64"
        )

    def test_bad_json_inside_names_the_event(self):
        bad = MINIMAL | {
            "datacontenttype": "application/json",
            "data_base64": base64.b64encode(b'{"x": 1e999}').decode(),
        }
        error = refused(BATCH, json.dumps([MINIMAL, bad]).encode())
        assert (error.index, error.field) == (1, "data.x")


def envelope_with(**changes) -> bytes:
    return json.dumps({name: value for name, value in (MINIMAL | changes).items() if value is not ...}).encode()


BAD = {
    "not JSON": (b"{", "body", "not JSON"),
    "empty": (b"", "body", "not JSON"),
    "trailing text": (b"{} {}", "body", "not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "body", "not JSON"),
    "not UTF-8": (b'{"id": "\xff"}', "body", "not UTF-8"),
    "UTF-16": ("{}".encode("utf-16"), "body", "not UTF-8"),
    "a surrogate in UTF-8": (b'{"id": "\xed\xa0\x80"}', "body", "not UTF-8"),
    "not an object": (b'"event"', "body", "object"),
    "nested too deep": (envelope_with(data="@").replace(b'"@"', nested(101)), "data", "too deep"),
    "nested far too deep": (envelope_with(data="@").replace(b'"@"', nested(250)), "data", "too deep"),
    "nested absurdly deep": (b"[" * 500_000, "body", ""),
    "objects nested absurdly deep": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "body", "too deep"),
    "no id": (envelope_with(id=...), "id", "missing"),
    "no source": (envelope_with(source=...), "source", "missing"),
    "no type": (envelope_with(type=...), "type", "missing"),
    "another case": (envelope_with(id=..., ID="1"), "id", "write it id"),
    "null id": (envelope_with(id=None), "id", "missing"),
    "empty id": (envelope_with(id=""), "id", "empty"),
    "numeric id": (envelope_with(id=7), "id", "not text"),
    "boolean id": (envelope_with(id=True), "id", "not text"),
    "list as id": (envelope_with(id=["a"]), "id", "not text"),
    "long id": (envelope_with(id="x" * 1025), "id", "1,025 characters"),
    "empty source": (envelope_with(source=""), "source", "empty"),
    "long source": (envelope_with(source="x" * 1025), "source", "over the limit"),
    "empty type": (envelope_with(type=""), "type", "empty"),
    "long type": (envelope_with(type="x" * 1025), "type", "over the limit"),
    "empty subject": (envelope_with(subject=""), "subject", "empty"),
    "long subject": (envelope_with(subject="x" * 1025), "subject", "over the limit"),
    "numeric subject": (envelope_with(subject=1), "subject", "not text"),
    "NUL in the id": (envelope_with(id="a\0b"), "id", "NUL"),
    "NUL in an extension": (envelope_with(ext="\0"), "ext", "NUL"),
    "NUL deep in data": (envelope_with(data={"a": [{"b": "\0"}]}), "data.a[0].b", "NUL"),
    "NUL in a key": (envelope_with(data={"a\0": 1}), "data.a\\x00", "NUL"),
    "NUL as the whole data": (envelope_with(data="\0"), "data", "NUL"),
    "lone surrogate": (envelope_with(data={"x": "\ud800"}), "data.x", "surrogate"),
    "lone low surrogate": (envelope_with(id="\udc00"), "id", "surrogate"),
    "lone surrogate in a key": (envelope_with(data={"\ud800": 1}), "data.\\ud800", "surrogate"),
    "swapped surrogates": (envelope_with(data="\ude00\ud83d"), "data", "surrogate"),
    "bad time": (envelope_with(time="yesterday"), "time", "RFC 3339"),
    "time without offset": (envelope_with(time="2026-01-02T03:04:05"), "time", "RFC 3339"),
    "date alone": (envelope_with(time="2026-01-02"), "time", "RFC 3339"),
    "week date": (envelope_with(time="2026-W01-1T00:00:00Z"), "time", "RFC 3339"),
    "a day that is not": (envelope_with(time="2026-02-30T00:00:00Z"), "time", "RFC 3339"),
    "an hour that is not": (envelope_with(time="2026-02-03T25:00:00Z"), "time", "RFC 3339"),
    "an offset that is not": (envelope_with(time="2026-02-03T20:00:00+24:00"), "time", "RFC 3339"),
    "other digits": (envelope_with(time="٢٠٢٦-01-02T03:04:05Z"), "time", "RFC 3339"),
    "time as number": (envelope_with(time=1767225600), "time", "RFC 3339"),
    "empty time": (envelope_with(time=""), "time", "RFC 3339"),
    "year zero": (envelope_with(time="0000-01-01T00:00:00Z"), "time", "RFC 3339"),
    "out of the calendar": (envelope_with(time="9999-12-31T23:59:59-12:00"), "time", "RFC 3339"),
    "before the calendar": (envelope_with(expirytime="0001-01-01T00:00:00+12:00"), "expirytime", "RFC 3339"),
    "bad expirytime": (envelope_with(expirytime="soon"), "expirytime", "RFC 3339"),
    "no specversion": (envelope_with(specversion=...), "specversion", "missing"),
    "other specversion": (envelope_with(specversion="0.3"), "specversion", "0.3"),
    "specversion as number": (envelope_with(specversion=1.0), "specversion", "1.0"),
    "integer over 64 bits": (envelope_with(data={"n": [2**63]}), "data.n[0]", "64 bits"),
    "integer under 64 bits": (envelope_with(data=-(2**63) - 1), "data", "64 bits"),
    "huge integer": (envelope_with(data=10**4000), "data", "64 bits"),
    "absurd integer": (envelope_with(data="@").replace(b'"@"', b"9" * 500_000), "data", "64 bits"),
    "integer extension over 64 bits": (envelope_with(ext=2**64), "ext", "64 bits"),
    "NaN": (envelope_with(data={"x": float("nan")}), "data.x", "finite"),
    "Infinity": (envelope_with(data=[float("-inf")]), "data[0]", "finite"),
    "an infinite exponent": (envelope_with(data="@").replace(b'"@"', b"1e999"), "data", "finite"),
    "an infinite exponent with signs": (envelope_with(data="@").replace(b'"@"', b"-1.5E+0400"), "data", "finite"),
    "an infinite mantissa": (envelope_with(data="@").replace(b'"@"', b"9" * 310 + b".0"), "data", "finite"),
    "structured extension": (envelope_with(payload={"a": 1}), "payload", "into data"),
    "float extension": (envelope_with(ext=1.5), "ext", "not text"),
    "extension in capitals": (envelope_with(Subject="x"), "Subject", 'Did you mean "subject"?'),
    "extension with a dash": (envelope_with(**{"my-ext": "x"}), "my-ext", "lower-case"),
    "long extension name": (envelope_with(abcdefghijklmnopqrstu="x"), "abcdefghijklmnopqrstu", "at most 20"),
    "empty extension name": (envelope_with(**{"": "x"}), "", "lower-case"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_named(name):
    body, field, words = BAD[name]
    error = refused(STRUCTURED, body)
    assert error.field == field
    assert error.index is None
    assert words in str(error)
    str(error).encode()  # whatever came in, the message can go out
    assert len(str(error)) < 600


@pytest.mark.parametrize("name", [name for name, (_, field, _) in BAD.items() if field != "body"])
def test_in_a_batch_the_index_is_named(name):
    body, field, words = BAD[name]
    error = refused(BATCH, b"[" + json.dumps(MINIMAL).encode() + b"," + body + b"]")
    assert (error.field, error.index) == (field, 1)
    assert words in str(error)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (BATCH, b"[]"),
        (PLAIN, b"[]"),
        (BATCH, b"{}"),
        (STRUCTURED, b"[]"),
        (PLAIN, b'"x"'),
        (PLAIN, b"null"),
        (BATCH, b"[" + b"{}," * BATCH_LIMIT + b"{}]"),
    ],
)
def test_what_is_no_batch_is_refused(headers, body):
    assert refused(headers, body).field == "body"


def test_a_batch_with_something_else_in_it_names_the_index():
    assert refused(BATCH, b"[" + json.dumps(MINIMAL).encode() + b", 7]").index == 1


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/cloudevents+avro", "application/cloudevents-batch+xml", "application/xml"],
)
def test_other_content_types_are_told_apart(content_type):
    with pytest.raises(UnsupportedContentType, match="send application/cloudevents"):
        parse_request({"content-type": content_type}, b"{}")


@pytest.mark.parametrize(
    "body",
    [
        envelope_with(id="x" * 1024, source="s" * 1024, type="t" * 1024),
        envelope_with(data={"largest": 2**63 - 1, "smallest": -(2**63)}),
        envelope_with(data="1234567890123456789012345"),
        envelope_with(data=0.1234567890123456789),
        envelope_with(data="@").replace(b'"@"', b"1e308"),
        envelope_with(data="@").replace(b'"@"', b"1e-999"),
        envelope_with(data="@").replace(b'"@"', nested(DEPTH_LIMIT)),
        envelope_with(data="[" * 500),
        envelope_with(data=[[]] * 500),
        envelope_with(data="\\u0000"),  # the six characters, not NUL
        envelope_with(data="😀"),
        envelope_with(time="2016-12-31T23:59:60Z"),
        envelope_with(time="2026-01-02t03:04:05z"),
        envelope_with(time="2026-01-02 03:04:05.123456789-00:00"),
        envelope_with(time="9999-12-31T23:59:59Z", expirytime="0001-01-01T00:00:00Z"),
        envelope_with(abcdefghijklmnopqrst="x"),
    ],
)
def test_what_is_unusual_and_right_is_taken(body):
    [event] = parse_request(STRUCTURED, body)
    assert from_envelope(to_envelope(event)) == event


def test_a_leap_second_is_the_second_after():
    [event] = parse(MINIMAL | {"time": "2016-12-31T23:59:60Z"})
    assert event.time == datetime(2017, 1, 1, tzinfo=UTC)


def test_the_last_of_two_equal_keys_counts():
    [event] = parse_request(STRUCTURED, b'{"specversion": "1.0", "id": "1", "id": "2", "source": "s", "type": "t"}')
    assert event.id == "2"


def test_a_lower_limit_of_depth_can_be_asked_for():
    assert parse_request(STRUCTURED, envelope_with(data=[[1]]), limit_depth=2)
    with pytest.raises(InvalidEvent, match="limit is 2 levels"):
        parse_request(STRUCTURED, envelope_with(data=[[[1]]]), limit_depth=2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_the_scan_never_misses_what_the_walk_would_find(value):
    """The cheap look at the bytes may cry wolf; when it says no, the walk over the parsed value finds nothing."""
    body = json.dumps(value).encode()
    if not may_hold_a_fault(body, DEPTH_LIMIT):
        try:
            parsed = json.loads(body.replace(b"Infinity", b"null").replace(b"NaN", b"null"))
        except ValueError:
            return
        fault = find_fault(parsed, depth=DEPTH_LIMIT)
        assert fault is None or "surrogate" in fault.message  # surrogates are the parser's, which refuses them itself


@given(
    st.from_regex(rb"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,5})?", fullmatch=True),
    st.sampled_from([b"%s", b"[1,%s]"]),
)
def test_the_scan_never_misses_a_number(number, frame):
    body = frame % number
    if not may_hold_a_fault(body, DEPTH_LIMIT):
        assert find_fault(json.loads(body), depth=DEPTH_LIMIT) is None


clean_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
clean_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean_text, inner, max_size=4),
    max_leaves=12,
)
moments = st.datetimes(
    min_value=datetime(1, 1, 3),
    max_value=datetime(9999, 12, 29),
    timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-7))),
)
extension_names = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20).map(
    lambda name: f"x{name}"[:20]
)
events = st.builds(
    Event,
    source=clean_text,
    id=clean_text,
    type=clean_text,
    data=clean_json,
    subject=st.none() | clean_text,
    time=st.none() | moments,
    traceparent=st.none() | clean_text,
    correlationid=st.none() | clean_text,
    causationid=st.none() | clean_text,
    expirytime=st.none() | moments,
    datacontenttype=st.none() | clean_text,
    dataschema=st.none() | clean_text,
    extensions=st.dictionaries(
        extension_names, clean_text | st.booleans() | st.integers(-(2**63), 2**63 - 1), max_size=3
    ),
)


@given(events)
def test_an_event_survives_storage_and_the_wire(event):
    text = to_envelope(event)
    assert from_envelope(text) == event
    assert parse_request(STRUCTURED, text.encode()) == [event]
    assert parse_request(BATCH, f"[{text},{text}]".encode()) == [event, event]
    assert content_digest(from_envelope(text)) == content_digest(event)


@given(st.binary(max_size=200), st.sampled_from([STRUCTURED, BATCH, PLAIN, BINARY]))
def test_bytes_are_events_or_refused_and_nothing_else(body, headers):
    try:
        parse_request(headers, body)
    except InvalidEvent as error:
        str(error).encode()


class TestDigest:
    def test_the_order_of_keys_does_not_count_when_they_are_compared(self):
        one = Event("s", "1", "t", data={"a": 1, "b": {"c": 2, "d": 3}})
        two = Event("z", "2", "t", data={"b": {"d": 3, "c": 2}, "a": 1}, extensions={"a": "b"})
        assert canonical(to_envelope(one)) == canonical(to_envelope(two))

    def test_how_it_came_does_not_count(self):
        one = Event("s", "1", "t", data=1)
        two = Event(
            "z", "2", "t", data=1, time=datetime(2026, 1, 1, tzinfo=UTC), traceparent="x", extensions={"a": "b"}
        )
        assert content_digest(one) == content_digest(two)

    @pytest.mark.parametrize(
        "other",
        [
            Event("s", "1", "u", data=[1, 2]),
            Event("s", "1", "t", data=[2, 1]),
            Event("s", "1", "t", data=[1, 2], subject="x"),
            Event("s", "1", "t", data=[1, 2], dataschema="x"),
            Event("s", "1", "t", data=[1, 2], datacontenttype="x"),
            Event("s", "1", "t", data="[1,2]"),
            Event("s", "1", "t"),
        ],
    )
    def test_what_it_says_counts(self, other):
        event = Event("s", "1", "t", data=[1, 2])
        assert content_digest(event) != content_digest(other)
        assert canonical(to_envelope(event)) != canonical(to_envelope(other))


class Kind(enum.StrEnum):
    CREATED = "order.created"


class TestNewEvent:
    def test_it_gets_an_id_and_plain_data(self):
        event = new_event("t", {"when": datetime(2026, 1, 1, tzinfo=UTC), 1: (2, 3)}, source="/here")
        assert len(event.id) == 32
        assert event.data == {"when": "2026-01-01T00:00:00Z", "1": [2, 3]}

    def test_attributes_and_extensions_find_their_place(self):
        event = new_event(
            "t", source="/here", id="1", traceparent="tp", correlationid="c", tenant="acme", dataschema=None
        )
        assert (event.traceparent, event.correlationid, event.extensions) == ("tp", "c", {"tenant": "acme"})

    def test_a_naive_time_is_utc_and_text_works(self):
        naive = datetime(2026, 1, 1)
        event = new_event("t", source="s", time=naive, expirytime="2026-01-02T00:00:00Z")
        assert event.time == datetime(2026, 1, 1, tzinfo=UTC)
        assert event.expirytime == datetime(2026, 1, 2, tzinfo=UTC)

    def test_members_of_an_enum_are_plain_text(self):
        assert type(new_event(Kind.CREATED, source="s").type) is str

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({"type": ""}, "type"),
            ({"type": 7}, "type"),
            ({"source": "\0"}, "source"),
            ({"id": ""}, "id"),
            ({"id": "\ud800"}, "id"),
            ({"data": object()}, "data"),
            ({"data": {"x": float("nan")}}, "data.x"),
            ({"data": {"x": 2**63}}, "data.x"),
            ({"data": {"x": ["\0"]}}, "data.x[0]"),
            ({"data": "\ud800"}, "data"),
            ({"data": b"\xff"}, "data"),
            ({"time": "noon"}, "time"),
            ({"expirytime": 5}, "expirytime"),
            ({"Tenant": "acme"}, "Tenant"),
            ({"tenant": {"a": 1}}, "tenant"),
            ({"specversion": "2.0"}, "specversion"),
        ],
    )
    def test_it_is_checked_like_any_other(self, arguments, field):
        with pytest.raises(InvalidEvent) as caught:
            new_event(**({"type": "t", "source": "s"} | arguments))
        assert caught.value.field == field

    def test_data_in_a_circle_is_refused(self):
        circle: list = []
        circle.append(circle)
        with pytest.raises(InvalidEvent, match="data"):
            new_event("t", circle, source="s")

    def test_data_nested_too_deep_is_refused(self):
        with pytest.raises(InvalidEvent, match="too deep"):
            new_event("t", json.loads(nested(101)), source="s")
        assert new_event("t", json.loads(nested(100)), source="s")
