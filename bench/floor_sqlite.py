"""The SQLite floor: how fast a bare group-commit loop is, with nothing of an engine around it.

All runs in flight move in lock-step through the six rounds of `bench.workload`, and each round is one transaction. So
this is what the file, the disk and the statements cost when batches are always full and no user code, no event loop
and no thread hop is in the way. An engine can come near to it and not pass it.

The durability is the engine's: WAL, `synchronous=FULL`, a file on a disk. So are the claim (by index, with a new
fencing token) and the fence (a step is written only for who holds the token).
"""

import argparse
import contextlib
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from bench.workload import (
    AGENT,
    ARGUMENTS,
    LEAST_CYCLES,
    OUTPUT,
    RESULT,
    STEPS,
    WARM_UP_CYCLES,
    Keys,
    arrivals,
    now,
    operation_ids,
)

_SCHEMA = """
create table event (
    key text primary key,
    agent text not null,
    state text not null,
    accepted_at integer not null,
    envelope text not null
);
create table run (
    seq integer primary key,
    id text not null unique,
    event_key text not null,
    agent text not null,
    state text not null,
    due_at integer not null,
    created_at integer not null,
    finished_at integer,
    owner text,
    token integer not null default 0,
    attempts integer not null default 0,
    output text
);
create index run_ready on run (agent, due_at) where state = 'ready';
create table step (
    run_seq integer not null,
    key text not null,
    result text not null,
    saved_at integer not null,
    primary key (run_seq, key)
) without rowid;
create table effect (
    seq integer primary key,
    id text not null unique,
    run_seq integer not null,
    state text not null,
    arguments text not null,
    result text,
    opened_at integer not null
);
create table delivery (
    seq integer primary key,
    id text not null,
    run_seq integer not null,
    channel text not null,
    state text not null,
    message text not null,
    due_at integer not null
);
create index delivery_pending on delivery (channel, seq) where state = 'pending';
"""
_ACCEPT_EVENT = """
insert into event (key, agent, state, accepted_at, envelope) values (?, ?, 'accepted', ?, ?) on conflict do nothing
"""
_ACCEPT_RUN = """
insert into run (id, event_key, agent, state, due_at, created_at) values (?, ?, ?, 'ready', ?, ?) on conflict do nothing
"""
_CLAIM = """
update run set state = 'running', owner = ?, token = token + 1
where seq in (
    select seq from run where state = 'ready' and agent = ? and due_at <= ? order by due_at limit ?
)
returning seq, token
"""
_SAVE_STEP = """
insert into step (run_seq, key, result, saved_at)
select seq, ?, ?, ? from run where seq = ? and token = ? and state = 'running'
"""
_FINISH = """
update run set state = 'done', owner = null, finished_at = ?, output = ?
where seq = ? and token = ? and state = 'running'
"""
_OPEN_EFFECT = """
insert into effect (id, run_seq, state, arguments, opened_at)
select ?, seq, 'intent', ?, ? from run where seq = ? and token = ? and state = 'running'
on conflict do nothing
"""
_CONFIRM_EFFECT = """
update effect set state = 'confirmed', result = ?
where id = ? and exists (select 1 from run where seq = ? and token = ? and state = 'running')
"""
_SEND = """
insert into delivery (id, run_seq, channel, state, message, due_at)
select ?, seq, 'ops', 'pending', ?, ? from run where seq = ? and token = ? and state = 'running'
"""
_PENDING = "select seq from delivery where channel = 'ops' and state = 'pending' order by seq limit ?"
_DELIVERED = "update delivery set state = 'delivered' where seq = ? and state = 'pending'"


class FenceError(Exception):
    """A round wrote fewer rows than runs: the loop lost a claim, which nobody here can take. The floor is wrong."""


def measure(
    seconds: float = 5,
    in_flight: int = 64,
    directory: Path | None = None,
    keys: Keys = "digest",
    *,
    outgoing: bool = False,
) -> float:
    """Return how many runs a second the bare loop finishes, `in_flight` at a time, for about `seconds`.

    `outgoing`: each run has an effect and a delivery as well, three rounds more.
    """
    with _database(directory) as connection:
        for cycle in range(WARM_UP_CYCLES):
            _finish_together(connection, cycle * in_flight, in_flight, keys, outgoing=outgoing)
        cycles = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds or cycles < LEAST_CYCLES:
            _finish_together(connection, (WARM_UP_CYCLES + cycles) * in_flight, in_flight, keys, outgoing=outgoing)
            cycles += 1
        return cycles * in_flight / elapsed


@contextlib.contextmanager
def _database(directory: Path | None) -> Iterator[sqlite3.Connection]:
    """Open a new file. By default not under /tmp, which is memory on many machines and would cost no sync at all."""
    on_disk = directory or Path("/var/tmp")  # noqa: S108 - only as the parent of a private folder
    with (
        tempfile.TemporaryDirectory(prefix="wakeful-floor-", dir=on_disk) as folder,
        contextlib.closing(sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)) as connection,
    ):
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.executescript(_SCHEMA)
        yield connection


def _finish_together(
    connection: sqlite3.Connection, first: int, count: int, keys: Keys, *, outgoing: bool = False
) -> None:
    """Take `count` new runs from their event to their output: six rounds, six commits; nine with what goes out."""
    with _transaction(connection):
        _accept(connection, first, count, keys)
    with _transaction(connection):
        claims = _claim(connection, count)
    for key in STEPS:
        with _transaction(connection):
            _save_steps(connection, claims, key)
    if outgoing:
        operations = operation_ids(first, count)
        with _transaction(connection):
            _open_effects(connection, claims, operations)
        with _transaction(connection):
            _confirm_effects(connection, claims, operations)
    with _transaction(connection):
        if outgoing:
            _send(connection, claims)
        _finish(connection, claims)
    if outgoing:
        with _transaction(connection):
            _deliver(connection, count)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    yield
    connection.execute("commit")


def _accept(connection: sqlite3.Connection, first: int, count: int, keys: Keys) -> None:
    at = now()
    batch = arrivals(first, count, keys)
    events = connection.executemany(_ACCEPT_EVENT, [(item.key, AGENT, at, item.envelope) for item in batch])
    _expect(count, events.rowcount)
    runs = connection.executemany(_ACCEPT_RUN, [(item.run_id, item.key, AGENT, at, at) for item in batch])
    _expect(count, runs.rowcount)


def _claim(connection: sqlite3.Connection, count: int) -> list[tuple[int, int]]:
    claims: list[tuple[int, int]] = connection.execute(_CLAIM, ("floor-process", AGENT, now(), count)).fetchall()
    _expect(count, len(claims))
    return claims


def _save_steps(connection: sqlite3.Connection, claims: list[tuple[int, int]], key: str) -> None:
    at = now()
    saved = connection.executemany(_SAVE_STEP, [(key, RESULT, at, seq, token) for seq, token in claims])
    _expect(len(claims), saved.rowcount)


def _finish(connection: sqlite3.Connection, claims: list[tuple[int, int]]) -> None:
    at = now()
    finished = connection.executemany(_FINISH, [(at, OUTPUT, seq, token) for seq, token in claims])
    _expect(len(claims), finished.rowcount)


def _open_effects(connection: sqlite3.Connection, claims: list[tuple[int, int]], operations: list[str]) -> None:
    at = now()
    rows = [(operation, ARGUMENTS, at, *claim) for operation, claim in zip(operations, claims, strict=True)]
    _expect(len(claims), connection.executemany(_OPEN_EFFECT, rows).rowcount)


def _confirm_effects(connection: sqlite3.Connection, claims: list[tuple[int, int]], operations: list[str]) -> None:
    rows = [(RESULT, operation, *claim) for operation, claim in zip(operations, claims, strict=True)]
    _expect(len(claims), connection.executemany(_CONFIRM_EFFECT, rows).rowcount)


def _send(connection: sqlite3.Connection, claims: list[tuple[int, int]]) -> None:
    at = now()
    rows = [(f"{seq}-1", OUTPUT, at, seq, token) for seq, token in claims]
    _expect(len(claims), connection.executemany(_SEND, rows).rowcount)


def _deliver(connection: sqlite3.Connection, count: int) -> None:
    pending = connection.execute(_PENDING, (count,)).fetchall()
    _expect(count, connection.executemany(_DELIVERED, pending).rowcount)


def _expect(wanted: int, written: int) -> None:
    # A statement can write at most one row for its run, so an equal sum means exactly one row for each.
    if written != wanted:
        raise FenceError(f"{written} rows were written for {wanted} runs")


def main() -> None:
    """Print the floor."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    for keys in get_args(Keys):
        runs_per_second = measure(options.seconds, options.in_flight, options.directory, keys)
        print(f"SQLite {sqlite3.sqlite_version}, bare group commit, {keys} keys: {runs_per_second:,.0f} runs/s")


if __name__ == "__main__":
    main()
