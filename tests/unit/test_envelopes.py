"""What Debezium and DMS send, as changes of rows: what they mean, under an identity that stays, and whatever else may come."""

from __future__ import annotations

import json
from base64 import b64encode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import envelopes
from support.envelopes import BESIDE, cloudevent, dms, mongodb, mongodb_patch, mysql, postgres, sqlserver, with_schema
from wakeful import ConfigError, debezium
from wakeful.connect.debezium.envelopes import Told, read_changes
from wakeful.errors import InvalidEvent
from wakeful.model import Event
from wakeful.verify import none


def raw(document: Any) -> bytes:
    return json.dumps(document).encode()


def the_one(document: Any, **more: Any) -> Told:
    (told,), wrong = read_changes(raw(document), **more)
    assert wrong == []
    return told


def event(document: Any, **more: Any) -> Event:
    return the_one(document, **more).event("/x")


def test_an_insert_in_postgres_is_what_postgres_changes_would_tell():
    found = event(postgres(7))
    assert found.type == "postgres.orders.insert"
    assert found.subject == "orders/7"
    assert found.time is not None
    assert found.time.isoformat() == "2026-01-01T00:00:00.123456+00:00"
    assert found.extensions == {"database": "sales"}
    assert found.data == {
        "operation": "insert",
        "table": "orders",
        "key": {"id": 7},
        "new": {"id": 7, "status": "new", "total": 70},
        "old": None,
        "changed": None,
    }


def test_updates_and_deletes_of_postgres():
    told = the_one(postgres(1, "u"))
    assert told.change.operation == "update"
    assert told.change.changed == ["status"]
    assert told.change.old == {"id": 1, "status": "old", "total": 10}
    told = the_one(postgres(1, "d"))
    assert (told.change.operation, told.change.new, told.change.key) == ("delete", None, {"id": 1})


def test_a_schema_of_its_own_is_part_of_the_table():
    assert event(postgres(schema="sales")).type == "postgres.sales.orders.insert"


def test_the_other_databases():
    found = event(mysql())
    assert (found.type, found.extensions) == ("mysql.customers.update", {"database": "inventory"})
    assert found.data["changed"] == ["email"]
    assert event(sqlserver()).type == "sqlserver.customers.insert"


def test_documents_of_mongodb():
    found = event(mongodb())
    assert (found.type, found.subject) == ("mongodb.customers.update", "customers/597e37537449762dee72168a")
    assert found.data["new"]["first_name"] == "Anne"
    patched = event(mongodb_patch())
    assert patched.subject == found.subject
    assert patched.data["new"] is None
    assert patched.data["changed"] == ["first_name", "nick"]
    removed = the_one(mongodb("d"), key=b'{"id": "{\\"$oid\\": \\"597e\\"}"}')
    assert removed.change.operation == "delete"
    assert removed.change.new is None


def test_records_of_dms():
    found = event(dms(3))
    assert (found.type, found.subject) == ("dms.orders.insert", "orders/3")
    changed = event(dms(3, "update", **{"before-image": {"id": 3, "status": "old"}}))
    assert changed.data["changed"] == ["status"]
    assert changed.data["old"] == {"id": 3, "status": "old"}
    removed = event(dms(3, "delete"))
    assert (removed.data["new"], removed.data["old"]) == (None, {"id": 3, "status": "new"})
    assert the_one(dms(3, "load")).snapshot
    assert not the_one(dms(3)).snapshot


@pytest.mark.parametrize(
    "told",
    [
        with_schema(postgres()),
        cloudevent(),
        postgres() | {"ts_ms": 5},  # when Debezium handled it: another time with each try
        [postgres()],
        {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": "1",
            "sequenceNumber": "4954511524144582180062593244200961",
            "data": b64encode(raw(postgres())).decode(),
            "approximateArrivalTimestamp": 1545084650.987,
            "eventSource": "aws:kinesis",
        },
        {"Records": [{"kinesis": {"kinesisSchemaVersion": "1.0", "data": b64encode(raw(postgres())).decode()}}]},
    ],
)
def test_however_it_travels_it_is_the_same_change(told: Any):
    assert the_one(told).change.position == the_one(postgres()).change.position
    assert the_one(told).change.data() == the_one(postgres()).change.data()


def test_changes_that_are_not_the_same_have_other_identities():
    told = [
        postgres(1),
        postgres(2),
        postgres(1, "u"),
        postgres(1, "d"),
        postgres(1, table="others"),
        postgres(1, schema="sales"),
        postgres(1, db="archive"),
        postgres(1, name="other"),
        postgres(1, lsn=99),
        postgres(1) | {"after": {"id": 8}},  # of one statement: the same place in the log
        mysql(1),
        mysql(2),
        sqlserver(),
        mongodb(),
        dms(1),
        dms(2),
        dms(1, "update"),
    ]
    assert len({event(one).id for one in told}) == len(told)


def test_rows_without_a_key_are_told_apart_by_what_is_in_them():
    one, other = postgres() | {"after": {"a": 1}}, postgres() | {"after": {"a": 2}}
    assert event(one).id != event(other).id
    assert event(one).id == event(deepcopy(one)).id
    assert event(one).subject == "orders"


def test_columns_that_name_a_row():
    row = {"after": {"country": "FI", "number": 3, "id": 9}}
    assert the_one(postgres() | row, columns=("country", "number")).change.key == {"country": "FI", "number": 3}
    assert the_one(postgres() | row, key=b'{"schema": {}, "payload": {"number": 3}}').change.key == {"number": 3}


def test_columns_that_were_not_sent_are_not_told():
    envelope = postgres(1, "u")
    envelope["after"] |= {"text": "__debezium_unavailable_value"}
    change = the_one(envelope).change
    assert change.new is not None
    assert "text" not in change.new
    assert change.changed == ["status"]


@pytest.mark.parametrize("document", BESIDE)
def test_what_is_no_change_of_a_row_is_nothing(document: Any):
    assert read_changes(raw(document)) == ([], [])


def test_nothing_is_nothing():
    assert read_changes(b"") == ([], [])
    assert read_changes(b" \n") == ([], [])


def test_rows_of_a_snapshot_are_known():
    assert the_one(postgres(op="r")).snapshot
    assert the_one(postgres(snapshot="last")).snapshot
    assert not the_one(postgres()).snapshot


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"id": 1, "name": "only the row"}, "it is neither a Debezium change"),
        ("text", "it is neither a Debezium change"),
        (postgres(op="x"), "op is 'x', which is not an operation"),
        (postgres(table=None), "source.table is missing"),
        (postgres(connector="a b"), "source.connector is 'a b'"),
        (postgres() | {"after": [1]}, "after is not an object"),
        (postgres() | {"source": {"connector": "x", "table": "t"}}, "does not contain the position of the change"),
        (dms(operation="explode"), "metadata.operation is 'explode'"),
        ({"kinesisSchemaVersion": "1.0", "data": "?"}, "is not base64"),
    ],
)
def test_what_cannot_be_read_says_why(document: Any, words: str):
    with pytest.raises(InvalidEvent) as refused:
        read_changes(raw(document))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_of_several_that_is_wrong_does_not_take_the_others_with_it():
    found, wrong = read_changes(raw([postgres(1), {"what": "is this"}, postgres(2)]))
    assert [one.change.key["id"] for one in found] == [1, 2]
    assert len(wrong) == 1
    assert wrong[0].startswith("change 1: it is neither")


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
names = st.sampled_from(
    ["op", "source", "before", "after", "payload", "schema", "metadata", "data", "record-type", "operation", "patch", "filter",
     "connector", "table", "collection", "lsn", "ts_ms", "updateDescription", "kinesis", "Records", "kinesisSchemaVersion"]
)  # fmt: skip
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6), max_leaves=15
)
samples = [postgres(), mysql(), sqlserver(), mongodb(), mongodb_patch(), cloudevent(), dms(), *envelopes.BESIDE[2:]]


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """A real message with something else somewhere in it."""
    document: Any = deepcopy(draw(st.sampled_from(samples)))
    place = document
    while isinstance(place, dict) and place:
        name = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or draw(st.booleans()):
            place[name] = draw(anything)
            break
        place = place[name]
    return document


def test_words_of_another_kind_than_they_should_be_are_refused():
    with pytest.raises(InvalidEvent):
        read_changes(raw({"status": [], "id": 1}))


@given(st.binary(max_size=50) | st.one_of(anything, spoilt(), st.lists(spoilt(), max_size=3)).map(raw))
def test_nothing_that_comes_breaks_it(message: bytes):
    try:
        found, wrong = read_changes(message)
    except InvalidEvent:
        return
    assert all(isinstance(one, str) for one in wrong)
    again, _ = read_changes(message)
    for told, same in zip(found, again, strict=True):
        event = told.event("/x")
        assert 0 < len(event.id) <= 1_000
        assert event.id == same.event("/x").id
        assert event.subject is not None
        assert len(event.subject) <= 1_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"url": "kafka://localhost/topic"},
            'a queue that is read ("sqs://REGION/NAME"); other sources are not supported yet',
        ),
        ({"url": 3}, "give a path that is called"),
        ({"url": "/hooks/x"}, "verify is missing"),
        ({"url": "/v1/x", "verify": none()}, "belongs to the server"),
        ({"verify": none()}, "the queue itself controls who may write to it"),
        ({"table": ""}, "table must be the name of a table"),
        ({"operations": "insrt"}, 'Did you mean "insert"?'),
        ({"snapshot": "yes"}, "snapshot must be True or False"),
        ({"key": [3]}, "key must be names of columns"),
        ({"where": "data.new.total >"}, "is not a CEL expression"),
        (
            {"url": "/hooks/x", "verify": none(), "where": "data.new.total >"},
            '"data.new.total >" is not a CEL expression',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as refused:
        debezium(**{"url": "sqs://eu-west-1/rows", **arguments})
    assert words in str(refused.value)


def test_how_it_is_shown():
    shown = debezium("sqs://eu-west-1/rows", table="public.orders", operations="insert").describe()
    assert shown == 'debezium("sqs://eu-west-1/rows", table="orders", operations=[\'insert\'])'
    shown = debezium("/hooks/rows", verify=none(), snapshot=True).describe()
    assert shown == 'debezium("/hooks/rows", verify=none(), snapshot=True)'


@pytest.mark.parametrize(
    ("options", "fits", "does_not"),
    [
        ({"table": "orders"}, [postgres()], [postgres(schema="sales"), mysql(), postgres(table="orders2")]),
        ({"table": "sales.orders"}, [postgres(schema="sales"), postgres()], [mysql(), postgres(db="x", schema="y")]),
        ({"table": "inventory.customers"}, [mysql(), mongodb()], [sqlserver(), postgres()]),
        ({"operations": ["insert", "delete"]}, [postgres(), postgres(op="d")], [postgres(op="u")]),
        ({"table": "orders", "where": "data.new.total > 50"}, [postgres(9)], [postgres(1), postgres(1, "d")]),
        ({}, [postgres(), mysql(), dms()], []),
    ],
)
def test_which_changes_a_trigger_takes(options: dict[str, Any], fits: list[Any], does_not: list[Any]):
    trigger = debezium("sqs://eu-west-1/rows", **options)
    assert all(trigger.matches(event(one)).matched for one in fits)
    assert not any(trigger.matches(event(one)).matched for one in does_not)
