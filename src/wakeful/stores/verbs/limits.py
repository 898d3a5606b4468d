"""Limits over all processes: how many runs of an agent a claim may take.

A claim locks the row of each limited agent first, then counts its running and recently started runs, and takes no more than is left. The
lock lasts until the commit, so that two concurrent claims count one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.model import OWN_AGENTS
from wakeful.rate import Rate
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.versions import Apart

if TYPE_CHECKING:
    from wakeful.stores.verbs.claim import ClaimRuns


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of an agent over all processes: runs at once, and first starts within a period."""

    concurrency: int | None = None
    rate: Rate | None = None


NO_LIMIT = 1 << 31
ALL = ""  # in place of an agent: the whole app
SEQ, TOKEN, CLAIMED_AT, EXPIRES_AT = 0, 4, 9, 10  # column indexes of a claimed run


@dataclass(slots=True)
class RateWindow:
    """The starts that a rate counts, and how many more it allows now. An agent's own rate counts first starts only; the rate after a
    pause counts every claim.
    """

    key: str
    rate: Rate
    first_starts: bool
    left: int = 0


@dataclass(slots=True)
class ClaimRoom:
    """The remainder of one agent's limits in this claim."""

    free: int = NO_LIMIT
    windows: list[RateWindow] = field(default_factory=list)

    def runs(self) -> int:
        """How many runs may be claimed."""
        return min([self.free, *(window.left for window in self.windows if not window.first_starts)])

    def first_starts(self) -> int:
        """How many of them may be first starts."""
        return min([self.runs(), *(window.left for window in self.windows if window.first_starts)])


@dataclass(slots=True)
class ClaimFacts:
    """The facts that a claim reads before it looks for runs."""

    alone: set[str] = field(default_factory=set)  # agents with a run that must run alone
    paused: set[str] = field(default_factory=set)
    halted: set[str] = field(default_factory=set)
    rates: dict[str, str] = field(default_factory=dict)  # by agent: its rate after a pause
    failing: set[str] = field(default_factory=set)  # agents whose last runs ended dead
    versions: bool = False  # living processes have different versions of the code, or one was overtaken

    def is_paused(self, agent: str) -> bool:
        return bool(self.paused) and _is_among(agent, self.paused)

    def is_halted(self, agent: str) -> bool:
        return bool(self.halted) and _is_among(agent, self.halted)


def _is_among(agent: str, stopped: Collection[str]) -> bool:
    """Whether an agent is paused or halted. Wakeful's own agents never are: alarms and approvals must get out."""
    return (ALL in stopped or agent in stopped) and not agent.startswith(OWN_AGENTS)


def read_facts(now: int | None, app: str) -> Transaction[ClaimFacts]:
    facts = ClaimFacts()
    for agent, kind, rate in (yield "claim_facts", [(now, app)]):
        if kind == "solo":
            facts.alone.add(agent)
        elif kind == "paused":
            facts.paused.add(agent)
        elif kind == "halted":
            facts.halted.add(agent)
        elif kind == "failing":
            facts.failing.add(agent)
        elif kind == "versions":
            facts.versions = True
        else:
            facts.rates[agent] = rate
    return facts


def open_rooms(
    now: int | None, request: ClaimRuns, agents: Collection[str], facts: ClaimFacts
) -> Transaction[dict[str, ClaimRoom]]:
    """The remaining room of each agent that has a limit or a rate after a pause. Agents without due runs get no room and are not
    locked, so that no other claim waits for them.
    """
    app = request.app
    limited = sorted(agent for agent in agents if ALL in facts.rates or agent in facts.rates or agent in request.limits)
    due = yield from due_of(now, app, limited)
    rooms = {agent: ClaimRoom(0) for agent in limited if agent not in due}
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
        room = rooms[agent] = ClaimRoom(windows=[*together])
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
    """Lock the rows of these agents; missing rows are created."""
    there = {row[0] for row in (yield "take_limit", [(app, agent) for agent in agents])}
    missing = [(app, agent) for agent in agents if agent not in there]
    if missing:
        yield "insert_limit", missing
        yield "take_limit", missing


def open_window(now: int | None, app: str, key: str, rate: Rate, *, first_starts: bool) -> Transaction[RateWindow]:
    used = yield "count_starts", [(now, app, key, rate.within)]
    return RateWindow(key, rate, first_starts, rate.most - used[0][0])


def resume_key(agent: str) -> str:
    """The key under which starts after a pause are counted. It is no agent's name, because these have no spaces."""
    return f"resume {agent}"


def due_of(now: int | None, app: str, agents: Collection[str]) -> Transaction[set[str]]:
    """The agents that have due runs. One query for all, because each would be a round trip."""
    asked = sorted(agents)
    counts = (yield "count_due", [(now, app, agent, 1) for agent in asked]) if asked else []
    return {agent for agent, (count,) in zip(asked, counts, strict=True) if count}


def take(
    now: int | None, request: ClaimRuns, agent: str, most: int, room: ClaimRoom, apart: Apart | None = None
) -> Transaction[list[Row]]:
    """Claim the oldest due runs of an agent. When no more may start, runs that started before can still resume."""
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


def note_starts(now: int | None, app: str, rows: Sequence[Row], room: ClaimRoom) -> Transaction[None]:
    """Count the claimed runs in each window, and delete starts that no window counts any more. An expired run is claimed only to be
    cancelled and does not count as a start.
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


def until_more_may_start(now: int | None, app: str, rooms: Mapping[str, ClaimRoom]) -> Transaction[list[Microseconds]]:
    """The delays until the used-up rates of agents with due runs allow a start again."""
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
    """End a rate after a pause once no gathered run is left."""
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
    now: int | None, request: ClaimRuns, parts: dict[str, int], rooms: Mapping[str, ClaimRoom]
) -> Transaction[frozenset[str]]:
    """Take no more than a fair share of agents that other processes have too. Lowers `parts`, and returns the agents of which some runs
    are left to the others. Running runs are not counted if there is enough for all, if nothing is due, or if a single run is due:
    a process without a run of the agent may take that one.
    """
    app = request.app
    shared = sorted(agent for agent, most in parts.items() if most > 0 and agent in request.wanted.shares)
    if not shared:
        return frozenset()
    plenty = {agent: parts[agent] * request.wanted.shares[agent].processes for agent in shared}
    counted = yield "count_due", [(now, app, agent, plenty[agent]) for agent in shared]
    there = {
        agent: min(due, rooms[agent].runs()) if agent in rooms else due
        for agent, (due,) in zip(shared, counted, strict=True)
    }
    clear = [agent for agent in shared if there[agent] <= (0 if request.wanted.shares[agent].own else 1)]
    parts |= {agent: there[agent] for agent in clear}
    scarce = [agent for agent in shared if there[agent] < plenty[agent] and agent not in clear]
    running = (yield "count_running", [(app, agent) for agent in scarce]) if scarce else []
    left = set()
    for agent, (run,) in zip(scarce, running, strict=True):
        share, most = request.wanted.shares[agent], parts[agent]
        fair = -(-(run + there[agent]) // share.processes) - share.own
        parts[agent] = max(0, min(most, fair))
        if min(there[agent], most) > parts[agent]:
            left.add(agent)
    return frozenset(left)


def show_limits(app: str, agents: Sequence[str], limits: Mapping[str, Limit]) -> Transaction[None]:
    """Store the declared limits, for `wakeful why`."""
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
