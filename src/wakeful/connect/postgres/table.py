"""The change table of a PostgreSQL database, and the trigger that fills it: used where replication is not permitted.

    insert, update, delete of a row ──(trigger, in the application's own transaction)──► wakeful_change, NOTIFY ──► read, stored, deleted

The function runs with the rights of its creator, so roles that write to the table need no rights on the change table. Each app has a
trigger and rows of its own: rows that one app has read and deleted are still there for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wakeful.connect.rows.change import Form, Operation
from wakeful.errors import did_you_mean
from wakeful.model import digest
from wakeful.triggers.source import SourceTrouble

if TYPE_CHECKING:
    from wakeful.connect.rows.telling import RowEvents

CHANNEL = "wakeful_change"
LONGEST_NAME = 63
LOCK = 0x77616B65_0001  # any number that others are unlikely to use
PUBLIC = "public"

# mark: identifies a change wherever and however often it is read. transaction_id: see table_reader.py
CHANGE_TABLE = (
    "create table if not exists {schema}.wakeful_change (id bigint generated always as identity, "
    "mark uuid not null default gen_random_uuid(), transaction_id xid8 not null default pg_current_xact_id(), "
    "app text not null, table_name text not null, operation text not null, old text, new text, "
    "changed_at timestamptz not null default clock_timestamp(), cause text, primary key (app, id))"
)
# row_to_json accepts every type of column; the settings make its output the same for every session.
BODY = (
    "begin insert into {schema}.wakeful_change (app, table_name, operation, old, new, cause) values "
    "(tg_argv[0], tg_argv[1], lower(tg_op), case when tg_op <> 'INSERT' then row_to_json(old)::text end, "
    "case when tg_op <> 'DELETE' then row_to_json(new)::text end, nullif(current_setting('wakeful.cause', true), '')); "
    "perform pg_notify('wakeful_change', tg_argv[0] || ' ' || pg_current_xact_id()::text); return null; end"
)
FUNCTION = (
    "create or replace function {schema}.wakeful_change() returns trigger language plpgsql security definer "
    "set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'iso_8601' set bytea_output = 'hex' "
    "as $wakeful$ {body} $wakeful$"
)
REVOKE = "revoke all on function {schema}.wakeful_change() from public"
GRANTS = ("grant usage on schema {schema} to {role}", "grant select, delete on {schema}.wakeful_change to {role}")

_HERE = """
select current_user::text, current_setting('server_version_num')::int, pg_is_in_recovery(),
  coalesce((select nspname::text from pg_class join pg_namespace space on space.oid = relnamespace
            where pg_class.oid = to_regclass('wakeful_change')), current_schema()::text),
  to_regclass('wakeful_change') is not null
"""
_FUNCTION = """
select prosrc from pg_proc join pg_namespace space on space.oid = pronamespace
where nspname = $1 and proname = 'wakeful_change' and pronargs = 0 and prosecdef
"""
_TABLES = """
select space.nspname::text, class.relname::text, class.relkind::text,
  array(select attname::text from pg_index, unnest(indkey) with ordinality place (number, rank), pg_attribute
        where indrelid = class.oid and indisprimary and attrelid = indrelid and attnum = place.number order by place.rank),
  array(select attname::text from pg_attribute where attrelid = class.oid and attnum > 0 and not attisdropped order by attnum),
  array(select format_type(atttypid, null) from pg_attribute
        where attrelid = class.oid and attnum > 0 and not attisdropped order by attnum)
from pg_class class join pg_namespace space on space.oid = class.relnamespace
where (space.nspname, class.relname) in (select * from unnest($1::text[], $2::text[]))
"""
_NAMES = """
select case when nspname = 'public' then relname else nspname || '.' || relname end
from pg_class join pg_namespace space on space.oid = relnamespace
where relkind in ('r', 'p') and nspname not in ('pg_catalog', 'information_schema') and relname not like 'wakeful\\_%' limit 1000
"""
_TRIGGERS = """
select space.nspname::text, class.relname::text, tgtype::int, tgargs, tgenabled::text, function_space.nspname::text, proname::text
from pg_trigger join pg_class class on class.oid = tgrelid join pg_namespace space on space.oid = class.relnamespace
  join pg_proc on pg_proc.oid = tgfoid join pg_namespace function_space on function_space.oid = pronamespace
where tgname = $1 and not tgisinternal and tgparentid = 0
"""
_MAY_MAKE = """
select has_table_privilege(pg_class.oid, 'TRIGGER') or exists (
    select from pg_trigger join pg_proc on pg_proc.oid = tgfoid where tgrelid = pg_class.oid and proname = 'wakeful_change')
from pg_class join pg_namespace space on space.oid = relnamespace where nspname = $1 and relname = $2
"""
_OTHERS = """
select exists (select from pg_trigger join pg_proc on pg_proc.oid = tgfoid join pg_namespace space on space.oid = pronamespace
               where proname = 'wakeful_change' and nspname = $1 and tgname <> $2)
"""
_BITS = {"insert": 4, "delete": 8, "update": 16}
_EACH_ROW = 1
FORMS: dict[str, Form] = {"json": "json", "jsonb": "json", "bytea": "bytes"}


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table as the database describes it."""

    name: str  # "orders", "sales.orders"
    key: tuple[str, ...]
    types: dict[str, str]  # of its columns, in order

    @property
    def forms(self) -> dict[str, Form]:
        return {column: FORMS[kind] for column, kind in self.types.items() if kind in FORMS}


@dataclass(slots=True)
class ChangeTableSetup:
    """The present state, and the steps that are needed before the changes can be read."""

    schema: str
    role: str
    tables: dict[str, WatchedTable]
    faults: list[str]  # of single tables: the others are read
    steps: list[str]

    def remedies(self) -> list[str]:
        """The steps, for another role to run, with the grants that this role needs."""
        grants = [one.format(schema=quoted(self.schema), role=quoted(self.role)) for one in GRANTS]
        return [*self.steps, *grants]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def parts_of(table: str) -> tuple[str, str]:
    """Schema and name."""
    schema, dot, name = table.rpartition(".")
    return (schema, name) if dot else (PUBLIC, table)


def written(schema: str, name: str) -> str:
    return name if schema == PUBLIC else f"{schema}.{name}"


def trigger_name(app: str) -> str:
    name = f"wakeful_{app}"
    return name if len(name) <= LONGEST_NAME else f"wakeful_{digest(app)}"


def trigger(app: str, table: str, operations: Sequence[Operation], schema: str) -> str:
    place = ".".join(map(quoted, parts_of(table)))
    # The table name is an argument: in a partition the trigger would only know the partition's name.
    return (
        f"create or replace trigger {quoted(trigger_name(app))} after {' or '.join(operations)} on {place} "
        f"for each row execute function {quoted(schema)}.wakeful_change({text(app)}, {text(table)})"
    )


async def look(connection: Any, app: str, row_events: RowEvents, *, where: str) -> ChangeTableSetup:
    """The present state. Raises SourceTrouble for a problem that no permission could fix."""
    role, version, in_recovery, schema, there = await connection.fetchrow(_HERE)
    if version < 140_000:
        message = f"{where}: PostgreSQL {version // 10_000} is too old: its triggers need 14 or newer"
        raise SourceTrouble(message)
    if in_recovery:
        message = f"{where}: it is a standby, where nothing can be created or deleted: give the address of the primary"
        raise SourceTrouble(message)
    if schema is None:
        message = f"{where}: no schema of the search_path exists for role {role}: ALTER ROLE {quoted(role)} SET search_path = …"
        raise SourceTrouble(message)
    tables, faults = await look_at_tables(connection, row_events, where=where)
    steps = []
    if not there:
        steps.append(CHANGE_TABLE.format(schema=quoted(schema)))
    body = BODY.format(schema=quoted(schema))
    if (await connection.fetchval(_FUNCTION, schema) or "").strip() != body:
        steps += [FUNCTION.format(schema=quoted(schema), body=body), REVOKE.format(schema=quoted(schema))]
    present, disabled = await _triggers(connection, app, where=where)
    faults += [words for table, words in disabled.items() if table in tables]
    for table in tables:
        if table in disabled:  # deliberately, perhaps
            continue
        operations = row_events.operations(table)
        wanted = (_EACH_ROW + sum(_BITS[one] for one in operations), schema, table)
        if present.pop(table, None) != wanted:
            steps.append(trigger(app, table, operations, schema))
    steps += [
        f"drop trigger {quoted(trigger_name(app))} on {'.'.join(map(quoted, parts_of(table)))}"
        for table in present
        if table not in row_events.tables
    ]
    return ChangeTableSetup(schema, role, tables, faults, steps)


async def look_at_tables(
    connection: Any, row_events: RowEvents, *, where: str
) -> tuple[dict[str, WatchedTable], list[str]]:
    """The tables that can be watched, and the problems of the others."""
    places = [parts_of(table) for table in row_events.tables]
    rows = await connection.fetch(_TABLES, [schema for schema, _ in places], [name for _, name in places])
    found: dict[str, WatchedTable] = {}
    faults: dict[str, str] = {}
    for schema, name, kind, key, columns, types in rows:
        table = written(schema, name)
        missing = [column for column in row_events.needed(table) if column not in columns]
        if kind not in {"r", "p"}:
            faults[table] = f"{where}: {table} is not a table: name the table that is written to"
        elif missing:
            faults[table] = f'{where}: table {table} has no column "{missing[0]}".{did_you_mean(missing[0], columns)}'
        else:
            found[table] = WatchedTable(table, tuple(key), dict(zip(columns, types, strict=True)))
    for table in row_events.tables:
        if table not in found and table not in faults:
            names = [row[0] for row in await connection.fetch(_NAMES)]
            faults[table] = f"{where}: there is no table {table}.{did_you_mean(table, names)} Retrying"
    return found, list(faults.values())


async def _triggers(connection: Any, app: str, *, where: str) -> tuple[dict[str, tuple[int, str, str]], dict[str, str]]:
    """The existing triggers of an app by table: their operations, the schema of their function, and the table name they report. And
    the messages for disabled ones.
    """
    found = {}
    disabled = {}
    for schema, name, kind, arguments, enabled, function_schema, function in await connection.fetch(
        _TRIGGERS, trigger_name(app)
    ):
        table = written(schema, name)
        if enabled in {"D", "R"}:
            place = ".".join(map(quoted, (schema, name)))
            disabled[table] = (
                f"{where}: the trigger of table {table} is disabled, so changes are lost: "
                f"ALTER TABLE {place} ENABLE TRIGGER {quoted(trigger_name(app))}"
            )
        told = arguments.decode().split("\0")
        mine = function == "wakeful_change" and told[0] == app
        found[table] = (kind if mine else -1, function_schema, told[1] if len(told) > 1 else "")
    return found, disabled


async def removal(connection: Any, app: str) -> list[str]:
    """The steps that remove everything of an app; also the table, if no other app fills it."""
    _, _, _, schema, there = await connection.fetchrow(_HERE)
    name = trigger_name(app)
    found = await connection.fetch(_TRIGGERS, name)
    steps = [f"drop trigger {quoted(name)} on {quoted(row[0])}.{quoted(row[1])}" for row in found]
    if not there:
        return steps
    if await connection.fetchval(_OTHERS, schema, name):
        return [*steps, f"delete from {quoted(schema)}.wakeful_change where app = {text(app)}"]
    return [
        *steps,
        f"drop function if exists {quoted(schema)}.wakeful_change()",
        f"drop table {quoted(schema)}.wakeful_change",
    ]


async def refused(connection: Any, table: str, *, where: str) -> str | None:
    """Why this role could not create the trigger of a table that has none yet; None if it could."""
    schema, name = parts_of(table)
    role, _, _, place, there = await connection.fetchrow(_HERE)
    if not await connection.fetchval(_MAY_MAKE, schema, name):
        return (
            f"{where}: role {role} may not create a trigger on table {table}: GRANT TRIGGER ON {quoted(schema)}.{quoted(name)} TO "
            f"{quoted(role)}, or let its owner run the output of `wakeful changes APP`"
        )
    if not there and not await connection.fetchval("select has_schema_privilege($1, 'CREATE')", place):
        return (
            f"{where}: role {role} may not create a table in schema {place}: GRANT CREATE ON SCHEMA {quoted(place)} TO {quoted(role)}, "
            "or let its owner run the output of `wakeful changes APP`"
        )
    return None
