"""The PostgreSQL floor: how fast a bare group-commit loop is over one connection, with nothing of an engine around it.

All runs in flight move in lock-step through the six rounds of `bench.workload`, and each round is one transaction. The
claim skips rows that another process holds, and a step is written under a share lock on the run whose token it checks:
under READ COMMITTED a check without a lock can commit after somebody else's claim. Nobody else is here, but the engine
has to pay for these locks, so the floor does too.

The tables live in a schema of their own, made anew and dropped at the end. The server must run with `fsync` and
`synchronous_commit` on, and is refused otherwise: without them there is nothing to measure.
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, get_args

import asyncpg

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

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

# A batch is looked up by key, always. Without these settings the plan that is cached while the tables are new and have
# no statistics joins a batch to the whole of `run`, and every round gets slower as that grows.
_SETTINGS = {
    "search_path": "wakeful_floor",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
}
_SCHEMA = """
create table event (
    key text primary key,
    agent text not null,
    state text not null,
    accepted_at bigint not null,
    envelope text not null
);
create table run (
    seq bigint generated always as identity primary key,
    id text not null unique,
    event_key text not null,
    agent text not null,
    state text not null,
    due_at bigint not null,
    created_at bigint not null,
    finished_at bigint,
    owner text,
    token bigint not null default 0,
    attempts integer not null default 0,
    output text
);
create index run_ready on run (agent, due_at) where state = 'ready';
create table step (
    run_seq bigint not null,
    key text not null,
    result text not null,
    saved_at bigint not null,
    primary key (run_seq, key)
);
create table effect (
    seq bigint generated always as identity primary key,
    id text not null unique,
    run_seq bigint not null,
    state text not null,
    arguments text not null,
    result text,
    opened_at bigint not null
);
create table delivery (
    seq bigint generated always as identity primary key,
    id text not null,
    run_seq bigint not null,
    channel text not null,
    state text not null,
    message text not null,
    due_at bigint not null
);
create index delivery_pending on delivery (channel, seq) where state = 'pending';
"""
# A round is one statement over arrays. `executemany` and `fetchmany` of one-row statements were slower: 3,900 runs/s
# against 5,800, medians of six rounds in turn. uvloop instead of asyncio's own loop added a further 8 %.
_ACCEPT_EVENTS = """
insert into event (key, agent, state, accepted_at, envelope)
select input.key, $3, 'accepted', $4, input.envelope from unnest($1::text[], $2::text[]) as input (key, envelope)
on conflict do nothing
"""
_ACCEPT_RUNS = """
insert into run (id, event_key, agent, state, due_at, created_at)
select input.id, input.event_key, $3, 'ready', $4, $4 from unnest($1::text[], $2::text[]) as input (id, event_key)
on conflict do nothing
"""
_CLAIM = """
with candidate as materialized (
    select seq from run where state = 'ready' and agent = $2 and due_at <= $3
    order by due_at limit $4 for update skip locked
)
update run set state = 'running', owner = $1, token = token + 1
from candidate where run.seq = candidate.seq
returning run.seq, run.token
"""
_SAVE_STEPS = """
insert into step (run_seq, key, result, saved_at)
select run.seq, $3, $4, $5
from unnest($1::bigint[], $2::bigint[]) as input (seq, token)
join run on run.seq = input.seq and run.token = input.token and run.state = 'running'
for share of run
"""
_FINISH = """
update run set state = 'done', owner = null, finished_at = $3, output = $4
from unnest($1::bigint[], $2::bigint[]) as input (seq, token)
where run.seq = input.seq and run.token = input.token and run.state = 'running'
"""
_OPEN_EFFECTS = """
insert into effect (id, run_seq, state, arguments, opened_at)
select input.id, run.seq, 'intent', $4, $5
from unnest($1::bigint[], $2::bigint[], $3::text[]) as input (seq, token, id)
join run on run.seq = input.seq and run.token = input.token and run.state = 'running'
on conflict do nothing
"""
_CONFIRM_EFFECTS = """
update effect set state = 'confirmed', result = $4
from unnest($1::bigint[], $2::bigint[], $3::text[]) as input (seq, token, id)
where effect.id = input.id
  and exists (select 1 from run where run.seq = input.seq and run.token = input.token and run.state = 'running')
"""
_SEND = """
insert into delivery (id, run_seq, channel, state, message, due_at)
select run.seq || '-1', run.seq, 'ops', 'pending', $3, $4
from unnest($1::bigint[], $2::bigint[]) as input (seq, token)
join run on run.seq = input.seq and run.token = input.token and run.state = 'running'
"""
_PENDING = "select seq from delivery where channel = 'ops' and state = 'pending' order by seq limit $1"
_DELIVERED = """
update delivery set state = 'delivered' from unnest($1::bigint[]) as input (seq)
where delivery.seq = input.seq and delivery.state = 'pending'
"""


class FenceError(Exception):
    """A round wrote fewer rows than runs: the loop lost a claim, which nobody here can take. The floor is wrong."""


class NotDurableError(Exception):
    """The server does not wait for its disk, so its figures say nothing. Turn fsync and synchronous_commit on."""


async def measure(
    dsn: str, seconds: float = 5, in_flight: int = 64, keys: Keys = "digest", *, outgoing: bool = False
) -> float:
    """Return how many runs a second the bare loop finishes, `in_flight` at a time, for about `seconds`.

    `outgoing`: each run has an effect and a delivery as well, three rounds more.
    """
    async with _database(dsn) as connection:
        for cycle in range(WARM_UP_CYCLES):
            await _finish_together(connection, cycle * in_flight, in_flight, keys, outgoing=outgoing)
        cycles = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds or cycles < LEAST_CYCLES:
            await _finish_together(
                connection, (WARM_UP_CYCLES + cycles) * in_flight, in_flight, keys, outgoing=outgoing
            )
            cycles += 1
        return cycles * in_flight / elapsed


@contextlib.asynccontextmanager
async def _database(dsn: str) -> "AsyncIterator[Connection]":
    connection: Connection = await asyncpg.connect(dsn, server_settings=_SETTINGS)
    try:
        for setting in ("fsync", "synchronous_commit"):
            if await connection.fetchval("select current_setting($1)", setting) != "on":
                raise NotDurableError(setting)
        await connection.execute("drop schema if exists wakeful_floor cascade; create schema wakeful_floor")
        await connection.execute(_SCHEMA)
        yield connection
    finally:
        await connection.execute("drop schema if exists wakeful_floor cascade")
        await connection.close()


async def _finish_together(
    connection: "Connection", first: int, count: int, keys: Keys, *, outgoing: bool = False
) -> None:
    """Take `count` new runs from their event to their output: six rounds, six commits; nine with what goes out."""
    async with connection.transaction():
        await _accept(connection, first, count, keys)
    async with connection.transaction():
        runs, tokens = await _claim(connection, count)
    for key in STEPS:
        async with connection.transaction():
            await _save_steps(connection, runs, tokens, key)
    if outgoing:
        operations = operation_ids(first, count)
        async with connection.transaction():
            _expect(count, await connection.execute(_OPEN_EFFECTS, runs, tokens, operations, ARGUMENTS, now()))
        async with connection.transaction():
            _expect(count, await connection.execute(_CONFIRM_EFFECTS, runs, tokens, operations, RESULT))
    async with connection.transaction():
        if outgoing:
            _expect(count, await connection.execute(_SEND, runs, tokens, OUTPUT, now()))
        await _finish(connection, runs, tokens)
    if outgoing:
        async with connection.transaction():
            pending = [row["seq"] for row in await connection.fetch(_PENDING, count)]
            _expect(count, await connection.execute(_DELIVERED, pending))


async def _accept(connection: "Connection", first: int, count: int, keys: Keys) -> None:
    at = now()
    event_keys, run_ids, envelopes = zip(*arrivals(first, count, keys), strict=True)
    _expect(count, await connection.execute(_ACCEPT_EVENTS, event_keys, envelopes, AGENT, at))
    _expect(count, await connection.execute(_ACCEPT_RUNS, run_ids, event_keys, AGENT, at))


async def _claim(connection: "Connection", count: int) -> tuple[list[int], list[int]]:
    claims = await connection.fetch(_CLAIM, "floor-process", AGENT, now(), count)
    if len(claims) != count:
        raise FenceError(f"{len(claims)} of {count} ready runs were claimed")
    return [claim["seq"] for claim in claims], [claim["token"] for claim in claims]


async def _save_steps(connection: "Connection", runs: Sequence[int], tokens: Sequence[int], key: str) -> None:
    _expect(len(runs), await connection.execute(_SAVE_STEPS, runs, tokens, key, RESULT, now()))


async def _finish(connection: "Connection", runs: Sequence[int], tokens: Sequence[int]) -> None:
    _expect(len(runs), await connection.execute(_FINISH, runs, tokens, now(), OUTPUT))


def _expect(wanted: int, status: str) -> None:
    # The server answers "INSERT 0 64" or "UPDATE 64". A run's seq is unique, so an equal count means one row for each.
    written = int(status.rpartition(" ")[2])
    if written != wanted:
        raise FenceError(f"{written} rows were written for {wanted} runs")


def main() -> None:
    """Print the floor."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    for keys in get_args(Keys):
        runs_per_second = asyncio.run(measure(options.dsn, options.seconds, options.in_flight, keys))
        print(f"PostgreSQL, bare group commit, {keys} keys: {runs_per_second:,.0f} runs/s")


if __name__ == "__main__":
    main()
