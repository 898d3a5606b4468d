"""A hundred thousand deliveries that wait, put in by SQL while an app is at work: PostgreSQL has planned its statements by
then, for a table that was small, and nobody has told it otherwise.
"""

from pathlib import Path
from typing import Any

from wakeful.clock import SECOND, SystemClock
from wakeful.stores.opening import open_database

FAR_AWAY = 4_000_000_000 * SECOND
COLUMNS = "(id, run_seq, app, channel, state, message, tries, position, due_at, created_at)"
ROW = "'old-' || n, 1, 'bench', 'stuck', 'pending', '{\"text\":\"nobody is there\"}', 1, 0, %d, n"


async def fill(url: str, count: int, *, due: bool = False) -> None:
    """Let so many deliveries of the first run wait: for a channel in trouble, or to go out at once."""
    row = ROW % (0 if due else FAR_AWAY)
    database: Any = open_database(url, SystemClock())
    await database.open(migrate=False)
    try:
        if database.dialect == "postgres":
            async with database.user_transaction() as connection:
                series = "from generate_series(1, cast($1 as bigint)) n"
                await connection.execute(
                    f"insert into wakeful_delivery {COLUMNS} select {row} {series}", count, timeout=600
                )
            return
    finally:
        await database.close()
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    connection.set_busy_timeout(10_000)  # the app is at work
    series = "with recursive counted(n) as (select 1 union all select n + 1 from counted where n < ?1)"
    connection.execute("begin immediate")
    connection.execute(f"{series} insert into wakeful_delivery {COLUMNS} select {row} from counted", (count,))
    connection.execute("commit")
    connection.close()
