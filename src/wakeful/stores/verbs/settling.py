"""A person settles an effect: which results are accepted, and how a given result is corrected.

    held ──► confirmed with a result ──► nothing later is stored: it may be corrected
                                    └──► the run went on with it: it stays

Everything that a run stores after it has read the result may depend on it. So a digest of all that its family has stored is recorded when
the result is given. A correction compares it, while no run of the family can be claimed.

In a strict store a run is held if no stored decision explains the state of an effect: an older version settled it, or its state was
changed in the database. Both leave the same row. So a person settles the effect anew, and the run resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from wakeful.model import Effect
from wakeful.stores.judging import Judge
from wakeful.stores.notes import unsettled
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.tampered import held_for_tampering
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.consent import yes_to_repeat
from wakeful.stores.verbs.effects import effect_of
from wakeful.stores.verbs.followers import tell_followers
from wakeful.stores.verbs.held import HeldRun, resolve_held


@dataclass(slots=True)
class Settled:
    """The result. `first`: this answer was the first and counts. `refused`: why a result was not accepted."""

    effect: Effect
    run: str
    first: bool
    refused: str | None = None
    unfit: bool = False  # refused because it does not match the action's result type
    corrected: bool = False
    anew: bool = False  # no stored decision explained the state that it had


# The verb of a person's answer, by the state that it gives the effect.
SAYS = {"confirmed": "confirm", "retrying": "repeat", "abandoned": "abandon"}


@dataclass(slots=True)
class SettleEffect(ByPerson[Settled | None]):
    """A person settles a held effect; the first answer counts. Its run resumes once no effect of it is held. The result of a confirmed
    effect can be corrected until its run has stored anything more. An effect whose run is held because no decision explains the
    effect's state is settled anew. None if there is no such effect.

    `refuse` is called in the same transaction with the JSON schema of the action's result; it returns why a result does not match, or None.
    """

    id: str
    state: Literal["confirmed", "retrying", "abandoned"]
    result: str | None = None
    refuse: Judge[[str, str | None], str | None] | None = None

    def audit(self, result: Settled | None) -> Audit | None:
        if result is None or not result.first:
            return None
        word = "correct the result" if result.corrected else SAYS[self.state] + (" anew" if result.anew else "")
        return Audit("effects", None, self.id, f"{word}: {self.note}" if self.note else word)


SETTLED_BY_PEOPLE = frozenset({"held", "intent", "unknown"})


def unfit(request: SettleEffect) -> Transaction[str | None]:
    """Why the result does not match the action's result type. None if it does, or if the type is not known."""
    if request.state != "confirmed" or request.refuse is None:
        return None
    for returns, staged in (yield "result_wanted", [(request.id,)]):
        if returns is not None and not (staged and request.result is None):  # no handler reads a staged effect's result
            return request.refuse(returns, request.result)
    return None


def note_stored(effect: str, root: str) -> Transaction[None]:
    digest = yield from _digest(root)
    yield "note_stored_before", [(effect, digest)]


def correct(now: int | None, request: SettleEffect, effect: Effect, root: str, run: str) -> Transaction[Settled]:
    """Replace the result that a person gave before, if the run has not gone on with the first one."""
    family = yield "lock_family_of_effect", [(root,)]
    before = yield "stored_before", [(request.id,)]
    running = [identifier for identifier, state in family if state == "running"]
    if running:
        words = (
            f"run {running[0]} is running with the result that {effect.settled_by} gave. If it ends without storing "
            "anything more, the result can be corrected"
        )
        return Settled(effect, run, first=False, refused=words)
    if not before or before[0][0] != (yield from _digest(root)):
        words = f"run {run} went on with the result that {effect.settled_by} gave and stored more: it can no longer be corrected"
        return Settled(effect, run, first=False, refused=words)
    if effect.once is not None:
        yield "lock_keys_of_effect", [(effect.id,)]  # a run that asks for the same key waits for this commit
        for (other,) in (yield "follower_that_has", [(effect.id,)]):
            words = f"run {other} has the same key and got the result that {effect.settled_by} gave: it can no longer be corrected"
            return Settled(effect, run, first=False, refused=words)
    yield "correct_effect", [(now, request.id, request.result, request.by.name, request.note)]
    effect.result, effect.settled_by, effect.note = request.result, request.by.name, request.note
    return Settled(effect, run, first=True, corrected=True)


def _digest(root: str) -> Transaction[str]:
    stored = yield "stored_of_family", [(root,)]
    return blake2b("\n".join(sorted(row[0] for row in stored)).encode(), digest_size=13).hexdigest()


def settle_effects(now: int | None, requests: Sequence[SettleEffect]) -> Transaction[list[Settled | None]]:
    """Store a person's answer, and resume the run unless another of its effects is held. A result that does not match is refused; a given
    one can be corrected.
    """
    results: list[Settled | None] = []
    for one in requests:
        settled = yield from _settle(now, one)
        results.append(settled)
    return results


def _settle(now: int | None, one: SettleEffect) -> Transaction[Settled | None]:
    found = yield "find_effect", [(one.id,)]
    if not found:
        return None
    root, effect, run = found[0][0], effect_of(found[0]), found[0][-1]
    anew = unsettled(effect) is not None and (yield from _is_held_for_tampering(root))
    if anew:  # no run of the family can be claimed, and no other person settles it at the same time
        effect = effect_of((yield "find_effect", [(one.id,)])[0])
        anew = unsettled(effect) is not None
    again = (
        not anew
        and effect.state == "confirmed"
        and effect.given
        and one.state == "confirmed"
        and one.result is not None
    )
    if effect.state in SETTLED_BY_PEOPLE or again or anew:
        refused = yield from unfit(one)
        if refused is not None:
            return Settled(effect, run, first=False, refused=refused, unfit=True)
    if again:
        return (yield from correct(now, one, effect, root, run))
    holder = one.id if effect.undoes is None else effect.undoes
    keyed = yield "lock_keys_of_effect", [(holder,)]
    query = "settle_effect_anew" if anew else "settle_effect"
    settled = yield query, [(now, one.id, one.state, one.result, one.by.name, one.note, one.state)]
    if settled:
        if one.state == "confirmed":
            if effect.undoes is not None:
                yield "mark_undone", [(now, one.id, effect.undoes)]
            yield from note_stored(one.id, root)
        elif effect.given:
            yield "note_stored_before", [(one.id, None)]
            if effect.undoes is not None:  # the older version had marked it as undone
                yield "mark_not_undone", [(effect.undoes,)]
        if one.state == "retrying":
            yield from yes_to_repeat(now, effect, run, one.by, one.note)
        elif effect.approval is not None:
            yield "use_up_approvals", [(now, one.id)]
        if keyed:
            yield from tell_followers(now, holder)
        released = yield "release_held_runs", [(now, root)]
        ended = f"{one.state} by {one.by.name}" + (f": {one.note}" if one.note else "")
        yield from resolve_held(now, [HeldRun(row[3], *row[:3]) for row in released], ended)
    found = yield "find_effect", [(one.id,)]
    return Settled(effect_of(found[0]), run, first=bool(settled), anew=anew and bool(settled))


def _is_held_for_tampering(root: str) -> Transaction[bool]:
    """Whether a run of the family is held for tampering. The family stays locked until the commit."""
    family = yield "lock_reasons_of_family", [(root,)]
    return any(state == "held" and held_for_tampering(reason) for state, reason in family)
