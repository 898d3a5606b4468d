"""Named queries: read from the .sql files once, and prepared for one database.

    -- name(first, second) --          a heading: the name, and the parameters in the order of the values
    -- why it exists                   comments for people
    select … where x = :first          `:first` becomes ?1 on SQLite and $1 on PostgreSQL; {slots} are filled by dialect

Each noun has a file for both databases. A query that must differ on PostgreSQL in more than a slot is in a file postgres*.sql, where it
overrides the other by its name and gives the reason. The slots:

    {now}            the time: `:now` on SQLite; on PostgreSQL the database's clock, unless a test provides a time
    {for_key_share}  PostgreSQL: lock the row that a fenced write checks until its commit. Many may hold this lock at once, and the
                     renewal of the lease neither waits for them nor they for it. SQLite has one writer: nothing to lock
    {for_update}     PostgreSQL: the exclusive lock, which waits for all holders
    {skip_locked}    PostgreSQL: concurrent claims skip each other's candidates. SQLite has one writer: no other claim to skip
    {apart}          the runs that a claim leaves to other code, see _APART
    {claimed}        the columns of a claimed run, see _CLAIMED
    {goes_out}       the deliveries that no halt stops, see _GOES_OUT
    {doubt_at}       since when a delivery may have arrived, see _DOUBT_AT
    {first_of_thread} the first delivery of its thread that still waits, see _FIRST_OF_THREAD
    {closed_by}     the delivery that closed the thread of another one, see _CLOSED_BY

A heading that ends in `bulk --` (PostgreSQL only) takes all rows in one statement, each parameter as an array of its column; only
`now` stays a single value. Arrays are sent as text in PostgreSQL's own notation: the driver's encoder looks at every element several
times, which was a sixth of the cost of a run.

A query whose heading ends in `raw --` takes and returns payloads as they are stored; all others go through payloads.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from wakeful.stores.binding import bound_columns, bound_parameters
from wakeful.stores.keyring import KeyRing
from wakeful.stores.payloads import BoundQuery, Codec, Places, given_places, returned_places
from wakeful.stores.places import COLUMNS, queries_of_places
from wakeful.stores.redacting import RedactingCodec, shown_places
from wakeful.stores.run_filters import queries_of_runs

Dialect = Literal["sqlite", "postgres"]

_HEADING = re.compile(r"^-- (\w+)\(([^)]*)\)( bulk| raw)? --$", re.MULTILINE)
_ARRAY = re.compile(r"cast\(:([a-z_]+) as (bigint|text)\[\]\)")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_OWN_WORDS = re.compile(r"\b(?:reason|note|cancel_note|ending) = '([^']+)'(?! \|\|)")
# statement_timestamp(), not clock_timestamp(): the planner may use a stable value to enter an index. A volatile one would be
# computed for each row, and a claim would then walk over every sleeping run.
_POSTGRES_NOW = "coalesce(cast(:now as bigint), cast(extract(epoch from statement_timestamp()) * 1000000 as bigint))"
# The columns of a claimed run, in the order in which `verbs/claim.py` reads them.
_CLAIMED = """seq, id, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at,
  (select envelope from wakeful_event event where event.seq = wakeful_run.event_seq), data,
  case when committed_at is not null then outcome end, key, gathered, version, parent_seq, parent_key, cancel_by, cancel_note,
  case when committed_at is not null and parent_seq is not null then output end"""
# Which runs a claim leaves to other versions of the code (verbs/versions.py). A query with this slot exists twice: without any word
# of versions, and as NAME_apart with three more parameters. A committed run does not need the code of its handler.
_APART_PARAMETERS = ("never", "later", "drain")
_APART: dict[Dialect, str] = {
    "sqlite": """and (committed_at is not null or (coalesce(version, '') not in (select value from json_each(:never))
    and (due_at <= {now} - :drain or coalesce(version, '') not in (select value from json_each(:later)))))""",
    "postgres": """and (committed_at is not null or (not jsonb_exists(cast(:never as jsonb), coalesce(version, ''))
    and (due_at <= {now} - :drain or not jsonb_exists(cast(:later as jsonb), coalesce(version, '')))))""",
}
# The columns of a schedule, in the order in which `verbs/schedules.py` reads them; last, the state of its last run.
_SCHEDULE = """schedule.seq, schedule.app, schedule.name, schedule.agent, schedule.origin, schedule.state,
  schedule.revision, schedule.definition, schedule.data, schedule.owner, schedule.next_at, schedule.due_at,
  schedule.queued_from, schedule.queued_to, schedule.queued_count, schedule.queued_before, schedule.done_until, schedule.waits_for, schedule.last_at, schedule.last_run,
  schedule.fired_at, schedule.created_at, schedule.changed_at, schedule.changed_by,
  (select run.state from wakeful_run run where run.id = schedule.last_run)"""
# The columns of a source, in the order of `sources.StoredSource`.
_SOURCE = """source.app, source.name, source.kind, source.state, source.cursor, source.holder, source.token, source.error,
  source.since, source.lag, source.behind, source.taken, source.repeated, source.refused, source.quarantined, source.event_at,
  source.read_at, source.agents"""
# An effect with its run, in the order of `resources.effects.Effect`.
_EFFECT = """effect.id, effect.action, effect.safety, effect.state, effect.reason, effect.arguments, effect.result, effect.error,
  effect.tries, effect.attempt, effect.opened_at, effect.settled_at, effect.settled_by, effect.note, run.id as run,
  effect.agent, effect.undoes, effect.once, effect.operation, effect.follows, effect.rule, effect.policy, effect.approval,
  effect.executed"""
# What policy needs to judge a stored effect again, in the order of `verbs.policies.EffectToJudge`.
_JUDGED_EFFECT = """effect.seq, effect.id, effect.root, effect.app, effect.agent, effect.action, effect.reference, effect.arguments,
  effect.attempt, effect.state, effect.opened_at, effect.rule, effect.policy, run.id as run, run.data, event.key as event, event.envelope
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq join wakeful_event event on event.seq = run.event_seq"""
# Whether a delivery, by its `run_seq`, may go out: its agent is not halted. A scalar query, which no planner turns into a join over all
# runs.
_GOES_OUT = """(select 1 from wakeful_run sender join wakeful_halt halt on halt.app = sender.app
    where sender.seq = run_seq and halt.agent in ('', sender.agent) and halt.action = '' and substr(sender.agent, 1, 8) <> 'wakeful.'
    limit 1) is null"""
# Whether no earlier delivery of the same thread, in the same lane, still waits. `head` is the delivery.
_FIRST_OF_THREAD = """(select 1 from wakeful_delivery earlier
    where earlier.app = head.app and earlier.channel = head.channel and earlier.thread = head.thread and earlier.urgent = head.urgent
      and earlier.state = 'pending' and earlier.thread is not null and earlier.seq < head.seq limit 1) is null"""
# Since when a delivery may have arrived: since its last call, or since the store was restored from a backup, after which the original may have
# delivered it. A delivery that was tried or replayed here since then is no longer in doubt for that.
_DOUBT_AT = """coalesce(delivery.doubt_at, (
    select origin.began_at from wakeful_origin origin
    where origin.doubtful = 1 and delivery.run_seq < origin.run_seq and not (delivery.reason is not null and delivery.due_at >= origin.began_at)
    order by origin.number desc limit 1
  ))"""
# The delivery after which this one may not go out any more: it arrived, and closed the thread (2), or closed it for what was sent before (1).
_CLOSED_BY = """case when delivery.thread is not null then (select closing.id from wakeful_delivery closing
    where closing.app = :app and closing.channel = :channel and closing.thread = delivery.thread and closing.closes > 0
      and closing.seq <> delivery.seq and (closing.closes = 2 or closing.seq > delivery.seq) limit 1) end"""
_SLOTS: dict[Dialect, dict[str, str]] = {
    "sqlite": {
        "{claimed}": _CLAIMED,
        "{schedule}": _SCHEDULE,
        "{source}": _SOURCE,
        "{effect}": _EFFECT,
        "{judged_effect}": _JUDGED_EFFECT,
        "{goes_out}": _GOES_OUT,
        "{first_of_thread}": _FIRST_OF_THREAD,
        "{doubt_at}": _DOUBT_AT,
        "{closed_by}": _CLOSED_BY,
        "{now}": ":now",
        "{for_key_share}": "",
        "{for_update}": "",
        "{for_update_of_approval}": "",
        "{skip_locked}": "",
    },
    "postgres": {
        "{claimed}": _CLAIMED,
        "{schedule}": _SCHEDULE,
        "{source}": _SOURCE,
        "{effect}": _EFFECT,
        "{judged_effect}": _JUDGED_EFFECT,
        "{goes_out}": _GOES_OUT,
        "{first_of_thread}": _FIRST_OF_THREAD,
        "{doubt_at}": _DOUBT_AT,
        "{closed_by}": _CLOSED_BY,
        "{now}": _POSTGRES_NOW,
        "{for_key_share}": "for key share",
        "{for_update}": "for update",
        "{for_update_of_approval}": "for update of approval",
        "{skip_locked}": "for update skip locked",
    },
}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement, prepared for its database, and the order of its parameters."""

    name: str
    parameters: tuple[str, ...]
    sql: str
    bulk: bool = False
    given: Places = ()  # the parameters that are payloads, and below the result columns that are
    returned: tuple[int, ...] = ()


class Shaped(dict[str, Any]):
    """A value for each query by name, made on first use: a command needs a dozen of several hundred."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Any:
        made = self[name] = self._make(name)
        return made


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """A query as written in its file."""

    name: str
    parameters: tuple[str, ...]
    kind: str
    body: str

    @property
    def bulk(self) -> bool:
        return self.kind == " bulk"


@cache
def written_queries(dialect: Dialect) -> dict[str, WrittenQuery]:
    """All queries of a database, by name, as they stand in the files."""
    folder = resources.files("wakeful.stores") / "sql"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    files = [name for name in names if not name.startswith("postgres")]
    files += [name for name in names if name.startswith("postgres") and dialect == "postgres"]
    found = {query.name: query for query in split(queries_of_places() + queries_of_runs(), dialect)}
    own: set[str] = set()  # a query of PostgreSQL may replace one of both databases, but only once
    for file in files:
        for query in split(folder.joinpath(file).read_text(encoding="utf-8"), dialect):
            taken: Collection[str] = own if file.startswith("postgres") else found
            if query.name in taken:
                message = f"query {query.name} exists twice, the second time in {file}"
                raise ValueError(message)
            if file.startswith("postgres"):
                own.add(query.name)
            found[query.name] = query
    return found


@cache
def query_named(dialect: Dialect, name: str) -> Query:
    """One query, prepared for its database."""
    return shape(written_queries(dialect)[name], dialect)


@cache
def load_queries(dialect: Dialect) -> dict[str, Query]:
    """All queries of a database, by name, prepared for it."""
    return {name: query_named(dialect, name) for name in written_queries(dialect)}


@cache
def bound_named(dialect: Dialect, name: str) -> BoundQuery:
    """One query in the form for encrypted stores: it returns the row that each payload belongs to."""
    query, written = query_named(dialect, name), written_queries(dialect)[name]
    if written.kind == " raw":
        return BoundQuery(query.sql, (), ())
    given = bound_parameters(written.body, query.parameters, query.given, COLUMNS)
    sql, returned = bound_columns(query.sql, COLUMNS) if query.returned else (query.sql, ())
    return BoundQuery(sql, given, returned)


@cache
def own_words(dialect: Dialect) -> frozenset[str]:
    """Texts that statements themselves write into columns of payloads. They are not secret and not encrypted."""
    found = {match[1] for query in written_queries(dialect).values() for match in _OWN_WORDS.finditer(query.body)}
    return frozenset(found)


def statements(dialect: Dialect, ring: KeyRing | None = None) -> dict[str, str]:
    """The text of each query, by name; with keys, in the form for payloads that are bound to their rows."""
    if ring is not None:
        return Shaped(lambda name: bound_named(dialect, name).sql)
    return Shaped(lambda name: query_named(dialect, name).sql)


def codec(dialect: Dialect, ring: KeyRing | None = None) -> Codec:
    """The codec for a database's payloads."""
    made = RedactingCodec(
        Shaped(lambda name: query_named(dialect, name).given),
        Shaped(lambda name: query_named(dialect, name).returned),
        ring,
        Shaped(lambda name: bound_named(dialect, name)),
        lambda: own_words(dialect),
    )
    made.shown = Shaped(
        lambda name: shown_places(query_named(dialect, name).sql, query_named(dialect, name).parameters)
    )
    return made


def parse(text: str, dialect: Dialect) -> list[Query]:
    """The queries of one file."""
    return [shape(query, dialect) for query in split(text, dialect)]


def split(text: str, dialect: Dialect) -> list[WrittenQuery]:
    """The queries of one file, as they stand there."""
    pieces = _HEADING.split(text)[1:]
    found = []
    for name, declared, kind, body in zip(pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=True):
        parameters = tuple(word.strip() for word in declared.split(",") if word.strip())
        found.append(WrittenQuery(name, parameters, kind or "", body.replace("{apart}", "")))
        if "{apart}" in body:
            whole = body.replace("{apart}", _APART[dialect])
            found.append(WrittenQuery(f"{name}_apart", (*parameters, *_APART_PARAMETERS), kind or "", whole))
    return found


def shape(query: WrittenQuery, dialect: Dialect) -> Query:
    """A query prepared for its database: slots filled, parameters numbered, payloads found."""
    name, declared, raw = query.name, query.parameters, query.kind == " raw"
    sql = "\n".join(line for line in query.body.splitlines() if line.strip() and not line.lstrip().startswith("--"))
    for slot, filling in _SLOTS[dialect].items():
        sql = sql.replace(slot, filling)
    if query.bulk:
        sql = _ARRAY.sub(r"cast(cast(:\1 as text) as \2[])", sql)
    used = set(_PARAMETER.findall(sql))
    if used != set(declared):
        message = f"query {name}: declares {sorted(declared)} and uses {sorted(used)}"
        raise ValueError(message)
    mark = "?" if dialect == "sqlite" else "$"
    numbers = {parameter: f"{mark}{number}" for number, parameter in enumerate(declared, start=1)}
    ready = _PARAMETER.sub(lambda match: numbers[match[1]], sql)
    given, returned = ((), ()) if raw else (given_places(name, declared), returned_places(ready))
    return Query(name, declared, ready, query.bulk, given, returned)
