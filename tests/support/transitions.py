"""A witness of the tables of transitions in wakeful.transitions: triggers, made of these tables, in every store that a test process migrates.
WITNESS=1 turns it on: `WITNESS=1 make test`.

A trigger refuses a new row in a state that the table does not begin with, and a change of state that the table does not list. Since it
lives in the database, it also sees what other processes write. The refused request fails, and the message names the row:

    wakeful_run 5f2c…: done -> ready is not in RUN_TRANSITIONS

The code may survive that error, so each test ends with a look at what was refused to its own process: `refused`.

A write that leaves the state as it was is no transition, so no table lists one. A test that reaches into a store, to put it into a state
that is hard to get otherwise, is not a witness of the code: `look_away` gives its connection leave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw
import asyncpg

from wakeful import transitions
from wakeful.stores.migrations import Migration, newest
from wakeful.stores.postgres import PostgresBackend
from wakeful.stores.queries import Dialect
from wakeful.stores.sqlite import SqliteBackend
from wakeful.stores.transaction import Transaction

R = TypeVar("R")

WITNESSED = os.environ.get("WITNESS") == "1"
NEWEST = newest()  # tests of deployments replace it for a while
AWAY = "wakeful.look_away"


@dataclass(frozen=True)
class Machine:
    """A table of transitions, and the database table that it is about. `identity`: the columns that name a row."""

    constant: str
    table: str
    identity: tuple[str, ...]

    @property
    def transitions(self) -> Mapping[str | None, frozenset[str]]:
        found: Mapping[str | None, frozenset[str]] = getattr(transitions, self.constant)
        return found

    @property
    def begins(self) -> str:
        return f"new.state in {_listed(self.transitions[None])}"

    @property
    def moves(self) -> str:
        rows = " ".join(
            f"when '{before}' then new.state in {_listed(after)}"
            for before, after in self.transitions.items()
            if before is not None and after
        )
        return f"(new.state = old.state or case old.state {rows} else false end)"


MACHINES = (
    Machine("EVENT_TRANSITIONS", "wakeful_event", ("key",)),
    Machine("ADMISSION_TRANSITIONS", "wakeful_admission", ("event_seq", "agent")),
    Machine("RUN_TRANSITIONS", "wakeful_run", ("id",)),
    Machine("EFFECT_TRANSITIONS", "wakeful_effect", ("id",)),
    Machine("DELIVERY_TRANSITIONS", "wakeful_delivery", ("id",)),
    Machine("OCCURRENCE_TRANSITIONS", "wakeful_occurrence", ("seq",)),
    Machine("SCHEDULE_TRANSITIONS", "wakeful_schedule", ("app", "name")),
    Machine("SOURCE_TRANSITIONS", "wakeful_source", ("app", "name")),
    Machine("ALARM_TRANSITIONS", "wakeful_alarm", ("key",)),
)

# The message of raise() is a literal in SQLite before 3.47. The error about a JSON path quotes any text.
SQLITE = """
create trigger if not exists witness_new_{table} after insert on {table} when not {begins} begin
  select json_extract('{{}}', '{table} ' || {identity} || ': new -> ' || new.state || ' is not in {constant}');
end;
create trigger if not exists witness_{table} after update of state on {table} when not {moves} begin
  select json_extract('{{}}', '{table} ' || {identity} || ': ' || old.state || ' -> ' || new.state || ' is not in {constant}');
end;
"""
POSTGRES_FUNCTION = """
create or replace function witness_refuses() returns trigger language plpgsql as $$
declare
  before text := 'new';
begin
  if tg_op = 'UPDATE' then
    before := old.state;
  end if;
  raise exception '% %: % -> % is not in %', tg_table_name,
    (select string_agg(to_jsonb(new) ->> name, '/') from unnest(tg_argv[1:]) name), before, new.state, tg_argv[0];
end $$;
"""
POSTGRES = """
create or replace trigger witness_new_{table} after insert on {table} for each row when (not {begins} and {looking})
  execute function witness_refuses('{constant}', {columns});
create or replace trigger witness_{table} after update of state on {table} for each row when (not {moves} and {looking})
  execute function witness_refuses('{constant}', {columns});
"""


def triggers(dialect: Dialect) -> str:
    """The statements that make the witness. To execute them again changes nothing."""
    template = SQLITE if dialect == "sqlite" else POSTGRES
    made = "".join(
        template.format(
            table=machine.table,
            constant=machine.constant,
            begins=f"({machine.begins})",
            moves=machine.moves,
            identity=" || '/' || ".join(f"new.{column}" for column in machine.identity),
            looking=f"current_setting('{AWAY}', true) is distinct from 'yes'",
            columns=", ".join(f"'{column}'" for column in machine.identity),
        )
        for machine in MACHINES
    )
    return made if dialect == "sqlite" else POSTGRES_FUNCTION + made


refused: list[str] = []


def watch_every_store() -> None:
    """From now on, each store that this process brings to the newest schema gets the witness."""
    on_sqlite, on_postgres = SqliteBackend.migrate, PostgresBackend.migrate

    async def migrate_file(self: SqliteBackend, **options: Any) -> list[Migration]:
        applied = await on_sqlite(self, **options)
        if is_whole(applied):
            await self._job(lambda: self._connection.execute(triggers("sqlite")))
        return applied

    async def migrate_database(self: PostgresBackend, **options: Any) -> list[Migration]:
        applied = await on_postgres(self, **options)
        if is_whole(applied):
            connection = await self.connections.asyncpg.connect(self.connections.direct_dsn)
            try:
                await connection.execute(triggers("postgres"))
            finally:
                await connection.close()
        return applied

    SqliteBackend.migrate = migrate_file  # type: ignore[method-assign]
    PostgresBackend.migrate = migrate_database  # type: ignore[method-assign]
    for backend in (SqliteBackend, PostgresBackend):
        backend.transact = noting(backend.transact)  # type: ignore[method-assign]


def noting(transact: Callable[..., Any]) -> Callable[..., Any]:
    """The same transaction. An error of the witness is noted."""

    async def noted(self: Any, transaction: Callable[[int | None], Transaction[R]], *, plain: bool = False) -> R:
        try:
            result: R = await transact(self, transaction, plain=plain)
        except (apsw.SQLError, asyncpg.RaiseError) as error:
            if "_TRANSITIONS" in str(error):
                refused.append(str(error))
            raise
        return result

    return noted


def is_whole(applied: list[Migration]) -> bool:
    """A schema of an older version may lack tables; it gets the witness when it is brought up to date."""
    return any(migration.number == NEWEST for migration in applied)


async def look_away(connection: Any) -> None:
    """What this connection writes is not checked. On SQLite none of its triggers fires."""
    if isinstance(connection, apsw.Connection):
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    else:
        await connection.execute(f"set {AWAY} = 'yes'")


def _listed(states: frozenset[str]) -> str:
    return "(" + ", ".join(f"'{state}'" for state in sorted(states)) + ")"
