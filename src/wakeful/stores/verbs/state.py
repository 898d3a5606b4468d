"""The state of an agent: which run holds it, and changes by people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.model import Claim, StateRead
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.limits import ClaimRoom, note_starts, take
from wakeful.stores.verbs.versions import Apart

if TYPE_CHECKING:
    from wakeful.stores.verbs.claim import ClaimRuns


@dataclass(slots=True)
class ChangeState(ByPerson[int]):
    """A person sets or clears (None) an agent's state. A run that has read it is retried with the new one. Returns the new version."""

    app: str
    agent: str
    key: str
    value: str | None

    def audit(self, _: int) -> Audit | None:
        return Audit("state clear" if self.value is None else "state set", self.app, self.agent, self.note)


# A run in one of these states still holds the agent's state that it took, and will continue without a person.
KEEPS = frozenset({"ready", "running", "waiting"})


def claim_serial(
    now: int | None, request: ClaimRuns, agent: str, room: ClaimRoom, apart: Apart | None = None
) -> Transaction[tuple[list[Row], StateRead]]:
    """The next run of a serial agent, if one may run now, with the state. The row of the state is locked, so that two processes do not
    both see it free. If no run may start, this writes nothing: on a SQLite file, a write wakes all other processes, whose claims
    would then wake this one.
    """
    app = request.app
    holding = yield "holding_run", [(now, app, agent)]
    may_go = (
        bool(holding[0][0])
        if holding
        else room.first_starts() > 0 and bool((yield "due_of_agent", [(now, app, agent)]))
    )
    if may_go and apart is not None:
        asked = (now, app, agent) if holding else (now, app, agent, 1)
        due = yield "holder_due_apart" if holding else "peek_due_apart", [(*asked, *apart.parameters)]
        may_go = bool(due)
    if not may_go:
        return [], StateRead(None, 0)
    value, version, holder = (yield "take_state", [(app, agent)])[0]
    kept = (yield "state_of_run", [(holder,)]) if holder is not None else []
    if kept and kept[0][0] in KEEPS:
        mine = (now, holder, request.process, request.versions.get(agent))
        if apart is None:
            rows = yield "claim_one", [mine]
        else:
            rows = yield "claim_one_apart", [(*mine, *apart.parameters)]
        yield from note_starts(now, app, rows, room)
    else:
        rows = yield from take(now, request, agent, 1, room, apart)
        if rows:
            yield "hold_state", [(app, agent, rows[0][0])]
    return rows, StateRead(value, version)


def load_states_of_keys(claims: Sequence[Claim]) -> Transaction[None]:
    """Load the agent's state for the keys of these runs. A key allows one run at a time, so no other run holds it."""
    of = {(claim.agent, claim.key): claim for claim in claims if claim.key is not None}
    wanted = sorted((claim.app, *place) for place, claim in of.items())
    for agent, key, value, version in (yield "state_of_key", wanted) if wanted else []:
        of[agent, key].state = StateRead(value, version)


def change_states(now: int | None, requests: Sequence[ChangeState]) -> Transaction[list[int]]:
    results = []
    for one in requests:
        rows = yield "change_state", [(now, one.app, one.agent, one.key, one.value, one.by.name)]
        results.append(rows[0][0])
    return results
