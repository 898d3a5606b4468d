"""Grants: a person says yes in advance to effects that a rule would ask about.

    judged: ask ──► grants whose agent, action and condition fit, found before the transaction
                 ──► in it, one of them is locked, live and not used up ──► allow, by "grant ID by NAME"
                                                                         └─► the use is counted, together with the effect

An effect counts once for a grant: a call that is made again finds its use. A grant that is revoked or expired serves nothing from
then on, not even a call that is made again. Denials and holds are not served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.clock import Microseconds
from wakeful.model import Decision
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Fetcher, Transaction

if TYPE_CHECKING:
    from wakeful.stores.verbs.standing import Judged


class Granted(NamedTuple):
    """An effect that begins by a grant, and the row of its decision."""

    grant: str
    effect: str
    decision: tuple[object, ...]


@dataclass(slots=True)
class AddGrant(ByPerson[bool]):
    """A person allows effects in advance. Returns whether it is new: the same request, repeated, changes nothing."""

    id: str
    app: str
    agent: str  # '': any
    action: str  # '': any
    condition: str | None
    expires_at: Microseconds
    most: int

    def audit(self, result: bool) -> Audit | None:
        return Audit("grants add", self.app, self.id, self.note) if result else None


@dataclass(slots=True)
class RevokeGrant(ByPerson[bool]):
    """A person takes a grant back. From the commit on it serves nothing. Returns whether it was not revoked before."""

    id: str
    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("grants revoke", self.app, self.id, self.note) if result else None


def add_grants(now: int | None, requests: Sequence[AddGrant]) -> Transaction[list[bool]]:
    results = []
    for one in requests:
        row = (one.id, one.app, one.agent, one.action, one.condition, one.expires_at, one.most, one.by.name, one.note)
        results.append(bool((yield "insert_grant", [(now, *row)])))
    return results


def revoke_grants(now: int | None, requests: Sequence[RevokeGrant]) -> Transaction[list[bool]]:
    """In order of id, because the rows are locked."""
    results: dict[int, bool] = {}
    for number in sorted(range(len(requests)), key=lambda one: requests[one].id):
        results[number] = bool((yield "revoke_grant", [(now, requests[number].id, requests[number].by.name)]))
    return [results[number] for number in range(len(requests))]


def served(
    now: int | None, judged: Mapping[int, Judged], decisions: Mapping[int, Any]
) -> Transaction[dict[int, Decision]]:
    """The decisions that were "ask" and that a grant turns into "allow". The grants stay locked until the commit, and serve no more
    effects of this transaction than they have uses left.
    """
    asked = {
        number: one
        for number, one in judged.items()
        if one.judgement.grants and isinstance(decisions[number], Decision) and decisions[number].answer == "ask"
    }
    if not asked:
        return {}
    grants = sorted({grant for one in asked.values() for grant in one.judgement.grants})
    rows = yield "lock_grant", [(now, grant) for grant in grants]
    live = {row[0]: row[1] for row in rows if row[3]}
    left = {row[0]: row[2] for row in rows}
    pairs = sorted({(grant, one.use) for one in asked.values() for grant in one.judgement.grants if grant in live})
    used = {(row[0], row[1]) for row in ((yield "use_of_grant", pairs) if pairs else [])}
    found: dict[int, Decision] = {}
    for number, one in asked.items():
        fitting = [grant for grant in one.judgement.grants if grant in live]
        grant = next((grant for grant in fitting if (grant, one.use) in used), None)
        if grant is None and (grant := next((grant for grant in fitting if left[grant] > 0), None)) is not None:
            left[grant] -= 1
            used.add((grant, one.use))
        if grant is not None:
            reason = f"grant {grant} by {live[grant]}"
            found[number] = replace(decisions[number], answer="allow", reason=reason, grant=grant)
    return found


def note_grants(now: int | None, granted: Sequence[Granted]) -> Transaction[None]:
    """Count effects that begin now by a grant, each once. Its decision is stored with the first use."""
    rows = {(one.grant, one.effect): one.decision for one in granted}
    new = yield "insert_grant_use", [(now, *place) for place in sorted(rows)]
    first = sorted((row[0], row[1]) for row in new)
    if first:
        yield "count_grant_use", [(grant,) for grant, _ in first]
        yield "insert_run_decision", [rows[place] for place in first]


async def grants_for(database: Fetcher, app: str, agent: str, action: str) -> list[tuple[str, str | None]]:
    """The live grants for an agent and an action: the id and the condition of each."""
    rows = await database.fetch("grants_for", database.read_clock(), app, agent, action)
    return [(row[0], row[1]) for row in rows]
