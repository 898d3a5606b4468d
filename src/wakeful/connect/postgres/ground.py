"""What reading by logical replication stands on in the database: publications, which say what is told of which tables, and a slot,
which keeps the log until it has been read. Both are made where they are missing and may be made, and used as they are where not.

    wakeful_APP            inserts, updates and deletes of the tables whose rows can be told apart
    wakeful_APP_inserts    inserts alone, of tables of which no more is wanted: they need no key
    wakeful_APP_DATABASE   the slot; the names of slots are shared by all databases of a server

A table without a key never comes into the first one: PostgreSQL would refuse its owner's next UPDATE. Nor are columns left out
there: a column list that lacks the key does the same.
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
class Table:
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
        """Does PostgreSQL know of a change which row it was?"""
        if self.identity == "d":
            return bool(self.key)
        return self.identity == "f" or (self.identity == "i" and self.has_identity_index)

    def fault(self, operations: Sequence[Operation]) -> str | None:
        """Why these changes of it cannot be told, and what to do; None if they can."""
        if self.kind not in {"r", "p"}:
            return f"{self.name} is no table: name the table that it is made of"
        if self.persistence != "p":
            return f"table {self.name} is unlogged or temporary, and changes of it are in no log: ALTER TABLE {quoted(self.name)} SET LOGGED"
        if tuple(operations) != ("insert",) and not self.tells_rows_apart:
            return (
                f"table {self.name} has no primary key, so that nobody could tell which row changed, and PostgreSQL would refuse "
                f"UPDATE and DELETE once it is published: ALTER TABLE {quoted(self.name)} ADD PRIMARY KEY (…), or "
                f'ALTER TABLE {quoted(self.name)} REPLICA IDENTITY FULL, or take operations="insert"'
            )
        return None


@dataclass(frozen=True, slots=True)
class Server:
    """What is to be known of the server, and of the role that asks."""

    wal_level: str
    in_recovery: bool
    role: str
    database: str
    may_replicate: bool
    free_slots: int

    def faults(self) -> list[str]:
        """What keeps everything from being read."""
        found = []
        if self.in_recovery:
            found.append("it is a standby, where nothing can be made: give the address of the primary")
        if self.wal_level != "logical":
            found.append(
                f"wal_level is {self.wal_level}, and must be logical: ALTER SYSTEM SET wal_level = 'logical', then restart "
                'the server; or take via="triggers"'
            )
        return found

    def no_replication(self) -> str:
        return (
            f"role {self.role} may not read the log: ALTER ROLE {quoted_name(self.role)} REPLICATION (on Amazon RDS: GRANT rds_replication "
            f'TO {quoted_name(self.role)}), or take via="triggers"'
        )

    @staticmethod
    def no_slot() -> str:
        return (
            "all replication slots of the server are in use: drop one that nobody needs (SELECT slot_name, active FROM "
            "pg_replication_slots), or raise max_replication_slots and restart the server"
        )


@dataclass(frozen=True, slots=True)
class Publication:
    name: str
    operations: tuple[Operation, ...]
    owned: bool
    tables: frozenset[str]


@dataclass(slots=True)
class Footing:
    """What was found or made: what the reader reads by."""

    slot: str
    publications: list[str]
    confirmed: int  # where the slot stands
    flushed: int  # where the log of the server ends
    keys: dict[int, tuple[str, ...]]
    faults: list[str] = field(default_factory=list)  # of single tables: the others are read
    no_replication: str | None = None  # what to say if the log cannot be read, where the role seems to lack the right


class Ground:
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
        """`wanted` are tables and what is to be told of each. Names that are given are used instead of our own."""
        self._where = f"postgres_changes {place}"
        self._app = app
        self._wanted = dict(wanted)
        self._slot = slot
        self._given = publication
        self._full = publication or plain_name("wakeful", app)
        self._inserts = plain_name("wakeful", app, "inserts")

    async def prepare(self, connection: Any, *, by: Sequence[str] = ()) -> Footing:
        """Make what is missing; SourceTrouble says what keeps everything from being read. A stream that is read `by` some
        publications hears of no other: nothing is moved to one that is new.
        """
        server = await look_at_server(connection)
        for fault in server.faults():
            raise self.trouble(fault)
        tables, faults = await self._tables(connection)
        if not tables:
            raise self.trouble("; ".join(faults))
        slot = self._slot or plain_name("wakeful", self._app, server.database)
        # Log that was kept before a publication was made cannot be read by it.
        names = by or [self._full] if await one_row(connection, _SLOT, slot) else [self._full, self._inserts]
        publications = await self._published(connection, names, tables, server, faults)
        confirmed, flushed = await self._slotted(connection, slot, server)
        keys = {one.number: one.key for one in tables.values() if one.key}
        no_replication = None if server.may_replicate else server.no_replication()
        return Footing(slot, publications, confirmed, flushed, keys, faults, no_replication)

    async def held_back(self, connection: Any, slot: str) -> tuple[int, str | None]:
        """Where the log ends, and what is to be said of how much of it the slot holds back; SourceTrouble if it is lost."""
        row = await one_row(connection, _SLOT, slot)
        if row is None:
            raise self.trouble(f"slot {slot} is gone: somebody dropped it")
        _, _, _, status, _, held, flushed = row
        if status == "lost":
            raise self.lost(slot)
        if status in {"extended", "unreserved"} or (held or 0) > HELD_BACK:
            return read_lsn(flushed), (
                f"{self._where}: slot {slot} holds back {(held or 0) / 1e9:.1f} GB of the server's log (status {status}), which "
                "fills its disk, or is removed unread where max_slot_wal_keep_size is set: see why the app reads so slowly "
                "(`wakeful runs`, App(backlog=…)), or whether a transaction is open for long"
            )
        return read_lsn(flushed), None

    def trouble(self, words: str) -> SourceTrouble:
        return SourceTrouble(f"{self._where}: {words}")

    def unreachable(self, error: BaseException) -> SourceTrouble:
        return self.trouble(
            f"cannot be read: {first_line(error)}. It is tried again; is it running, and is the address right?"
        )

    def ended(self, error: SlotError, slot: str) -> SourceTrouble:
        """Why the stream ended, and what to do about it."""
        if error.state == "55000" and "slot" in str(error):
            return self.lost(slot)
        if error.state == "42704":
            return self.trouble(
                f"{error}: it was dropped, and made anew after what the slot keeps was written. To go on from now: "
                f"SELECT pg_drop_replication_slot('{slot}'); a new one is made by itself"
            )
        return self.trouble(f"the stream ended: {error}. It is tried again")

    def lost(self, slot: str) -> SourceTrouble:
        return self.trouble(
            f"slot {slot} is lost: the server has removed log that was not read yet (max_slot_wal_keep_size, or idle_replication_"
            f"slot_timeout), and with it changes. To go on from now: SELECT pg_drop_replication_slot('{slot}'); a new one "
            "is made by itself. What was missed is then listed by `wakeful events --quarantined`"
        )

    async def in_use(self, connection: Any, slot: str) -> SourceTrouble:
        """Somebody else reads the slot: who it is."""
        row = await one_row(connection, _SLOT, slot)
        who = None if row is None or row[2] is None else await one_row(connection, _WHO, row[2])
        if row is None or who is None:
            return self.trouble(f"slot {slot} is in use by another process")
        return self.trouble(
            f"slot {slot} is in use by process {row[2]} of the server (application {who[0]!r}, role {who[1]}, from {who[2] or 'the same machine'}): "
            f"stop that one (SELECT pg_terminate_backend({row[2]})), or give this app another slot: slot=…"
        )

    async def _tables(self, connection: Any) -> tuple[dict[str, Table], list[str]]:
        """Those that can be read, and what is wrong with the others."""
        found = await look_at_tables(connection, self._wanted)
        faults = []
        good: dict[str, Table] = {}
        for name, operations in self._wanted.items():
            table = found.get(name)
            fault = await missing(connection, name) if table is None else table.fault(operations)
            if fault is not None:
                faults.append(fault)
            elif table is not None:
                good[name] = table
        return good, faults

    async def _published(
        self, connection: Any, names: Sequence[str], tables: dict[str, Table], server: Server, faults: list[str]
    ) -> list[str]:
        """The publications to read by: those that there are, and those of `names`. A table that cannot be added is taken out
        of `tables` and becomes a fault.
        """
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{LOCK_WITHIN}'")
            known = [self._full] if self._given else [self._full, self._inserts]
            there = await look_at_publications(connection, known)
            if self._full not in there:
                there[self._full] = await self._make(connection, self._full, OPERATIONS, tables, server)
            wanted = self._given is None and self._inserts in names
            if wanted and self._inserts not in there and there[self._full].owned:
                with suppress(SourceTrouble):  # it can do without
                    there[self._inserts] = await self._make(connection, self._inserts, ("insert",), tables, server)
            if self._given is None and all(one.owned for one in there.values()):
                await self._adjust(connection, there, tables, faults)
            else:
                self._compare(there, tables, faults)
        if not tables:
            raise self.trouble("; ".join(faults))
        return list(there)

    async def _make(
        self, connection: Any, name: str, operations: Sequence[str], tables: Mapping[str, Table], server: Server
    ) -> Publication:
        publish = ", ".join(operations)
        statement = f"create publication {quoted_name(name)}"
        options = f" with (publish = '{publish}', publish_via_partition_root = true)"
        first: frozenset[str] = frozenset()
        if self._given is not None:  # what somebody has named is made whole, and left alone from then on
            first = frozenset(name for name, table in tables.items() if table.tells_rows_apart)
            statement += f" for table {', '.join(map(quoted, sorted(first)))}" if first else ""
        try:
            async with connection.transaction():
                await connection.execute(statement + options)
        except driver().errors.InsufficientPrivilege as error:
            listed = ", ".join(map(quoted, tables))
            more = "" if server.may_replicate else f"; and {server.no_replication()}"
            raise self.trouble(
                f"role {server.role} may not make publication {name} ({first_line(error)}): as the owner of the tables run "
                f"CREATE PUBLICATION {quoted_name(name)} FOR TABLE {listed}{more}"
            ) from error
        return Publication(name, tuple(one for one in OPERATIONS if one in operations), True, first)

    async def _adjust(
        self, connection: Any, there: Mapping[str, Publication], tables: dict[str, Table], faults: list[str]
    ) -> None:
        """Our own: each table in the one where it belongs, and no other table in either. One that is locked stays where it is."""
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
                    f"table {name} is locked by somebody (VACUUM, CREATE INDEX, ALTER TABLE), and told of once that has ended: "
                    "SELECT pid, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start"
                )
        for home, publication in there.items():
            for name in sorted(publication.tables - locked):
                wanted = self._wanted.get(name) if name in tables else None
                here = self._inserts if wanted == ("insert",) and self._inserts in there else self._full
                if wanted is None or here != home:
                    with suppress(driver().errors.LockNotAvailable):  # the next look does it
                        async with connection.transaction():
                            await connection.execute(f"alter publication {quoted_name(home)} drop table {quoted(name)}")

    def _compare(self, there: Mapping[str, Publication], tables: dict[str, Table], faults: list[str]) -> None:
        """Somebody else's: what is not published there cannot be read."""
        for name in list(tables):
            told = {operation for one in there.values() if name in one.tables for operation in one.operations}
            lacking = [one for one in self._wanted[name] if one not in told]
            if not lacking:
                continue
            del tables[name]
            publication = next(iter(there))
            if told:
                faults.append(
                    f"publication {publication} does not tell {', '.join(lacking)}: as its owner run "
                    f"ALTER PUBLICATION {quoted_name(publication)} SET (publish = 'insert, update, delete')"
                )
            else:
                faults.append(
                    f"table {name} is not in publication {publication}: as its owner run "
                    f"ALTER PUBLICATION {quoted_name(publication)} ADD TABLE {quoted(name)}"
                )

    async def _slotted(self, connection: Any, slot: str, server: Server) -> tuple[int, int]:
        """Where the slot stands and where the log ends. It is made if it is not there."""
        row = await one_row(connection, _SLOT, slot)
        if row is None:
            await self._make_slot(connection, slot, server)
            row = await one_row(connection, _SLOT, slot)
        if row is None:
            raise self.trouble(f"slot {slot} was made, and is gone again: somebody drops it")
        plugin, database, _, status, confirmed, _, flushed = row
        if plugin != "pgoutput" or database != server.database:
            raise self.trouble(
                f"slot {slot} is somebody else's (of kind {plugin or 'physical'}, database {database or 'none'}): give this app another one, slot=…"
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
                f"slot {slot} can be made only when all transactions that are open now have ended, and one is open for long: "
                "SELECT pid, xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY 2"
            ) from error
        except errors.DuplicateObject:
            pass  # somebody was quicker


async def look_at_server(connection: Any) -> Server:
    row = await one_row(connection, _SERVER)
    return Server(*row)


async def look_at_tables(connection: Any, names: Sequence[str] | Mapping[str, Any]) -> dict[str, Table]:
    """The tables of these names that there are."""
    parts = [split(name) for name in names]
    cursor = await connection.execute(_TABLES, [[schema for schema, _ in parts], [name for _, name in parts]])
    found = {}
    for number, schema, name, kind, persistence, identity, owned, owner, index, key, columns in await cursor.fetchall():
        shown = name if schema == PUBLIC else f"{schema}.{name}"
        facts = (kind, persistence, identity, owned, owner, index)
        table = Table(number, shown, *facts, tuple(key), tuple(columns))
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
    """There is no such table: which one could be meant."""
    cursor = await connection.execute(_NAMES, [MOST_HINTS])
    names = [name for (name,) in await cursor.fetchall()]
    return f"there is no table {table}: make it, or name another.{did_you_mean(table, names)}"


async def flushed(connection: Any) -> int:
    """Where the log of the server ends."""
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
    """A table as SQL names it. Behind a dot any word may stand, also one that SQL itself uses."""
    schema, name = split(table)
    return f"{schema if schema == PUBLIC else quoted_name(schema)}.{name if is_plain(name) else quoted_name(name)}"


def quoted_name(name: str) -> str:
    if name.startswith("wakeful") and is_plain(name):  # easier to read for people
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def is_plain(name: str) -> bool:
    return re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None


def plain_name(*parts: str) -> str:
    """A name that PostgreSQL takes for a slot: small letters, digits and _. Where that loses something, a digest keeps two apart."""
    whole = "_".join(parts)
    plain = re.sub(r"[^a-z0-9_]", "_", whole.lower())
    if plain == whole and len(plain) <= LONGEST_NAME:
        return plain
    mark = digest(*parts, size=4)
    return f"{plain[: LONGEST_NAME - 1 - len(mark)]}_{mark}"
