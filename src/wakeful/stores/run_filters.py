"""Lists runs by filters, with one query for each set of filters: a condition like `:x is null or …` would keep the database from using
an index, and it would walk a million runs to find one.

    event, subject, trace ──► events ──► admissions ──► runs and their families      few, sorted at the end
    action                ──► effects ──► runs                                        in order of the index
    none of these         ──► runs, newest first

The other filters (agent, state, times) narrow the result. Times are also converted into run numbers (`runs_between`), which rise with
time, so that a listing of the last two hours does not read on to the first run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from wakeful.clock import SECOND, Microseconds
from wakeful.stores.transaction import Row

# Two processes that store runs at almost the same time may not do so in the order of the runs' numbers.
OUT_OF_ORDER: Microseconds = 60 * SECOND
NO_END = 2**62
KEY_LENGTH = 26  # of an event's key; a trace that began with the event is made from it
SHORTEST_PREFIX = 6
PARTS_OF_TRACEPARENT = 4
LAST_CHARACTER = "\U0010ffff"

COLUMNS = """run.seq, run.id, run.agent, run.state, run.attempts, run.crashes, run.reason, run.created_at, run.started_at,
  run.finished_at, run.due_at, run.app, event.source as event_source, event.id as event_id, event.type as event_type"""
EVENT = "join wakeful_event event on event.seq = run.event_seq"
NARROW = """(cast(:agent as text) is null or run.agent = :agent)
  and (cast(:state as text) is null or run.state = :state)
  and (cast(:since as bigint) is null or run.created_at >= :since)
  and (cast(:until as bigint) is null or run.created_at < :until)"""
NARROWING = "agent, state, since, until, least, before, most"
# The events that each filter selects, by an index.
EVENTS = {
    "event": "select seq from wakeful_event where id = :event union select seq from wakeful_event where key = :event",
    "subject": "select seq from wakeful_event where subject = :subject",
    "trace": """select event_seq from wakeful_trace where trace >= :trace and trace < :trace_end
      union select seq from wakeful_event where key >= :key and key < :key_end""",
}
PARAMETERS = {"event": "event", "subject": "subject", "trace": "trace, trace_end, key, key_end"}


def queries_of_runs() -> str:
    """One query for each set of filters, in the form of a .sql file."""
    made = [_newest(), _by_action()]
    for count in range(1, len(EVENTS) + 1):
        made += [_by_events(chosen) for chosen in combinations(EVENTS, count)]
    return "\n\n".join(made) + "\n"


def _newest() -> str:
    return f"""-- list_runs({NARROWING}) --
select {COLUMNS}
from wakeful_run run {EVENT}
where run.seq >= :least and run.seq < :before and {NARROW}
order by run.seq desc limit :most"""


def _by_action() -> str:
    """In the order of the index. A run with several effects of the action is listed once, by its last one."""
    return f"""-- list_runs_by_action(action, {NARROWING}) --
select {COLUMNS}
from wakeful_effect effect join wakeful_run run on run.seq = effect.run_seq {EVENT}
where effect.action = :action and effect.run_seq >= :least and effect.run_seq < :before and {NARROW}
  and not exists (
    select 1 from wakeful_effect other
    where other.action = effect.action and other.run_seq = effect.run_seq and other.seq > effect.seq
  )
order by effect.run_seq desc limit :most"""


def _by_events(chosen: tuple[str, ...]) -> str:
    """The `+ 0` keeps the planner from walking all runs in order and testing each one."""
    among = "\n  and ".join(f"run.seq in ({_runs_of(EVENTS[one])})" for one in chosen)
    parameters = ", ".join(PARAMETERS[one] for one in chosen)
    return f"""-- {named(chosen)}({parameters}, action, {NARROWING}) --
select {COLUMNS}
from wakeful_run run {EVENT}
where {among}
  and (cast(:action as text) is null or exists (
    select 1 from wakeful_effect effect where effect.root = run.root and effect.action = :action
  ))
  and run.seq >= :least and run.seq < :before and {NARROW}
order by run.seq + 0 desc limit :most"""


def _runs_of(events: str) -> str:
    """The runs that events became or joined, and the runs that `--again` and fork made from those."""
    return f"""
    select one.seq from wakeful_admission admission join wakeful_run one on one.id = admission.run_id
    where admission.event_seq in ({events})
    union
    select one.seq from wakeful_admission admission join wakeful_run one on one.root = admission.run_id and one.id <> one.root
    where admission.event_seq in ({events})
  """


def named(chosen: tuple[str, ...]) -> str:
    return f"list_runs_by_{'_and_'.join(chosen)}"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None: any. `since` and `until` compare with a run's creation."""

    agent: str | None = None
    state: str | None = None
    event: str | None = None
    subject: str | None = None
    action: str | None = None
    trace: str | None = None
    since: Microseconds | None = None
    until: Microseconds | None = None

    def query(self, least: int, before: int, most: int) -> tuple[str, tuple[Any, ...]]:
        """The name of the query for this filter, and its parameters."""
        rest = (self.agent, self.state, self.since, self.until, least, before, most)
        given = {"event": self.event, "subject": self.subject, "trace": self.trace}
        chosen = tuple(name for name, value in given.items() if value is not None)
        if chosen:
            values = [value for name in chosen for value in self._values(name)]
            return named(chosen), (*values, self.action, *rest)
        if self.action is not None:
            return "list_runs_by_action", (self.action, *rest)
        return "list_runs", rest

    def _values(self, name: str) -> tuple[Any, ...]:
        if name == "event":
            return (self.event,)
        return (self.subject,) if name == "subject" else trace_range(self.trace or "")


def trace_range(text: str) -> tuple[str, str, str, str]:
    """First and last trace, then first and last event key, that a trace id, a prefix of one, or a traceparent selects."""
    given = text.strip().lower()
    parts = given.split("-")
    trace = parts[1] if len(parts) == PARTS_OF_TRACEPARENT else given
    end = trace + (LAST_CHARACTER if len(trace) >= SHORTEST_PREFIX else "\x01")
    key = trace[:KEY_LENGTH]
    if len(trace) > KEY_LENGTH and trace[KEY_LENGTH:].strip("0"):
        return trace, end, "", ""  # the trace did not begin with an event of ours
    return trace, end, key, key + (LAST_CHARACTER if SHORTEST_PREFIX <= len(key) < KEY_LENGTH else "\x01")


Fetch = Callable[..., Awaitable[list[Row]]]


async def runs_between(fetch: Fetch, since: Microseconds | None, until: Microseconds | None) -> tuple[int, int]:
    """The lowest number of a run made since `since`, and the number after the last run made until `until`."""
    if since is None and until is None:
        return 0, NO_END
    last = (await fetch("last_run"))[0][0] or 0
    least = 0 if since is None else await _first_at(fetch, since - OUT_OF_ORDER, last)
    return least, NO_END if until is None else await _first_at(fetch, until + OUT_OF_ORDER, last)


async def _first_at(fetch: Fetch, moment: Microseconds, last: int) -> int:
    """The number of the first run made at this moment or later, by bisection. Numbers have gaps."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        found = await fetch("run_from", middle)
        if not found or found[0][1] >= moment:
            high = middle
        else:
            low = found[0][0] + 1
    return low
