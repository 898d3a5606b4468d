"""Dead letters and their shared alarm: it resolves with the last of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import from_json

from wakeful.stored_errors import by_wakeful
from wakeful.stores.alarm import Alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import resolve_alarms


def resolve_if_last(now: int | None, keys: Sequence[str], ending: str | None = None) -> Transaction[None]:
    """Resolve those alarms that no dead letter or held run is left for. Each alarm is locked first, so that a dead letter that another
    process stores at the same time is either seen here or opens the alarm again afterwards.
    """
    for key in sorted(set(keys)):
        if (yield "lock_alarm", [(key,)]) and not (yield "dead_of_alarm", [(key,)]):
            yield from resolve_alarms(now, [key], ending)


DIGEST_OF_WORDS = re.compile(r"[0-9a-f]{10}")


def under_open_keys(alarms: Sequence[Alarm]) -> Transaction[list[Alarm]]:
    """The alarms of dead letters that are to be raised. An error that Wakeful raised has its class in the key; older versions had a digest
    of its words there. If the alarm of such a version is open for an error of the same class, it is raised instead of a second one.
    """
    older: dict[str, str] = {}
    for key, alarm in sorted({one.key: one for one in alarms if one.error is not None}.items()):
        about = f"{key.rpartition('/')[0]}/"
        still_open = [row[0] for row in (yield "open_keys_below", [(alarm.app, about)])]
        if key in still_open:
            continue
        for other in still_open:
            if not DIGEST_OF_WORDS.fullmatch(other.removeprefix(about)):
                continue
            # One dead letter tells: those of a digest have the same class and words.
            found = (yield "error_of_dead_run", [(other,)]) or (yield "error_of_dead_delivery", [(other,)])
            if any(_has_class(row[0], alarm.error) for row in found):
                older[key] = other
                break
    return [replace(one, key=older[one.key]) if one.key in older else one for one in alarms]


def _has_class(error: str | None, kind: str | None) -> bool:
    stored = from_json(error or "{}")
    return stored.get("kind") == kind and by_wakeful(stored)
