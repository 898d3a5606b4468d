"""What logical replication needs in the database: publications, which say what is sent of which tables, and a slot, which keeps the
log until it has been read. Missing ones are created if that is permitted; existing ones are used as they are.

    wakeful_APP            inserts, updates and deletes of the tables whose rows can be told apart
    wakeful_APP_inserts    only inserts, of tables of which no more is wanted: they need no key
    wakeful_APP_DATABASE   the slot; slot names are shared by all databases of a server

A table without a key is never added to the first one: PostgreSQL would refuse its owner's next UPDATE. Columns are not left out
either: a column list without the key has the same effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wakeful.connect.postgres.pgoutput import PUBLIC, read_lsn
from wakeful.connect.postgres.replication import SlotError, driver, first_line
from wakeful.connect.rows.change import OPERATIONS, Operation
from wakeful.errors import did_you_mean
from wakeful.model import digest
from wakeful.triggers.source import SourceTrouble

LONGEST_NAME = 63
MAKE_WITHIN = "30s"
LOCK_WITHIN = "2s"
HELD_BACK = 1 << 30
MOST_HINTS = 1_000

_SERVER = """
select current_setting('wal_level'), pg_is_in_recovery(), current_user, current_database(),
  (select rolreplication or rolsuper from pg_roles where rolname = current_user)
    or exists (select from pg_roles where rolname = 'rds_replication' and pg_has_role(oid, 'member')),
  current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots)
"""
_TABLES = """
select class.oid, space.nspname, class.relname, class.relkind::text, class.relpersistence::text, class.relreplident::text,
  pg_has_role(class.relowner, 'usage'), pg_get_userbyid(class.relowner),
  exists (select from pg_index where indrelid = class.oid and indisreplident),
  array(select attname::text from pg_index, unnest(indkey) with ordinality place (number, rank), pg_attribute
        where indrelid = class.oid and indisprimary and attrelid = indrelid and attnum = place.number order by place.rank),
  array(select attname::text from pg_attribute where attrelid = class.oid and attnum > 0 and not attisdropped)
from pg_class class join pg_namespace space on space.oid = class.relnamespace
where (space.nspname, class.relname) in (select * from unnest(%s::text[], %s::text[]))
"""
_NAMES = """
select case when nspname = 'public' then relname else nspname || '.' || relname end
from pg_class join pg_namespace space on space.oid = relnamespace
where relkind in ('r', 'p') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast') limit %s
"""
_PUBLICATIONS = """
select pubname, pubinsert, pubupdate, pubdelete, pg_has_role(pubowner, 'usage'),
  array(select case when schemaname = 'public' then tablename::text else schemaname || '.' || tablename end
        from pg_publication_tables tables where tables.pubname = publication.pubname)
from pg_publication publication where pubname = any(%s)
"""
_SLOT = """
select plugin, database, active_pid, wal_status, confirmed_flush_lsn::text,
  pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, pg_current_wal_flush_lsn()::text
from pg_replication_slots where slot_name = %s
"""
_FLUSHED = "select pg_current_wal_flush_lsn()::text"
_WHO = "select application_name, usename, client_addr::text from pg_stat_activity where pid = %s"


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    """A table as the database describes it."""

    number: int
    name: str  # "orders", "sales.orders"
    kind: str
    persistence: str
    identity: str
    owned: bool
    owner: str
    has_identity_index: bool
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def tells_rows_apart(self) -> bool:
        """Whether PostgreSQL can tell which row changed."""
        if self.identity == "d":
            return bool(self.key)
        return self.identity == "f" or (self.identity == "i" and self.has_identity_index)

    def fault(self, operations: Sequence[Operation]) -> str | None:
        """Why these changes cannot be read, and what to do; None if they can."""
        if self.kind not in {"r", "p"}:
            return f"{self.name} is not a table: name the table behind it"
        if self.persistence != "p":
            return f"table {self.name} is unlogged or temporary, so its changes are not in the log: ALTER TABLE {quoted(self.name)} SET LOGGED"
        if tuple(operations) != ("insert",) and not self.tells_rows_apart:
            return (
                f"table {self.name} has no primary key, so it is unknown which row changed, and PostgreSQL would refuse "
                f"UPDATE and DELETE once it is published: ALTER TABLE {quoted(self.name)} ADD PRIMARY KEY (…), or "
                f'ALTER TABLE {quoted(self.name)} REPLICA IDENTITY FULL, or use operations="insert"'
            )
        return None


@dataclass(frozen=True, slots=True)
class Server:
    """Facts about the server and the role that connects."""

    wal_level: str
    in_recovery: bool
    role: str
    database: str
    may_replicate: bool
    free_slots: int

    def faults(self) -> list[str]:
        """Problems that prevent reading anything."""
        found = []
        if self.in_recovery:
            found.append("it is a standby, where nothing can be created: give the address of the primary")
        if self.wal_level != "logical":
            found.append(
                f"wal_level is {self.wal_level}, but must be logical: ALTER SYSTEM SET wal_level = 'logical', then restart "
                'the server; or use via="triggers"'
            )
        return found

    def no_replication(self) -> str:
        return (
            f"role {self.role} may not read the log: ALTER ROLE {quoted_name(self.role)} REPLICATION (on Amazon RDS: GRANT rds_replication "
            f'TO {quoted_name(self.role)}), or use via="triggers"'
        )

    @staticmethod
    def no_slot() -> str:
        return (
            "all replication slots of the server are in use: drop an unused one (SELECT slot_name, active FROM "
            "pg_replication_slots), or raise max_replication_slots and restart the server"
        )


@dataclass(frozen=True, slots=True)
class Publication:
    name: str
    operations: tuple[Operation, ...]
    owned: bool
    tables: frozenset[str]


@dataclass(slots=True)
class PreparedReplication:
    """What was found or created for the reader."""

    slot: str
    publications: list[str]
    confirmed: int  # position of the slot
    flushed: int  # end of the server's log
    keys: dict[int, tuple[str, ...]]
    faults: list[str] = field(default_factory=list)  # of single tables: the others are read
    no_replication: str | None = (
        None  # the message if the log cannot be read, when the role seems to lack the permission
    )


class ReplicationSetup:
    """The publications and the slot of one app in one database."""

    def __init__(
        self,
        app: str,
        place: str,
        wanted: Mapping[str, tuple[Operation, ...]],
        *,
        slot: str | None = None,
        publication: str | None = None,
    ) -> None:
        """`wanted`: the operations wanted of each table. A given slot or publication replaces our own."""
        self._where = f"postgres_changes {place}"
        self._app = app
        self._wanted = dict(wanted)
        self._slot = slot
        self._given = publication
        self._full = publication or plain_name("wakeful", app)
        self._inserts = plain_name("wakeful", app, "inserts")

    async def prepare(self, connection: Any, *, by: Sequence[str] = ()) -> PreparedReplication:
        """Create what is missing. Raises SourceTrouble if nothing can be read. A running stream (`by` these publications) does not
        see other publications, so nothing is moved to a new one.
        """
        server = await look_at_server(connection)
        for fault in server.faults():
            raise self.trouble(fault)
        tables, faults = await self._tables(connection)
        if not tables:
            raise self.trouble("; ".join(faults))
        slot = self._slot or plain_name("wakeful", self._app, server.database)
        # A publication cannot be used for log that was kept before it was created.
        names = by or [self._full] if await one_row(connection, _SLOT, slot) else [self._full, self._inserts]
        publications = await self._published(connection, names, tables, server, faults)
        confirmed, flushed = await self._slotted(connection, slot, server)
        keys = {one.number: one.key for one in tables.values() if one.key}
        no_replication = None if server.may_replicate else server.no_replication()
        return PreparedReplication(slot, publications, confirmed, flushed, keys, faults, no_replication)

    async def held_back(self, connection: Any, slot: str) -> tuple[int, str | None]:
        """The end of the log, and a warning if the slot holds back much of it. Raises SourceTrouble if the slot is lost."""
        row = await one_row(connection, _SLOT, slot)
        if row is None:
            raise self.trouble(f"slot {slot} is missing: it was dropped")
        _, _, _, status, _, held, flushed = row
        if status == "lost":
            raise self.lost(slot)
        if status in {"extended", "unreserved"} or (held or 0) > HELD_BACK:
            return read_lsn(flushed), (
                f"{self._where}: slot {slot} holds back {(held or 0) / 1e9:.1f} GB of the server's log (status {status}), which "
                "fills its disk, or is removed unread if max_slot_wal_keep_size is set: find out why the app reads so slowly "
                "(`wakeful runs`, App(backlog=…)), or whether a transaction has been open for long"
            )
        return read_lsn(flushed), None

    def trouble(self, words: str) -> SourceTrouble:
        return SourceTrouble(f"{self._where}: {words}")

    def unreachable(self, error: BaseException) -> SourceTrouble:
        return self.trouble(f"cannot be read: {first_line(error)}. Retrying. Is it running, and is the address right?")

    def ended(self, error: SlotError, slot: str) -> SourceTrouble:
        """Why the stream ended, and what to do."""
        if error.state == "55000" and "slot" in str(error):
            return self.lost(slot)
        if error.state == "42704":
            return self.trouble(
                f"{error}: it was dropped, and recreated after the log that the slot keeps was written. To continue from now: "
                f"SELECT pg_drop_replication_slot('{slot}'); a new one is created automatically"
            )
        return self.trouble(f"the stream ended: {error}. Retrying")

    def lost(self, slot: str) -> SourceTrouble:
        return self.trouble(
            f"slot {slot} is lost: the server has removed log that was not read yet (max_slot_wal_keep_size, or idle_replication_"
            f"slot_timeout), and changes with it. To continue from now: SELECT pg_drop_replication_slot('{slot}'); a new one "
            "is created automatically. The missed changes are then listed by `wakeful events --quarantined`"
        )

    async def in_use(self, connection: Any, slot: str) -> SourceTrouble:
        """The error for a slot that another process reads, with that process."""
        row = await one_row(connection, _SLOT, slot)
        who = None if row is None or row[2] is None else await one_row(connection, _WHO, row[2])
        if row is None or who is None:
            return self.trouble(f"slot {slot} is in use by another process")
        return self.trouble(
            f"slot {slot} is in use by process {row[2]} of the server (application {who[0]!r}, role {who[1]}, from {who[2] or 'the same machine'}): "
            f"stop that process (SELECT pg_terminate_backend({row[2]})), or give this app another slot: slot=…"
        )

    async def _tables(self, connection: Any) -> tuple[dict[str, ReplicatedTable], list[str]]:
        """The tables that can be read, and the problems of the others."""
        found = await look_at_tables(connection, self._wanted)
        faults = []
        good: dict[str, ReplicatedTable] = {}
        for name, operations in self._wanted.items():
            table = found.get(name)
            fault = await missing(connection, name) if table is None else table.fault(operations)
            if fault is not None:
                faults.append(fault)
            elif table is not None:
                good[name] = table
        return good, faults

    async def _published(
        self,
        connection: Any,
        names: Sequence[str],
        tables: dict[str, ReplicatedTable],
        server: Server,
        faults: list[str],
    ) -> list[str]:
        """The publications to read by: the existing ones and those of `names`. A table that cannot be added is removed from `tables`
        and becomes a fault.
        """
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{LOCK_WITHIN}'")
            known = [self._full] if self._given else [self._full, self._inserts]
            there = await look_at_publications(connection, known)
            if self._full not in there:
                there[self._full] = await self._make(connection, self._full, OPERATIONS, tables, server)
            wanted = self._given is None and self._inserts in names
            if wanted and self._inserts not in there and there[self._full].owned:
                with suppress(SourceTrouble):  # this publication is optional
                    there[self._inserts] = await self._make(connection, self._inserts, ("insert",), tables, server)
            if self._given is None and all(one.owned for one in there.values()):
                await self._adjust(connection, there, tables, faults)
            else:
                self._compare(there, tables, faults)
        if not tables:
            raise self.trouble("; ".join(faults))
        return list(there)

    async def _make(
        self,
        connection: Any,
        name: str,
        operations: Sequence[str],
        tables: Mapping[str, ReplicatedTable],
        server: Server,
    ) -> Publication:
        publish = ", ".join(operations)
        statement = f"create publication {quoted_name(name)}"
        options = f" with (publish = '{publish}', publish_via_partition_root = true)"
        first: frozenset[str] = frozenset()
        if (
            self._given is not None
        ):  # a publication that the user named is created complete and never changed afterwards
            first = frozenset(name for name, table in tables.items() if table.tells_rows_apart)
            statement += f" for table {', '.join(map(quoted, sorted(first)))}" if first else ""
        try:
            async with connection.transaction():
                await connection.execute(statement + options)
        except driver().errors.InsufficientPrivilege as error:
            listed = ", ".join(map(quoted, tables))
            more = "" if server.may_replicate else f"; and {server.no_replication()}"
            raise self.trouble(
                f"role {server.role} may not create publication {name} ({first_line(error)}): as the owner of the tables run "
                f"CREATE PUBLICATION {quoted_name(name)} FOR TABLE {listed}{more}"
            ) from error
        return Publication(name, tuple(one for one in OPERATIONS if one in operations), True, first)

    async def _adjust(
        self, connection: Any, there: Mapping[str, Publication], tables: dict[str, ReplicatedTable], faults: list[str]
    ) -> None:
        """For our own publications: move each table to the right one and remove other tables. A locked table stays where it is."""
        locked = set()
        for name in list(tables):
            home = self._inserts if self._wanted[name] == ("insert",) and self._inserts in there else self._full
            if name in there[home].tables:
                continue
            try:
                async with connection.transaction():
                    await connection.execute(f"alter publication {quoted_name(home)} add table {quoted(name)}")
            except driver().errors.InsufficientPrivilege:
                table = tables.pop(name)
                faults.append(
                    f"table {name} belongs to {table.owner}, and only its owner may publish it: as {table.owner} run "
                    f"ALTER PUBLICATION {quoted_name(home)} ADD TABLE {quoted(name)} (and own the publication), or "
                    f"GRANT {quoted_name(table.owner)} to the role that Wakeful connects as"
                )
            except driver().errors.LockNotAvailable:
                del tables[name]
                locked.add(name)
                faults.append(
                    f"table {name} is locked (VACUUM, CREATE INDEX, ALTER TABLE); its changes are read once the lock is released: "
                    "SELECT pid, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start"
                )
        for home, publication in there.items():
            for name in sorted(publication.tables - locked):
                wanted = self._wanted.get(name) if name in tables else None
                here = self._inserts if wanted == ("insert",) and self._inserts in there else self._full
                if wanted is None or here != home:
                    with suppress(driver().errors.LockNotAvailable):  # the next check does it
                        async with connection.transaction():
                            await connection.execute(f"alter publication {quoted_name(home)} drop table {quoted(name)}")

    def _compare(self, there: Mapping[str, Publication], tables: dict[str, ReplicatedTable], faults: list[str]) -> None:
        """For publications of others: tables that are not published there cannot be read."""
        for name in list(tables):
            told = {operation for one in there.values() if name in one.tables for operation in one.operations}
            lacking = [one for one in self._wanted[name] if one not in told]
            if not lacking:
                continue
            del tables[name]
            publication = next(iter(there))
            if told:
                faults.append(
                    f"publication {publication} does not publish {', '.join(lacking)}: as its owner run "
                    f"ALTER PUBLICATION {quoted_name(publication)} SET (publish = 'insert, update, delete')"
                )
            else:
                faults.append(
                    f"table {name} is not in publication {publication}: as its owner run "
                    f"ALTER PUBLICATION {quoted_name(publication)} ADD TABLE {quoted(name)}"
                )

    async def _slotted(self, connection: Any, slot: str, server: Server) -> tuple[int, int]:
        """The position of the slot and the end of the log. The slot is created if it is missing."""
        row = await one_row(connection, _SLOT, slot)
        if row is None:
            await self._make_slot(connection, slot, server)
            row = await one_row(connection, _SLOT, slot)
        if row is None:
            raise self.trouble(f"slot {slot} was created and is missing again: another program drops it")
        plugin, database, _, status, confirmed, _, flushed = row
        if plugin != "pgoutput" or database != server.database:
            raise self.trouble(
                f"slot {slot} belongs to another program (kind {plugin or 'physical'}, database {database or 'none'}): give this app another one, slot=…"
            )
        if status == "lost" or confirmed is None:
            raise self.lost(slot)
        return read_lsn(confirmed), read_lsn(flushed)

    async def _make_slot(self, connection: Any, slot: str, server: Server) -> None:
        errors = driver().errors
        try:
            await connection.execute(f"set statement_timeout = '{MAKE_WITHIN}'")
            await connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        except errors.InsufficientPrivilege as error:
            raise self.trouble(server.no_replication()) from error
        except errors.ConfigurationLimitExceeded as error:
            raise self.trouble(server.no_slot()) from error
        except errors.QueryCanceled as error:
            raise self.trouble(
                f"slot {slot} can be created only after all transactions that are open now have ended, and one has been open for long: "
                "SELECT pid, xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY 2"
            ) from error
        except errors.DuplicateObject:
            pass  # another process was faster


async def look_at_server(connection: Any) -> Server:
    row = await one_row(connection, _SERVER)
    return Server(*row)


async def look_at_tables(connection: Any, names: Sequence[str] | Mapping[str, Any]) -> dict[str, ReplicatedTable]:
    """The existing tables of these names."""
    parts = [split(name) for name in names]
    cursor = await connection.execute(_TABLES, [[schema for schema, _ in parts], [name for _, name in parts]])
    found = {}
    for number, schema, name, kind, persistence, identity, owned, owner, index, key, columns in await cursor.fetchall():
        shown = name if schema == PUBLIC else f"{schema}.{name}"
        facts = (kind, persistence, identity, owned, owner, index)
        table = ReplicatedTable(number, shown, *facts, tuple(key), tuple(columns))
        found[table.name] = table
    return found


async def look_at_publications(connection: Any, names: Sequence[str]) -> dict[str, Publication]:
    cursor = await connection.execute(_PUBLICATIONS, [list(names)])
    found = {}
    for name, *told, owned, tables in await cursor.fetchall():
        operations = tuple(one for one, is_told in zip(OPERATIONS, told, strict=True) if is_told)
        found[name] = Publication(name, operations, owned, frozenset(tables))
    return dict(sorted(found.items()))


async def missing(connection: Any, table: str) -> str:
    """The message for a missing table, with the name that may be meant."""
    cursor = await connection.execute(_NAMES, [MOST_HINTS])
    names = [name for (name,) in await cursor.fetchall()]
    return f"there is no table {table}: create it, or name another.{did_you_mean(table, names)}"


async def flushed(connection: Any) -> int:
    """The end of the server's log."""
    row = await one_row(connection, _FLUSHED)
    return read_lsn(row[0])


async def one_row(connection: Any, query: str, *parameters: Any) -> Any:
    cursor = await connection.execute(query, parameters or None)
    return await cursor.fetchone()


def split(table: str) -> tuple[str, str]:
    """Schema and name."""
    schema, dot, name = table.partition(".")
    return (schema, name) if dot else (PUBLIC, table)


def quoted(table: str) -> str:
    """A table as SQL names it. After a dot any word is allowed, also a keyword of SQL."""
    schema, name = split(table)
    return f"{schema if schema == PUBLIC else quoted_name(schema)}.{name if is_plain(name) else quoted_name(name)}"


def quoted_name(name: str) -> str:
    if name.startswith("wakeful") and is_plain(name):  # easier to read
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def is_plain(name: str) -> bool:
    return re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None


def plain_name(*parts: str) -> str:
    """A valid slot name: lower-case letters, digits and _. If that loses information, a digest keeps two names apart."""
    whole = "_".join(parts)
    plain = re.sub(r"[^a-z0-9_]", "_", whole.lower())
    if plain == whole and len(plain) <= LONGEST_NAME:
        return plain
    mark = digest(*parts, size=4)
    return f"{plain[: LONGEST_NAME - 1 - len(mark)]}_{mark}"
