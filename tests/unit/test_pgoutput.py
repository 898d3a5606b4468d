"""Messages of pgoutput, as PostgreSQL 18 sent them, and anything else that bytes can be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wakeful.connect.postgres.pgoutput import (
    Decoder,
    Garbled,
    PgBegin,
    PgCommit,
    PgMessage,
    PgRelation,
    PgRow,
    PgTruncated,
    read_lsn,
    shown_lsn,
)
from wakeful.connect.postgres.values import converter

# insert into t values (1, 'x', 12.50); update t set id = 2; alter table t replica identity full;
# begin; pg_logical_emit_message(true, 'wakeful', 'why'); update t set a = null; delete from t; truncate t; commit
RECORDED = [
    "4200000000016f2d1800030358e63e40a3000002f3",
    "52000040007075626c69630074006400030169640000000017ffffffff00610000000019ffffffff006e00000006a4ffffffff",
    "49000040004e0003740000000131740000000178740000000531322e3530",
    "430000000000016f2d1800000000016f2d4800030358e63e40a3",
    "4200000000016f2de800030358e63e4547000002f4",
    "55000040004b00037400000001316e6e4e0003740000000132740000000178740000000531322e3530",
    "430000000000016f2de800000000016f2e1800030358e63e4547",
    "4200000000016f3c3800030358e63e65e8000002f6",
    "4d0100000000016f301077616b6566756c0000000003776879",
    "52000040007075626c69630074006600030169640000000017ffffffff01610000000019ffffffff016e00000006a4ffffffff",
    "55000040004f0003740000000132740000000178740000000531322e35304e00037400000001326e740000000531322e3530",
    "44000040004f00037400000001326e740000000531322e3530",
    "52000040007075626c69630074006600030169640000000017ffffffff01610000000019ffffffff016e00000006a4ffffffff",
    "54000000010000004000",
    "430000000000016f3c3800000000016f3da800030358e63e65e8",
]
WHOLE = {"id": 2, "a": "x", "n": 12.5}


def decoded() -> list[object]:
    decoder = Decoder({16384: ("id",)})
    return [decoder.decode(bytes.fromhex(one)) for one in RECORDED]


def test_a_recorded_stream():
    heard = decoded()
    rows = [(one.operation, one.new, one.old, one.changed) for one in heard if isinstance(one, PgRow)]
    assert rows == [
        ("insert", {"id": 1, "a": "x", "n": 12.5}, None, None),
        ("update", WHOLE, {"id": 1}, None),
        ("update", {**WHOLE, "a": None}, WHOLE, ["a"]),
        ("delete", None, {**WHOLE, "a": None}, None),
    ]
    assert [type(one) for one in heard] == [
        *(PgBegin, PgRelation, PgRow, PgCommit),
        *(PgBegin, PgRow, PgCommit),
        *(PgBegin, PgMessage, PgRelation, PgRow, PgRow, PgRelation, PgTruncated, PgCommit),
    ]
    relation = next(one for one in heard if isinstance(one, PgRelation))
    assert (relation.table, relation.identity, relation.key) == ("t", "d", ("id",))
    assert next(one for one in heard if isinstance(one, PgMessage)) == PgMessage("wakeful", b"why", transactional=True)
    assert next(one for one in heard if isinstance(one, PgTruncated)).tables == ["t"]
    begins = [one.commit_lsn for one in heard if isinstance(one, PgBegin)]
    ends = [one.end_lsn for one in heard if isinstance(one, PgCommit)]
    assert begins == [one.commit_lsn for one in heard if isinstance(one, PgCommit)]
    assert all(begin < end for begin, end in zip(begins, ends, strict=True))


@given(some.data())
def test_a_message_that_is_cut_changed_or_lengthened_is_refused_or_read_never_anything_else(data: some.DataObject):
    decoder = Decoder()
    known = [bytes.fromhex(one) for one in RECORDED]
    for one in known:
        decoder.decode(one)
    original = data.draw(some.sampled_from(known))
    at = data.draw(some.integers(0, len(original) - 1))
    damaged = data.draw(
        some.sampled_from(
            [original[:at], original + b"\0", original[:at] + b"\xff" + original[at + 1 :], original[at:]]
        )
    )
    try:
        decoder.decode(damaged)
    except Garbled as error:
        assert "\n" not in str(error)  # noqa: PT017 many are no error at all


@given(some.binary(max_size=200))
def test_any_bytes(data: bytes):
    try:
        Decoder().decode(data)
    except Garbled:
        pass


@pytest.mark.parametrize("one", RECORDED)
def test_a_message_that_is_too_short_is_refused(one: str):
    decoder = Decoder()
    for known in RECORDED:
        decoder.decode(bytes.fromhex(known))
    whole = bytes.fromhex(one)
    for length in range(len(whole)):
        with pytest.raises(Garbled):
            decoder.decode(whole[:length])


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (16, b"t", True),
        (16, b"f", False),
        (23, b"-7", -7),
        (20, b"9223372036854775807", 9223372036854775807),
        (701, b"1e-07", 1e-07),
        (701, b"NaN", "NaN"),
        (700, b"-Infinity", "-Infinity"),
        (1700, b"12.50", 12.5),
        (1700, b"0.10", 0.1),
        (1700, b"100", 100),
        (1700, b"1234567890.123456789", "1234567890.123456789"),
        (1700, b"12345678901234567890", "12345678901234567890"),
        (1700, b"NaN", "NaN"),
        (114, b'{"a": [1, null]}', {"a": [1, None]}),
        (3802, b"[" * 200 + b"]" * 200, "[" * 200 + "]" * 200),
        (17, b"\\x00ff", "AP8="),
        (1184, b"2026-03-01 08:30:00.5+00", "2026-03-01T08:30:00.5+00:00"),
        (1114, b"2026-03-01 08:30:00", "2026-03-01T08:30:00"),
        (1184, b"infinity", "infinity"),
        (1114, b"0044-03-15 00:00:00 BC", "0044-03-15 00:00:00 BC"),
        (1007, b"{1,NULL,3}", [1, None, 3]),
        (1007, b"{}", []),
        (1007, b"[0:1]={1,2}", [1, 2]),
        (1007, b"{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (1009, b'{a,"b c","NULL","say \\"x\\\\\\""}', ["a", "b c", "NULL", 'say "x\\"']),
        (3807, b'{"{\\"a\\": 1}"}', [{"a": 1}]),
        (1009, b"{broken", "{broken"),
        (2950, b"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        (1082, b"2026-03-01", "2026-03-01"),
        (99999, b"anything", "anything"),
        (25, "zürich".encode(), "zürich"),
    ],
)
def test_values_are_what_json_can_say(kind: int, raw: bytes, value: object):
    found = converter(kind)(raw)
    assert found == value
    assert type(found) is type(value)


@given(some.sampled_from([16, 23, 701, 1700, 114, 3802, 1114, 1184, 17, 1007, 1009, 3807, 1231, 25]), some.binary())
def test_no_value_is_an_error(kind: int, raw: bytes):
    value = converter(kind)(raw)
    assert not isinstance(value, float) or math.isfinite(value)


@given(some.integers(0, (1 << 64) - 1))
def test_positions_are_written_as_postgres_writes_them(lsn: int):
    assert read_lsn(shown_lsn(lsn)) == lsn
