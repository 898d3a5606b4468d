"""The rights that a PostgreSQL role needs to work without owning the tables, and the errors for a role that lacks them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wakeful.errors import StoreForbidden
from wakeful.stores.migrations import migrations
from wakeful.stores.statements import read

EVERYTHING = "SELECT, INSERT, UPDATE, DELETE"
# Only `wakeful migrate` writes the first two. The first process that finds the store in another place writes the origin.
LESS = {"wakeful_migration": "SELECT", "wakeful_migration_detail": "SELECT", "wakeful_origin": "SELECT, INSERT"}
_DENIED = re.compile(r"permission denied for (table|schema|sequence|function|database|view) \"?([^\s\"]+)\"?")
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*").fullmatch


def tables() -> list[str]:
    """All tables that this version knows."""
    made = {one.makes for migration in migrations("postgres") for one in read(migration.sql) if one.makes}
    return sorted(made | set(LESS))


def grants(role: str, *, schema: str, database: str) -> list[str]:
    """The statements that the owner runs to grant a process exactly the rights that it needs."""
    to, inside = quoted(role), quoted(schema)
    by_rights: dict[str, list[str]] = {}
    for table in tables():
        by_rights.setdefault(LESS.get(table, EVERYTHING), []).append(f"{inside}.{table}")
    return [
        f"GRANT CONNECT ON DATABASE {quoted(database)} TO {to};",
        f"GRANT USAGE ON SCHEMA {inside} TO {to};",
        *(f"GRANT {rights} ON {', '.join(names)} TO {to};" for rights, names in by_rights.items()),
    ]


def needed() -> tuple[list[str], list[str]]:
    """Pairs of table and right, as two lists: every right that a process needs."""
    pairs = [(table, right) for table in tables() for right in LESS.get(table, EVERYTHING).split(", ")]
    return [table for table, _ in pairs], [right for _, right in pairs]


def lacking(role: str, rows: Sequence[Sequence[str]]) -> tuple[str, str]:
    """A text that names the missing rights, and the statements that grant them."""
    by_table: dict[str, list[str]] = {}
    for table, right in rows:
        by_table.setdefault(table, []).append(right)
    helps = "; ".join(f"GRANT {', '.join(rights)} ON {table} TO {quoted(role)}" for table, rights in by_table.items())
    return f"role {role} lacks rights on {', '.join(by_table)}", helps


def forbidden(error: Exception, role: str | None) -> StoreForbidden:
    """The error when the server refuses a working process, with the statement that grants the right."""
    said, to = str(error), quoted(role) if role else "ROLE"
    match = _DENIED.search(said)
    if match is not None and match[1] == "schema":
        helps = f"Run GRANT USAGE ON SCHEMA {match[2]} TO {to}"
    elif match is not None and match[1] in {"table", "view"}:
        helps = f"Run GRANT {LESS.get(match[2], EVERYTHING)} ON {match[2]} TO {to}"
    else:
        helps = f"The owner must grant it to {to}"
    message = (
        f"{_refused(said, role)}. {helps}. `wakeful migrate --grants {role or 'ROLE'}` prints all grants that it needs"
    )
    return StoreForbidden(message)


def may_not_migrate(error: Exception, role: str | None) -> StoreForbidden:
    """The error when a role may not migrate: only the owner of the tables can change them, and no grant changes that."""
    message = (
        f"{_refused(str(error), role)}. Migrate as the role that owns the tables of Wakeful and may create tables in their schema. "
        "Working processes need fewer rights: `wakeful migrate --grants ROLE` prints them"
    )
    return StoreForbidden(message)


def _refused(said: str, role: str | None) -> str:
    return f"PostgreSQL refuses {f'role {role}' if role else 'this role'}: {said}"


def rights_like_run(made: Sequence[str], grantees: Sequence[str]) -> list[str]:
    """Statements that grant roles the same use of new tables as of existing ones; otherwise a migration would lock them out."""
    return [f"grant {LESS.get(table, EVERYTHING)} on {table} to {quoted(role)}" for table in made for role in grantees]


def quoted(name: str) -> str:
    """An identifier, quoted where PostgreSQL needs it."""
    return name if _PLAIN(name) else '"' + name.replace('"', '""') + '"'
