"""Buckets without a server: what is declared, which keys are meant, what notifications say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from wakeful import ConfigError, bucket, env
from wakeful.connect.s3.aws import Access, moment
from wakeful.connect.s3.listing import common_prefix
from wakeful.connect.s3.notifications import read_notification
from wakeful.connect.s3.objects import KeyPattern
from wakeful.connect.s3.sqs import read_queue_address
from wakeful.errors import InvalidEvent


@pytest.mark.parametrize(
    ("pattern", "prefix", "meant", "not_meant"),
    [
        ("", "", ["a", "a/b"], []),
        ("in/", "in/", ["in/a", "in/a/b", "in/"], ["in", "out/a"]),
        ("in/*.csv", "in/", ["in/a.csv", "in/.csv"], ["in/a/b.csv", "in/a.csvx", "x/in/a.csv"]),
        ("in/**/*.csv", "in/", ["in/a.csv", "in/a/b/c.csv"], ["in/a.txt", "a.csv"]),
        ("**", "", ["a", "a/b"], []),
        ("a?c", "a", ["abc"], ["ac", "a/c"]),
        ("a[1].txt", "a[1].txt", ["a[1].txt"], ["a1.txt"]),
        ("report.csv", "report.csv", ["report.csv"], ["reportxcsv", "report.csv2"]),
    ],
)
def test_which_keys_a_pattern_means(pattern: str, prefix: str, meant: list[str], not_meant: list[str]):
    assert KeyPattern(pattern).prefix == prefix
    fits = KeyPattern(pattern).compiled().fullmatch
    assert all(fits(key) for key in meant)
    assert not any(fits(key) for key in not_meant)


@given(st.lists(st.text(alphabet="ab/", max_size=6), min_size=1))
def test_the_common_prefix_begins_all_of_them(prefixes: list[str]):
    found = common_prefix(prefixes)
    assert all(one.startswith(found) for one in prefixes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "name/in"}, 'write "s3://NAME"'),
        ({"url": "s3://"}, 'write "s3://NAME"'),
        ({"url": 3}, 'write "s3://NAME"'),
        ({"every": "soon"}, "every: 'soon' is not a duration"),
        ({"every": "10ms"}, "at least a second"),
        ({"operations": "create"}, 'Did you mean "created"?'),
        ({"operations": []}, "operations is empty"),
        ({"operations": ["changed"], "queue": "sqs://r/q"}, 'use "created"'),
        ({"queue": "orders"}, 'a queue is "sqs://REGION/NAME"'),
        ({"queue": "sqs://eu-west-1"}, 'a queue is "sqs://REGION/NAME"'),
        ({"endpoint": "127.0.0.1"}, "endpoint must be an address"),
        ({"access_key": env("KEY")}, "belong together"),
        ({"where": "data.size >"}, "is not a CEL expression"),
        ({"data": 3}, "data must be a CEL expression"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as refused:
        bucket(**{"url": "s3://name/*.csv", **arguments})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value).strip()


def test_a_bucket_shows_no_secret():
    one = bucket("s3://name", access_key="AKIA", secret_key="very secret")
    assert "secret" not in repr(one)
    assert one == bucket("s3://name", access_key="AKIA", secret_key="very secret")


def test_how_a_bucket_is_shown():
    assert bucket("s3://name/*.csv").describe() == 'bucket("s3://name/*.csv", every="1m")'
    shown = bucket("s3://name", queue="sqs://eu-west-1/q", operations="deleted", where="data.size > 1").describe()
    assert shown == 'bucket("s3://name", queue="sqs://eu-west-1/q", operations=[\'deleted\'], where="data.size > 1")'


@pytest.mark.parametrize(
    ("written", "region", "endpoint", "name"),
    [
        ("sqs://eu-west-1/orders", "eu-west-1", None, "orders"),
        ("sqs://eu-west-1/orders.fifo", "eu-west-1", None, "orders.fifo"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/orders", "eu-west-1", None, None),
        ("https://eu-west-1.queue.amazonaws.com/123456789012/orders", "eu-west-1", None, None),
        ("http://127.0.0.1:9324/000000000000/orders", None, "http://127.0.0.1:9324", None),
    ],
)
def test_addresses_of_queues(written: str, region: str | None, endpoint: str | None, name: str | None):
    found = read_queue_address(written, Access(), where="test")
    assert (found.access.region, found.access.endpoint, found.name) == (region, endpoint, name)


def a_record(**more: Any) -> dict[str, Any]:
    told = {"key": "a+b%2Bc/%C3%A9.txt", "size": 5, "eTag": "tag", "versionId": "v1", "sequencer": "00A"}
    return {
        "eventName": "ObjectCreated:Put",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "s3": {"bucket": {"name": "box"}, "object": told},
        **more,
    }


def read(told: Any) -> Any:
    return read_notification(json.dumps(told).encode())


def test_keys_are_decoded_and_the_identity_is_stable():
    (change,), wrong = read({"Records": [a_record()]})
    assert wrong == []
    assert (change.bucket, change.key, change.operation) == ("box", "a b+c/é.txt", "created")
    assert (change.version_id, change.sequencer, change.etag, change.size) == ("v1", "00A", "tag", 5)
    assert change.event("s3://box").id == "a b+c/é.txt@created/v1/00A"
    # MinIO writes its names with "s3:".
    (again,), _ = read({"Records": [a_record(eventName="s3:ObjectCreated:CompleteMultipartUpload")]})
    assert again.event("s3://box").id == change.event("s3://box").id


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ObjectRemoved:Delete", "deleted"),
        ("ObjectRemoved:DeleteMarkerCreated", "deleted"),
        ("LifecycleExpiration:Delete", "deleted"),
        ("ObjectCreated:Copy", "created"),
        ("ObjectTagging:Put", None),
        ("ObjectRestore:Completed", None),
    ],
)
def test_what_the_names_of_notifications_mean(name: str, operation: str | None):
    changes, wrong = read({"Records": [a_record(eventName=name)]})
    assert [one.operation for one in changes] == ([] if operation is None else [operation])
    assert wrong == []


def test_a_key_of_any_length_has_an_identity_that_fits():
    long = a_record()
    long["s3"]["object"]["key"] = "k" * 1024
    (change,), _ = read({"Records": [long]})
    assert len(change.event("s3://box").id) <= 1_000


@pytest.mark.parametrize("key", ["a%00b", "%ff", ""])
def test_keys_that_cannot_be_kept(key: str):
    record = a_record()
    record["s3"]["object"]["key"] = key
    changes, wrong = read({"Records": [record, a_record()]})
    assert len(changes) == 1
    assert wrong[0].startswith("record 0 cannot be read")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["Records", "s3", "object", "bucket", "key", "name", "detail", "source", "detail-type", "eventName"]
            ),
            inner | st.sampled_from(["aws.s3", "Object Created", "ObjectCreated:Put", "Notification"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    st.binary()
    | values.map(lambda one: json.dumps(one).encode())
    | values.map(lambda one: json.dumps({"Records": [one, {"eventName": "ObjectCreated:Put", "s3": one}]}).encode())
)
def test_nothing_that_comes_breaks_it(raw: bytes):
    try:
        changes, wrong = read_notification(raw)
    except InvalidEvent:
        return
    assert all(isinstance(one, str) for one in wrong)
    for change in changes:
        change.event("s3://box")


@pytest.mark.parametrize(
    "told",
    [
        "2026-03-05T10:20:30.123Z",
        "2026-03-05T10:20:30Z",
        "2026-03-05T10:20:30+01:00",
        "Thu, 05 Mar 2026 10:20:30 GMT",
        "1772706030",
        1772706030.5,
    ],
)
def test_times_in_answers_are_what_the_library_makes_of_them(told: Any):
    assert moment(told) == parse_timestamp(told)
    assert moment(told).tzinfo is not None


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="Invalid timestamp"):
        moment("2026-13-05T10:20:30Z")
