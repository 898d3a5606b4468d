"""What people do about alarms, and a note of who did it. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Any, Protocol

from wakeful.clock import readable
from wakeful.stores.alarms import AlarmChanged, AlarmVerb, ChangeAlarm
from wakeful.stores.base import RecordOperation

VERBS: tuple[AlarmVerb, ...] = ("acknowledge", "mute", "resolve")


class Reading(Protocol):
    """What is known of alarms."""

    async def alarms(self, *, state: str | None = None) -> dict[str, Any]: ...

    async def alarm(self, key: str, /) -> dict[str, Any] | None: ...


class Alarming(Protocol):
    """Where it is done."""

    async def change_alarm(self, request: ChangeAlarm, /) -> AlarmChanged | None: ...

    async def record_operation(self, request: RecordOperation, /) -> None: ...


async def change_alarm(store: Alarming, request: ChangeAlarm) -> AlarmChanged | None:
    """Acknowledge, mute or resolve it, and note who did so; None when there is no such alarm."""
    changed = await store.change_alarm(request)
    if changed is not None and changed.refused is None:
        words = [f"for {readable(request.span)}"] if request.verb == "mute" else []
        words += [request.note] if request.note else []
        detail = ": ".join(words) if words else None
        await store.record_operation(
            RecordOperation(request.operator, f"alarm {request.verb}", changed.app, request.key, detail)
        )
    return changed
