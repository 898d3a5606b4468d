"""The checks of a judgement inside the transaction that begins an effect or a run: halts, the policy in force, and the uses of counted
rules. One query of each kind serves all requests of the transaction.

    judged before the transaction, by one version of the policy
          │
          ├─ a person halted its app, agent or action ──► Halted: nothing is written, the run is parked
          ├─ another version is in force now ──► PolicyMoved: nothing is written, the caller judges again
          ├─ a rule with `over`, beyond its count ──► its answer joins the others, and the strictest wins
          ├─ asked, and a person has granted it ──► allowed, and the use of the grant is counted
          └─ allowed ──► the uses are counted, together with the effect

On PostgreSQL these transactions pass the gate of their app, and a halt or a new policy shuts it: once `policy apply` has returned, no
effect begins that was judged by another version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.errors import NotBegun, PolicyMoved
from wakeful.model import Decision
from wakeful.policy.judgement import Judgement
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.grants import served
from wakeful.stores.verbs.halts import Place, halted_of, stopped_by


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement, the app it belongs to, and the name of the use that counts: an effect, or an event and its agent. `halts`: the agent
    and the action by which a halt stops it; None: no halt does.
    """

    app: str
    judgement: Judgement
    use: str
    halts: tuple[str, str] | None = None


Final = Decision | NotBegun
Watched = dict[int, tuple[Decision, ...]]
Beyond = dict[int, list[str]]  # the counted rules of each judgement that are beyond their count
Counter = tuple[str, str, str, Microseconds]  # app, rule, subject, span


def final_decisions(
    now: int | None, judged: Mapping[int, Judged]
) -> Transaction[tuple[dict[int, Final], Watched, Beyond]]:
    """The decision of each judgement, with what only the transaction knows, the decisions of rules that only watch, and the counted
    rules that apply. Halted if a halt stops it, PolicyMoved if it was judged by a policy that is not in force.
    """
    if not judged:
        return {}, {}, {}
    found = yield "standing_of_app", [(app,) for app in sorted({one.app for one in judged.values()})]
    in_force = {app: version for app, kind, version, _ in found if kind == "policy"}
    halts = {(app, agent, action) for app, kind, agent, action in found if kind == "halt"}
    results: dict[int, Final] = {}
    if halts:
        results |= yield from _halted(judged, halts)
    for number, one in judged.items():
        if number in results:
            continue
        version = in_force.get(one.app)
        if one.judgement.version != version:
            results[number] = PolicyMoved(one.app, version)
    left = {number: one for number, one in judged.items() if number not in results}
    over = yield from beyond(now, {number: one for number, one in left.items() if one.judgement.counted})
    watched: Watched = {}
    for number, one in left.items():
        results[number] = one.judgement.final(over.get(number, ()))
        if watching := one.judgement.watching(over.get(number, ())):
            watched[number] = watching
    results |= yield from served(now, left, results)
    return results, watched, over


def _halted(judged: Mapping[int, Judged], halts: Collection[Place]) -> Transaction[dict[int, Final]]:
    stopped = {
        number: place
        for number, one in judged.items()
        if one.halts is not None and (place := stopped_by(halts, one.app, one.halts)) is not None
    }
    return {**(yield from halted_of(stopped))}


def beyond(now: int | None, counting: Mapping[int, Judged]) -> Transaction[Beyond]:
    """The counted rules of each judgement that are beyond their count. Uses of this transaction count for those after them."""
    if not counting:
        return {}
    counters: set[Counter] = {
        (one.app, counted.rule, counted.subject, counted.within)
        for one in counting.values()
        for counted in one.judgement.counted
    }
    ordered = sorted(counters)
    yield "lock_policy_counter", [counter[:3] for counter in ordered]
    over: dict[int, list[str]] = {}
    uses: dict[tuple[str, str, str], set[str]] = {counter[:3]: set() for counter in ordered}
    for app, rule, subject, use in (yield "uses_of_rule", [(now, *counter) for counter in ordered]):
        uses[app, rule, subject].add(use)
    for number, one in counting.items():
        beyond = [
            counted.rule
            for counted in one.judgement.counted
            if len(uses[one.app, counted.rule, counted.subject] - {one.use}) >= counted.most
        ]
        over[number] = beyond
        if one.judgement.final(beyond).answer == "allow":
            for counted in one.judgement.counted:
                uses[one.app, counted.rule, counted.subject].add(one.use)
    return over


def note_uses(now: int | None, judged: Sequence[Judged]) -> Transaction[None]:
    """Count what begins now for its counted rules, and forget uses that are too old to count."""
    counted = {
        (one.app, rule.rule, rule.subject, rule.within, one.use) for one in judged for rule in one.judgement.counted
    }
    if counted:
        counters = sorted({row[:4] for row in counted})
        yield "forget_uses_of_rule", [(now, *counter) for counter in counters]
        yield "note_use_of_rule", [(now, *row[:3], row[4]) for row in sorted(counted)]


def stored_mode(decision: Decision) -> str | None:
    """The column `mode` of a decision: null if it is applied, as in rows of older versions."""
    return None if decision.mode == "enforce" else decision.mode
