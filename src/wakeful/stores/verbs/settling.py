"""A person's word about an effect: which results fit, and a correction of one that was given before.

    held ──► confirmed with a result ──► nothing later is stored: it may be corrected
                                    └──► the run went on with it: it stands

What a run stores after it has read the result may follow from it. So the set of all that its family had stored is noted by a
digest when the result is given; a correction compares it, while no run of the family can be claimed.
"""

from __future__ import annotations

from hashlib import blake2b

from wakeful.model import Effect
from wakeful.stores.base import Settled, SettleEffect, Transaction


def unfit(request: SettleEffect) -> Transaction[str | None]:
    """Why the result does not fit what the action returns. None if it does, or if nothing is known of that."""
    if request.state != "confirmed" or request.refuse is None:
        return None
    for returns, staged in (yield "result_wanted", [(request.id,)]):
        if returns is not None and not (staged and request.result is None):  # no handler reads what was staged
            return request.refuse(returns, request.result)
    return None


def note_stored(effect: str, root: str) -> Transaction[None]:
    digest = yield from _digest(root)
    yield "note_stored_before", [(effect, digest)]


def correct(now: int | None, request: SettleEffect, effect: Effect, root: str, run: str) -> Transaction[Settled]:
    """Give another result to an effect that a person confirmed before, while its run has not gone on with the first one."""
    family = yield "lock_family_of_effect", [(root,)]
    before = yield "stored_before", [(request.id,)]
    running = [identifier for identifier, state in family if state == "running"]
    if running:
        words = (
            f"run {running[0]} is running with the result that {effect.settled_by} gave. Once it has ended without storing "
            "anything more, the result can be corrected"
        )
        return Settled(effect, run, first=False, refused=words)
    if not before or before[0][0] != (yield from _digest(root)):
        words = f"run {run} went on with the result that {effect.settled_by} gave, and stored more: it stands"
        return Settled(effect, run, first=False, refused=words)
    if effect.once is not None:
        yield "lock_keys_of_effect", [(effect.id,)]  # a run that asks for the same key waits until this is committed
        for (other,) in (yield "follower_that_has", [(effect.id,)]):
            words = f"run {other} has the same key and got the result that {effect.settled_by} gave: it stands"
            return Settled(effect, run, first=False, refused=words)
    yield "correct_effect", [(now, request.id, request.result, request.by.name, request.note)]
    effect.result, effect.settled_by, effect.note = request.result, request.by.name, request.note
    return Settled(effect, run, first=True, corrected=True)


def _digest(root: str) -> Transaction[str]:
    stored = yield "stored_of_family", [(root,)]
    return blake2b("\n".join(sorted(row[0] for row in stored)).encode(), digest_size=13).hexdigest()
