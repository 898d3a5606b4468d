"""Dead letters and the alarm that they raised: with the last of them it is over."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import resolve_alarms


def resolve_if_last(now: int | None, keys: Sequence[str], ending: str | None = None) -> Transaction[None]:
    """Dead letters, or held runs, of these alarms are gone: those of which none is left are over. The alarms are locked first,
    so that a letter that another process is just storing is seen, or opens its alarm anew afterwards.
    """
    for key in sorted(set(keys)):
        if (yield "lock_alarm", [(key,)]) and not (yield "dead_of_alarm", [(key,)]):
            yield from resolve_alarms(now, [key], ending)
