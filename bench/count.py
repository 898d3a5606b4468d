"""`wakeful bench --count`: what one piece of work costs, counted and not timed, on both stores.

One process each for the work on SQLite, the work on PostgreSQL, and a worker without work on either; all at the same time,
since nothing depends on how fast they are.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import ledger
from bench.meters import POSTGRES_SETTINGS
from bench.plan import code_of
from wakeful.clock import SystemClock
from wakeful.stores.opening import open_database
from wakeful.stores.store import DatabaseStore
from wakeful.testing.postgres_server import PostgresServer, find_binaries

STORES = tuple(ledger.STORES)
WORK = tuple(ledger.WORDS)
COUNTS_AGAIN = 3
PIECES = 25
SMOKE_PIECES = 3
PATIENCE = 600


def count(only: Sequence[str] | None = None, *, pieces: int = PIECES) -> dict[str, dict[str, Any]]:
    """By "run/sqlite" and the like: `costs`, and the `functions` that are entered most."""
    names = [name for name in WORK if not only or name in only]
    working, resting = [name for name in names if name != "idle"], [name for name in names if name == "idle"]
    batches = [batch for batch in (working, resting) if batch]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeful-count-", dir=memory())))
        pool = stack.enter_context(ThreadPoolExecutor(len(batches) * 2))
        asked = [(store, pool.submit(_count, store, batch, folder, pieces)) for batch in batches for store in STORES]
        answers = {f"{name}/{store}": found for store, answer in asked for name, found in answer.result().items()}
    return {f"{name}/{store}": answers[f"{name}/{store}"] for name in names for store in STORES}


def _count(store: str, names: list[str], folder: Path, pieces: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.count_work", "--pieces", str(pieces)]
    with ExitStack() as stack:
        if store == "sqlite":
            places = [f"{name}=sqlite:///{folder}/{name}.db" for name in names]
        else:
            server = stack.enter_context(PostgresServer(fsync=False, settings=POSTGRES_SETTINGS))
            command += ["--server", str(server.folder), "--waldump", str(find_binaries() / "pg_waldump")]
            places = [
                f"{name}={server.dsn(database)}" for name, database in asyncio.run(_migrated(server, names)).items()
            ]
        for place in places:
            command += ["--store", place]
        # The order of sets must not be another each time, and no setting of this shell may count.
        environment = {name: value for name, value in code_of(None).items() if not name.startswith("WAKEFUL_")}
        answer = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            env={**environment, "PYTHONHASHSEED": "0"},
        )
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


async def _migrated(server: PostgresServer, names: list[str]) -> dict[str, str]:
    """A database with the schema for each: migrated once, then copied."""
    template = await server.create_database()
    store = DatabaseStore(open_database(server.dsn(template), SystemClock()))
    await store.open(migrate=True)
    await store.close()
    return {name: await server.create_database(template=template) for name in names}


def memory() -> str | None:
    """A folder in memory, where there is one: a file there costs as many bytes of log, and no time."""
    place = "/dev/shm"  # noqa: S108 a folder of our own is made in it
    return place if os.access(place, os.W_OK) else None


def main(options: argparse.Namespace) -> int:
    """Count, then compare with what is recorded, or record it. 1: a number grew."""
    print("counting; this takes about half a minute …", file=sys.stderr, flush=True)
    answers = count(options.only, pieces=SMOKE_PIECES if options.smoke else PIECES)
    costs: dict[str, dict[str, float]] = {work: answer["costs"] for work, answer in answers.items()}
    if not options.write:
        count_again(costs)
    if options.json:
        print(json.dumps({work: dict(one) for work, one in costs.items()}, indent=2))
    else:
        show(costs)
    if options.detail:
        for work, answer in answers.items():
            print(f"\n{ledger.said(work)}: the functions that are entered most")
            for name, times in answer["functions"].items():
                print(f"{ledger.number(times):>10}  {name}")
    if options.write:
        ledger.write(costs)
        print(f"recorded for Python {ledger.this_python()}", file=sys.stderr)
        return 0
    lines, grown = ledger.verdict(ledger.compare(ledger.recorded(ledger.read(), ledger.this_python()), costs))
    for line in lines:
        print(line, file=sys.stderr)
    if ledger.this_python() not in ledger.read()["python"]:
        print(
            f"calls and memory are not compared: none are recorded for Python {ledger.this_python()}", file=sys.stderr
        )
    return int(grown)


def count_again(costs: dict[str, dict[str, float]]) -> None:
    """Count what seems to have grown again, and keep the least. A busy machine adds looks and turns of the event loop to a count, and
    takes none away: a cost that has really grown has grown in each count.
    """
    before = ledger.recorded(ledger.read(), ledger.this_python())
    for _ in range(COUNTS_AGAIN):
        changes = [one for one in ledger.compare(before, costs) if one.now > one.before]
        if not changes:
            return
        names = {one.work.partition("/")[0] for one in changes}
        print(f"counting again, to be sure: {', '.join(sorted(names))}", file=sys.stderr, flush=True)
        for work, answer in count([name for name in ledger.WORDS if name in names], pieces=PIECES).items():
            costs[work] = {what: min(value, costs[work].get(what, value)) for what, value in answer["costs"].items()}


def show(costs: ledger.Costs) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="What it costs, counted", title_justify="left", expand=False)
    table.add_column("for one")
    columns = ledger.DATABASE | ledger.PYTHON
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for work, one in costs.items():
        table.add_row(ledger.said(work), *(ledger.number(one[what]) if what in one else "–" for what in columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
