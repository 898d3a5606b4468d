"""claim: gives due runs an owner and a new token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.model import Claim, RunOutcome, StateRead, Step
from wakeful.stores.judging import Judge
from wakeful.stores.request import ANYTHING, Others, Ready, Request, stands_for
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.effects import effect_of
from wakeful.stores.verbs.gathered import load_gathered
from wakeful.stores.verbs.limits import (
    ClaimRoom,
    Limit,
    fair_shares,
    lift_rates,
    note_starts,
    open_rooms,
    read_facts,
    take,
    until_more_may_start,
)
from wakeful.stores.verbs.state import claim_serial, load_states_of_keys
from wakeful.stores.verbs.versions import Apart, read_aparts


@dataclass(frozen=True, slots=True)
class Share:
    """How many processes have an agent, and how many of its runs this one already has."""

    processes: int
    own: int


@dataclass(slots=True)
class Claimed:
    """The result of a claim."""

    claims: list[Claim]
    asked: Sequence[tuple[str, int]]
    next_due: Microseconds | None
    solo_waiting: bool
    alone: bool = False  # it looked only for a run that must run alone
    left: frozenset[str] = frozenset()  # agents of which some runs were left to other processes
    failing: frozenset[str] = frozenset()  # agents whose last runs ended dead


class Wanted(NamedTuple):
    """The runs that a worker has room for."""

    agents: Sequence[tuple[str, int]] = ()  # each with the most of its runs
    alone: bool = True  # no run is under way: a run that must go alone may be taken
    shares: Mapping[str, Share] = MappingProxyType({})  # where other processes want some too
    room: int | None = None  # for all agents together, if that is less; then the longest due of all agents go first


NOTHING = Wanted()


@dataclass(slots=True)
class ClaimRuns(Request[Claimed]):
    """Claim due runs. The worker is asked what it wants when the transaction is composed; while it wants none, the claim rests."""

    app: str
    process: str
    wants: Judge[[], Wanted]
    wanted: Wanted = NOTHING
    serial: frozenset[str] = frozenset()  # agents with a state: one run at a time over all processes
    keeps_by_key: frozenset[str] = frozenset()  # agents with a state for each key: one run at a time for each key
    versions: Mapping[str, str] = field(default_factory=dict)  # of the agents' code, stored at a run's first start
    drains: Mapping[str, Microseconds] = field(
        default_factory=dict
    )  # how long runs are left to the version of the code that they began with
    limits: Mapping[str, Limit] = field(default_factory=dict)  # over all processes
    rests: bool = False

    fenced_by = stands_for("process")
    gate = stands_for("app")
    claims = True


@dataclass(slots=True)
class ForgetRuns(Request[int]):
    """Give back runs that this process owns without knowing it: claims whose answer was lost with the connection."""

    process: str
    known: frozenset[str]

    fenced_by = stands_for("process")

    def readies(self) -> Ready | None:
        return ANYTHING

    def gives_back(self) -> bool:
        return True

    def tell(self, result: int, others: Others) -> None:
        others.all = others.all or bool(result)


# When to look again for a run that must run alone while another process locks its row.
ANOTHER_HAS_IT: Microseconds = 50_000
NO_LIMIT = Limit()


def claim_runs(now: int | None, requests: Sequence[ClaimRuns]) -> Transaction[list[Claimed]]:
    results = []
    for request in requests:
        claimed = yield from _claim(now, request)
        results.append(claimed)
    return results


def _claim(now: int | None, request: ClaimRuns) -> Transaction[Claimed]:
    """1. Skip paused agents; of halted ones, claim only runs that a person cancelled, to undo their effects. 2. A run that was in flight in two crashed processes must run alone: it is claimed when nothing else runs
    here. 3. Claim the due runs of each agent, within its limits and the fair share of this process. 4. Load the steps and effects of
    runs that have run before. 5. Find out when to look again.
    """
    app = request.app
    facts = yield from read_facts(now, app)
    failing = frozenset(facts.failing)
    open_to = {agent: most for agent, most in request.wanted.agents if not facts.is_paused(agent)}
    halted = {agent: open_to.pop(agent) for agent in [*open_to] if facts.is_halted(agent)} if facts.halted else {}
    aparts = (yield from read_aparts(request, [*open_to, *halted])) if facts.versions else {}
    rooms = yield from open_rooms(now, request, open_to, facts)
    solo = sorted(
        agent for agent in open_to if agent in facts.alone and (agent not in rooms or rooms[agent].runs() > 0)
    )
    alone = bool(solo) and request.wanted.alone
    states: dict[str, StateRead] = {}
    asked, left = request.wanted.agents, frozenset[str]()
    if alone:
        rows = yield from _take_alone(now, request, solo[0], rooms, states, aparts.get(solo[0]))
    else:
        parts, asked, left = yield from _parts(now, request, open_to, rooms, aparts)
        rows = yield from _take_all(now, request, parts, rooms, states, aparts)
        if halted:
            rows += yield from _take_to_undo(now, request, halted, aparts)
    claims = [_claim_of(row, request) for row in rows]
    for claim in claims:
        claim.app = app
        claim.state = states.get(claim.agent)
        if claim.agent in aparts:
            claim.went_back = claim.version in aparts[claim.agent].newer
    yield from load_gathered(claims)
    yield from load_states_of_keys([claim for claim in claims if claim.agent in request.keeps_by_key])
    claims.sort(key=lambda claim: claim.created_at)
    yield from _load(claims)
    if facts.rates:
        yield from lift_rates(now, app, open_to, facts)
    if alone:
        if claims:
            return Claimed(claims, [], None, solo_waiting=False, failing=failing)
        return Claimed([], request.wanted.agents, ANOTHER_HAS_IT, solo_waiting=True, alone=True, failing=failing)
    short = [
        agent
        for agent, most in asked
        if agent in halted
        or (agent in open_to and (agent in request.serial or most > sum(claim.agent == agent for claim in claims)))
    ]
    waits = (yield "next_due", [(now, app, agent) for agent in short]) if short else []
    delays = [row[0] for row in waits if row[0] is not None]
    if rooms:
        delays += yield from until_more_may_start(now, app, rooms)
    return Claimed(claims, asked, min(delays) if delays else None, solo_waiting=bool(solo), left=left, failing=failing)


def _parts(
    now: int | None,
    request: ClaimRuns,
    open_to: Mapping[str, int],
    rooms: Mapping[str, ClaimRoom],
    aparts: Mapping[str, Apart],
) -> Transaction[tuple[dict[str, int], Sequence[tuple[str, int]], frozenset[str]]]:
    """How many runs to claim of each agent; the wants that this covers; and the agents of which some runs are left to other processes."""
    parts = {agent: min(most, rooms[agent].runs()) if agent in rooms else most for agent, most in open_to.items()}
    left = yield from fair_shares(now, request, parts, rooms)
    asked, room = request.wanted.agents, request.wanted.room
    if room is not None and len(parts) > 1:
        peeked = [(now, request.app, agent, part) for agent, part in parts.items() if part]
        due = yield from _for_each(peeked, aparts, "peek_due")
        due.sort(key=lambda row: row[1])
        there = Counter(row[0] for row in due)
        chosen = Counter(row[0] for row in due[:room])
        parts = {agent: chosen[agent] for agent in parts}
        # An agent with more due runs than there is room for stays wanted.
        asked = [(agent, chosen[agent] if chosen[agent] < there[agent] else most) for agent, most in asked]
    return parts, asked, left


def _take_all(
    now: int | None,
    request: ClaimRuns,
    parts: Mapping[str, int],
    rooms: Mapping[str, ClaimRoom],
    states: dict[str, StateRead],
    aparts: Mapping[str, Apart],
) -> Transaction[list[Row]]:
    """Agents without a limit in one query, the limited ones one by one, and those with a state last."""
    wanted = {agent: most for agent, most in parts.items() if most > 0}
    free = [
        (now, request.app, agent, most, request.process, request.versions.get(agent))
        for agent, most in wanted.items()
        if agent not in request.serial and agent not in rooms
    ]
    rows = yield from _for_each(free, aparts, "claim_runs")
    for agent in sorted(wanted):
        if agent in rooms and agent not in request.serial:
            rows += yield from take(now, request, agent, wanted[agent], rooms[agent], aparts.get(agent))
    for agent in sorted(wanted):
        if agent in request.serial:
            room = rooms.get(agent) or ClaimRoom()
            found, states[agent] = yield from claim_serial(now, request, agent, room, aparts.get(agent))
            rows += found
    return rows


def _take_to_undo(
    now: int | None, request: ClaimRuns, halted: Mapping[str, int], aparts: Mapping[str, Apart]
) -> Transaction[list[Row]]:
    """Limits do not count: the handler is not executed. A run that must run alone waits until the halt is lifted."""
    asked = [
        (now, request.app, agent, most, request.process, request.versions.get(agent))
        for agent, most in halted.items()
        if most > 0
    ]
    return (yield from _for_each(asked, aparts, "claim_to_undo"))


def _for_each(asked: Sequence[Row], aparts: Mapping[str, Apart], query: str) -> Transaction[list[Row]]:
    """Run a query for several agents (the third value of each row): one call for all, another for those with versions to leave out."""
    plain = [one for one in asked if one[2] not in aparts] if aparts else asked
    rows: list[Row] = list((yield query, plain) if plain else [])
    if aparts:
        others = [(*one, *aparts[one[2]].parameters) for one in asked if one[2] in aparts]
        rows += (yield f"{query}_apart", others) if others else []
    return rows


def _take_alone(
    now: int | None,
    request: ClaimRuns,
    agent: str,
    rooms: Mapping[str, ClaimRoom],
    states: dict[str, StateRead],
    apart: Apart | None,
) -> Transaction[list[Row]]:
    app = request.app
    mine = (now, app, agent, request.process, request.versions.get(agent))
    rows: list[Row]
    if apart is None:
        rows = yield "claim_solo", [mine]
    else:
        rows = yield "claim_solo_apart", [(*mine, *apart.parameters)]
    if rows and agent in rooms:
        yield from note_starts(now, app, rows, rooms[agent])
    if rows and agent in request.serial:
        states[agent] = yield from _state_of_solo(app, agent, rows)
    return rows


def _load(claims: Sequence[Claim]) -> Transaction[None]:
    """Load the steps of runs that have run before, and the effects and deliveries of their families."""
    again = [claim for claim in claims if not claim.first_start]
    if again:
        steps = yield "load_steps", [(claim.seq,) for claim in again]
        for claim in again:
            claim.steps = [Step(*row[1:]) for row in steps if row[0] == claim.seq]
    related = [claim for claim in claims if not claim.first_start or claim.root != claim.id]
    if related:
        effects = yield "load_effects", [(root,) for root in sorted({claim.root for claim in related})]
        for claim in related:
            claim.effects = [effect_of(row) for row in effects if row[0] == claim.root]
        sent = yield "load_sent", [(root,) for root in sorted({claim.root for claim in related})]
        for claim in related:
            claim.sent = frozenset(row[1] for row in sent if row[0] == claim.root)


def _claim_of(row: Sequence[object], request: ClaimRuns) -> Claim:
    seq, identifier, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at = row[:11]
    envelope, data, committed, key, gathered, version, parent_seq, parent_key, cancel_by, cancel_note, output = row[11:]
    return Claim(
        seq,  # type: ignore[arg-type]  # columns of a row have no types
        identifier,  # type: ignore[arg-type]
        root,  # type: ignore[arg-type]
        agent,  # type: ignore[arg-type]
        token,  # type: ignore[arg-type]
        request.process,
        attempts,  # type: ignore[arg-type]
        crashes,  # type: ignore[arg-type]
        created_at,  # type: ignore[arg-type]
        started_at,  # type: ignore[arg-type]
        claimed_at,  # type: ignore[arg-type]
        token == 1,
        expires_at,  # type: ignore[arg-type]
        envelope,  # type: ignore[arg-type]
        data,  # type: ignore[arg-type]
        None if committed is None else RunOutcome(**from_json(committed)),  # type: ignore[arg-type]
        key=key,  # type: ignore[arg-type]
        gathered=gathered,  # type: ignore[arg-type]
        version=version,  # type: ignore[arg-type]
        parent=None if parent_seq is None else (parent_seq, parent_key),  # type: ignore[arg-type]
        cancelled=None if cancel_by is None else (cancel_by, cancel_note),  # type: ignore[arg-type]
        limited=request.limits.get(agent, NO_LIMIT).concurrency is not None,  # type: ignore[call-overload]
        output=output,  # type: ignore[arg-type]
    )


def _state_of_solo(app: str, agent: str, rows: Sequence[Row]) -> Transaction[StateRead]:
    """A run that was in flight in two crashed processes already holds the state of its agent."""
    value, version, _ = (yield "take_state", [(app, agent)])[0]
    yield "hold_state", [(app, agent, rows[0][0])]
    return StateRead(value, version)


def forget_runs(now: int | None, requests: Sequence[ForgetRuns]) -> Transaction[list[int]]:
    results = []
    for request in requests:
        rows = yield "runs_of_process", [(request.process,)]
        unknown = sorted(row[0] for row in rows if row[0] not in request.known)
        if unknown:
            yield "forget_run", [(now, run, request.process) for run in unknown]
        results.append(len(unknown))
    return results
