"""The loader of named queries."""

from __future__ import annotations

import pytest

from wakeful.stores.queries import load_queries, parse

FILE = """
-- A file about things.

-- find_thing(now, name) --
-- why it exists
select :name, {now} from thing where name = :name and seen <= {now} {skip_locked}

-- count_things() --
select cast(count(*) as bigint), '12:30'::text from thing
"""


def test_parameters_become_numbers_in_the_order_they_are_declared():
    find, _ = parse(FILE, "sqlite")
    assert (find.name, find.parameters) == ("find_thing", ("now", "name"))
    assert find.sql == "select ?2, ?1 from thing where name = ?2 and seen <= ?1 "


def test_slots_are_filled_by_dialect():
    find, _ = parse(FILE, "postgres")
    assert "skip locked" in find.sql
    assert "coalesce(cast($1 as bigint)" in find.sql
    assert "$2" in find.sql


def test_comments_are_for_people_and_casts_are_no_parameters():
    _, count = parse(FILE, "postgres")
    assert count.sql == "select cast(count(*) as bigint), '12:30'::text from thing"
    assert count.parameters == ()


@pytest.mark.parametrize(
    "text", ["-- x(a) --\nselect 1", "-- x() --\nselect :a", "-- x(a, b) --\nselect :a", "-- x(a) --\nselect :b"]
)
def test_a_heading_that_does_not_fit_its_query_is_refused(text):
    with pytest.raises(ValueError, match="query x: declares"):
        parse(text, "sqlite")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_query_is_complete(dialect):
    queries = load_queries(dialect)
    assert len(queries) > 30
    for name, query in queries.items():
        assert query.name == name
        assert query.sql.strip()
        assert "{" not in query.sql, f"{name} has a slot that nobody filled"


def test_both_dialects_know_the_same_queries_by_the_same_parameters():
    """What exists only on PostgreSQL says so; everything else is called the same way."""
    sqlite, postgres = load_queries("sqlite"), load_queries("postgres")
    assert set(sqlite) <= set(postgres)
    assert {name for name in sqlite if sqlite[name].parameters != postgres[name].parameters} == set()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_they_are_read_once(dialect):
    assert load_queries(dialect) is load_queries(dialect)
