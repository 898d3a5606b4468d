"""Admission of new events for agents with order or limits: each gets a run of its own, joins a gathering run, or gets none.

Decided under the lock of the key (see `keys.py`), for all waiting events at once, in the order of their arrival:

    queue       each event gets a run, at the end of its key's queue
    skip        no run, while a run of the key is open
    replace     the newest event gets a run; runs that have not started are cancelled, a started one is asked to stop
    debounce    the newest event gets a run that waits for a newer one; the run that was waiting is cancelled
    batch       events join the gathering run while it has room, and the rest gather in new runs

A claim does not take the key's lock. So each statement that changes a run that has not started checks that itself, and the first to
commit wins: an event whose gathering run was just claimed gathers in a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.model import ON_OVERLAP, Flow, RunOutcome, RunState
from wakeful.stores.lanes import Lane
from wakeful.stores.transaction import Count, Transaction
from wakeful.stores.verbs.entry import Entry
from wakeful.stores.verbs.keys import take_places
from wakeful.stores.verbs.once import take_once
from wakeful.stores.verbs.waits import Woken, answer_of, tell

TOGETHER = "together with earlier events"
SUPERSEDED = to_json(RunOutcome("cancelled")).decode()


@dataclass(slots=True)
class NewRun:
    """A new run for these events; with `wait`, it gathers for that long."""

    entries: list[Entry]
    since: Microseconds | None = None
    wait: Microseconds | None = None
    longest: Microseconds | None = None
    place: int | None = None
    goes: int | None = None  # its turn is now: the microseconds before the last of those that start at once

    @property
    def first(self) -> Entry:
        return self.entries[0]

    def row(self, now: int | None) -> tuple[object, ...]:
        one, flow = self.first, self.first.flow
        return (
            now,
            one.run,
            one.run,
            one.app,
            one.agent,
            one.event_seq,
            latest(self.entries),
            flow.expires,
            flow.key if flow.ordered else None,
            self.place,
            most_urgent(self.entries),
            self.since,
            self.wait,
            self.longest,
            len(self.entries),
            self.goes,
        )


class Open(NamedTuple):
    """An open run of a key."""

    seq: int
    id: str
    state: RunState
    token: int

    @property
    def has_started(self) -> bool:
        return self.state != "ready" or self.token > 0


class Gathering(NamedTuple):
    """A run that has not started and waits for more events or a newer one."""

    seq: int
    id: str
    since: Microseconds
    gathered: int


@dataclass(slots=True)
class Joined:
    """Events that join a gathering run, after the `before` events that it has."""

    seq: int
    before: int
    entries: list[Entry]


@dataclass(slots=True)
class Crossing:
    """The new events of a key, and the existing runs that they affect."""

    entries: list[Entry]
    open: list[Open] = field(default_factory=list)
    gathering: Gathering | None = None
    joined: Joined | None = None

    @property
    def flow(self) -> Flow:
        """As declared for the newest event."""
        return self.entries[-1].flow


Crossings = dict[Lane, Crossing]


def admit(now: int | None, entries: Sequence[Entry]) -> Transaction[Woken]:
    """Events whose `once=` key was handled before join that run. For the rest: 1. Read the open and gathering runs of each key.
    2. Supersede or join runs that have not started; the rows that come back say which were still in time. 3. The rest get new
    runs with places. 4. Store all of it. Returns the callers to wake because a run that they called was superseded.
    """
    admitted = entries
    for entry in entries:
        if entry.flow.once is not None:
            entries = yield from take_once(now, entries)
            break
    loners = [entry for entry in entries if entry.flow.key is None]
    crossings: Crossings = {}
    for entry in entries:
        if entry.flow.key is not None:
            crossings.setdefault(entry.lane, Crossing([])).entries.append(entry)
    yield from _look(crossings)
    superseded, woken = yield from _supersede(now, crossings)
    joined = yield from _join(now, crossings)
    runs = [NewRun([entry]) for entry in loners]
    for lane in sorted(crossings):
        runs += _begin(crossings[lane], superseded)
    admissions = [(one.event_seq, one.agent, one.state, one.run, one.reason) for one in admitted]
    yield "insert_admission", admissions
    yield from insert_runs(now, runs, joined)
    return woken


def _look(crossings: Crossings) -> Transaction[None]:
    overlapping = sorted(lane for lane, one in crossings.items() if one.flow.overlap != "queue")
    if overlapping:
        for row in (yield "open_of_key", overlapping):
            crossings[row[0], row[1], row[2]].open.append(Open(*row[3:]))
    gathering = sorted(lane for lane, one in crossings.items() if one.flow.debounce or one.flow.batch)
    if gathering:
        for row in (yield "gathering_of_key", gathering):
            crossings[row[0], row[1], row[2]].gathering = Gathering(*row[3:])


def _supersede(now: int | None, crossings: Crossings) -> Transaction[tuple[set[int], Woken]]:
    """Cancel runs that have not started in favour of the newest event, and tell their callers. Started runs are asked to
    stop.
    """
    chosen: dict[int, str] = {}
    started: dict[int, str] = {}
    for crossing in crossings.values():
        newest = crossing.entries[-1]
        if crossing.flow.overlap == "replace":
            for run in crossing.open:
                (started if run.has_started else chosen)[run.seq] = _replaced_by(newest)
        elif crossing.flow.debounce and crossing.gathering is not None:
            chosen[crossing.gathering.seq] = _replaced_by(newest)
    if not chosen and not started:
        return set(), []
    rows = yield "supersede_run", [(now, seq, chosen[seq], SUPERSEDED) for seq in sorted(chosen)]
    gone = {row[0] for row in rows}
    woken: Woken = []
    if gone:
        yield "supersede_admission", [(seq, chosen[seq]) for seq in sorted(gone)]
        yield "supersede_occurrence", [(row[1], chosen[row[0]]) for row in sorted(rows)]
    for seq, run, parent, key in rows:
        if parent is not None:
            answer = answer_of(run, "cancelled", None, None, chosen[seq])
            woken += yield from tell(now, [(parent, key)], run, "cancelled", answer)
    for crossing in crossings.values():
        if crossing.flow.overlap == "replace":  # claimed just before the update: ask these to stop
            started |= {run.seq: chosen[run.seq] for run in crossing.open if run.seq in chosen.keys() - gone}
    if started:
        yield "ask_to_stop", [(now, seq, ON_OVERLAP, started[seq]) for seq in sorted(started)]
    return gone, woken


def _join(now: int | None, crossings: Crossings) -> Transaction[list[Joined]]:
    """As many events as there is room for join the gathering run."""
    wanted: dict[int, Crossing] = {}
    rows = []
    for crossing in crossings.values():
        flow, gathering = crossing.flow, crossing.gathering
        if flow.batch is None or gathering is None or gathering.gathered >= flow.batch[0]:
            continue
        most = flow.batch[0]
        coming = crossing.entries[: most - gathering.gathered]
        wanted[gathering.seq] = crossing
        rows.append((now, gathering.seq, len(coming), most, latest(coming), flow.expires, most_urgent(coming)))
    if not rows:
        return []
    joined = []
    for seq, gathered in (yield "join_run", sorted(rows, key=lambda row: row[1])):
        crossing = wanted[seq]
        before = crossing.gathering.gathered if crossing.gathering is not None else 0
        entries = crossing.entries[: gathered - before]
        for entry in entries:
            entry.become("joined", TOGETHER, crossing.gathering.id if crossing.gathering is not None else None)
        crossing.joined = Joined(seq, before, entries)
        joined.append(crossing.joined)
    return joined


def _begin(crossing: Crossing, superseded: set[int]) -> Iterator[NewRun]:
    """The new runs for the events of a key. The admission of the other events is set here."""
    entries, flow, gathering = crossing.entries, crossing.flow, crossing.gathering
    if flow.batch is not None:
        most, wait = flow.batch
        left = entries if crossing.joined is None else entries[len(crossing.joined.entries) :]
        for start in range(0, len(left), most):
            members = left[start : start + most]
            for other in members[1:]:
                other.become("joined", TOGETHER, members[0].run)
            yield NewRun(members, wait=wait if len(members) < most else 0)
    elif flow.debounce is not None:
        wait, longest = flow.debounce
        since = gathering.since if gathering is not None and gathering.seq in superseded else None
        yield NewRun([_newest_of(entries)], since, wait, longest)
    elif flow.overlap == "replace":
        yield NewRun([_newest_of(entries)])
    elif flow.overlap == "skip":
        holder = crossing.open[0].id if crossing.open else entries[0].run
        for entry in entries if crossing.open else entries[1:]:
            entry.become("skipped", f'overlap="skip": run {holder} was not over')
        if not crossing.open:
            yield NewRun(entries[:1])
    else:
        yield from (NewRun([entry]) for entry in entries)


def _newest_of(entries: list[Entry]) -> Entry:
    """Of several events that came together, the last one gets the run and supersedes the others."""
    for entry in entries[:-1]:
        entry.become("superseded", _replaced_by(entries[-1]))
    return entries[-1]


def _replaced_by(entry: Entry) -> str:
    return f"event {entry.event} took its place"


def insert_runs(now: int | None, runs: Sequence[NewRun], joined: Sequence[Joined] = ()) -> Transaction[None]:
    """Insert runs with their places, and the member events of the gathering ones."""
    counts: dict[Lane, int] = {}
    ordered = [run for run in runs if run.first.flow.ordered]
    for run in ordered:
        counts[run.first.lane] = counts.get(run.first.lane, 0) + 1
    if counts:
        places = yield from take_places(counts)
        for run in ordered:
            run.place = places[run.first.lane]
            places[run.first.lane] += 1
        yield from _let_go_at_once(ordered)
    made = {row[0]: row[1] for row in (yield "insert_flow_run", [run.row(now) for run in runs])} if runs else {}
    members = [
        (made[run.first.run], entry.event_seq, position)
        for run in runs
        if run.first.flow.batch is not None and run.first.run in made
        for position, entry in enumerate(run.entries)
    ]
    members += [
        (one.seq, entry.event_seq, position)
        for one in joined
        for position, entry in enumerate(one.entries, start=one.before)
    ]
    if members:
        yield Count("insert_member", sorted(members))


def _let_go_at_once(ordered: Sequence[NewRun]) -> Transaction[None]:
    """Mark runs whose turn is now: fewer runs are before them than `per_key` allows. Most runs find their key free."""
    waiting: dict[Lane, list[NewRun]] = {}
    for run in ordered:
        waiting.setdefault(run.first.lane, []).append(run)
    before: dict[Lane, int] = {}
    for row in (yield "next_of_key", sorted(waiting)):
        lane = (row[0], row[1], row[2])
        before[lane] = before.get(lane, 0) + 1
    for lane, runs in waiting.items():
        free = runs[: max(0, (runs[-1].first.flow.per_key or 1) - before.get(lane, 0))]
        for behind, run in enumerate(reversed(free)):
            run.goes = behind


def latest(entries: Sequence[Entry]) -> Microseconds | None:
    """When the last of these events expires; None if one never does."""
    times = [entry.expires_at for entry in entries]
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def most_urgent(entries: Sequence[Entry]) -> int | None:
    known = [entry.flow.priority for entry in entries if entry.flow.priority is not None]
    return max(known) if known else None
