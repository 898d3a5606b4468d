"""Limits for all processes together: how much of an agent a claim may take.

Whoever claims runs of a limited agent locks its row first, then counts what runs and what has started lately, and takes
no more than is left. The lock lasts until the commit, so that two who claim at once count one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.rate import Rate
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.versions import Apart

if TYPE_CHECKING:
    from wakeful.stores.verbs.claim import ClaimRuns


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of an agent at a time, in all processes together: runs at once, and first starts within some time."""

    concurrency: int | None = None
    rate: Rate | None = None


NO_LIMIT = 1 << 31
ALL = ""  # in place of an agent: all of the app
SEQ, TOKEN, CLAIMED_AT, EXPIRES_AT = 0, 4, 9, 10  # columns of what a claim tells


@dataclass(slots=True)
class Window:
    """The starts that a rate looks at, and how many more it lets through now. That of an agent counts first starts only; what
    comes back after a pause is counted whenever it is claimed.
    """

    key: str
    rate: Rate
    first_starts: bool
    left: int = 0


@dataclass(slots=True)
class Room:
    """What is left of one agent's limits in this claim."""

    free: int = NO_LIMIT
    windows: list[Window] = field(default_factory=list)

    def runs(self) -> int:
        """How many runs may be claimed."""
        return min([self.free, *(window.left for window in self.windows if not window.first_starts)])

    def first_starts(self) -> int:
        """How many of them may be first starts."""
        return min([self.runs(), *(window.left for window in self.windows if window.first_starts)])


@dataclass(slots=True)
class ClaimFacts:
    """What a claim must know before it looks for runs."""

    alone: set[str] = field(default_factory=set)  # agents that have a run which must go alone
    paused: set[str] = field(default_factory=set)
    rates: dict[str, str] = field(default_factory=dict)  # at which agents come back after a pause
    failing: set[str] = field(default_factory=set)  # agents whose last runs ended dead
    versions: bool = False  # old code is at work beside new, or instead of it

    def is_paused(self, agent: str) -> bool:
        return ALL in self.paused or agent in self.paused


def read_facts(now: int | None, app: str) -> Transaction[ClaimFacts]:
    facts = ClaimFacts()
    for agent, kind, rate in (yield "claim_facts", [(now, app)]):
        if kind == "solo":
            facts.alone.add(agent)
        elif kind == "paused":
            facts.paused.add(agent)
        elif kind == "failing":
            facts.failing.add(agent)
        elif kind == "versions":
            facts.versions = True
        else:
            facts.rates[agent] = rate
    return facts


def open_rooms(
    now: int | None, request: ClaimRuns, agents: Collection[str], facts: ClaimFacts
) -> Transaction[dict[str, Room]]:
    """The room of each agent that has a limit, or comes back at a rate. Those of which nothing is due are left alone, and get
    none: nobody shall wait for them.
    """
    app = request.app
    limited = sorted(agent for agent in agents if ALL in facts.rates or agent in facts.rates or agent in request.limits)
    due = yield from due_of(now, app, limited)
    rooms = {agent: Room(0) for agent in limited if agent not in due}
    if not due:
        return rooms
    yield from take_limits(app, [*([ALL] if ALL in facts.rates else []), *sorted(due)])
    together = []
    if ALL in facts.rates:
        together.append(
            (yield from open_window(now, app, resume_key(ALL), Rate.read(facts.rates[ALL]), first_starts=False))
        )
    for agent in sorted(due):
        limit = request.limits.get(agent, Limit())
        room = rooms[agent] = Room(windows=[*together])
        if limit.concurrency is not None:
            running = yield "count_running", [(app, agent)]
            room.free = max(0, limit.concurrency - running[0][0])
        if limit.rate is not None:
            room.windows.append((yield from open_window(now, app, agent, limit.rate, first_starts=True)))
        if agent in facts.rates:
            rate = Rate.read(facts.rates[agent])
            room.windows.append((yield from open_window(now, app, resume_key(agent), rate, first_starts=False)))
    return rooms


def take_limits(app: str, agents: Sequence[str]) -> Transaction[None]:
    """Lock the rows of these agents; those that have none yet get one."""
    there = {row[0] for row in (yield "take_limit", [(app, agent) for agent in agents])}
    missing = [(app, agent) for agent in agents if agent not in there]
    if missing:
        yield "insert_limit", missing
        yield "take_limit", missing


def open_window(now: int | None, app: str, key: str, rate: Rate, *, first_starts: bool) -> Transaction[Window]:
    used = yield "count_starts", [(now, app, key, rate.within)]
    return Window(key, rate, first_starts, rate.most - used[0][0])


def resume_key(agent: str) -> str:
    """What the starts after a pause are counted under; no agent has a space in its name."""
    return f"resume {agent}"


def due_of(now: int | None, app: str, agents: Collection[str]) -> Transaction[set[str]]:
    """Those of which something is due. One question for all of them: each would be a round trip."""
    asked = sorted(agents)
    counts = (yield "count_due", [(now, app, agent, 1) for agent in asked]) if asked else []
    return {agent for agent, (count,) in zip(asked, counts, strict=True) if count}


def take(
    now: int | None, request: ClaimRuns, agent: str, most: int, room: Room, apart: Apart | None = None
) -> Transaction[list[Row]]:
    """Claim the oldest due runs of an agent. Once no more may start, those that have started before still go on."""
    details: tuple[Any, ...] = (request.process, request.versions.get(agent))
    runs, resumed = "claim_runs", "claim_resumed"
    if apart is not None:
        details = (*details, *apart.parameters)
        runs, resumed = f"{runs}_apart", f"{resumed}_apart"
    taken: list[Row] = []
    while (asked := min(most - len(taken), room.first_starts())) > 0:
        rows = yield runs, [(now, request.app, agent, asked, *details)]
        taken += rows
        yield from note_starts(now, request.app, rows, room)
        if len(rows) < asked:
            return taken
    asked = min(most - len(taken), room.runs())
    if asked > 0:
        rows = yield resumed, [(now, request.app, agent, asked, *details)]
        taken += rows
        yield from note_starts(now, request.app, rows, room)
    return taken


def note_starts(now: int | None, app: str, rows: Sequence[Row], room: Room) -> Transaction[None]:
    """Count what was claimed in each window that looks at it, and forget what none looks at any more. What has expired is
    claimed only to be cancelled: it never starts.
    """
    room.free -= len(rows)
    starting = [row for row in rows if not _has_expired(row)]
    for window in room.windows:
        counted = [row for row in starting if row[TOKEN] == 1 or not window.first_starts]
        if counted:
            window.left -= len(counted)
            yield "insert_start", [(app, window.key, row[CLAIMED_AT], row[SEQ], row[TOKEN]) for row in counted]
            yield "forget_starts", [(now, app, window.key, window.rate.within)]


def _has_expired(row: Row) -> bool:
    return row[TOKEN] == 1 and row[EXPIRES_AT] is not None and bool(row[EXPIRES_AT] <= row[CLAIMED_AT])


def until_more_may_start(now: int | None, app: str, rooms: Mapping[str, Room]) -> Transaction[list[Microseconds]]:
    """When the rates that are used up let something through again, of agents that have something due."""
    delays = []
    for agent in sorted(rooms):
        used_up = [window for window in rooms[agent].windows if window.left <= 0]
        if used_up and (yield from due_of(now, app, [agent])):
            for window in used_up:
                rate = window.rate
                rows = yield "next_start", [(now, app, window.key, rate.most - 1, rate.within)]
                delays += [max(1, row[0]) for row in rows]
    return delays


def lift_rates(now: int | None, app: str, agents: Collection[str], facts: ClaimFacts) -> Transaction[None]:
    """A rate after a pause ends by itself, once nothing that had gathered is left."""
    for agent in sorted(set(agents) & set(facts.rates)):
        if not (yield from due_of(now, app, [agent])):
            yield "lift_rate", [(app, agent, facts.rates[agent])]
    if ALL in facts.rates:
        loaded = set(agents)
        for (text,) in (yield "agents_at_work", [(app,)]):
            loaded |= set(from_json(text))
        if not (yield from due_of(now, app, sorted(loaded - facts.paused))):
            yield "lift_rate", [(app, ALL, facts.rates[ALL])]


def fair_shares(
    now: int | None, request: ClaimRuns, parts: dict[str, int], rooms: Mapping[str, Room]
) -> Transaction[frozenset[str]]:
    """Take no more than a share of agents that other processes have too: `parts` is lowered, and the agents come back of which
    some are left to the others. Where there is plenty, or nothing, nobody counts what runs; nor for the only one that is due,
    which whoever has none may take.
    """
    app = request.app
    shared = sorted(agent for agent, most in parts.items() if most > 0 and agent in request.shares)
    if not shared:
        return frozenset()
    plenty = {agent: parts[agent] * request.shares[agent].processes for agent in shared}
    counted = yield "count_due", [(now, app, agent, plenty[agent]) for agent in shared]
    there = {
        agent: min(due, rooms[agent].runs()) if agent in rooms else due
        for agent, (due,) in zip(shared, counted, strict=True)
    }
    clear = [agent for agent in shared if there[agent] <= (0 if request.shares[agent].own else 1)]
    parts |= {agent: there[agent] for agent in clear}
    scarce = [agent for agent in shared if there[agent] < plenty[agent] and agent not in clear]
    running = (yield "count_running", [(app, agent) for agent in scarce]) if scarce else []
    left = set()
    for agent, (run,) in zip(scarce, running, strict=True):
        share, most = request.shares[agent], parts[agent]
        fair = -(-(run + there[agent]) // share.processes) - share.own
        parts[agent] = max(0, min(most, fair))
        if min(there[agent], most) > parts[agent]:
            left.add(agent)
    return frozenset(left)


def show_limits(app: str, agents: Sequence[str], limits: Mapping[str, Limit]) -> Transaction[None]:
    """Write down what the code says, for `wakeful why`."""
    limited = sorted(set(agents) & set(limits))
    rows = [
        (app, agent, one.concurrency, *((one.rate.most, one.rate.within) if one.rate else (None, None)))
        for agent in limited
        for one in (limits[agent],)
    ]
    if rows:
        yield "set_limit", rows
    free = [(app, agent) for agent in sorted(set(agents) - set(limits))]
    if free:
        yield "clear_limit", free
