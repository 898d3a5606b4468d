"""claim: due runs get an owner and a new token."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.model import Claim, Outcome, StateRead, Step
from wakeful.stores.base import Claimed, ClaimRuns, ForgetRuns, Row, Transaction
from wakeful.stores.verbs.effects import effect_of
from wakeful.stores.verbs.gathered import load_gathered
from wakeful.stores.verbs.state import claim_serial, load_states_of_keys

# When to look again for a run that must go alone, and whose row another process is just holding.
SOMEBODY_HAS_IT: Microseconds = 50_000


def claim_runs(now: int | None, requests: Sequence[ClaimRuns]) -> Transaction[list[Claimed]]:
    results = []
    for request in requests:
        claimed = yield from _claim(now, request)
        results.append(claimed)
    return results


def _claim(now: int | None, request: ClaimRuns) -> Transaction[Claimed]:
    """1. A run that took two processes with it goes alone: it is taken when nothing else runs here.
    2. The due runs of each agent with room. 3. Their steps, if they have run before. 4. When to look again.
    """
    app, process = request.app, request.process
    agents = {agent for agent, _ in request.wanted}
    dangerous = yield "solo_agents", [(now, app)]
    solo = sorted(agents & {row[0] for row in dangerous})
    alone = bool(solo) and request.solo()
    states: dict[str, StateRead] = {}
    if alone:
        rows = yield "claim_solo", [(now, app, solo[0], process, request.versions.get(solo[0]))]
        if solo[0] in request.serial and rows:
            states[solo[0]] = yield from _state_of_solo(app, solo[0], rows)
    else:
        free = [
            (now, app, agent, most, process, request.versions.get(agent))
            for agent, most in request.wanted
            if agent not in request.serial
        ]
        rows = (yield "claim_runs", free) if free else []
        for agent in sorted(agents & request.serial):
            found, states[agent] = yield from claim_serial(now, app, agent, process, request.versions.get(agent))
            rows = [*rows, *found]
    claims = [_claim_of(row, process) for row in rows]
    for claim in claims:
        claim.app = app
        claim.state = states.get(claim.agent)
    yield from load_gathered(claims)
    yield from load_states_of_keys([claim for claim in claims if claim.agent in request.keeps_by_key])
    claims.sort(key=lambda claim: claim.created_at)
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
    if alone:
        if claims:
            return Claimed(claims, [], None, solo_waiting=False)
        return Claimed([], request.wanted, SOMEBODY_HAS_IT, solo_waiting=True, alone=True)
    short = [
        agent
        for agent, most in request.wanted
        if agent in request.serial or most > sum(claim.agent == agent for claim in claims)
    ]
    waits = (yield "next_due", [(now, app, agent) for agent in short]) if short else []
    delays = [row[0] for row in waits if row[0] is not None]
    return Claimed(claims, request.wanted, min(delays) if delays else None, solo_waiting=bool(solo))


def _claim_of(row: Sequence[object], process: str) -> Claim:
    seq, identifier, root, agent, token, attempts, crashes, created_at, started_at, claimed_at, expires_at = row[:11]
    envelope, data, committed, key, gathered, version, parent_seq, parent_key, cancel_by, cancel_note, output = row[11:]
    return Claim(
        seq,  # type: ignore[arg-type]  # columns of a row have no types
        identifier,  # type: ignore[arg-type]
        root,  # type: ignore[arg-type]
        agent,  # type: ignore[arg-type]
        token,  # type: ignore[arg-type]
        process,
        attempts,  # type: ignore[arg-type]
        crashes,  # type: ignore[arg-type]
        created_at,  # type: ignore[arg-type]
        started_at,  # type: ignore[arg-type]
        claimed_at,  # type: ignore[arg-type]
        token == 1,
        expires_at,  # type: ignore[arg-type]
        envelope,  # type: ignore[arg-type]
        data,  # type: ignore[arg-type]
        None if committed is None else Outcome(**from_json(committed)),  # type: ignore[arg-type]
        key=key,  # type: ignore[arg-type]
        gathered=gathered,  # type: ignore[arg-type]
        version=version,  # type: ignore[arg-type]
        parent=None if parent_seq is None else (parent_seq, parent_key),  # type: ignore[arg-type]
        cancelled=None if cancel_by is None else (cancel_by, cancel_note),  # type: ignore[arg-type]
        output=output,  # type: ignore[arg-type]
    )


def _state_of_solo(app: str, agent: str, rows: Sequence[Row]) -> Transaction[StateRead]:
    """A run that was in flight in two processes that died has the state of its agent already."""
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
