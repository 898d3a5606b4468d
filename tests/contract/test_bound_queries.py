"""Every query with payloads tells to which rows they belong, in both databases."""

from __future__ import annotations

import re

import apsw
import pytest

from support.stores import OpenStore
from wakeful.settings import sqlite_path
from wakeful.stores.binding import BINDINGS
from wakeful.stores.payloads import returned
from wakeful.stores.places import COLUMNS, PLACES
from wakeful.stores.queries import bound_named, load_queries, written_queries

# Columns of an answer that have the name of a payload and are none: words of policy, an error's class, a condition, another table.
NO_PAYLOADS = {
    ("list_decisions", "answer"),
    ("page_of_decisions", "decision answer"),
    ("find_decision", "decision answer"),
    ("migration_ledger", "detail digest"),
    ("migration_ledger", "detail needs"),
    ("list_dead", "json_extract run error"),
    ("list_dead_deliveries", "json_extract delivery error"),
    ("list_dead", "cast run error"),
    ("list_dead_deliveries", "cast delivery error"),
}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_payload_of_every_query_has_a_place(dialect):
    written = written_queries(dialect)
    for name, query in load_queries(dialect).items():
        if written[name].kind == " raw":
            continue
        bound = bound_named(dialect, name)
        assert {one.place for one in bound.given} == {place for place, _ in query.given}, name
        for one in bound.given:
            assert one.column in (*COLUMNS[one.table], "content"), (name, one)
        columns = returned(query.sql)
        for place in set(query.returned) - {one.place for one in bound.returned}:
            words = " ".join(columns[place])
            assert (name, words) in NO_PAYLOADS or " is not null" in words, (name, words)


def test_every_table_with_payloads_names_its_rows_by_letters_that_tell_them_apart():
    assert set(BINDINGS) == {place.noun for place in PLACES}
    for binding in BINDINGS.values():
        letters = [name.letter for name in binding.names]
        assert len(set(letters)) == len(letters)
        assert all(len(letter) == 1 and letter.isalpha() for letter in letters)


async def test_the_database_takes_every_one_of_these_queries(stores: OpenStore, store_url: str):
    database = (await stores(store_url)).database
    for name in load_queries(database.dialect):
        sql = bound_named(database.dialect, name).sql
        if database.dialect == "sqlite":
            given = max([int(one) for one in re.findall(r"\?(\d+)", sql)], default=0)
            apsw.Connection(str(sqlite_path(store_url))).execute(f"explain {sql}", (None,) * given)
        else:
            async with database.connections.borrowed() as connection:  # type: ignore[attr-defined]
                await connection.prepare(sql)
