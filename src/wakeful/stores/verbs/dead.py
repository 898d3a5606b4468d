"""Dead letters and their shared alarm: it resolves with the last of them."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import resolve_alarms


def resolve_if_last(now: int | None, keys: Sequence[str], ending: str | None = None) -> Transaction[None]:
    """Resolve those alarms that no dead letter or held run is left for. Each alarm is locked first, so that a dead letter that another
    process stores at the same time is either seen here or opens the alarm again afterwards.
    """
    for key in sorted(set(keys)):
        if (yield "lock_alarm", [(key,)]) and not (yield "dead_of_alarm", [(key,)]):
            yield from resolve_alarms(now, [key], ending)
