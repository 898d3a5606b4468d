"""Effects that follow the one which has their business key (see `operation_keys.py`), and the runs that wait with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wakeful.model import EffectState
from wakeful.stores.base import LeaveRun, Transaction
from wakeful.stores.verbs.waits import Woken, wake

CERTAINLY_NOT_DONE = frozenset({"failed", "undone"})
NOT_BEGUN = frozenset({"staged", "retrying"})
OVER = frozenset({"dead", "denied", "cancelled"})


class Holder(NamedTuple):
    """The effect that has a key, and its run."""

    id: str
    state: EffectState
    settled_by: str | None
    note: str | None
    result: str | None
    arguments: str
    run: str
    run_state: str

    def is_free(self, *, expired: bool) -> bool:
        """May another effect have the key? Only if this one was certainly not done, or its time is over."""
        if self.state in CERTAINLY_NOT_DONE or (self.state == "abandoned" and self.settled_by is None):
            return True
        if self.state in NOT_BEGUN and self.run_state in OVER:
            return True
        return expired and self.state in {"confirmed", "abandoned"}


def done_by(holder: Holder, arguments: str) -> str:
    """In words, whose result it is. Other arguments under the same key are said, because they were not used."""
    other = "" if arguments == holder.arguments else ", with other arguments"
    return f"once: done by run {holder.run}{other}"


def tell_followers(now: int | None, effect: str) -> Transaction[Woken]:
    """Followers of a confirmed effect have its result; those of another look again who has the key. Their runs go on."""
    followers = yield "followers_of", [(effect,)]
    found = (yield "holder_of_key", [(effect,)]) if followers else []
    if not found:
        return []
    holder = Holder(*found[0])
    if holder.state == "confirmed":
        yield (
            "answer_follower",
            [(now, follower, holder.id, holder.result, done_by(holder, text)) for follower, _, text in followers],
        )
    yield "forget_followers", [(effect,)]
    woken: Woken = []
    for run in sorted({row[1] for row in followers}):
        woken += yield from wake(now, run, f"run {holder.run}, which had the key, is done with it")
    return woken


def lock_followed(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Before runs that follow effects are put away: an end that comes at the same time waits, or was before us."""
    holders = sorted({holder for request in requests for holder in request.follows})
    yield "lock_keys_of_effect", [(holder,) for holder in holders]


def wake_if_over(now: int | None, requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Runs that were just put away, and of which an effect that they follow is over: they go on at once."""
    for request in requests:
        if request.state != "waiting" or request.error is not None or not request.follows:
            continue
        still = yield "holders_not_over", [(holder,) for holder in sorted(set(request.follows))]
        if len(still) < len(set(request.follows)):
            request.woken = [
                *request.woken,
                *(yield from wake(now, request.claim.seq, "what it waits for is over already")),
            ]
