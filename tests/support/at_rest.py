"""What is readable in a store without its key."""

from __future__ import annotations

from support.stores import query
from wakeful.settings import sqlite_path


async def everything_at_rest(url: str) -> str:
    """What somebody sees who has the disk, or the database's backup."""
    path = sqlite_path(url)
    if path is not None:
        files = [path, *path.parent.glob(path.name + "-wal")]
        return "".join(one.read_bytes().decode(errors="replace") for one in files)
    tables = await query(url, "select tablename from pg_tables where schemaname = 'public'")
    rows = [row for (table,) in tables for row in await query(url, f"select t::text from {table} t")]
    return "\n".join(row[0] for row in rows)
