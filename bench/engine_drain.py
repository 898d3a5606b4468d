"""A backlog drained by one worker: events that came in while nobody worked, each with its run, put in by SQL.

The handler does nothing, so that what is measured is what a backlog can slow down: finding and claiming runs, and writing
down their ends.

Runs in a process of its own: `python -m bench.engine_drain --store URL --backlog 1000000`.
"""

import argparse
import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import structlog

from wakeful import App, Run, on
from wakeful.cli.working import spare_the_collector
from wakeful.clock import SystemClock
from wakeful.stores.known import count_runs
from wakeful.stores.opening import open_database

IN_FLIGHT = 64
APP = "drain"
ENVELOPE = (
    '{"specversion":"1.0","source":"/bench","id":"event-%s","type":"bench.ticket.created","subject":"ticket/42",'
    '"time":"2026-11-15T08:00:00Z","data":{"number":42,"title":"printer on fire","severity":3}}'
)
# Identities are spread, as digests are: each update of a run finds its place in their index.
DIGEST = {"postgres": "md5('{0}' || n)", "sqlite": "lower(hex(randomblob(13)))"}
BEFORE, AFTER = ENVELOPE.split("%s")
EVENTS = (
    "insert into wakeful_event (key, app, source, id, type, subject, state, content, envelope, accepted_at) "
    f"select {{event}}, '{APP}', '/bench', 'event-' || n, 'bench.ticket.created', 'ticket/42', 'accepted', 'content', "
    f"'{BEFORE}' || n || '{AFTER}', n from "
)
RUNS = (
    "insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, created_at) "
    f"select id, id, '{APP}', 'work', seq, 'ready', seq, seq from (select {{run}} as id, seq from wakeful_event) new"
)
ADMISSIONS = (
    "insert into wakeful_admission (event_seq, agent, state, run_id) "
    "select event_seq, 'work', 'started', id from wakeful_run"
)


def make_app(store: str) -> App:
    app = App(APP, store=store, in_flight=IN_FLIGHT)

    @app.agent(on("bench.ticket.created"))
    async def work(run: Run) -> None: ...

    return app


async def fill(url: str, count: int) -> None:
    """So many events, each with a run that is ready."""
    database: Any = open_database(url, SystemClock())
    await database.open(migrate=True)
    digest = DIGEST[database.dialect]
    event, run = digest.format("event"), digest.format("run").replace(" n", " seq")
    statements = [RUNS.replace("{run}", run), ADMISSIONS]
    try:
        if database.dialect == "postgres":
            async with database.user_transaction() as connection:
                series = f"generate_series(1, {count}) n"
                for statement in (EVENTS.replace("{event}", event) + series, *statements):
                    await connection.execute(statement, timeout=1200)
            return
    finally:
        await database.close()
    import apsw

    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///"))))
    series = f"with recursive counted(n) as (select 1 union all select n + 1 from counted where n < {count}) "
    connection.execute("begin immediate")
    for statement in (series + EVENTS.replace("{event}", event) + "counted", *statements):
        connection.execute(statement)
    connection.execute("commit")
    connection.close()


async def measure(store: str, backlog: int) -> dict[str, float]:
    """Runs per second, from the start of the worker until nothing is left."""
    await fill(store, backlog)
    app = make_app(store)
    drained = asyncio.Event()
    async with app.running(worker=False) as runtime:

        def count() -> None:
            if runtime.worker.finished == backlog:
                drained.set()

        runtime.worker.on_finished = count
        spare_the_collector()
        began = time.perf_counter()
        await runtime.start()
        await drained.wait()
        took = time.perf_counter() - began
        counts = await count_runs(runtime.reader)
    if counts != {"done": backlog}:
        message = f"not every run went well, so the figures mean nothing: {counts}"
        raise RuntimeError(message)
    return {"runs_per_second": backlog / took}


def main() -> None:
    """Measure one store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--backlog", type=int, default=10_000)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    import uvloop

    print(json.dumps(uvloop.run(measure(options.store, options.backlog))))


if __name__ == "__main__":
    main()
