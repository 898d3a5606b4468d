"""How rows stand in change tables, read back: whatever a database writes, and whatever else may stand there."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.connect.postgres.json_rows import read_row
from wakeful.connect.rows.change import RowChange
from wakeful.connect.rows.outbox import OutboxRows
from wakeful.connect.rows.telling import changed_columns
from wakeful.connect.sqlite.literals import plain_value, read_literals
from wakeful.errors import InvalidEvent

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
# quote() writes 15 digits where its own reading of them gives the number back. Near the smallest numbers that reading is inexact before
# SQLite 3.43, and the last digit gets lost there.
TINY = 1e-290
FLOATS = st.floats(allow_nan=False).filter(lambda number: number == 0 or abs(number) > TINY)
VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT | st.binary()


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_what_sqlite_quotes_is_read_as_it_was(values: list[Any]):
    connection = sqlite3.connect(":memory:")
    parts = "||','||".join(["quote(?)"] * len(values))
    (written,) = connection.execute(f"select {parts}", values).fetchone()
    connection.close()
    read = read_literals(written)
    assert read == values
    assert [type(one) for one in read] == [type(one) for one in values]


@given(st.floats(-TINY, TINY))
def test_the_smallest_numbers_keep_fifteen_digits(number: float):
    connection = sqlite3.connect(":memory:")
    (written,) = connection.execute("select quote(?)", [number]).fetchone()
    connection.close()
    assert read_literals(written) == [pytest.approx(number, rel=1e-14, abs=5e-324)]


@given(st.text() | st.from_regex(r"[0-9.eEX'NULLInf,+-]*", fullmatch=True))
def test_what_is_no_literal_is_an_error_and_nothing_else(written: str):
    with contextlib.suppress(ValueError):
        assert all(isinstance(one, int | float | str | bytes | None) for one in read_literals(written))


def test_what_json_lacks_is_text():
    assert [plain_value(one) for one in (b"\x00\xff", math.inf, -math.inf, 1, "a", None)] == [
        "AP8=",
        "Infinity",
        "-Infinity",
        1,
        "a",
        None,
    ]


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_number_is_rounded(number: Decimal):
    row = read_row(json.dumps({"n": 0}).replace("0", f"{number:f}"))
    assert Decimal(str(row["n"])) == number


@given(st.integers())
def test_whole_numbers_beyond_64_bits_are_text(number: int):
    value = read_row(f'{{"n": {number}}}')["n"]
    assert value == (number if -(2**63) <= number < 2**63 else str(number))


@given(st.text())
def test_what_is_no_row_is_an_error_and_nothing_else(written: str):
    try:
        row = read_row(written)
    except (ValueError, RecursionError):
        return
    assert isinstance(row, dict)


def test_columns_that_changed():
    old = {"a": 1, "b": True, "c": None, "gone": 1}
    assert changed_columns(old, {"a": 1, "b": 1, "c": "", "new": 2}) == ["b", "c"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"id": JSON, "aggregatetype": JSON, "aggregateid": JSON, "type": JSON, "payload": JSON},
        optional={"timestamp": JSON, "tracingspancontext": JSON},
    ),
    st.sampled_from([{}, {"payload": "json"}, {"payload": "bytes"}]),
)
def test_an_outbox_row_is_an_event_or_says_why_not(row: dict[str, Any], forms: dict[str, Any]):
    part = OutboxRows("outbox", "*", None, None, "shop", delete=False)
    change = RowChange("outbox", "insert", "mark", {}, row, forms=forms)
    assert part.takes(change)
    with contextlib.suppress(InvalidEvent):
        event = part.event(change)
        assert (event.id, event.type, event.source) == (str(row["id"]), str(row["type"]), "/outbox/shop/outbox")


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (1_772_353_800, "2026-03-01T08:30:00+00:00"),
        (1_772_353_800_500, "2026-03-01T08:30:00.500000+00:00"),
        (1_772_353_800_500_000, "2026-03-01T08:30:00.500000+00:00"),
        ("2026-03-01T08:30:00", "2026-03-01T08:30:00+00:00"),
        ("2026-03-01T10:30:00+02:00", "2026-03-01T10:30:00+02:00"),
    ],
)
def test_the_time_of_an_outbox_row(timestamp: Any, shown: str):
    part = OutboxRows("outbox", "*", None, None, "shop", delete=False)
    row = {
        "id": "1",
        "aggregatetype": "order",
        "aggregateid": 7,
        "type": "placed",
        "payload": None,
        "timestamp": timestamp,
    }
    event = part.event(RowChange("outbox", "insert", "mark", {}, row))
    assert event.time is not None
    assert event.time.isoformat() == shown
    assert (event.subject, event.extensions) == ("7", {"aggregatetype": "order"})
