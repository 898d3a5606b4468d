"""Work that waits longer than it should: facts in, alarms out. One alarm for each cause, not one for each run.

    waiting/APP/AGENT    a run is ready but does not start; the text says what holds it back
    blocked/APP/AGENT    runs wait behind dead letters of their key
    delivery/…/late      the next delivery to a channel is late; the outbox also raises it when a try fails
    lag/APP/SOURCE       the events of a source are older than they should be

Only the first in each line is read, found by an index: the number that waits behind it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wakeful.clock import SECOND, Microseconds, readable, to_text
from wakeful.output.verdicts import LATE
from wakeful.rate import Rate
from wakeful.stores.alarm import Alarm, cause_of, late_alarm
from wakeful.stores.transaction import Fetcher, Row
from wakeful.stores.verbs.failing import OPERATOR

STARTS_WITHIN: Microseconds = 300 * SECOND
LAG_WITHIN: Microseconds = 900 * SECOND
# A lag is that of the last event read: if none came for a while, the source is not behind.
LAG_IS_FRESH: Microseconds = 300 * SECOND
# The most dead letters of an agent that are checked for a key they block.
LOOKED_AT = 1000
# The actor that pauses an agent whose runs become dead letters one after the other.
PAUSED_BY_ITSELF = OPERATOR


@dataclass(slots=True)
class Overdue:
    """The alarms that were found. `late` are those of channels, which the outbox also raises and resolves."""

    alarms: list[Alarm] = field(default_factory=list)
    late: list[Alarm] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What may keep the runs of an agent from starting."""

    workers: int
    paused_by: str | None = None
    halted_by: str | None = None
    coming_back_at: str | None = None  # the rate after a resume
    concurrency: int | None = None
    rate: Rate | None = None
    starts: int = 0  # within the time of the rate
    running: int = 0
    last_claimed_at: Microseconds | None = None
    first_claimed_at: Microseconds | None = None
    crashes: int = 0


class HeldBack(NamedTuple):
    """What keeps a run from starting: the facts, and the words, with what to do."""

    cause: tuple[object, ...]
    words: str


def held_back_by(agent: str, hold: StartFacts, within: Microseconds, now: Microseconds) -> HeldBack | None:
    """What keeps a run of the agent from starting. None: its limits explain it, and its runs progress.

    In the order of a claim: a halt, a pause, no worker, the rate, the concurrency. Otherwise the workers are busy.
    """
    if hold.halted_by is not None:
        words = f"the agent is halted by {hold.halted_by}; `wakeful halt {agent} --lift` lifts that"
        return HeldBack(("halted", hold.halted_by), words)
    if hold.paused_by == PAUSED_BY_ITSELF:
        return None  # that pause has its own alarm
    if hold.paused_by is not None:
        words = f"the agent is paused by {hold.paused_by}; `wakeful resume {agent}` resumes it"
        return HeldBack(("paused", hold.paused_by), words)
    if hold.workers == 0:
        return HeldBack(("no worker",), "no living process has the agent; start one with `wakeful worker APP`")
    if hold.coming_back_at is not None:
        return None  # a person set this rate
    if hold.rate is not None and hold.starts >= hold.rate.most:
        return None  # as many runs start as its rate allows
    moves = hold.last_claimed_at is not None and now - hold.last_claimed_at < within
    if hold.concurrency is not None and hold.running >= hold.concurrency:
        if moves:
            return None
        since = "" if hold.first_claimed_at is None else f", the first since {to_text(hold.first_claimed_at)}"
        words = (
            f"its concurrency of {hold.concurrency} is used up by runs that do not end{since}; "
            f"`wakeful runs --agent {agent} --state running` lists them"
        )
        return HeldBack(("concurrency", hold.first_claimed_at), words)
    if hold.crashes > 1:
        words = (
            f"it was in flight in {hold.crashes} processes that died, so it waits for a process that runs nothing else"
        )
        return HeldBack(("crashes", hold.crashes), words)
    busy = f"{hold.running} of its runs are running" if hold.running else "none of its runs is running"
    words = f"no limit holds it back, and {busy}: the workers are busy with other runs, or stuck; start more workers, or see their logs"
    return HeldBack(("busy",), words)


async def look_for_overdue(
    database: Fetcher, app: str, now: Microseconds, workers: Mapping[str, int], since: Mapping[str, Microseconds]
) -> Overdue:
    """The alarms about waiting work. `workers`: how many living processes have each agent; `since`: since when one has."""
    found = Overdue()
    clock = database.read_clock()
    pauses = {row[0]: row[1] for row in await database.fetch("pauses_of_app", app)}
    halts = {row[0]: row[1] for row in await database.fetch("halts_of_app", app)}
    for name, owner, declared, run, ready_at, crashes in await database.fetch("waiting_heads", clock, app):
        within = STARTS_WITHIN if declared is None else declared
        # A worker that has just started gets its time to begin with the runs that were left.
        waits_since = max(ready_at, since.get(name, 0))
        if not within or now - waits_since <= within:
            continue
        if "" in halts or "" in pauses:  # one cause, one alarm
            who = halts.get("") or pauses[""]
            stopped = f"halted by {who}" if "" in halts else f"paused by {who}"
            text = f"the whole app {app} is {stopped}, and run {run} of agent {name} has been ready since {to_text(ready_at)}"
            text += "; `wakeful halt all --lift` lifts that" if "" in halts else "; `wakeful resume all` resumes it"
            found.alarms = [Alarm(app, f"waiting/{app}/all", text, cause=cause_of(who, run, ready_at))]
            break
        hold = await _hold(database, app, name, workers.get(name, 0), crashes, pauses.get(name), halts.get(name))
        if not hold.workers and await _is_open(database, f"agent/{app}/{name}"):
            continue  # the process that started last has raised the alarm that the app does not have it
        held = held_back_by(name, hold, within, now)
        if held is not None:
            text = (
                f"run {run} of agent {name} has been ready since {to_text(ready_at)} and has not started: {held.words}"
            )
            cause = cause_of(run, ready_at, *held.cause)
            found.alarms.append(Alarm(app, f"waiting/{app}/{name}", text, name, owner, cause=cause))
    for name, owner, declared, run, key, died_at in await database.fetch("blocked_heads", app, LOOKED_AT):
        within = STARTS_WITHIN if declared is None else declared
        if within and now - (died_at or 0) > within:
            found.alarms.append(_blocked(app, name, owner, run, key, died_at))
    for channel, delivery, committed_at, agent, holder, owner in await database.fetch("lane_heads", app):
        if now - committed_at > LATE:
            found.late.append(_late(app, channel, delivery, committed_at, agent, owner, holder))
    for row in await database.fetch("lags_of_app", app):
        if (alarm := lagging(app, row, now)) is not None:
            found.alarms.append(alarm)
    return found


async def _is_open(database: Fetcher, key: str) -> bool:
    found = await database.fetch("find_alarm", key)
    return bool(found) and found[0][2] != "resolved"


async def _hold(
    database: Fetcher, app: str, agent: str, workers: int, crashes: int, paused_by: str | None, halted_by: str | None
) -> StartFacts:
    clock = database.read_clock()
    coming_back_at = next((row[0] for row in await database.fetch("rate_of_agent", app, agent)), None)
    limits = await database.fetch("limit_of_agent", app, agent)
    concurrency, most, span = limits[0] if limits else (None, None, None)
    starts = (await database.fetch("count_starts", clock, app, agent, span))[0][0] if most is not None else 0
    running, last, first = (await database.fetch("running_of_agent", app, agent))[0]
    rate = None if most is None or span is None else Rate(most, span)
    return StartFacts(
        workers, paused_by, halted_by, coming_back_at, concurrency, rate, starts, running, last, first, crashes
    )


def _blocked(app: str, agent: str, owner: str | None, run: str, key: str, died_at: Microseconds) -> Alarm:
    text = (
        f"runs of agent {agent} with key {key!r} wait behind run {run}, a dead letter since {to_text(died_at)}. "
        f"`wakeful replay {run}` resumes it, `wakeful dead discard {run}` lets the runs behind it pass"
    )
    return Alarm(app, f"blocked/{app}/{agent}", text, agent, owner, cause=cause_of(run, died_at))


def _late(
    app: str, channel: str, delivery: str, committed_at: Microseconds, agent: str, owner: str | None, holder: str | None
) -> Alarm:
    who = "no process delivers to this channel now" if holder is None else f"process {holder} delivers to this channel"
    text = (
        f"channel {channel}: delivery {delivery} was committed at {to_text(committed_at)} and is still pending; {who}, and the "
        f"deliveries behind it wait. `wakeful deliveries show {delivery}` shows its errors"
    )
    return Alarm(app, late_alarm(app, channel), text, agent, owner)


def lagging(app: str, row: Row, now: Microseconds) -> Alarm | None:
    """The alarm about a source that has been read for a while and whose events are still older than they should be."""
    name, kind, state, since, lag, behind, event_at, owner, declared = row
    within = LAG_WITHIN if declared is None else declared
    fresh = event_at is not None and now - event_at <= LAG_IS_FRESH
    if not within or state != "reading" or lag <= within or not fresh or now - since <= within:
        return None
    more = f", and {behind:,} more wait" if behind else ""
    text = (
        f"events of {kind} {name} are more than {readable(within)} old when they are read{more}: it has been read since "
        f"{to_text(since)} and does not catch up"
    )
    return Alarm(app, f"lag/{app}/{name}", text, owner=owner, cause=cause_of(since))
