"""Effects that follow the holder of their business key (see `operation_keys.py`), and the runs that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from wakeful.errors import CountedOn
from wakeful.model import EffectState, undo_of
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.waits import Woken, wake

if TYPE_CHECKING:
    from wakeful.stores.verbs.effects import OpenEffect
    from wakeful.stores.verbs.progress import LeaveRun

CERTAINLY_NOT_DONE = frozenset({"failed", "undone"})
UNDER_WAY = frozenset({"waiting", "intent", "retrying", "unknown", "held"})
NOT_BEGUN = frozenset({"staged", "waiting", "retrying"})
OVER = frozenset({"dead", "denied", "cancelled"})


class KeyHolder(NamedTuple):
    """The effect that holds a key, and its run."""

    id: str
    state: EffectState
    settled_by: str | None
    note: str | None
    result: str | None
    arguments: str
    run: str
    run_state: str
    undo: EffectState | None
    unsettled: int  # it awaited an approval, and no person settled it: if it is abandoned, it was not called

    @property
    def is_done(self) -> bool:
        """Whether it was done and is not being undone."""
        return self.state == "confirmed" and self.undo not in UNDER_WAY

    def is_free(self, *, expired: bool) -> bool:
        """Whether another effect may take the key: only if this one was certainly not done, or the key has expired."""
        never_called = self.settled_by is None or self.unsettled
        if self.state in CERTAINLY_NOT_DONE or (self.state == "abandoned" and never_called):
            return True
        if self.state in NOT_BEGUN and self.run_state in OVER:
            return True
        return expired and self.state in {"confirmed", "abandoned"}


def asked_of(effect: str) -> tuple[str, str]:
    """The parameters of `holder_of_key` and `holders_not_over`: an effect, and the effect that undoes it."""
    return effect, undo_of(effect)


def done_by(holder: KeyHolder, arguments: str) -> str:
    """A reason that names the run whose result this is. It mentions other arguments under the same key, because they were not used."""
    other = "" if arguments == holder.arguments else ", with other arguments"
    return f"once: done by run {holder.run}{other}"


def tell_followers(now: int | None, effect: str) -> Transaction[Woken]:
    """Give followers of a confirmed effect its result; followers of any other look again for the key's holder. Resume their runs."""
    followers = yield "followers_of", [(effect,)]
    found = (yield "holder_of_key", [asked_of(effect)]) if followers else []
    if not found:
        return []
    holder = KeyHolder(*found[0])
    if holder.is_done:
        yield (
            "answer_follower",
            [(now, follower, holder.id, holder.result, done_by(holder, text)) for follower, _, text in followers],
        )
    yield "forget_followers", [(effect,)]
    woken: Woken = []
    for run in sorted({row[1] for row in followers}):
        woken += yield from wake(now, run, f"run {holder.run}, which had the key, is done with it")
    return woken


def counted_on(now: int | None, requests: Sequence[OpenEffect]) -> Transaction[dict[int, CountedOn]]:
    """The requests, by number, that would undo an effect whose result another run has by its business key. The keys stay locked until
    the commit, so a run that asks later sees the undo.
    """
    keyed = sorted(
        (request.app, *request.undoes_key, number)
        for number, request in enumerate(requests)
        if request.undoes_key is not None
    )
    refused: dict[int, CountedOn] = {}
    for app, action, key, number in keyed:
        request = requests[number]
        yield "lock_operation_key", [(now, app, action, key)]
        if not (yield "find_effect", [(request.effect.id,)]):
            for (run,) in (yield "run_that_counts_on", [(request.effect.undoes, request.claim.seq)]):
                refused[number] = CountedOn(run)
    return refused


def lock_followed(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Lock keys before runs that follow effects are put away: an effect that ends at the same time waits, or has ended before."""
    holders = sorted({holder for request in requests for holder in request.follows})
    yield "lock_keys_of_effect", [(holder,) for holder in holders]


def wake_if_over(now: int | None, requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Resume runs at once that were just put away if an effect that they follow has ended."""
    for request in requests:
        if request.state != "waiting" or request.error is not None or not request.follows:
            continue
        still = yield "holders_not_over", [asked_of(holder) for holder in sorted(set(request.follows))]
        if len(still) < len(set(request.follows)):
            request.woken = [
                *request.woken,
                *(yield from wake(now, request.claim.seq, "the effect that it waits for has ended")),
            ]
