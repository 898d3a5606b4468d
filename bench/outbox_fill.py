"""A hundred thousand deliveries that wait for a channel in trouble, put in by SQL."""

from pathlib import Path
from typing import Any

from wakeful.clock import SECOND, SystemClock
from wakeful.runtime import open_database

FAR_AWAY = 4_000_000_000 * SECOND
COLUMNS = "(id, run_seq, app, channel, state, message, tries, position, due_at, created_at)"
ROW = f"'old-' || n, n, 'bench', 'stuck', 'pending', '{{\"text\":\"nobody is there\"}}', 1, 0, {FAR_AWAY}, n"


async def fill(url: str, count: int) -> None:
    """Make the store, and let so many deliveries wait in it."""
    database: Any = open_database(url, SystemClock())
    await database.open(migrate=True)
    try:
        if database.dialect == "postgres":
            async with database.user_transaction() as connection:
                series = "from generate_series(1, cast($1 as bigint)) n"
                await connection.execute(
                    f"insert into wakeful_delivery {COLUMNS} select {ROW} {series}", count, timeout=600
                )
            async with database.user_transaction() as connection:
                await connection.execute("analyze wakeful_delivery", timeout=600)
            return
    finally:
        await database.close()
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    series = "with recursive counted(n) as (select 1 union all select n + 1 from counted where n < ?1)"
    connection.execute("begin immediate")
    connection.execute(f"{series} insert into wakeful_delivery {COLUMNS} select {ROW} from counted", (count,))
    connection.execute("commit")
    connection.close()
