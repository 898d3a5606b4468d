"""The witness of the tables of transitions (support/transitions.py): what it refuses, and that every store of a test has it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import asyncpg
import pytest

from support.stores import Member, Onlooker, accept, an_arrival, query
from support.transitions import MACHINES, Machine, refused
from wakeful import transitions
from wakeful.clock import VirtualClock
from wakeful.settings import sqlite_path
from wakeful.stores.opening import open_database
from wakeful.stores.store import DatabaseStore
from wakeful.stores.transaction import Transaction

COLUMNS = {
    "wakeful_event": "key app source id type content envelope accepted_at",
    "wakeful_admission": "event_seq agent",
    "wakeful_run": "id root app agent event_seq created_at",
    "wakeful_effect": "id root run_seq app agent action reference safety arguments tries attempt position opened_at",
    "wakeful_delivery": "id run_seq app channel message position due_at created_at",
    "wakeful_occurrence": "schedule_seq from_at to_at count revision settled_at",
    "wakeful_schedule": "app name agent origin revision definition done_until created_at changed_at changed_by",
    "wakeful_source": "app name kind since",
    "wakeful_alarm": "key app text count opened_at last_at",
}
NUMBERS = {"tries", "attempt", "position", "count", "revision", "done_until", "since"}
CHOSEN = {"safety": "idempotent", "origin": "code"}
# Tables whose states have no table of transitions.
WITHOUT = {
    "wakeful_approval",
    "wakeful_circuit",
    "wakeful_expectation",
    "wakeful_process",
    "wakeful_quarantine",
    "wakeful_step",
}
REFUSED = (apsw.SQLError, asyncpg.RaiseError)
each = pytest.mark.parametrize("machine", MACHINES, ids=[one.table for one in MACHINES])


@pytest.fixture
async def watched(store_url: str) -> AsyncIterator[Onlooker]:
    one = Onlooker(store_url)
    yield one
    await one.close()


@pytest.fixture
async def unwatched(store_url: str) -> AsyncIterator[Onlooker]:
    one = Onlooker(store_url)
    await one.look_away()
    yield one
    await one.close()


def insert(machine: Machine, state: str) -> str:
    columns = COLUMNS[machine.table].split()
    values = [
        "1" if one.endswith(("_at", "_seq")) or one in NUMBERS else f"'{CHOSEN.get(one, one)}'" for one in columns
    ]
    return f"insert into {machine.table} ({', '.join(columns)}, state) values ({', '.join(values)}, '{state}')"


@each
async def test_exactly_the_listed_transitions_pass(watched: Onlooker, unwatched: Onlooker, machine: Machine):
    table, listed = machine.table, machine.transitions
    states = [state for state in listed if state is not None]
    for state in states:
        await unwatched.query(f"delete from {table}")
        if state in listed[None]:
            await watched.query(insert(machine, state))
        else:
            with pytest.raises(REFUSED, match=f"{table} [^ ]+: new -> {state} is not in {machine.constant}"):
                await watched.query(insert(machine, state))
    for before, after in itertools.product(states, states):
        await unwatched.query(f"delete from {table}")
        await unwatched.query(insert(machine, before))
        change = f"update {table} set state = '{after}'"
        if before == after or after in listed[before]:
            await watched.query(change)
        else:
            with pytest.raises(REFUSED, match=f"{table} [^ ]+: {before} -> {after} is not in {machine.constant}"):
                await watched.query(change)
        ((stored,),) = await watched.query(f"select state from {table}")
        assert stored == (after if before == after or after in listed[before] else before)


@pytest.mark.parametrize(
    ("table", "before", "after", "words"),
    [
        ("wakeful_run", "done", "ready", "wakeful_run id: done -> ready is not in RUN_TRANSITIONS"),
        ("wakeful_admission", "joined", "skipped", "wakeful_admission 1/agent: joined -> skipped is not in"),
        (
            "wakeful_schedule",
            "done",
            "paused",
            "wakeful_schedule app/name: done -> paused is not in SCHEDULE_TRANSITIONS",
        ),
    ],
)
async def test_the_message_names_the_row(
    watched: Onlooker, unwatched: Onlooker, table: str, before: str, after: str, words: str
):
    (machine,) = (one for one in MACHINES if one.table == table)
    await unwatched.query(insert(machine, before))
    with pytest.raises(REFUSED, match=words):
        await watched.query(f"update {table} set state = '{after}'")


async def test_an_insert_that_finds_its_row_is_judged_as_a_change(watched: Onlooker):
    """As the upserts of the store: what would be illegal for a new row may be legal for this one, and the other way round."""
    (alarm,) = (one for one in MACHINES if one.table == "wakeful_alarm")
    await watched.query(insert(alarm, "open"))
    await watched.query(f"{insert(alarm, 'acknowledged')} on conflict (key) do update set state = excluded.state")
    with pytest.raises(REFUSED, match="acknowledged -> open"):
        await watched.query(f"{insert(alarm, 'open')} on conflict (key) do update set state = excluded.state")
    await watched.query(f"{insert(alarm, 'resolved')} on conflict (key) do nothing")


async def test_what_is_refused_is_noted_even_if_the_code_goes_on(store: DatabaseStore, member: Member):
    await accept(store, an_arrival())
    claim = await member.claim_one()
    await member.finish(claim)

    def discard(now: int | None) -> Transaction[None]:
        yield "discard_run", [(now, claim.seq, "although it is done")]

    with contextlib.suppress(*REFUSED):
        await store.database.transact(discard)
    (words,) = refused
    assert f"wakeful_run {claim.id}: done -> cancelled is not in RUN_TRANSITIONS" in words
    refused.clear()


def test_every_table_of_transitions_is_watched():
    tables = {name for name in vars(transitions) if name.endswith("_TRANSITIONS")}
    assert {machine.constant for machine in MACHINES} == tables


async def test_every_state_in_the_store_is_watched_or_named(store_url: str):
    if sqlite_path(store_url) is None:
        found = (
            "select table_name from information_schema.columns where column_name = 'state' and table_schema = 'public'"
        )
    else:
        found = "select m.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and c.name = 'state'"
    assert {row[0] for row in await query(store_url, found)} == {one.table for one in MACHINES} | WITHOUT


async def test_a_store_that_a_test_makes_itself_is_watched(tmp_path: Path):
    path = tmp_path / "own.db"
    database = open_database(f"sqlite:///{path}", VirtualClock())
    await database.open(migrate=True)
    await database.close()
    with pytest.raises(REFUSED, match="new -> done"):
        await query(f"sqlite:///{path}", insert(MACHINES[2], "done"))
